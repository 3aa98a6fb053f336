"""The rules of one collation: how it makes a tensor of an array, and whether nulls become NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from ....core.column import Array
from ....core.tensor_data import Stack, TensorData

ToTensor: TypeAlias = Callable[[Array | Stack], object]
"""Turns an array that nothing else refers to into a tensor, or into a `TensorData`."""


class Rules(NamedTuple):
    """How to collate.

    Attributes:
        to_tensor: turns an array into a tensor.
        nan: whether a null among numbers becomes NaN; otherwise it is an error.
    """

    to_tensor: ToTensor
    nan: bool = False


_TORCH_DTYPES = frozenset("?bhilqBHILQefdFD")
"""NumPy's codes of the dtypes that torch has too."""


def tensor_data(array: Array | Stack) -> object:
    """A `TensorData`, made without torch. If torch has no tensor for the dtype, torch raises its own error."""
    if array.dtype.char in _TORCH_DTYPES:
        return TensorData(array)
    from ....torch.collate import from_array

    return from_array(array)


def with_tensors(collated: object, rules: Rules) -> object:
    """`collated`, with a tensor in place of each array in it."""
    if isinstance(collated, dict):
        return {name: with_tensors(part, rules) for name, part in collated.items()}
    return rules.to_tensor(collated) if isinstance(collated, np.ndarray) else collated
