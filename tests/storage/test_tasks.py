from __future__ import annotations

import gc
import os
import threading

import pytest

from feedpipe.storage import tasks
from feedpipe.storage.tasks import MAX_THREADS, Budget, Task


def test_who_comes_first_makes_the_call() -> None:
    calls: list[threading.Thread] = []
    task = Task(lambda: calls.append(threading.current_thread()))
    assert task.result() is None
    task.start()
    task.run()
    assert calls == [threading.current_thread()]


def test_a_thread_makes_it_ahead() -> None:
    made = threading.Event()

    def call() -> str:
        made.set()
        return threading.current_thread().name

    task = Task(call)
    task.start()
    assert made.wait(30)
    assert task.result() == "feedpipe-fetch"
    assert task.result_if_done == "feedpipe-fetch"


def test_who_needs_a_result_waits_in_no_queue() -> None:
    go = threading.Event()
    held = [Task(go.wait) for _ in range(MAX_THREADS)]
    for task in held:
        task.start()
    late = Task(lambda: "made here")
    late.start()
    assert late.result() == "made here"  # all threads are at work
    go.set()
    assert all(task.result() for task in held)


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    task: Task[float] = Task(lambda: 1 / 0)
    task.start()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            task.result()
    assert task.result_if_done is None


def test_what_is_cancelled_is_not_begun() -> None:
    go, calls = threading.Event(), []
    held = [Task(go.wait) for _ in range(MAX_THREADS)]
    for task in held:
        task.start()
    late = Task(lambda: calls.append(1))
    late.start()
    late.cancel()
    go.set()
    last = Task(lambda: None)  # behind it in the queue
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
    held = [Task(go.wait) for _ in range(MAX_THREADS)]
    for task in held:
        task.start()
    tasks.budget.acquire(10, needed=False)
    gc.collect()
    child = os.fork()
    if child == 0:  # here all those threads are gone
        made = threading.Event()
        Task(made.set).start()
        os._exit(0 if made.wait(30) and tasks.budget.acquire(tasks.BUDGET_BYTES, needed=False) else 1)
    _, status = os.waitpid(child, 0)
    go.set()
    tasks.budget.release(10)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_task_waits_once_however_often_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Task[int]] = []

    class Pool:
        add = staticmethod(waiting.append)

    monkeypatch.setattr(tasks, "_pool", Pool)
    task = Task(lambda: 1)
    task.start()
    task.start()
    assert waiting == [task] and task.result() == 1
