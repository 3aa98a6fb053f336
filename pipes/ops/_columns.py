"""Batches of rows as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..core.rows import Array, Column, Rows, grid, is_grid, read_only
from ..errors import UnfitError


def no_batch(element: object) -> UnfitError:
    return UnfitError(
        f"an element must be a batch of rows but is of type {type(element).__name__}; put `.batch(n)` before it"
    )


def as_rows(batch: object) -> Rows:
    """A batch of rows as columns; of dicts, types are inferred, and a name that one lacks is a null there."""
    if isinstance(batch, Rows):
        return batch
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        raise no_batch(batch)
    other = next((row for row in batch if not isinstance(row, Mapping)), None)
    if other is not None:
        raise UnfitError(
            f"rows must be dicts, whose keys name the columns, but one is of type {type(other).__name__}; make dicts "
            "with a `.map` before `.batch`"
        )
    names = dict.fromkeys(name for row in batch for name in row)
    return Rows({check_name(name): listed([row.get(name) for row in batch], name) for name in names}, len(batch))


def arrays(rows: Rows) -> dict[str, Array]:
    """The columns as NumPy arrays that cannot be written to; what NumPy has no type for as Python objects."""
    return {name: _array(column, name) for name, column in rows.columns.items()}


def listed(values: list[object], name: object) -> Column:
    """Python values as a column: arrays of one shape as an array, all else in the type that Arrow infers."""
    if values and isinstance(values[0], np.ndarray):
        try:
            return stored(np.stack(cast("Any", values)), name)
        except ValueError:  # of several shapes: lists
            pass
    return _inferred(values, name)


def stored(array: Array, name: object) -> Column:
    """Numbers as they are; text, times and objects as Arrow's."""
    return read_only(array) if array.dtype.kind in "biufc" else _inferred(array, name)


def check_name(name: object) -> str:
    if not isinstance(name, str):
        raise UnfitError(f"columns must have names that are strings but one has: {name!r}")
    return name


def _array(column: Column, name: str) -> Array:
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return column
    kind: Any = column.type
    if pa.types.is_dictionary(kind):
        return _array(cast("Any", column).dictionary_decode(), name)
    if is_grid(column) and not column.null_count:
        return read_only(grid(column))
    if isinstance(kind, pa.BaseExtensionType):
        return _array(cast("Any", column).storage, name)
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if numbers and column.null_count:
        at = column.is_null().to_pylist().index(True)
        raise UnfitError(
            f"field `{name}`: null at row {at + 1} of the batch, and NumPy has none for numbers; fill or drop it "
            'before, or keep it with `format="arrow"`'
        )
    return read_only(column.to_numpy(zero_copy_only=False))


def _inferred(values: object, name: object) -> Column:
    import pyarrow as pa

    try:
        return cast("Column", pa.array(cast("Any", values)))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise UnfitError(f"field `{name}`: its values make no column: {error}") from error
