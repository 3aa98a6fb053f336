"""What differs from one collation to another: what becomes of an array that is to be a tensor, and of a null."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from ...core.rows import Array
from ...core.tensor_data import Stack, TensorData

Leaf: TypeAlias = Callable[[Array | Stack], object]
"""Makes a tensor, or what stands for one, of an array that nothing else refers to."""


class Rules(NamedTuple):
    """How to collate.

    Attributes:
        leaf: makes tensors.
        nan: whether a null among numbers becomes NaN; else it is an error.
    """

    leaf: Leaf
    nan: bool = False


_KNOWN = frozenset("?bhilqBHILQefdFD")
"""The dtypes that torch has too, by NumPy's codes."""


def tensor_data(array: Array | Stack) -> object:
    """The leaf that needs no torch; what torch has no tensor for is left to torch, for its error."""
    if array.dtype.char in _KNOWN:
        return TensorData(array)
    from ...torch.collate import from_array

    return from_array(array)


def leaves(made: object, rules: Rules) -> object:
    """`made`, with a tensor for each array in it."""
    if isinstance(made, dict):
        return {name: leaves(part, rules) for name, part in made.items()}
    return rules.leaf(made) if isinstance(made, np.ndarray) else made
