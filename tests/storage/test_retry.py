"""Retries: when, how often, and after which pauses."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from ..support.storage import RetryPolicy


class Time:
    """A clock that moves only during pauses and the calls that move it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float, cancellation: object) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def policy(self, **options: Any) -> RetryPolicy:
        return RetryPolicy(clock=lambda: self.now, sleep=self.sleep, draw=lambda: 0.5, **options)


def failing(count: int, took: Callable[[], None] = lambda: None) -> Callable[[], str]:
    left = [RESET] * count

    def call() -> str:
        took()
        if left:
            raise left.pop()
        return "done"

    return call


RESET = ConnectionResetError("reset")


def test_pauses_grow_up_to_the_longest() -> None:
    time = Time()
    policy = time.policy(max_attempts=8, first_pause=1.0, max_pause=10.0)
    assert policy.run(failing(7), "s3://data/a") == "done"
    assert time.pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert policy.counts == {"s3://data": 7}


def test_time_is_bounded() -> None:
    time = Time()

    def took() -> None:
        time.now += 25

    with pytest.raises(OSError, match=r"^reset; 3 attempts in 75.3 s$"):
        time.policy(max_attempts=100).run(failing(9, took), "a")


def test_a_cancellation_ends_the_pause() -> None:
    cancellation: SimpleQueue[None] = SimpleQueue()
    cancellation.put(None)
    calls = []

    def call() -> None:
        calls.append(0)
        raise RESET

    with pytest.raises(OSError, match="1 attempts"):
        RetryPolicy(first_pause=1e6).run(call, "a", cancellation)
    cancellation.get()

    def end() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            cancellation.put(None)
        raise RESET

    policy = RetryPolicy(draw=lambda: 0.0)  # the real pause, with length 0
    with pytest.raises(OSError, match="2 attempts"):
        policy.run(end, "a", cancellation)
    assert calls == [0, 1, 2]
    assert not cancellation.empty()  # other calls share it
