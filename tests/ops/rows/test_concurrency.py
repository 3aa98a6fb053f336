"""`concurrency=` and coroutine functions: `map`, `decode`, `read_images`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, LoaderError
from feedpipe.testing import check_operator


def streamed(n: int) -> fp.Pipe[int]:
    return fp.from_sequence(range(n)).filter(lambda x: True)


@pytest.fixture(params=["indexed", "streamed"])
def source(request: pytest.FixtureRequest) -> fp.Pipe[int]:
    return fp.from_sequence(range(30)) if request.param == "indexed" else streamed(30)


def draw(x: int, rng: np.random.Generator) -> tuple[int, int]:
    return x, int(rng.integers(10**9))


async def square(x: int) -> int:
    return x * x


class Meeting:
    """A function whose first calls wait for each other: it ends only if so many run at the same time."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count, timeout=30)
        self.running: Counter[str] = Counter()
        self.most = 0
        self.calls = 0
        self.lock = threading.Lock()

    def __call__(self, x: int) -> int:
        with self.lock:
            self.calls += 1
            self.running["now"] += 1
            self.most = max(self.most, self.running["now"])
            meets = self.calls <= self.barrier.parties
        if meets:
            self.barrier.wait()
        with self.lock:
            self.running["now"] -= 1
        return x


class TestMap:
    def test_law(self, source):
        assert check_operator(source.map(lambda x: x * x, concurrency=3)) == [x * x for x in range(30)]

    @pytest.mark.parametrize("chain", ["rows", "batches", "shuffled", "repeated", "zipped"])
    def test_calls_run_at_the_same_time(self, source, chain):
        meeting = Meeting(4)
        pipe: fp.Pipe[object] = source.map(meeting, concurrency=4)
        if chain == "batches":
            pipe = pipe.batch(3)
        elif chain == "shuffled":
            pipe = pipe.shuffle(window=None if pipe.indexed else 5).batch(2)
        elif chain == "repeated":
            pipe = pipe.repeat(2).batch(7)
        elif chain == "zipped":
            pipe = pipe.zip(fp.from_sequence("ab" * 15))
        assert len(list(pipe)) == len(list(pipe))
        assert meeting.most == 4

    def test_an_error_comes_after_the_rows_before_it_and_names_its_row(self, source):
        rows: list[int] = []
        with pytest.raises(fp.RowError, match="row 8") as error:
            rows.extend(source.map(lambda x: 1 // (x - 7), concurrency=4))
        assert rows == [1 // (x - 7) for x in range(7)]
        assert isinstance(error.value.__cause__, ZeroDivisionError)
        assert __file__ in str(error.value)

    def test_coroutines_share_one_event_loop(self, source):
        loops = set()

        async def loop(x: int) -> None:
            loops.add(asyncio.get_running_loop())

        assert len(list(source.map(loop, concurrency=5).batch(4))) == 8
        assert len(loops) == 1

    def test_debug_calls_one_after_the_other_in_the_calling_thread(self, source):
        pipe = source.map(lambda x: threading.current_thread(), concurrency=4)
        assert set(fp.Loader(pipe, fp.InProcess(debug=True))) == {threading.current_thread()}
        assert list(fp.Loader(source.map(square), fp.InProcess(debug=True))) == [x * x for x in range(30)]

    def test_coroutines_that_never_end_are_cancelled(self, source):
        begun, cancelled = asyncio.Event(), threading.Event()

        async def endless(x: int) -> int:
            if x == 0:
                await begun.wait()
                return x
            try:
                begun.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return x

        with fp.Loader(source.map(endless, concurrency=3)) as loader:
            assert next(iter(loader)) == 0
        assert cancelled.is_set()

    def test_states_do_not_depend_on_concurrency(self, source):
        with fp.Loader(source.map(draw, rng=True, concurrency=4).batch(4)) as loader:
            iterator = iter(loader)
            head = [next(iterator) for _ in range(3)]
            state = loader.state_dict()
            rest = list(iterator)
        for other, service in ((1, fp.InProcess()), (3, fp.MultiProcess(2))):
            with fp.Loader(source.map(draw, rng=True, concurrency=other).batch(4), service) as resumed:
                resumed.load_state_dict(state)
                assert list(resumed) == rest
        with fp.Loader(source.map(draw, rng=True).batch(4)) as alone:
            assert list(alone) == head + rest

    def test_a_forked_child_has_none_of_the_threads(self, source):
        iterator = iter(source.map(lambda x: x, concurrency=2))
        next(iterator)
        if (child := os.fork()) == 0:
            try:
                next(iterator)
            except LoaderError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0

    def test_bad_arguments(self, source):
        with pytest.raises(ArgumentError, match="`concurrency` must be >= 1 but got: 0"):
            source.map(str, concurrency=0)
        with pytest.raises(ArgumentError, match='`rng="global"` needs `concurrency=1`'):
            source.map(str, rng="global", concurrency=2)
        with pytest.raises(ArgumentError, match='`rng="global"` needs'):
            source.map(square, rng="global")
