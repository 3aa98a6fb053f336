"""How `write_parquet` stores each column: the encoding and the codec that suit the first rows of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.lazy import pa

_SAMPLE_ROWS, _SAMPLE_BYTES = 2**16, 2**24
_DECOMPRESSED = 0.1
"""What a byte that is decompressed costs, of the cost of a byte that is read."""
_PLAIN = 0.9
"""The cost of plain values, of that of others of the same bytes: they decode fastest."""
_SMALLER = 0.75
"""zstd decodes at a third of the speed of lz4. It must save a quarter of the bytes for that."""
_FAST_ENCODINGS = {
    "FLOAT": "BYTE_STREAM_SPLIT",
    "DOUBLE": "BYTE_STREAM_SPLIT",
    "INT32": "DELTA_BINARY_PACKED",
    "INT64": "DELTA_BINARY_PACKED",
}
"""By physical type: the encoding that makes numbers smaller, and decodes nearly as fast as plain numbers."""


class ColumnStorage(NamedTuple):
    """How the columns of a file are stored. A column of lists or structs is stored as several, named by their paths.

    Attributes:
        dictionaries: the columns with a dictionary.
        encodings: those of other columns that are not plain.
        codecs: the compression by column, or of all columns.
    """

    dictionaries: list[str]
    encodings: dict[str, str]
    codecs: Mapping[str, str] | str

    def options(self) -> dict[str, Any]:
        """The arguments of pyarrow's `ParquetWriter`."""
        return {
            "use_dictionary": self.dictionaries,
            "column_encoding": self.encodings or None,
            "compression": self.codecs,
        }


def choose_storage(table: pa.Table, compression: str | None) -> ColumnStorage:
    """The storage with which a file that begins like `table` is small and fast to read.

    The first rows are written with each encoding, to see what a column takes: plain, by `_FAST_ENCODINGS`, and with a
    dictionary, which pays if values repeat.
    """
    codec = "lz4" if compression == "auto" else compression or "none"
    plain = ColumnStorage([], {}, codec)
    row_bytes = max(1, table.nbytes // max(1, len(table)))
    sample = table[: min(_SAMPLE_ROWS, max(1, _SAMPLE_BYTES // row_bytes))]
    if not len(sample):
        return plain
    columns = _written(sample, plain)
    fast = {path: _FAST_ENCODINGS[column.kind] for path, column in columns.items() if column.kind in _FAST_ENCODINGS}
    choices = plain, plain._replace(encodings=fast), plain._replace(dictionaries=[*columns])
    written = [_written(sample, choice) for choice in choices]
    best = {path: _cheapest([each[path] for each in written]) for path in columns}
    storage = ColumnStorage(
        [path for path, number in best.items() if number == 2],
        {path: fast[path] for path, number in best.items() if number == 1},
        codec,
    )
    if compression != "auto":
        return storage
    quick, small = (_written(sample, storage._replace(codecs=each)) for each in (codec, "zstd"))
    codecs = {p: "zstd" if small[p].compressed < _SMALLER * quick[p].compressed else codec for p in columns}
    return storage._replace(codecs=codecs)


class _Written(NamedTuple):
    """A column that was written: its physical type and its bytes."""

    kind: str
    compressed: int
    decompressed: int


def _cheapest(columns: Sequence[_Written]) -> int:
    """The number of the one that takes least to read. The first one has plain values."""
    costs = [column.compressed + _DECOMPRESSED * column.decompressed for column in columns]
    costs[0] *= _PLAIN
    return costs.index(min(costs))


def _written(table: pa.Table, storage: ColumnStorage) -> dict[str, _Written]:
    """The columns of a table that is stored so, by path."""
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    with parquet.ParquetWriter(sink, table.schema, **storage.options()) as writer:
        writer.write_table(table, row_group_size=len(table))
    group = parquet.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {
        column.path_in_schema: _Written(
            column.physical_type, column.total_compressed_size, column.total_uncompressed_size
        )
        for column in columns
    }
