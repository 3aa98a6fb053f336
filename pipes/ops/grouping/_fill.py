"""`fill`: the value that stands for missing items, in the type of a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from ...core.column import Array
from ...errors import ArgumentTypeError, UnfitError, with_call_site

Fill: TypeAlias = float | Mapping[str, float]
"""What stands for missing items: one number, or one for each column by name; a column without one gets 0."""


def check_fill(name: str, value: object) -> None:
    if not isinstance(value, (bool, int, float, np.number, np.bool_)):
        raise ArgumentTypeError(with_call_site(f"`{name}` must be a number but got: {value!r}"))


def fill_of(fill: Fill, field: str) -> float:
    """What stands for the missing items of column `field`."""
    return fill.get(field, 0) if isinstance(fill, Mapping) else fill


def filled(shape: int | tuple[int, ...], value: float, dtype: np.dtype[Any], field: str) -> Array:
    """An array of `value`.

    Raises:
        UnfitError: the dtype of column `field` cannot hold the value.
    """
    try:
        array = np.full(shape, value, dtype)
    except (OverflowError, ValueError):
        raise _no_room(value, dtype, field) from None
    if dtype.kind != "f" and array.size and array.flat[0] != value:
        raise _no_room(value, dtype, field)
    return array


def _no_room(value: float, dtype: np.dtype[Any], field: str) -> UnfitError:
    return UnfitError(
        f"field `{field}`: its dtype {dtype} cannot hold the padding {value!r}; choose another value, or convert the "
        "column before"
    )
