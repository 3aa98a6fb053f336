"""The values of a column that are not missing: neither null nor NaN."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..core.column import Column, grid, is_grid
from ..errors import UnfitError

Floats = npt.NDArray[np.float64]


def present_numbers(column: Column) -> tuple[Floats, int]:
    """The numbers of a column, or its arrays of numbers, and how many rows have none.

    Raises:
        UnfitError: the column has no numbers, or an infinite one.
    """
    import pyarrow as pa

    array: Any = column
    if not isinstance(array, np.ndarray):
        if is_grid(array):
            array = array.drop_null()
            numbers = grid(array) if len(array) else np.zeros((0, *array.type.shape))
        elif pa.types.is_null(array.type):
            numbers = np.zeros(0)
        elif pa.types.is_decimal(array.type):
            numbers = array.drop_null().cast(pa.float64()).to_numpy(zero_copy_only=False)
        elif pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type):
            numbers = array.drop_null().to_numpy(zero_copy_only=False)
        else:
            raise _no_numbers(array.type)
    elif array.dtype.kind in "biuf":
        numbers = array
    else:
        raise _no_numbers(array.dtype)
    floats = np.asarray(numbers, np.float64)
    nan = np.isnan(floats).any(axis=tuple(range(1, floats.ndim)))
    if nan.any():
        floats = floats[~nan]
    if np.isinf(floats).any():
        value = floats[np.isinf(floats)].reshape(-1)[0]
        raise UnfitError(f"has an infinite value, {value}; `.clip` bounds it, `.filter` leaves out its row")
    return floats, len(column) - len(floats)


def missing_rows(column: Column) -> int:
    """How many rows of a column of any type have no value."""
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return int(np.isnan(column).sum()) if column.dtype.kind == "f" and column.ndim == 1 else 0
    if not pa.types.is_floating(column.type):
        return column.null_count
    return int(cast("Any", column).is_null(nan_is_null=True).true_count)


def _no_numbers(kind: object) -> UnfitError:
    return UnfitError(f"is of type {kind}, and numbers are needed; `.cast` parses text that is numbers")
