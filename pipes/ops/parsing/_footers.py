"""Footers of Parquet files: each is parsed once in a process, as long as there is room for it."""

from __future__ import annotations

import os

from ...formats.parquet.footer import ParquetFooter, read_parquet_footer
from ...storage.file import File, Stream
from ...storage.file_values import FileValues

MAX_KEPT_BYTES = 2**28
"""The memory that footers take in a process."""

_cache = FileValues[ParquetFooter](MAX_KEPT_BYTES, lambda footer: footer.memory_bytes)
os.register_at_fork(after_in_child=_cache.clear)


def parquet_footer(file: File, stream: Stream, version: object, length: int = 0) -> ParquetFooter:
    """The footer of a file that is open.

    Args:
        file: the file.
        stream: the open file.
        version: that of the stream.
        length: how long the footer was when it was last read; 0 if that is not known.

    Raises:
        SourceError: the file cannot be read.
        DataError: it is no Parquet file, or is cut short, damaged or encrypted.
    """
    return _cache.get(file, version, lambda: read_parquet_footer(stream, file.path, length))
