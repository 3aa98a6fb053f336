"""Tasks, the threads that run them, and the budget of bytes."""

from __future__ import annotations

import io
import os
import signal
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import feedpipe as fp

from ..support.storage import Task
from .remote_store import RemoteStore


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_call_that_another_thread_has_begun_is_made_anew_in_a_fork() -> None:
    begun, go, parent = threading.Event(), threading.Event(), os.getpid()

    def call() -> int:
        if os.getpid() == parent:
            begun.set()
            go.wait()
        return os.getpid()

    slow, done = Task(call), Task(os.getpid)
    slow.start()
    assert begun.wait(30) and done.result() == parent
    child = os.fork()
    if child == 0:  # the thread that makes the call is not here
        signal.alarm(30)
        os._exit(0 if slow.result() == os.getpid() and done.result() == parent else 1)
    _, status = os.waitpid(child, 0)
    go.set()
    assert os.waitstatus_to_exitcode(status) == 0 and slow.result() == parent


class Stopping(RemoteStore):
    """A file system that counts as local, and raises StopIteration when it is asked for a path."""

    stops_at = "d/1"

    def get_type_name(self) -> str:
        return "mock"

    def open_input_file(self, path: str) -> pa.NativeFile:
        return next(iter(())) if path == self.stops_at else super().open_input_file(path)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        stops = selector.base_dir.rstrip("/") == self.stops_at
        return next(iter(())) if stops else super().get_file_info_selector(selector)


@pytest.mark.parametrize("reader", ["read_numpy", "read_bytes", "read_lines", "read_parquet"])
def test_a_file_system_that_raises_stop_iteration_ends_no_loop(reader: str) -> None:
    stream = io.BytesIO()
    np.save(stream, np.arange(3))
    parquet = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), parquet)
    data = {"read_numpy": stream, "read_parquet": parquet}.get(reader, io.BytesIO(b"one\n")).getvalue()
    pipe: fp.Pipe[object] = getattr(fp, reader)("d", filesystem=Stopping({f"d/{k}": data for k in range(3)}).filesystem)
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        list(pipe)


def test_a_folder_that_raises_stop_iteration_is_no_empty_folder() -> None:
    store = Stopping({f"d/{k}/a": b"one\n" for k in range(3)})
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        list(fp.list_files("d", recursive=True, filesystem=store.filesystem))
