"""SmallCNN: few parameters, quick to train, independent of the batch when encoding."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from corrhash import InputError
from corrhash.networks.small_cnn import SmallCNN


@pytest.fixture
def network():
    torch.manual_seed(0)
    return SmallCNN()


def test_the_number_of_parameters_is_small(network):
    assert 100_000 < sum(p.numel() for p in network.parameters()) < 600_000


@pytest.mark.parametrize("size", [32, 64, 96])
def test_several_image_sizes_work(network, size):
    assert network.eval()(torch.zeros(3, 3, size, size)).shape == (3, network.n_features)


@torch.no_grad()
def test_features_do_not_depend_on_the_batch(network):
    images = torch.randn(8, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    network(images)  # in training mode: statistics move
    network.eval()
    together = network(images)
    alone = torch.cat([network(image[None]) for image in images])
    assert torch.allclose(together, alone, atol=1e-5)


def test_training_learns_the_colour_of_a_square(network):
    generator = torch.Generator().manual_seed(2)
    images = 0.3 * torch.randn(128, 3, 32, 32, generator=generator)
    colour = torch.arange(128) % 2
    for image, channel in zip(images, colour, strict=True):
        image[2 * channel, 8:24, 8:24] += 1.5
    head = torch.nn.Linear(network.n_features, 1)
    parameters = [*network.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    for step in range(12):
        rows = slice(32 * (step % 3), 32 * (step % 3) + 32)
        loss = binary_cross_entropy_with_logits(
            head(network(images[rows]))[:, 0], colour[rows].float()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = (head(network.eval()(images[96:]))[:, 0] > 0) == colour[96:].bool()
    assert right.float().mean() > 0.9


def test_too_small_images_are_refused(network):
    with pytest.raises(InputError, match=r"at least 32 pixels, got \(1, 3, 16, 16\)"):
        network(torch.zeros(1, 3, 16, 16))
