"""Writes the rows of `load(path)`."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from ..core.block import nbytes
from ..core.graph import Node
from ..core.process import bytes_text
from ..core.rows import BlockRows, Rows, take
from ..formats.row_buffers import snapshot
from ..ops.load import LoadedFiles
from ..pipe import Pipe
from ._run import ChunkedRun, SavedRun
from ._tables import CHUNK_ROWS

FILE_BYTES = 2**25
"""The size of a file, about. Larger ones take twice as long to write, because their memory is new to the process."""


def write_loaded(root: Node, loaded: LoadedFiles, workers: int, *, progress: bool | None) -> None:
    """Run a pipe, from the place where an earlier run was killed, and write its rows.

    An `UnfitRowsError` says that no file holds a value, a `NoRoomError` that the limit or the disk is reached.
    """
    run = ChunkedRun(Pipe(root.op, root.inputs, root.call_site), CHUNK_ROWS, workers)
    if loaded.place is not None:
        run.go_on(SavedRun.of_text(loaded.place))
    pending: list[BlockRows] = []  # not written yet
    size = 0
    shown = progress is not False
    with (
        run.progress_bar("load", shown=shown, notes=lambda: bytes_text(loaded.files.bytes)) as bar,
        ThreadPoolExecutor(1) as thread,
    ):
        writing: Future[object] = thread.submit(int)
        for chunk in run:
            rows = snapshot(chunk if isinstance(chunk, (list, Rows)) else list(chunk))
            if workers and isinstance(rows, Rows):
                rows = take(rows, np.arange(len(rows)))  # the memory is that of a worker, which waits for it
            pending.append(rows)
            size += nbytes(rows)
            run.rows += len(chunk)
            bar.update(len(chunk))
            if size >= FILE_BYTES:
                writing.result()
                writing = thread.submit(loaded.write, pending, run.place(None).text(), last=False)
                pending, size = [], 0
        writing.result()
        loaded.write(pending, run.place(None).text(), last=True)
