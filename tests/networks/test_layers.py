"""Layers: MLP, hash layer, standardization, dropout and noise by item, batch norm."""

import numpy as np
import pytest
import torch
from torch import distributed, nn

from corrhash import InputError
from corrhash.networks.layers import (
    MLP,
    HashLayer,
    ItemDropout,
    ItemNoise,
    Standardize,
    SyncBatchNorm2d,
    seeded_by_item,
)
from corrhash.networks.preprocessing import item_keys


def test_the_default_is_one_layer_of_4096_units():
    network = MLP(20)
    assert [type(layer) for layer in network] == [nn.Linear, nn.ReLU, ItemDropout]
    assert network[0].weight.shape == (4096, 20)
    assert network[2].p == 0.5
    assert network.n_features == 4096


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_depth_counts_hidden_layers(depth):
    network = MLP(20, width=32, depth=depth)
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    assert len(linear) == depth
    assert network(torch.ones(5, 20)).shape == (5, network.n_features)


def test_depth_zero_returns_the_vectors():
    vectors = torch.randn(4, 7)
    assert torch.equal(MLP(7, depth=0)(vectors), vectors)


def test_dropout_is_active_in_training_only():
    network = MLP(20, width=64)
    vectors = torch.ones(3, 20)
    assert not torch.equal(network(vectors)[0], network(vectors)[1])
    network.eval()
    assert torch.equal(network(vectors)[0], network(vectors)[1])


@pytest.mark.parametrize(
    "options", [{"width": 0}, {"depth": -1}, {"dropout": 1.0}, {"dropout": -0.1}]
)
def test_invalid_mlp_settings_are_refused(options):
    (name,) = options
    with pytest.raises(InputError, match=f"got .*{name}={options[name]}"):
        MLP(20, **options)


def test_the_hash_layer_returns_codes_in_minus_one_to_one():
    torch.manual_seed(0)
    layer = HashLayer(512, 32)
    assert set(layer.state_dict()) == {"fch.weight", "fch.bias"}
    assert layer.fch.weight.std().item() == pytest.approx(512**-0.5, rel=0.05)
    assert not layer.fch.bias.any()
    features = torch.randn(100, 512)
    codes = layer(features)
    assert codes.shape == (100, 32)
    assert codes.abs().max() <= 1
    assert layer.fch(features).std().item() == pytest.approx(1, rel=0.1)


def test_an_unbounded_hash_layer_is_linear():
    layer, features = HashLayer(64, 8), torch.randn(100, 64)
    bounded = layer(features)
    layer.bounded = False
    codes = layer(features)
    assert codes.abs().max() > 1
    torch.testing.assert_close(codes, layer.fch(features))
    torch.testing.assert_close(codes.tanh(), bounded)


def features(lowest=0.0):
    return lowest + torch.rand((50, 4), generator=torch.Generator().manual_seed(0)) ** 3


def learned(values, *, sqrt=True):
    layer = Standardize(values.shape[1], sqrt=sqrt)
    layer.learn(values)
    return layer


def test_standardized_features_have_mean_0_and_deviation_1():
    for values in (features(), features(lowest=-1.0)):
        standard = learned(values)(values)
        torch.testing.assert_close(standard.mean(dim=0), torch.zeros(4), atol=1e-6, rtol=0)
        torch.testing.assert_close(standard.square().mean(), torch.tensor(1.0))


def test_square_roots_of_nonnegative_features_are_taken():
    values = features()
    torch.testing.assert_close(
        learned(values)(values), learned(values.sqrt(), sqrt=False)(values.sqrt())
    )


def test_features_with_negative_values_get_no_square_root():
    values = features(lowest=-0.1)
    torch.testing.assert_close(learned(values)(values), learned(values, sqrt=False)(values))


def test_negative_features_count_as_zero_when_encoding():
    layer = learned(features())
    below = torch.full((1, 4), -1.0)
    assert torch.equal(layer(below), layer(torch.zeros(1, 4)))


ONES = torch.ones(200, 1023)
KEYS = item_keys(range(200), seed=3, epoch=1)
LAYERS = [ItemDropout(0.5), ItemDropout(0.3), ItemNoise(0.7)]


def drawn(layer, features=ONES, keys=KEYS):
    with seeded_by_item(keys):
        return layer.train()(features)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.75])
def test_dropout_drops_its_share_of_every_item(share):
    found = drawn(ItemDropout(share))
    dropped = found == 0
    assert dropped.float().mean().item() == pytest.approx(share, abs=0.005)
    np.testing.assert_allclose(dropped.float().mean(dim=0), share, atol=0.2)
    np.testing.assert_allclose(dropped.float().mean(dim=1), share, atol=0.1)
    np.testing.assert_allclose(found[~dropped], 1 / (1 - share), rtol=1e-6)


def test_noise_is_normal_with_its_deviation():
    noise = drawn(ItemNoise(0.7)) - ONES
    assert noise.mean().item() == pytest.approx(0, abs=0.01)
    assert noise.std().item() == pytest.approx(0.7, abs=0.01)
    assert (noise.abs() < 0.7).float().mean().item() == pytest.approx(0.6827, abs=0.01)


@pytest.mark.parametrize("layer", LAYERS)
def test_draws_of_an_item_do_not_depend_on_the_batch(layer):
    together = drawn(layer)
    torch.manual_seed(9)
    assert torch.equal(drawn(layer, ONES[[7, 3]], KEYS[[7, 3]]), together[[7, 3]])
    assert drawn(layer, ONES[:0], KEYS[:0]).shape == (0, 1023)


@pytest.mark.parametrize("layer", LAYERS)
def test_draws_differ_between_items_layers_and_epochs(layer):
    layer.train()
    with seeded_by_item(KEYS):
        first, second = layer(ONES), layer(ONES)
    other = drawn(layer, keys=item_keys(range(200), seed=3, epoch=2))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("layer", LAYERS)
def test_without_keys_layers_use_the_global_generator(layer):
    layer.train()
    torch.manual_seed(1)
    first = layer(ONES)
    torch.manual_seed(1)
    assert torch.equal(layer(ONES), first)
    assert not torch.equal(layer(ONES), first)
    layer.eval()
    with seeded_by_item(KEYS):
        assert torch.equal(layer(ONES), ONES)


def test_double_precision_draws_the_same_numbers():
    for layer in LAYERS:
        np.testing.assert_allclose(drawn(layer, ONES.double()), drawn(layer), rtol=1e-6, atol=1e-6)


@pytest.fixture
def group_of_one(tmp_path):
    distributed.init_process_group("gloo", f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("group_of_one")
def test_sync_batch_norm_equals_batch_norm():
    torch.manual_seed(0)
    layers = nn.BatchNorm2d(4).double(), SyncBatchNorm2d(4).double()
    for _ in range(2):
        maps = 3 * torch.randn(5, 4, 3, 2, dtype=torch.float64) + 1
        weights = torch.randn_like(maps)
        found = []
        for layer in layers:
            leaf = maps.clone().requires_grad_()
            out = layer(leaf)
            (weights * out).sum().backward()
            found.append([out, leaf.grad, *layer.state_dict().values(), layer.weight.grad])
        for expected, ours in zip(*found, strict=True):
            torch.testing.assert_close(ours, expected)
    for expected, ours in zip(*(layer.eval()(maps) for layer in layers), strict=True):
        torch.testing.assert_close(ours, expected)
