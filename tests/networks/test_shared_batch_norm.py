"""Shared batch normalisation: what PyTorch's own layer does, by sums over processes.

That several processes find the same as one is tested where they train (test_processes.py).
"""

import pytest
import torch
from torch import distributed, nn

from corrhash.networks.shared_batch_norm import SharedBatchNorm2d


@pytest.fixture
def a_group_of_one(tmp_path):
    distributed.init_process_group("gloo", f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("a_group_of_one")
def test_outputs_gradients_and_statistics_are_those_of_pytorch():
    torch.manual_seed(0)
    layers = nn.BatchNorm2d(4).double(), SharedBatchNorm2d(4).double()
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
