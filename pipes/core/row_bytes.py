"""How many bytes rows hold, or a row of a schema has; how many rows an element has."""

# pyright: reportPrivateUsage=false
# Rows that are not gathered yet are not gathered for this.

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING

from .rows import BlockRows, Rows

if TYPE_CHECKING:
    import pyarrow as pa


def nbytes(rows: BlockRows) -> int:
    """About how many bytes the rows hold; for lists, estimated from the first row."""
    if isinstance(rows, Rows):
        tables, selection = rows._tables_and_selection
        if selection is None:
            # Of Python objects, the pointers only.
            return sum(int(column.nbytes) for columns in tables for column in columns.values())
        return len(rows) * sum(int(column[:1].nbytes) for column in tables[0].values())
    return len(rows) * _object_bytes(rows[0]) if rows else 0


def _object_bytes(value: object, depth: int = 2) -> int:
    try:
        size = getattr(value, "nbytes", None)
    except RuntimeError:  # of a sparse tensor
        size = None
    if isinstance(size, int):
        return size
    if isinstance(value, Rows):
        return nbytes(value)
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    if depth and isinstance(value, Mapping):
        return 64 + sum(_object_bytes(v, depth - 1) for v in value.values())
    if depth and isinstance(value, (list, tuple)) and value:
        return 64 + len(value) * _object_bytes(value[0], depth - 1)
    return 32


def row_width(schema: pa.Schema | None) -> int | None:
    """The bytes of a row; None if there is no schema, or a column has values of different sizes."""
    bits = 0
    for kind in () if schema is None else schema.types:
        width = _bits(kind)
        if width is None:
            return None
        bits += width
    return -(-bits // 8) or None


def _bits(kind: pa.DataType) -> int | None:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if isinstance(kind, pa.FixedSizeListType):
        width = _bits(kind.value_type)
        return None if width is None else width * kind.list_size
    try:
        return kind.bit_width
    except ValueError:  # of a type without a fixed width
        return None


def row_shape(element: object) -> int | tuple[()]:
    """How many rows an element has; () if it is one row."""
    if isinstance(element, Mapping):
        element = next(iter(element.values()), ())
    elif isinstance(element, (list, tuple)) and element and hasattr(element[0], "shape"):
        element = element[0]  # the columns of collated pairs
    elif isinstance(element, tuple):
        return ()
    shape = getattr(element, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else ()
    return len(element) if isinstance(element, Sized) and not isinstance(element, (str, bytes)) else ()


def row_count(element: object) -> int:
    """How many rows an element has; 1 if it is one row."""
    shape = row_shape(element)
    return shape if isinstance(shape, int) else 1
