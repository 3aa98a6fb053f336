"""Conversions: a batch of rows to columns, columns to NumPy arrays, Python values to a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..core.column import Array, Column, grid, is_grid, read_only
from ..core.rows import Rows
from ..errors import UnfitError


def not_a_batch(element: object) -> UnfitError:
    return UnfitError(
        f"an element must be a batch of rows but is of type {type(element).__name__}; put `.batch(n)` before it"
    )


def as_rows(batch: object) -> Rows:
    """A batch of rows as columns. For a list of dicts, types are inferred, and a name that a row lacks is a null."""
    if isinstance(batch, Rows):
        return batch
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        raise not_a_batch(batch)
    other = next((row for row in batch if not isinstance(row, Mapping)), None)
    if other is not None:
        raise UnfitError(
            f"rows must be dicts, whose keys name the columns, but one is of type {type(other).__name__}; make dicts "
            "with a `.map` before `.batch`"
        )
    names = dict.fromkeys(name for row in batch for name in row)
    columns = {check_name(name): column_of_values([row.get(name) for row in batch], name) for name in names}
    return Rows(columns, len(batch))


def numpy_columns(rows: Rows) -> dict[str, Array]:
    """The columns as read-only NumPy arrays; values that NumPy has no type for become Python objects."""
    return {name: _numpy_column(column, name) for name, column in rows.columns.items()}


def column_of_values(values: list[object], name: object) -> Column:
    """Python values as a column: arrays of one shape as one array, other values in the type that Arrow infers."""
    if values and isinstance(values[0], np.ndarray):
        try:
            return column_of_array(np.stack(cast("Any", values)), name)
        except ValueError:  # the shapes differ: Arrow makes lists
            pass
    return _infer_column(values, name)


def column_of_array(array: Array, name: object) -> Column:
    """`array` itself if it has numbers; text, times and Python objects as an Arrow array."""
    return read_only(array) if array.dtype.kind in "biufc" else _infer_column(array, name)


def check_name(name: object) -> str:
    if not isinstance(name, str):
        raise UnfitError(f"the name of a column must be a string but got: {name!r}")
    return name


def _numpy_column(column: Column, name: str) -> Array:
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return column
    arrow_type: Any = column.type
    if pa.types.is_dictionary(arrow_type):
        return _numpy_column(cast("Any", column).dictionary_decode(), name)
    if is_grid(column) and not column.null_count:
        return read_only(grid(column))
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _numpy_column(cast("Any", column).storage, name)
    is_number = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_boolean(arrow_type)
    if is_number and column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise UnfitError(
            f"field `{name}`: null at row {row + 1} of the batch, and NumPy has no null for numbers; fill or drop it "
            'before, or use `format="arrow"`, which has nulls'
        )
    return read_only(column.to_numpy(zero_copy_only=False))


def _infer_column(values: object, name: object) -> Column:
    import pyarrow as pa

    try:
        return cast("Column", pa.array(cast("Any", values)))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise UnfitError(f"field `{name}`: its values cannot form a column: {error}") from error
