"""Tasks, the threads that run them, and the budget of bytes."""

from __future__ import annotations

import gc
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

from ..support.storage import MAX_THREADS, Budget, Task, tasks
from .remote_store import RemoteStore


def test_the_first_caller_makes_the_call() -> None:
    calls: list[threading.Thread] = []
    task = Task(lambda: calls.append(threading.current_thread()))
    assert task.result() is None
    task.start()
    task.run()
    assert calls == [threading.current_thread()]


def test_a_thread_makes_the_call_early() -> None:
    called = threading.Event()

    def call() -> str:
        called.set()
        return threading.current_thread().name

    task = Task(call)
    task.start()
    assert called.wait(30)
    assert task.result() == "feedpipe-fetch"
    assert task.result_if_done == "feedpipe-fetch"


def test_few_threads_make_many_short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """To start a thread for each of them takes ten times as long as to read the footer of a local file."""
    monkeypatch.setattr(tasks, "IDLE_SECONDS", 1)
    monkeypatch.setattr(tasks, "_pool", tasks._Pool())
    threads: set[threading.Thread] = set()
    for _ in range(100):
        called = threading.Event()
        Task(lambda called=called: (threads.add(threading.current_thread()), called.set())).start()
        assert called.wait(30)
    assert len(threads) < 10


def test_a_caller_of_result_does_not_wait_in_the_queue() -> None:
    go = threading.Event()
    blocking = [Task(go.wait) for _ in range(MAX_THREADS)]
    for task in blocking:
        task.start()
    late = Task(lambda: "called here")
    late.start()
    assert late.result() == "called here"  # all threads are busy
    go.set()
    assert all(task.result() for task in blocking)


def test_result_raises_the_error_each_time() -> None:
    task: Task[float] = Task(lambda: 1 / 0)
    task.start()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            task.result()
    assert task.result_if_done is None


def test_a_cancelled_call_is_not_made() -> None:
    go, calls = threading.Event(), []
    blocking = [Task(go.wait) for _ in range(MAX_THREADS)]
    for task in blocking:
        task.start()
    late = Task(lambda: calls.append(1))
    late.start()
    late.cancel()
    go.set()
    last = Task(lambda: None)  # after it in the queue
    last.start()
    last.result()
    assert not calls


def test_budget() -> None:
    budget = Budget(10)
    assert budget.acquire(6, needed=False)
    assert not budget.acquire(6, needed=False)
    assert budget.acquire(6, needed=True)
    budget.release(6)
    assert not budget.acquire(5, needed=False)
    assert not budget.acquire(2, needed=False, reserve=3)
    assert budget.acquire(2, needed=False, reserve=2)
    assert budget.acquire(2, needed=False)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_has_threads_of_its_own() -> None:
    go = threading.Event()
    blocking = [Task(go.wait) for _ in range(MAX_THREADS)]
    for task in blocking:
        task.start()
    tasks.budget.acquire(10, needed=False)
    gc.collect()
    child = os.fork()
    if child == 0:  # this process has none of the threads
        called = threading.Event()
        Task(called.set).start()
        os._exit(0 if called.wait(30) and tasks.budget.acquire(tasks.BUDGET_BYTES, needed=False) else 1)
    _, status = os.waitpid(child, 0)
    go.set()
    tasks.budget.release(10)
    assert os.waitstatus_to_exitcode(status) == 0


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


def test_a_task_is_queued_once_however_often_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Task[int]] = []

    class Pool:
        add = staticmethod(waiting.append)

    monkeypatch.setattr(tasks, "_pool", Pool)
    task = Task(lambda: 1)
    task.start()
    task.start()
    assert waiting == [task] and task.result() == 1


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
