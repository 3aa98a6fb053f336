"""Checks what a function of columns returned, and turns it into rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ...core.column import Column
from ...core.rows import Rows
from ...errors import UnfitError
from ...formats.tables.columns import first_duplicate
from .._columns import check_name, column_of_array, column_of_values


def rows_of_columns(result: object, arguments: Mapping[str, object], rows: Rows) -> Rows:
    """The rows of the columns that a function returned.

    Args:
        result: what the function returned.
        arguments: the columns that it was called with and could not change. If it returns one of them, that column
            keeps its type in `rows`.
        rows: the batch that `arguments` were made from.
    """
    if not isinstance(result, Mapping) or not result:
        what = "an empty dict" if isinstance(result, Mapping) else f"a value of type {type(result).__name__}"
        raise UnfitError(f"the function must return a dict of columns by name but returned {what}")
    columns: dict[str, Column] = {}
    for name, value in result.items():
        unchanged = name in arguments and value is arguments[name]
        columns[check_name(name)] = rows.columns[name] if unchanged else column_of_result(value, name)
    first = next(iter(columns))
    length = len(columns[first])
    for name, column in columns.items():
        if len(column) != length:
            raise UnfitError(
                f"the function must return columns of one length but {first!r} has {length} rows and {name!r} has "
                f"{len(column)}"
            )
    return Rows(columns, length)


def rows_of_record_batch(result: object) -> Rows:
    """The rows of the record batch that a function returned."""
    import pyarrow as pa

    if not isinstance(result, pa.RecordBatch):
        raise UnfitError(f"the function must return a RecordBatch but returned a value of type {type(result).__name__}")
    if twice := first_duplicate(result.schema.names):
        raise UnfitError(f"the function must return columns of different names but returned {twice!r} twice")
    return Rows.from_arrow(result)


def column_of_result(value: object, name: object) -> Column:
    """What a function returned for the column `name`."""
    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        try:
            value = cast("Any", value).numpy(force=True)
        except TypeError as error:  # a dtype that NumPy does not have, such as bfloat16
            raise UnfitError(f"field `{name}`: {error}; convert the tensor") from error
    if isinstance(value, list):
        return column_of_values(value, name)
    if not isinstance(value, np.ndarray) or not value.ndim:
        raise UnfitError(
            f"field `{name}`: the function must return an array or a list with a value for each row but returned a "
            f"value of type {type(value).__name__}"
        )
    return column_of_array(value, name)
