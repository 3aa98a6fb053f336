"""Several threads use one iterator of a loader: each element goes to one of them, and the state fits it."""

from __future__ import annotations

import sys
import threading

import pytest

import feedpipe as fp
from feedpipe.errors import LoaderError


def rows(count: int, *, indexed: bool) -> fp.Pipe[int]:
    pipe = fp.from_sequence(range(count)).shuffle()
    return pipe if indexed else pipe.filter(lambda x: True).shuffle(window=8)


class Slow:
    """A function that waits at row 3 until it may go on."""

    def __init__(self) -> None:
        self.waits, self.go = threading.Event(), threading.Event()

    def __call__(self, x: int) -> int:
        if x == 3:
            self.waits.set()
            self.go.wait()
        return x


def test_while_one_thread_waits_for_an_element_others_get_an_error():
    slow = Slow()
    loader = fp.Loader(fp.from_sequence(range(6)).map(slow), fp.InProcess(debug=True))  # makes one row at a time
    iterator = iter(loader)
    elements = [next(iterator) for _ in range(3)]
    thread = threading.Thread(target=lambda: elements.append(next(iterator)))
    thread.start()
    slow.waits.wait()
    state = loader.state_dict()
    for use in (lambda: next(iterator), loader.peek, lambda: iter(loader), loader.close):
        with pytest.raises(LoaderError, match="only one thread at a time.*use a lock"):
            use()
    assert loader.state_dict() == state
    assert (loader.epoch, loader.step) == (0, 3)
    slow.go.set()
    thread.join()
    assert loader.step == 4
    assert [*elements, *iterator] == list(range(6))


def test_an_iterator_of_a_pipe_admits_one_thread_too():
    slow = Slow()
    iterator = iter(fp.from_sequence(range(400)).map(slow))
    failures = []

    def take() -> None:
        with pytest.raises(LoaderError) as failure:
            list(iterator)
        failures.append(failure)

    thread = threading.Thread(target=take)
    thread.start()
    slow.waits.wait()
    for _ in range(2):
        with pytest.raises(LoaderError, match="only one thread at a time.*use a lock"):
            next(iterator)
    slow.go.set()
    thread.join()
    assert len(failures) == 1  # not a part of the rows without a word


def test_a_function_that_iterates_its_own_loader_is_an_error():
    loader = fp.Loader(fp.from_sequence(range(3)).map(lambda x: next(iterator)))
    iterator = iter(loader)
    with pytest.raises(LoaderError, match="only one thread at a time"):
        next(iterator)


@pytest.mark.parametrize("info", [False, True], ids=["elements", "info"])
@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "streamed"])
def test_no_element_is_lost_or_comes_twice(indexed, info):
    count, threads = 600, 4
    loader = fp.Loader(rows(count, indexed=indexed))
    iterator = loader.with_info() if info else iter(loader)
    taken: list[object] = []

    def take() -> None:
        while len(taken) < count // 2:
            try:
                taken.append(next(iterator))
            except LoaderError:
                continue

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=take) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    elements = [x for x, _ in taken] if info else taken
    assert loader.step == len(taken)
    resumed = fp.Loader(rows(count, indexed=indexed))
    resumed.load_state_dict(loader.state_dict())
    rest = list(resumed)
    assert sorted(elements + rest) == list(range(count))
    if info:  # each element has its own state
        steps = sorted(taken, key=lambda pair: pair[1].step)
        assert [x for x, _ in steps] + rest == list(fp.Loader(rows(count, indexed=indexed)))
        _, middle = steps[len(steps) // 2]
        resumed.load_state_dict(middle.state_dict())
        assert next(iter(resumed)) == steps[len(steps) // 2 + 1][0]
