"""`FolderFiles`: writes the rows of many folders at the same time, a file for each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._dataset_writer import DatasetWriter, Limits, OutputFile

if TYPE_CHECKING:
    import pyarrow as pa

MAX_OPEN_FILES = 64
MAX_BUFFERED_BYTES = 2**28
"""Of rows that are not written yet, in all folders. The folder with most of them is written if there are more."""

W = TypeVar("W", bound=AbstractContextManager[Any])


class _Buffer:
    """The rows of a folder that are not written yet."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.rows = 0
        self.bytes = 0

    def add(self, table: pa.Table) -> None:
        self.tables.append(table)
        self.rows += len(table)
        self.bytes += table.nbytes

    def take(self, rows: int) -> pa.Table:
        """Removes the first rows."""
        import pyarrow as pa

        table = pa.concat_tables(self.tables)
        self.tables, self.rows, self.bytes = [], 0, 0
        if rows < len(table):
            self.add(table[rows:])
        return table[:rows]


class _OutputFile(Generic[W]):
    """A file that is being written; closing it gives it its name."""

    def __init__(self, stack: ExitStack, output: OutputFile, file: W) -> None:
        self.stack = stack
        self.output = output
        self.file = file


class FolderFiles(Generic[W]):
    """The files of all folders, each written in tables of `max_rows`.

    Args:
        writer: makes the files.
        limits: of a file.
        max_rows, max_bytes: of a table.
        open_table_file: begins to write a format into a file.
        write: writes a table into such a file.
    """

    def __init__(
        self,
        writer: DatasetWriter,
        limits: Limits,
        max_rows: int,
        max_bytes: int,
        open_table_file: Callable[[OutputFile, pa.Schema], W],
        write: Callable[[W, pa.Table], object],
    ) -> None:
        self._writer = writer
        self._limits = limits
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._open_table_file = open_table_file
        self._write = write
        self._buffers: dict[str, _Buffer] = {}
        self._bytes = 0  # of all buffers
        self._files: OrderedDict[str, _OutputFile[W]] = OrderedDict()  # the last one was written to last

    def add(self, folder: str, table: pa.Table) -> None:
        """Adds rows to a folder."""
        buffer = self._buffers.setdefault(folder, _Buffer())
        buffer.add(table)
        self._bytes += table.nbytes
        while buffer.rows >= self._room(folder) or buffer.bytes >= self._max_bytes:
            self._write_table(folder)
        while self._bytes > MAX_BUFFERED_BYTES:
            self._write_table(max(self._buffers, key=lambda name: self._buffers[name].bytes))

    def finish(self) -> None:
        """Writes all rows and closes all files."""
        for folder in [*self._buffers]:
            while folder in self._buffers:
                self._write_table(folder)
            self._close(folder)

    def __enter__(self) -> FolderFiles[W]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for file in self._files.values():  # after an error, which removes them
                stack.push(file.stack)
            stack.pop_all().__exit__(kind, error, trace)

    def _room(self, folder: str) -> int:
        """The rows of the next table."""
        if self._limits.rows is None:
            return self._max_rows
        file = self._files.get(folder)
        return min(self._max_rows, self._limits.rows - (0 if file is None else file.output.rows))

    def _write_table(self, folder: str) -> None:
        buffer = self._buffers[folder]
        self._bytes -= buffer.bytes
        table = buffer.take(self._room(folder))
        self._bytes += buffer.bytes
        if not buffer.rows:
            del self._buffers[folder]
        file = self._open(folder, table.schema)
        self._write(file.file, table)
        file.output.count_rows(len(table))
        rows, size = self._limits.rows, self._limits.bytes
        if file.output.rows == rows or (size is not None and file.output.bytes >= size):
            self._close(folder)

    def _open(self, folder: str, schema: pa.Schema) -> _OutputFile[W]:
        if folder not in self._files:
            if len(self._files) == MAX_OPEN_FILES:
                self._close(next(iter(self._files)))
            with ExitStack() as stack:
                output = stack.enter_context(self._writer.next_file(folder))
                file = stack.enter_context(self._open_table_file(output, schema))
                self._files[folder] = _OutputFile(stack.pop_all(), output, file)
        self._files.move_to_end(folder)
        return self._files[folder]

    def _close(self, folder: str) -> None:
        file = self._files.pop(folder, None)
        if file is not None:
            file.stack.close()
