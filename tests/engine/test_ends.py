"""Runs that are left early end: in every service, with each kind of concurrency and each policy."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import RowError

from ..support.core import end_dropped

ROWS = 500
SERVICES: dict[str, Callable[[], Any]] = {
    "in process": fp.InProcess,
    "one thread": lambda: fp.Threads(1),
    "threads": lambda: fp.Threads(3),
}
POLICIES: dict[str, dict[str, Any]] = {
    "raise": {},
    "skip": {"on_error": "skip"},
    "retry": {"on_error": "skip", "retry": fp.Retry(2, backoff=0, on=Exception)},
}


class Turn:
    """Lets the event loop go on with others."""

    def __await__(self) -> Iterator[None]:
        yield


class Ledger:
    """Counts calls of the user's functions that have begun and those whose `finally` has run to its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begun = self.ended = 0

    def enter(self) -> None:
        with self._lock:
            self.begun += 1

    def leave(self) -> None:
        with self._lock:
            self.ended += 1

    def plain(self, row: int) -> int:
        self.enter()
        try:
            if row % 7 == 3:
                raise ValueError(row)
            return row
        finally:
            self.leave()

    async def coroutine(self, row: int) -> int:
        self.enter()
        try:
            for _ in range(3):
                await Turn()
            if row % 7 == 3:
                raise ValueError(row)
        except asyncio.CancelledError:  # comes once, so there is time to clean up
            for _ in range(3):
                await Turn()
            self.leave()
            raise
        except ValueError:
            self.leave()
            raise
        self.leave()
        return row


def left_running(before: set[threading.Thread]) -> list[threading.Thread]:
    """Threads of a run that are left; those that end what was dropped end by themselves."""
    return [thread for thread in threading.enumerate() if thread not in before and thread.name != "feedpipe-end"]


def chain(kind: str, ledger: Ledger, policy: dict[str, Any]) -> fp.Pipe[int]:
    pipe = fp.from_sequence(range(ROWS)).filter(lambda row: policy or row % 7 != 3)
    if kind == "async":
        return pipe.map(ledger.coroutine, concurrency=8, **policy)
    if kind == "calls":
        return pipe.map(ledger.plain, concurrency=8, **policy)
    pipe = pipe.map(ledger.plain, **policy)
    return pipe.prefetch(4) if kind == "prefetch" else pipe


@pytest.mark.parametrize("count", [0, 1, 5, 100])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["plain", "prefetch", "calls", "async"])
@pytest.mark.parametrize("service", SERVICES)
def test_a_run_that_is_left_ends(service: str, kind: str, policy: str, count: int) -> None:
    ledger = Ledger()
    before = set(threading.enumerate())
    with fp.Loader(chain(kind, ledger, POLICIES[policy]), SERVICES[service](), shards=3) as loader:
        rows = [row for row, _ in zip(loader, range(count), strict=False)]
    assert len(rows) == count and not {row % 7 for row in rows} & {3}
    assert ledger.begun == ledger.ended, "clean-up of the user has not run to its end"
    assert not left_running(before)


@pytest.mark.parametrize("kind", ["plain", "prefetch", "calls", "async"])
@pytest.mark.parametrize("service", SERVICES)
def test_a_run_that_is_dropped_ends(service: str, kind: str) -> None:
    ledger = Ledger()
    before = set(threading.enumerate())
    iterator = iter(fp.Loader(chain(kind, ledger, POLICIES["skip"]), SERVICES[service](), shards=3))
    next(iterator)
    del iterator
    end_dropped()
    assert ledger.begun == ledger.ended
    assert not left_running(before)


