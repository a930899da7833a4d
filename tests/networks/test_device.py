"""Devices: those of this machine, and sentences for the others."""

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.networks.device import as_device, to_device


def test_a_device_is_known_there_and_used():
    assert as_device("cpu") == torch.device("cpu")
    with pytest.raises(InputError, match="There is no device 'tpu'. Choose cpu, cuda or mps"):
        as_device("tpu")


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there_is_told(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InputError, match=f"This machine has no device '{name}'. Use cpu"):
        as_device(name)


def test_arrays_tensors_and_tables_of_them_are_brought_to_a_device():
    meta = torch.device("meta")  # a device without memory, which every machine has
    tensor = torch.ones(2)
    assert to_device(tensor, meta).device == meta
    assert to_device(np.ones(2), meta).device == meta
    assert to_device({"a": tensor}, meta)["a"].device == meta
