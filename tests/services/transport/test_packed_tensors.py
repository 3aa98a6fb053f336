"""Tensors arrive with their dtype, layout and place in autograd."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import pytest
import torch

from feedpipe.errors import DataError

from ...support.services import unpack
from .round_trip import python, round_trip

TENSORS = [
    torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.complex128,
    torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32,
    torch.int64,
]  # fmt: skip


def same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.to(torch.complex128), b.to(torch.complex128))


@pytest.mark.parametrize("dtype", TENSORS, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 0, 2), (2, 3, 4)], ids=str)
def test_tensors_of_every_dtype(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.randint(0, 2, shape).to(dtype)
    arrived = round_trip({"x": tensor, "t": tensor.T if tensor.ndim == 2 else tensor.mT if tensor.ndim > 2 else tensor})
    assert type(arrived["x"]) is torch.Tensor and same_tensor(arrived["x"], tensor)
    assert arrived["t"].stride() == (tensor.mT if tensor.ndim > 1 else tensor).stride() or not tensor.numel()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4)[:, ::2],
        torch.arange(12.0).reshape(3, 4).t(),
        torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.ones(1).expand(4),
        torch.arange(200_000.0).reshape(2, -1)[:, 1::2],
        torch.tensor([1 + 2j, 3j]).conj(),
        torch.tensor([1 + 2j, 3j]).conj().imag,
    ],
    ids=["strided", "transposed", "channels last", "expanded", "big", "conjugate", "negated"],
)
def test_layouts_of_tensors(tensor: torch.Tensor) -> None:
    arrived = round_trip(tensor)
    assert same_tensor(arrived, tensor)
    if tensor.ndim == 4:
        assert arrived.is_contiguous(memory_format=torch.channels_last)


def test_tensors_of_autograd() -> None:
    leaf = torch.ones(3, requires_grad=True)
    half = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    weights = torch.nn.Parameter(torch.ones(2, 2))
    arrived = round_trip([leaf, half, weights, leaf.detach()])
    assert arrived[0].requires_grad and arrived[0].is_leaf and torch.equal(arrived[0], leaf)
    assert arrived[1].requires_grad and arrived[1].is_leaf and arrived[1].dtype is torch.bfloat16
    assert type(arrived[2]) is torch.nn.Parameter and arrived[2].requires_grad and torch.equal(arrived[2], weights)
    assert not arrived[3].requires_grad
    (arrived[0] * 2).sum().backward()
    assert arrived[0].grad.tolist() == [2, 2, 2]
    with pytest.raises(DataError, match=r"`element\['x'\]`, an? torch.Tensor.* `tensor.detach\(\)`"):
        round_trip({"x": leaf * 2})


def test_no_descriptor_is_opened() -> None:
    before = len(list(pathlib.Path("/proc/self/fd").iterdir()))
    arrived = round_trip([torch.ones(1000), torch.ones(2, requires_grad=True)])
    assert len(list(pathlib.Path("/proc/self/fd").iterdir())) == before
    assert not any(tensor.is_shared() for tensor in arrived)


def test_a_worker_without_torch() -> None:
    """Packs in a process that has imported neither torch nor pyarrow, and does not import them either."""
    code = """
        import pickle, sys
        import numpy as np
        from feedpipe.core.rows import TensorData
        from feedpipe.services.transport.packing import Packer

        imported = {"torch", "pyarrow"} & set(sys.modules)
        packed = Packer().pack({"x": TensorData(np.arange(3.0)), "y": np.arange(4)})
        assert {"torch", "pyarrow"} & set(sys.modules) == imported and "torch" not in imported
        [region] = packed.regions
        memory = bytearray(region.nbytes)
        region.write(memoryview(memory))
        sys.stdout.buffer.write(pickle.dumps((packed.stream, [memory])))
    """
    arrived: Any = unpack(*pickle.loads(python(code)))
    assert torch.equal(arrived["x"], torch.arange(3.0, dtype=torch.float64)) and arrived["y"].tolist() == [0, 1, 2, 3]
