"""Tensors that cross from one process to another: as bytes, dtype and shape, without torch's own shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch

from ..core.rows import Array

# The others cross as integers of their width.
_OF_NUMPY = frozenset(
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
)
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}

_from_numpy = torch.from_numpy
_array: Callable[..., Array] = np.ndarray


def reducer(place: Callable[[Array], tuple[object, ...]]) -> Callable[[torch.Tensor], tuple[object, ...]]:
    """What a pickler calls for each tensor; `place` keeps an array and gives the arguments that make it again."""

    def reduce(tensor: torch.Tensor) -> tuple[object, ...]:
        if tensor.__dict__:  # torch keeps what a user has set on a tensor
            return _by_torch(tensor)
        if tensor.dtype in _OF_NUMPY:  # asked first, because an error of torch takes as long as ten tensors
            try:
                return tensor_at, place(tensor.numpy())
            except (TypeError, RuntimeError):
                pass
        return _unusual(tensor, place)

    return reduce


def tensor_at(*place: object) -> torch.Tensor:
    """The tensor over the memory of `np.ndarray(*place)`."""
    return _from_numpy(_array(*place))


def special_at(dtype: str, requires_grad: bool, *place: object) -> torch.Tensor:
    """The same for a dtype that NumPy does not have, or for a leaf of autograd."""
    kind: torch.dtype = getattr(torch, dtype)
    tensor = tensor_at(*place)
    if tensor.dtype is not kind:
        tensor = tensor.view(kind)
    return tensor.requires_grad_(requires_grad)


def _unusual(tensor: torch.Tensor, place: Callable[[Array], tuple[object, ...]]) -> tuple[object, ...]:
    special = tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided
    if special or tensor.device.type != "cpu":
        return _by_torch(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise ValueError("its gradient leads to other tensors, which stay behind; send `tensor.detach()`")
    values = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype not in _OF_NUMPY:
        values = values.view(_BITS[tensor.itemsize])
    return special_at, (str(tensor.dtype).removeprefix("torch."), tensor.requires_grad, *place(values.numpy()))


def _by_torch(tensor: torch.Tensor) -> tuple[object, ...]:
    reduced: tuple[object, ...] = cast("Any", tensor).__reduce_ex__(5)
    return reduced
