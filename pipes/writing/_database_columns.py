"""Rows as databases take them: arrays of one axis as lists, and no column without a type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def database_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """The rows of batches, with types that drivers know.

    Raises:
        DataError: a column has arrays of several axes, or a type that says nothing.
    """
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    for place, field in enumerate(table.schema):
        kind = _database_type(field.name, field.type)
        if kind != field.type:
            table = table.set_column(place, pa.field(field.name, kind), _converted(table.column(place), kind))
    return table


def _database_type(name: str, kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_null(kind):
        raise DataError(f"column {name!r} has only None in the first rows, which have no type; `schema=` gives it one")
    if isinstance(kind, pa.FixedShapeTensorType):
        if len(kind.shape) > 1:
            raise DataError(
                f"column {name!r} has arrays of shape {tuple(kind.shape)}, and databases have lists of one axis; a "
                "`.map` can flatten them"
            )
        return pa.list_(kind.value_type)
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return kind


def _converted(column: pa.ChunkedArray[Any], kind: Any) -> Any:
    import pyarrow as pa

    chunks: Any = [getattr(chunk, "storage", chunk).cast(kind) for chunk in column.chunks]
    return pa.chunked_array(chunks, kind)
