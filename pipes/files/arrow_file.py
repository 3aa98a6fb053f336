"""Open Arrow files: record batches in any order, and rows by position. This imports pyarrow, so import it late."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ..core.lazy import pa
from ..core.rows import Indices, Rows, index_array
from ..errors import DataError, FeedpipeError
from ..formats.chunked import ChunkedTable, ColumnWindow, column_window, take_rows, with_takeable_types
from ..formats.columns import read_error
from ..formats.table_format import FixedSchema
from ..storage.mapping import file_size, local_path, room_for_mappings
from .arrow_ipc import ArrowFooter, ipc_errors, read_arrow_head
from .by_position import Mark, Numbers, RowReader, RowTable, UnitsAt, extend_rows
from .footers import CountedFormat, OpenFileCache
from .open_files import changed_error

if TYPE_CHECKING:
    from ..storage.file import File

MAX_KEPT_BYTES = 2**28
"""The memory of the batches that a process keeps, of those that it decompressed or fetched."""
_VIEW_BYTES = 2**10  # about what a column of a mapped batch takes: it is a view of the file


class ArrowFile:
    """Reads record batches. Those of a file that is mapped into memory are views of it.

    Args:
        file: a handle on the file.
        fixed: names and types for all files.
        seal: the seal of the footer that listed the batches.
        mapping: the file, mapped into memory; None if it is read as a stream. The system ends a process that reads
            memory of a file which has been cut, so each batch first compares the size; a cut between the two is fatal.
    """

    def __init__(self, file: File, fixed: FixedSchema, seal: int, mapping: pa.Buffer | None) -> None:
        self.name = file.name
        self.mapped = mapping is not None
        self._path = None if mapping is None else local_path(file)
        self._size = 0 if mapping is None else mapping.size
        self._fixed = fixed
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

    def _read_footer(self, file: File, seal: int, source: Any) -> None:
        footer = read_arrow_head(self._stream, file.name)
        if not isinstance(footer, ArrowFooter) or footer.seal != seal:
            raise changed_error(file.name)
        places = [place for place, name in enumerate(footer.names) if name in self._fixed.file_types]
        existing = frozenset(footer.names)
        self._names = [name for name in self._fixed.file_types if name in existing]
        self._constants = self._fixed.constants(file.path, self._names)
        self._all_columns = pa.ipc.open_file(source)
        self._selected = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=places))

    def read_batch(
        self, number: int, rows: int, compressed: bool, columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """Read and validate a record batch, of some of the fixed columns that the file has; None for all."""
        what = f"{self.name}, record batch {number},"
        self.check_size()
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

    def check_size(self) -> None:
        """Raise a `SourceError` if the file is mapped, and has another size than its mapping."""
        if self._path is not None and file_size(self._path) not in (self._size, None):
            raise changed_error(self.name)

    def with_fixed_types(self, batch: pa.RecordBatch, columns: Sequence[str], count: int) -> pa.RecordBatch:
        """Cast these columns of `count` rows of a batch to the types fixed for all files."""
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
    """Check that no value leads out of the memory of a batch, and give it types whose rows Arrow can take."""
    for column in batch.columns:  # raises a KeyError for types that pyarrow has no class for, such as intervals
        column.validate(full=True)
    return with_takeable_types(pa.Table.from_batches([batch])).to_batches()[0] if batch.num_columns else batch


class ArrowRows(RowReader):
    """The rows of all record batches.

    Number columns of mapped files are read in place, if there are not too many files, without a look at the
    size of the file. For other columns a batch is read when one of its rows is asked for, and the last few batches are
    kept.
    """

    def __init__(self, form: CountedFormat, table: RowTable, batches: UnitsAt, files: OpenFileCache[ArrowFile]) -> None:
        self._form = form
        self._table = table
        self._batches = batches
        self._lock = threading.Lock()
        self._files = files
        self._kept: OrderedDict[int, tuple[ArrowFile, pa.RecordBatch, int]] = OrderedDict()
        self._bytes = 0
        fixed, rows = form.require_fixed_schema(""), np.diff(table.firsts).tolist()
        windows = self._windows(fixed, len(rows))
        self._other_columns = [name for name in fixed.file_types if name not in windows]
        self._chunks = ChunkedTable(pa.schema(list(fixed.file_types.items())), rows, windows, self._read_rows)

    def rows(self, indices: Indices, mark: Mark) -> Rows:
        return extend_rows(self._form, self._chunks.rows(indices), lambda: self._locate(index_array(indices)))

    def _locate(self, indices: Numbers) -> tuple[list[str], npt.NDArray[np.intp], Numbers]:
        """The paths of files, and of each row the index of its file among these, and its number there."""
        places = self._table.at(indices)
        batches = self._batches(places.units)
        firsts = np.array([batch.first for batch in batches], np.int64)[places.owners]
        return [batch.file.path for batch in batches], places.owners, firsts + places.numbers

    def _windows(self, fixed: FixedSchema, count: int) -> dict[str, ColumnWindow]:
        """The columns that can be read in place."""
        numbers = [n for n, k in fixed.file_types.items() if pa.types.is_integer(k) or pa.types.is_floating(k)]
        parts: list[pa.RecordBatch] = []
        handles = self._batches(range(count)) if numbers else []
        if any(handle.compressed or local_path(handle.file) is None for handle in handles):
            return {}
        if len({handle.file.path for handle in handles}) > room_for_mappings():  # all would stay mapped
            return {}
        for handle in handles:
            file = self._files.file(handle)
            parts.append(file.read_batch(handle.number, handle.rows, False, numbers))
        windows: dict[str, ColumnWindow] = {}
        for name in numbers:
            chunks = [part.column(name) for part in parts if name in part.schema.names]
            alike = len(chunks) == len(parts) and all(chunk.type == fixed.file_types[name] for chunk in chunks)
            column = column_window(chunks) if alike else None
            if column is not None:
                windows[name] = column
        return windows

    def _read_rows(self, k: int, places: Indices) -> pa.RecordBatch:
        """Rows of a batch, without the columns that are read in place."""
        with self._lock:
            file, batch = self._batch(k)
        file.check_size()
        return file.with_fixed_types(take_rows(batch, places), self._other_columns, len(places))

    def _batch(self, k: int) -> tuple[ArrowFile, pa.RecordBatch]:
        if k in self._kept:
            self._kept.move_to_end(k)
            return self._kept[k][:2]
        (handle,) = self._batches(range(k, k + 1))
        file = self._files.file(handle)
        batch = file.read_batch(handle.number, handle.rows, handle.compressed, self._other_columns)
        is_view = file.mapped and not handle.compressed
        size = _VIEW_BYTES * len(self._other_columns) if is_view else batch.nbytes
        while self._kept and (self._bytes + size > MAX_KEPT_BYTES or room_for_mappings() < 0):
            self._bytes -= self._kept.popitem(last=False)[1][2]
        self._kept[k] = file, batch, size
        self._bytes += size
        return file, batch
