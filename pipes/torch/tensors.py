"""Tensors on their way to another process, and the steps of collation that only torch can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import default_collate_fn_map

from ..core.rows import Array, JaggedData, Stack

_NUMPY_DTYPES = frozenset(
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
)
_SAME_WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
"""By size in bytes: integer views of the dtypes that NumPy does not have."""

from_numpy: Callable[..., torch.Tensor] = torch.from_numpy
_array: Callable[..., Array] = np.ndarray
_attributes = attrgetter("__dict__")
_dtype = attrgetter("dtype")


def reducer(place: Callable[[Array], tuple[object, ...]]) -> Callable[[torch.Tensor], tuple[object, ...]]:
    """The function that a pickler calls for each tensor.

    Args:
        place: stores the memory of an array; returns the arguments with which `np.ndarray` makes the array again.
    """

    def reduce(tensor: torch.Tensor) -> tuple[object, ...]:
        if tensor.__dict__:  # attributes that the user has set on the tensor, which torch keeps
            return _reduce_by_torch(tensor)
        arrays = plain_arrays((tensor,))
        return (tensor_at, place(arrays[0])) if arrays else _reduce_unusual(tensor, place)

    return reduce


def subclass_reducer(nested_of: Callable[..., object]) -> Callable[[torch.Tensor], tuple[object, ...]]:
    """As `reducer`, for classes other than `torch.Tensor`: nested tensors travel as their values.

    Args:
        nested_of: makes a nested tensor of values and offsets.
    """

    def reduce(tensor: torch.Tensor) -> tuple[object, ...]:
        parts = jagged_parts(tensor) if tensor.layout is torch.jagged and not tensor.requires_grad else None
        return _reduce_by_torch(tensor) if parts is None else (nested_of, parts)

    return reduce


def jagged_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Values and offsets of a nested tensor; None if there are gaps between its rows."""
    nested: Any = tensor
    return None if nested.lengths() is not None else (nested.values(), nested.offsets())


def plain_arrays(tensors: Sequence[torch.Tensor]) -> list[Array]:
    """The memory of each tensor as an array; none if a tensor is more than memory, or has a dtype of torch alone."""
    # The dtypes are checked first, because an error of torch takes as long as ten tensors.
    if any(map(_attributes, tensors)) or not _NUMPY_DTYPES.issuperset(map(_dtype, tensors)):
        return []
    try:
        return list(map(torch.Tensor.numpy, tensors))
    except (TypeError, RuntimeError):
        return []


def tensor_at(*place: object) -> torch.Tensor:
    """The tensor over the memory of `np.ndarray(*place)`."""
    return from_numpy(_array(*place))


def special_at(dtype: str, requires_grad: bool, *place: object) -> torch.Tensor:
    """As `tensor_at`, for a dtype that NumPy does not have, or for a leaf of autograd."""
    torch_dtype: torch.dtype = getattr(torch, dtype)
    tensor = tensor_at(*place)
    if tensor.dtype is not torch_dtype:
        tensor = tensor.view(torch_dtype)
    return tensor.requires_grad_(requires_grad)


def _reduce_unusual(tensor: torch.Tensor, place: Callable[[Array], tuple[object, ...]]) -> tuple[object, ...]:
    special = tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided
    if special or tensor.device.type != "cpu":
        return _reduce_by_torch(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise ValueError(
            "a tensor that autograd has computed from others cannot be sent, because they stay behind; "
            "send `tensor.detach()`"
        )
    values = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype not in _NUMPY_DTYPES:
        values = values.view(_SAME_WIDTH[tensor.itemsize])
    return special_at, (str(tensor.dtype).removeprefix("torch."), tensor.requires_grad, *place(values.numpy()))


def _reduce_by_torch(tensor: torch.Tensor) -> tuple[object, ...]:
    reduced: tuple[object, ...] = cast("Any", tensor).__reduce_ex__(5)
    return reduced


# Steps of collation


def from_array(array: Array | Stack) -> torch.Tensor:
    """A tensor over the memory of `array`, or over the array that a `Stack` makes."""
    return torch.from_numpy(np.asarray(array))


def nested(data: JaggedData) -> torch.Tensor:
    """The nested tensor of these values."""
    return nested_of(from_array(data.values), from_array(data.offsets))


def nested_of(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The nested tensor of the layout `torch.jagged` over `values`, whose row k begins at `offsets[k]`."""
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors that differ in their first dimension as a nested tensor."""
    lengths = torch.tensor([0, *map(len, tensors)])
    return nested_of(torch.cat([tensor for tensor in tensors if len(tensor)] or [tensors[0]]), lengths.cumsum(0))


def cannot_stack(tensor: torch.Tensor) -> str | None:
    """Why tensors like this one cannot be stacked, and the repair; None if they can."""
    if tensor.is_nested:
        return 'nested tensors cannot be stacked; give `.collate` the tensors they are made of, with `ragged="nested"`'
    if tensor.layout in (torch.strided, torch.sparse_coo):
        return None
    return (
        f"tensors of the layout {str(tensor.layout).removeprefix('torch.')} cannot be stacked; convert them with "
        "`.to_sparse_coo()` in a `.map` before `.batch`"
    )


def collate_by_default(values: Sequence[object]) -> object:
    """The result of torch's own function, or its error."""
    return default_collate(list(values))


def stack_objects(values: Sequence[Any]) -> object:
    """Objects that torch can stack, such as TensorDicts, unless a function is registered for their type."""
    if is_registered(values[0]):
        return collate_by_default(values)
    return torch.stack(list(values))


def is_registered(value: object) -> bool:
    """Whether torch has a function for values of this type, its own or the user's."""
    return any(isinstance(value, kind) for kind in default_collate_fn_map)


def stack_promoted(arrays: Sequence[object]) -> torch.Tensor:
    """Arrays of several dtypes as one tensor of the dtype that torch promotes them to."""
    return torch.stack([torch.as_tensor(np.array(array)) for array in arrays])
