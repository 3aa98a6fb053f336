from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from feedpipe.storage.retry import Retry


class Time:
    """A clock that only pauses move, and those calls that say how long they take."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float, ended: object) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def policy(self, **options: Any) -> Retry:
        return Retry(clock=lambda: self.now, sleep=self.sleep, draw=lambda: 0.5, **options)


def failing(*errors: OSError | None, took: Callable[[], None] = lambda: None) -> Callable[[int], str]:
    left: Iterator[OSError | None] = iter(errors)

    def call(failed: int) -> str:
        took()
        if (error := next(left, None)) is not None:
            raise error
        return f"after {failed}"

    return call


RESET = ConnectionResetError("reset")


def test_pauses_grow_up_to_the_longest() -> None:
    time = Time()
    policy = time.policy(attempts=8, pause=1.0, longest=10.0)
    assert policy.call(failing(*7 * [RESET]), "s3://data/a") == "after 7"
    assert time.pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert policy.counts == {"s3://data": 7}


def test_attempts_are_bounded() -> None:
    time = Time()
    with pytest.raises(OSError, match=r"^reset; 3 attempts in 0.3 s$") as error:
        time.policy(attempts=3).call(failing(*9 * [RESET]), "a")
    assert error.value.__cause__ is RESET
    assert time.pauses == [0.1, 0.2]


def test_time_is_bounded() -> None:
    time = Time()

    def took() -> None:
        time.now += 25

    with pytest.raises(OSError, match=r"^reset; 3 attempts in 75.3 s$"):
        time.policy(attempts=100).call(failing(*9 * [RESET], took=took), "a")


def test_what_does_not_pass_is_raised_at_once() -> None:
    time = Time()
    missing = FileNotFoundError("gone")
    with pytest.raises(FileNotFoundError) as error:
        time.policy().call(failing(RESET, missing), "a")
    assert error.value is missing
    assert time.pauses == [0.1]


def test_the_first_of_a_host_is_logged_and_then_ever_fewer(caplog: pytest.LogCaptureFixture) -> None:
    policy = Time().policy(attempts=1000, seconds=1e9)
    policy.call(failing(*3 * [RESET]), "s3://key:secret@one/a")
    policy.call(failing(RESET), "s3://two/a")
    policy.call(failing(*120 * [RESET]), "s3://key:secret@one/b")
    assert [(record.name, record.levelno, record.getMessage()) for record in caplog.records] == [
        ("feedpipe", logging.WARNING, "s3://***@one/a: reset; trying again"),
        ("feedpipe", logging.WARNING, "s3://two/a: reset; trying again"),
        ("feedpipe", logging.WARNING, "s3://***@one/b: reset; trying again (attempt 10 that is made again there)"),
        ("feedpipe", logging.WARNING, "s3://***@one/b: reset; trying again (attempt 100 that is made again there)"),
    ]
    assert policy.counts == {"s3://***@one": 123, "s3://two": 1}


def test_pauses_are_drawn() -> None:
    draws = {round(Retry().draw(), 6) for _ in range(20)}
    assert len(draws) > 10 and all(0 <= draw < 1 for draw in draws)


def test_who_needs_nothing_any_longer_ends_the_pause() -> None:
    ended: SimpleQueue[None] = SimpleQueue()
    ended.put(None)
    calls = []

    def call(failed: int) -> None:
        calls.append(failed)
        raise RESET

    with pytest.raises(OSError, match="1 attempts"):
        Retry(pause=1e6).call(call, "a", ended)
    ended.get()

    def end(failed: int) -> None:
        calls.append(failed)
        if failed == 0:
            raise RESET
        ended.put(None)
        raise RESET

    policy = Retry(draw=lambda: 0.0)  # the real pause, of no length
    with pytest.raises(OSError, match="2 attempts"):
        policy.call(end, "a", ended)
    assert calls == [0, 0, 1]
    assert not ended.empty()  # for others who share it