@pytest.mark.parametrize("kind", ["plain", "prefetch", "calls", "async"])
@pytest.mark.parametrize("service", SERVICES)
def test_a_run_that_is_left_leaves_no_thread_to_the_garbage_collector(service: str, kind: str) -> None:
    """Python drops a KeyboardInterrupt that comes while a collection frees a thread, which runs code of Python."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for count in (1, 5, 20):
            with fp.Loader(chain(kind, Ledger(), POLICIES["skip"]), SERVICES[service](), shards=3) as loader:
                assert sum(1 for _ in itertools.islice(loader, count)) == count
        gc.collect()
        assert not [thread for thread in gc.garbage if isinstance(thread, threading.Thread)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("kind", ["plain", "prefetch", "calls", "async"])
def test_workers_end_their_runs(kind: str) -> None:
    """A worker whose run was left makes the next one."""

    class NoLedger(Ledger):
        def __init__(self) -> None:
            pass

        def enter(self) -> None:
            pass

        leave = enter

    with fp.Loader(chain(kind, NoLedger(), POLICIES["skip"]), workers=2, shards=3) as loader:
        first = [row for row, _ in zip(loader, range(5), strict=False)]
        loader.set_epoch(0)
        assert [row for row, _ in zip(loader, range(5), strict=False)] == first


def test_a_coroutine_that_cancels_itself_is_a_failed_row() -> None:
    async def cancelled(row: int) -> int:
        if row % 2:
            raise asyncio.CancelledError
        return row

    pipe = fp.from_sequence(range(6)).map(cancelled, concurrency=2, on_error="skip")
    assert list(pipe) == [0, 2, 4]
    with pytest.raises(RowError):
        list(fp.from_sequence(range(6)).map(cancelled, concurrency=2))


def test_generators_are_closed_by_their_run_inputs_first() -> None:
    """Python drops a KeyboardInterrupt of a generator that the garbage collector ends."""
    ended = []

    def end(name: str) -> None:
        ended.append(name)
        raise KeyboardInterrupt

    def rows() -> Iterator[int]:
        try:
            yield from range(ROWS)
        finally:
            end("source")

    @fp.operator
    def same(rows: Iterator[int]) -> Iterator[int]:
        try:
            yield from rows
        finally:
            end("operator")

    def items(row: int) -> Iterator[int]:
        try:
            yield from [row] * 10_000
        finally:
            end("items")

    loader = fp.Loader(same(fp.from_iterable(rows)).flat_map(items).batch(2))
    assert next(iter(loader)) == [0, 0]
    with pytest.raises(KeyboardInterrupt):
        loader.close()
    assert ended == ["items", "source", "operator"]


@pytest.mark.parametrize("leave", [lambda p: p.take(3), lambda p: p.take_while(lambda row: row < 3)])
def test_an_input_that_is_left_early_is_closed(leave: Callable[[fp.Pipe[int]], fp.Pipe[int]]) -> None:
    def rows() -> Iterator[int]:
        try:
            yield from range(ROWS)
        finally:
            raise KeyboardInterrupt

    with fp.Loader(leave(fp.from_iterable(rows))) as loader, pytest.raises(KeyboardInterrupt):
        list(loader)
    others = leave(fp.from_iterable(range(ROWS)))
    for joined in (others.zip(fp.from_iterable(rows)), others.mix(fp.from_iterable(rows), stop="first")):
        with fp.Loader(joined) as loader, pytest.raises(KeyboardInterrupt):
            list(loader)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("concurrency", [{}, {"concurrency": 2}])
def test_an_interrupt_inside_of_numpy_is_no_failed_row(policy: str, concurrency: dict[str, Any]) -> None:
    """Code in C that a KeyboardInterrupt ends raises a SystemError because of it."""

    def interrupted(row: int) -> int:
        if row == 3:
            raise SystemError("returned a result with an exception set") from KeyboardInterrupt()
        return row

    pipe = fp.from_sequence(range(6)).map(interrupted, **concurrency, **POLICIES[policy])
    for rows in (iter(pipe), iter(fp.Loader(pipe))):
        taken = []
        with pytest.raises(KeyboardInterrupt):
            for row in rows:
                taken.append(row)
        assert taken == [0, 1, 2][: len(taken)]


@pytest.mark.parametrize("pipe", [lambda p: p, lambda p: p.map(abs, concurrency=2)])
def test_an_interrupt_is_raised_at_once(pipe: Callable[[fp.Pipe[int]], fp.Pipe[int]]) -> None:
    """It does not wait for the turn of the row before which it came: the consumer may never ask for that."""

    def rows() -> Iterator[int]:
        yield from range(4)
        raise KeyboardInterrupt

    iterator = iter(pipe(fp.from_iterable(rows)))
    with pytest.raises(KeyboardInterrupt):
        for _ in range(4):
            next(iterator)
