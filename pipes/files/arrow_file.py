"""`ArrowFile`: an open Arrow file that gives its record batches in any order."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa

from ..errors import DataError, FeedpipeError, SourceError
from ..formats.chunked import with_takeable_types
from ..formats.columns import read_error
from ..formats.streams import OpenableFile
from .arrow_ipc import ArrowFooter, ArrowIpc, ipc_errors, read_arrow_head


class ArrowFile:
    """Reads record batches. Those of a file that is mapped into memory are views of it.

    Args:
        file: a handle on the file.
        options: the user's options, with names and types fixed.
        seal: the seal of the footer that listed the batches.
        mapping: the file, mapped into memory; None if it is read as a stream.

    Raises:
        SourceError: the file cannot be read, or has changed.
        DataError: the file is damaged.

    Attributes:
        mapped: whether the file is mapped into memory.
    """

    def __init__(self, file: OpenableFile, options: ArrowIpc, seal: int, mapping: pa.Buffer | None) -> None:
        self.name = file.name
        self.mapped = mapping is not None
        self._fixed = options.require_fixed_schema(file.name)
        if mapping is None:
            self._stream: io.BufferedReader = file.open(None)
        else:
            self._stream = io.BufferedReader(cast("io.RawIOBase", pa.BufferReader(mapping)))
        try:
            self._read_footer(file, seal, self._stream.raw if mapping is None else mapping)
        except FeedpipeError:
            self._stream.close()
            raise
        except ipc_errors() as error:
            self._stream.close()
            raise read_error(error, file.name) from error

    def _read_footer(self, file: OpenableFile, seal: int, source: Any) -> None:
        footer = read_arrow_head(self._stream, file.name)
        if not isinstance(footer, ArrowFooter) or footer.seal != seal:
            raise SourceError(
                f"{file.name} has changed since its footer was read; a pipe reads footers once, so make it anew"
            )
        places = [place for place, name in enumerate(footer.names) if name in self._fixed.file_types]
        existing = frozenset(footer.names)
        self._names = [name for name in self._fixed.file_types if name in existing]
        self._constants = self._fixed.constants(file.path, self._names)
        self._all_columns = pa.ipc.open_file(source)
        self._selected = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=places))

    def read_batch(
        self, number: int, rows: int, compressed: bool, columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """Read and validate a record batch.

        Args:
            number: which batch of the file.
            rows: how many rows it should have.
            compressed: whether its columns are compressed.
            columns: which of the fixed columns to give, as far as the file has them; None for all.
        """
        what = f"{self.name}, record batch {number},"
        try:
            # When Arrow leaves out columns it copies the others, even out of mapped memory.
            in_place = self.mapped and not compressed
            batch = (self._all_columns if in_place else self._selected).get_batch(number)
            if batch.num_rows != rows:
                raise DataError(f"{what} should have {rows} rows and has {batch.num_rows}: it is damaged")
            return validated(batch.select([name for name in self._names if columns is None or name in columns]))
        except FeedpipeError:
            raise
        except ipc_errors() as error:
            raise read_error(error, what) from error

    def with_fixed_types(self, batch: pa.RecordBatch, columns: Sequence[str], count: int) -> pa.RecordBatch:
        """These columns of `count` rows of a batch, in the types fixed for all files."""
        arrays: list[Any] = []
        for name in columns:
            if name in batch.schema.names:
                arrays.append(self._fixed.cast(batch.column(name), name, self.name))
            else:
                arrays.append(pa.repeat(self._constants[name], count))
        return pa.RecordBatch.from_arrays(arrays, list(columns))

    def close(self) -> None:
        self._stream.close()


def validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, with types whose rows Arrow can take; raises if a value leads out of the memory of the batch."""
    for column in batch.columns:  # raises a KeyError for types that pyarrow has no class for, such as intervals
        column.validate(full=True)
    return with_takeable_types(pa.Table.from_batches([batch])).to_batches()[0] if batch.num_columns else batch
