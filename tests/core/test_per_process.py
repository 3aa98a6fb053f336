"""`PerProcess`: made once in a process, empty in another."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ..support.core import PerProcess


def never() -> object:
    raise AssertionError("the value is there already")


@pytest.mark.parametrize("value", ["rows", None, []])
def test_a_value_is_made_once(value: object):
    memory = PerProcess[object]()
    assert memory.get(lambda: value) is value
    assert memory.get(never) is value


def test_threads_wait_for_the_first_one():
    memory = PerProcess[object]()
    calls: list[int] = []
    others = threading.Barrier(8)

    def make() -> object:
        calls.append(threading.get_ident())
        others.wait(10)  # until the other threads are about to ask
        return object()

    def get(first: bool) -> object:
        if not first:
            others.wait(10)
        return memory.get(make)

    with ThreadPoolExecutor(8) as threads:
        values = list(threads.map(get, [True] + [False] * 7))
    assert len(set(values)) == len(calls) == 1


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
