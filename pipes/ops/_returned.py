"""What functions of columns return, as rows again."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ..core.rows import Column, Rows
from ..errors import UnfitError
from ..formats.tables.columns import repeated
from ._columns import check_name, listed, stored


def function_result(made: object, given: Mapping[str, object], rows: Rows) -> Rows:
    """The columns that a function has made, as rows.

    Args:
        made: what the function returned.
        given: what it was given and could not change; where it hands on such a column, its type in `rows` stays.
        rows: the batch.
    """
    if not isinstance(made, Mapping) or not made:
        said = "an empty dict" if isinstance(made, Mapping) else f"one of type {type(made).__name__}"
        raise UnfitError(f"the function must return a dict of columns, by name, but returned {said}")
    columns: dict[str, Column] = {}
    for name, value in made.items():
        kept = name in given and value is given[name]
        columns[check_name(name)] = rows.columns[name] if kept else _column(value, name)
    first = next(iter(columns))
    length = len(columns[first])
    for name, column in columns.items():
        if len(column) != length:
            raise UnfitError(
                f"the function must return columns of one length but {first!r} has {length} rows and {name!r} has "
                f"{len(column)}"
            )
    return Rows(columns, length)


def returned_batch(made: object) -> Rows:
    """The same of a function of record batches."""
    import pyarrow as pa

    if not isinstance(made, pa.RecordBatch):
        raise UnfitError(f"the function must return a RecordBatch but returned one of type {type(made).__name__}")
    if twice := repeated(made.schema.names):
        raise UnfitError(f"the function must return columns of different names but returned {twice!r} twice")
    return Rows.from_arrow(made)


def _column(value: object, name: object) -> Column:
    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        try:
            value = cast("Any", value).numpy(force=True)
        except TypeError as error:  # such as bfloat16
            raise UnfitError(f"field `{name}`: {error}; convert the tensor") from error
    if isinstance(value, list):
        return listed(value, name)
    if not isinstance(value, np.ndarray) or not value.ndim:
        raise UnfitError(
            f"field `{name}`: the function must return an array or a list, with a value for each row, but returned one "
            f"of type {type(value).__name__}"
        )
    return stored(value, name)
