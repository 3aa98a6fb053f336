"""`PerProcess`: made once in a process, empty in another."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from feedpipe.core.per_process import PerProcess


def never() -> object:
    raise AssertionError("the value is there already")


@pytest.mark.parametrize("value", ["rows", None, []])
def test_a_value_is_made_once(value: object):
    memory = PerProcess[object]()
    assert memory.get(lambda: value) is value
    assert memory.get(never) is value


def test_threads_wait_for_the_first_one():
    memory = PerProcess[object]()
    made: list[int] = []
    start = threading.Barrier(8)

    def make() -> object:
        made.append(threading.get_ident())
        time.sleep(0.05)
        return object()

    def get(_: int) -> object:
        start.wait()
        return memory.get(make)

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(get, range(8)))) == 1
    assert len(made) == 1


def test_after_an_error_the_next_caller_tries_again():
    memory = PerProcess[int]()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            memory.get(lambda: 1 // 0)
    assert memory.get(lambda: 3) == 3


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))])
def test_copies_are_empty(copied):
    memory = PerProcess[object]()
    memory.get(threading.Lock)  # a value that cannot be pickled
    other = copied(memory)
    assert type(other) is PerProcess and other is not memory
    assert other.get(lambda: "another") == "another"
