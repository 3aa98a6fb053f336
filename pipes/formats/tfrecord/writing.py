"""Columns as records of TFRecord: one `tf.train.Example` for each row."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...core.column import scalars
from ...errors import DataError
from .crc import crc32c, masked
from .message import BYTES, FLOATS, INTS, write_example, write_feature

if TYPE_CHECKING:
    import pyarrow as pa


def write_records(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Each row as the bytes of a record.

    Raises:
        DataError: a column has a type that an Example cannot hold.
    """
    checksum = crc32c()
    columns = [_features(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    names = [name.encode() for name in batch.schema.names]
    for row in zip(*columns, strict=True):
        data = write_example({name: value for name, value in zip(names, row, strict=True) if value is not None})
        yield _record(data, checksum)


def _record(data: bytes, checksum: Callable[[bytes], int]) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join((
        length,
        struct.pack("<I", masked(checksum(length))),
        data,
        struct.pack("<I", masked(checksum(data))),
    ))  # fmt: skip


def _features(name: str, column: Any) -> list[bytes | None]:
    """The feature of each row of a column; None for a missing value."""
    import pyarrow as pa

    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        column, kind = column.storage, kind.storage_type
    values = scalars(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner, convert = _kind_of(name, kind.value_type)
        if any(None in value for value in values if value is not None):  # type: ignore[operator]
            raise DataError(f"column {name!r} has a list with a missing value, and an Example holds no such lists")
        return [None if value is None else write_feature(inner, [*map(convert, value)]) for value in values]  # type: ignore[call-overload]
    inner, convert = _kind_of(name, kind)
    return [None if value is None else write_feature(inner, [convert(value)]) for value in values]


def _kind_of(name: str, kind: Any) -> tuple[int, Callable[[Any], Any]]:
    """The kind of feature for values of a type, and the function that makes a value of it."""
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind) and kind != pa.uint64():
        return INTS, int
    if types.is_boolean(kind):
        return INTS, int
    if types.is_floating(kind):
        return FLOATS, float
    if types.is_string(kind) or types.is_large_string(kind):
        return BYTES, str.encode
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return BYTES, bytes
    if types.is_null(kind):
        return BYTES, bytes
    raise DataError(
        f"column {name!r} has the type {kind}, and an Example holds bytes, ints of 64 bits, floats, and lists of them; "
        "`.map` can make these"
    )
