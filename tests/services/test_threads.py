"""`Threads` does all that a loader promises, in threads of the consumer's process."""

from __future__ import annotations

import os
import random
import threading

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, LoaderError, PlanError, WorkerError


class Reads:
    """An iterable that counts how often it was begun."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.begun = 0

    def __iter__(self):
        self.begun += 1
        return iter(range(self.rows))


def test_a_source_that_cannot_be_divided_is_read_once():
    reads = Reads(100)
    pipe = fp.from_iterable(reads).map(lambda x: 2 * x).batch(5)
    with fp.Loader(pipe, fp.Threads(3), shards=6) as loader:  # no warning: those are errors in the tests
        threaded = list(loader)
    assert reads.begun == 1
    assert threaded == list(fp.Loader(pipe, shards=6))


def test_elements_are_those_that_the_function_returned():
    kept: dict[int, object] = {}

    def make(x: int) -> object:
        return kept.setdefault(x, object())

    with fp.Loader(fp.from_sequence(range(20)).map(make), fp.Threads(2)) as loader:
        assert list(loader) == [kept[x] for x in range(20)]


@pytest.mark.parametrize("options", [{"prefetch": 2}, {"prefetch": 100, "memory": 3 * 8 * 1000}])
def test_finished_elements_are_bounded(options):
    made = 0

    def make(x: int) -> np.ndarray:
        nonlocal made
        made += 1
        return np.zeros(1000)

    with fp.Loader(fp.from_sequence(range(200)).map(make).batch(1), fp.Threads(1, **options)) as loader:
        for taken, _ in enumerate(loader, 1):
            # One more is made, and blocks are made whole; small ones, for they are large.
            assert made <= taken + 4 + 131
    assert made == 200


def test_threads_that_give_nothing_are_named():
    gone = threading.Event()

    def stuck_function(x: int) -> int:
        if x:
            gone.wait()
        return x

    loader = fp.Loader(fp.from_sequence(range(4)).map(stuck_function), fp.Threads(2, timeout=0.2))
    iterator = iter(loader)
    try:
        with pytest.raises(WorkerError, match=r"no element has come for 0.2 seconds(?s:.*)in stuck_function"):
            list(iterator)
    finally:
        gone.set()
        loader.close()


def test_a_forked_child_has_none_of_the_threads():
    with fp.Loader(fp.from_sequence(range(10_000)), fp.Threads(2)) as loader:
        iterator = iter(loader)
        next(iterator)
        if (child := os.fork()) == 0:
            try:
                list(iterator)
            except LoaderError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


def test_functions_that_seed_the_global_generators_are_refused():
    pipe = fp.from_sequence(range(10)).map(lambda x: random.random(), rng="global").batch(2)
    with pytest.raises(PlanError, match=r"cannot run with `Threads\(2\)`, because threads share the global"):
        fp.Loader(pipe, fp.Threads(2))


def test_bad_arguments():
    for options in ({"workers": 0}, {"workers": 1, "prefetch": 0}, {"workers": 1, "timeout": 0.0}):
        with pytest.raises(ArgumentError):
            fp.Threads(**options)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`memory`"):
        fp.Threads(1, memory="many")
