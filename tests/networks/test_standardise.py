"""Standardised features: what is learned in training, and kept with the weights."""

import torch

from corrhash.networks.standardise import Standardise


def features(lowest=0.0):
    return lowest + torch.rand((50, 4), generator=torch.Generator().manual_seed(0)) ** 3


def learned(values, *, root=True):
    layer = Standardise(values.shape[1], root=root)
    layer.learn(values)
    return layer


def test_training_features_end_around_zero_at_the_scale_of_one():
    for values in (features(), features(lowest=-1.0)):
        standard = learned(values)(values)
        torch.testing.assert_close(standard.mean(dim=0), torch.zeros(4), atol=1e-6, rtol=0)
        torch.testing.assert_close(standard.square().mean(), torch.tensor(1.0))


def test_roots_are_taken_of_features_that_are_never_negative():
    values = features()
    torch.testing.assert_close(
        learned(values)(values), learned(values.sqrt(), root=False)(values.sqrt())
    )


def test_features_with_negative_values_stay_as_they_are():
    values = features(lowest=-0.1)
    torch.testing.assert_close(learned(values)(values), learned(values, root=False)(values))


def test_a_negative_feature_among_what_is_encoded_counts_as_zero():
    layer = learned(features())
    below = torch.full((1, 4), -1.0)
    assert torch.equal(layer(below), layer(torch.zeros(1, 4)))


def test_weights_saved_before_there_were_roots_load_without_them():
    values = features()
    older = {k: v for k, v in learned(values, root=False).state_dict().items() if k != "rooted"}
    layer = Standardise(4, root=True)
    layer.load_state_dict(older)
    assert torch.equal(layer(values), learned(values, root=False)(values))
