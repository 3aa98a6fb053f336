"""Columns of lists of numbers as flat arrays."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...core.column import Array, Column, grid, is_grid
from ...errors import UnfitError

NUMBERS = "biuf"
"""The kinds of the dtypes of numbers."""


class UnfitRowError(UnfitError):
    """Row `row` of a batch does not fit."""

    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message)
        self.row = row


def list_values(column: Column, field: str, rule: str) -> tuple[Array, npt.NDArray[np.int64]]:
    """The numbers in all lists of a column, and the length of each list.

    Raises:
        UnfitRowError: a row is no list of numbers; the message ends with `rule`.
    """
    import pyarrow as pa

    if not isinstance(column, np.ndarray):
        if column.null_count:
            raise UnfitRowError(f"field `{field}`: null; {rule}", column.is_null().to_pylist().index(True))
        if is_grid(column):
            column = grid(column)
    if isinstance(column, np.ndarray):
        if column.ndim != 2 or column.dtype.kind not in NUMBERS:
            raise UnfitRowError(f"field `{field}`: a column {described(column)}; {rule}")
        return column.reshape(-1), np.full(len(column), column.shape[1])
    arrow_type: Any = column.type
    if pa.types.is_fixed_size_list(arrow_type):
        lengths = np.full(len(column), cast("Any", column).type.list_size)
    elif pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        lengths = cast("Any", column).value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        raise UnfitRowError(f"field `{field}`: a column of type {arrow_type}; {rule}")
    values: Any = cast("Any", column).flatten()
    if values.null_count:
        place = values.is_null().to_pylist().index(True)
        row = int(np.searchsorted(np.cumsum(lengths), place, "right"))
        raise UnfitRowError(f"field `{field}`: null among the numbers; {rule}", row)
    array = values.to_numpy(zero_copy_only=False)
    if len(array) and array.dtype.kind not in NUMBERS:
        raise UnfitRowError(f"field `{field}`: a column of type {arrow_type}; {rule}")
    return array, lengths


def described(array: Array) -> str:
    """Dtype and shape, for errors."""
    return f"of dtype {array.dtype} and shape {array.shape}"
