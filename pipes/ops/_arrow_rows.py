"""Rows of Arrow files by position: what one process has open and in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from ..ahead import MOST
from ..formats.arrow_file import ArrowFile
from ..formats.arrow_ipc import ArrowIpc
from ..formats.typed import Fixed
from ..rows import Indices, Rows
from ..storage.fetch import Task
from ..storage.filesystem import locate
from ._chunks import Chunks, Window, chosen, window

if TYPE_CHECKING:
    from ._record_batches import RecordBatch

KEPT = 2**28
"""Bytes of batches that are kept: of those decompressed, or fetched from elsewhere."""
_VIEW = 2**10  # bytes that a column of a mapped batch takes, about: it is a view of the file
_OPEN = 8  # batches in a random order come back to the same few files


class OpenArrowFiles:
    """Opens files; keeps the last few open."""

    def __init__(self, format: ArrowIpc) -> None:
        self._format = format
        self._open: OrderedDict[tuple[int, str, int], Task[ArrowFile]] = OrderedDict()

    def file(self, handle: RecordBatch) -> ArrowFile:
        """The file that a batch is in."""
        opened = self.opened(handle)
        try:
            return opened.result()
        except BaseException:
            self._open.pop(_key(handle), None)  # another time it may be there
            raise

    def opened(self, handle: RecordBatch) -> Task[ArrowFile]:
        """The file that a batch is in, which a thread may open."""
        key = _key(handle)
        if key not in self._open:
            most = _OPEN if handle.file.is_near() else _OPEN + MOST  # with those that are begun ahead
            while len(self._open) >= most:
                self._close_oldest()
            self._open[key] = Task(partial(_opened, handle, self._format))
        self._open.move_to_end(key)
        return self._open[key]

    def close(self) -> None:
        while self._open:
            self._close_oldest()

    def _close_oldest(self) -> None:
        _, opened = self._open.popitem(last=False)
        opened.cancel()
        if opened.finished is not None:
            opened.finished.close()


def _key(handle: RecordBatch) -> tuple[int, str, int]:
    return id(handle.file.filesystem), handle.file.path, handle.seal


def _opened(handle: RecordBatch, format: ArrowIpc) -> ArrowFile:
    place = locate(handle.file.path, handle.file.filesystem)
    local = place.path if place.filesystem.type_name == "local" else None
    return ArrowFile(handle.file, format, handle.seal, local)


class ArrowRows:
    """The rows of all record batches.

    Number columns of files that are mapped are read in place. Batches are looked at for the other columns when rows of
    them are wanted, and the last few are kept.

    Args:
        format: what the user wants of the files, with names and types fixed.
        rows: of each batch.
        handles: gives the handles of some batches.
    """

    def __init__(self, format: ArrowIpc, rows: Sequence[int], handles: Callable[[range], list[RecordBatch]]) -> None:
        fixed = format.fixed
        assert fixed is not None
        self._handles = handles
        self._lock = threading.Lock()
        self._files = OpenArrowFiles(format)
        self._kept: OrderedDict[int, tuple[ArrowFile, pa.RecordBatch, int]] = OrderedDict()
        self._bytes = 0
        windows = self._windows(fixed, len(rows))
        self._others = [name for name in fixed.inside if name not in windows]
        self._chunks = Chunks(pa.schema(list(fixed.inside.items())), rows, windows, self._part)

    def rows(self, indices: Indices) -> Rows:
        """The rows at `indices`."""
        return self._chunks.rows(indices)

    def _windows(self, fixed: Fixed, count: int) -> dict[str, Window]:
        """The columns that can be read in place."""
        numbers = [n for n, k in fixed.inside.items() if pa.types.is_integer(k) or pa.types.is_floating(k)]
        parts: list[pa.RecordBatch] = []
        for handle in self._handles(range(count)) if numbers else ():
            file = self._files.file(handle)
            if handle.compressed or not file.mapped:
                return {}
            parts.append(file.batch(handle.number, handle.rows, False, numbers))
        made: dict[str, Window] = {}
        for name in numbers:
            chunks = [part.column(name) for part in parts if name in part.schema.names]
            alike = len(chunks) == len(parts) and all(chunk.type == fixed.inside[name] for chunk in chunks)
            found = window(chunks) if alike else None
            if found is not None:
                made[name] = found
        return made

    def _part(self, k: int, places: Indices) -> pa.RecordBatch:
        """Rows of a batch, of the columns that are not read in place."""
        with self._lock:
            file, batch = self._batch(k)
        return file.settled(chosen(batch, places), self._others, len(places))

    def _batch(self, k: int) -> tuple[ArrowFile, pa.RecordBatch]:
        if k in self._kept:
            self._kept.move_to_end(k)
            return self._kept[k][:2]
        (handle,) = self._handles(range(k, k + 1))
        file = self._files.file(handle)
        batch = file.batch(handle.number, handle.rows, handle.compressed, self._others)
        viewed = file.mapped and not handle.compressed
        size = _VIEW * len(self._others) if viewed else batch.nbytes
        while self._kept and self._bytes + size > KEPT:
            self._bytes -= self._kept.popitem(last=False)[1][2]
        self._kept[k] = file, batch, size
        self._bytes += size
        return file, batch
