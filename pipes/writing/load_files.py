"""Writes the rows of `load(path)`."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from ..core.block import nbytes
from ..core.graph import Node
from ..core.process import bytes_text
from ..core.rows import BlockRows, Rows, concat, take
from ..formats.row_buffers import snapshot
from ..ops.load import LoadedFiles
from ..pipe import Pipe
from ._run import ChunkedRun, SavedRun
from ._tables import CHUNK_ROWS

FILE_BYTES = 2**25
"""The size of a file, about. Larger ones take twice as long to write, because their memory is new to the process."""
JOINED_BYTES = 2**22
"""Chunks are copied into larger parts, because their memory is that of workers, which wait for it."""


def write_loaded(root: Node, loaded: LoadedFiles, workers: int, *, progress: bool | None) -> None:
    """Run a pipe, from the place where an earlier run was killed, and write its rows.

    An `UnfitRowsError` says that no file holds a value, a `NoRoomError` that the limit or the disk is reached.
    """
    run = ChunkedRun(Pipe(root.op, root.inputs, root.call_site), CHUNK_ROWS, workers)
    if loaded.place is not None:
        run.go_on(SavedRun.of_text(loaded.place))
    pending = _Pending(copies=workers > 0)
    shown = progress is not False
    with (
        run.progress_bar("load", shown=shown, notes=lambda: bytes_text(loaded.files.bytes)) as bar,
        ThreadPoolExecutor(1) as thread,
    ):
        writing: Future[object] = thread.submit(int)
        for chunk in run:
            pending.add(chunk if isinstance(chunk, (list, Rows)) else list(chunk))
            run.rows += len(chunk)
            bar.update(len(chunk))
            if pending.bytes >= FILE_BYTES:
                writing.result()
                writing = thread.submit(loaded.write, pending.take(), run.place(None).text(), last=False)
        writing.result()
        loaded.write(pending.take(), run.place(None).text(), last=True)


class _Pending:
    """Rows that are not written yet. They are copied if they are in the memory of workers, which wait for it."""

    def __init__(self, *, copies: bool) -> None:
        self.bytes = 0
        self._copies = copies
        self._parts: list[BlockRows] = []
        self._chunks: list[BlockRows] = []  # the last ones
        self._chunk_bytes = 0

    def add(self, rows: BlockRows) -> None:
        self._chunks.append(snapshot(rows))
        size = nbytes(rows)
        self.bytes += size
        self._chunk_bytes += size
        if self._copies and self._chunk_bytes >= JOINED_BYTES:
            rows = concat(self._chunks)
            if len(self._chunks) == 1 and isinstance(rows, Rows):
                rows = take(rows, np.arange(len(rows)))
            self._parts.append(rows)
            self._chunks, self._chunk_bytes = [], 0

    def take(self) -> list[BlockRows]:
        """All rows, which are then gone."""
        parts = [*self._parts, *self._chunks]
        self._parts, self._chunks, self._chunk_bytes, self.bytes = [], [], 0, 0
        return parts
