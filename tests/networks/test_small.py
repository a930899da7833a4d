"""SmallCNN: small indeed, quick to learn, and the same code alone or in a batch."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from corrhash import InputError
from corrhash.networks.small import SmallCNN


@pytest.fixture
def network():
    torch.manual_seed(0)
    return SmallCNN()


def test_it_is_small(network):
    assert 100_000 < sum(p.numel() for p in network.parameters()) < 600_000


@pytest.mark.parametrize("side", [32, 64, 96])
def test_it_reads_squares_of_several_sizes(network, side):
    assert network.eval()(torch.zeros(3, 3, side, side)).shape == (3, network.n_features)


@torch.no_grad()
def test_a_picture_gets_the_same_features_alone_or_in_a_batch(network):
    pictures = torch.randn(8, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    network(pictures)  # in training mode: statistics move
    network.eval()
    together = network(pictures)
    alone = torch.cat([network(picture[None]) for picture in pictures])
    assert torch.allclose(together, alone, atol=1e-5)


def test_it_learns_to_see(network):
    """The colour of a square, after a few steps."""
    generator = torch.Generator().manual_seed(2)
    pictures = 0.3 * torch.randn(128, 3, 32, 32, generator=generator)
    colour = torch.arange(128) % 2
    for picture, channel in zip(pictures, colour, strict=True):
        picture[2 * channel, 8:24, 8:24] += 1.5
    head = torch.nn.Linear(network.n_features, 1)
    parameters = [*network.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1e-3)
    for step in range(12):
        rows = slice(32 * (step % 3), 32 * (step % 3) + 32)
        loss = binary_cross_entropy_with_logits(
            head(network(pictures[rows]))[:, 0], colour[rows].float()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        right = (head(network.eval()(pictures[96:]))[:, 0] > 0) == colour[96:].bool()
    assert right.float().mean() > 0.9


def test_what_is_no_picture_is_refused(network):
    with pytest.raises(InputError, match=r"at least 32 pixels. Got \(1, 3, 16, 16\)"):
        network(torch.zeros(1, 3, 16, 16))
