"""Operators of several inputs: the length of an input's blocks does not depend on the time that the others take."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import feedpipe as fp

from ...support.core import AdaptiveBlockSize, times

INPUTS, ROWS = 60, 3000


def source() -> fp.Pipe[int]:
    return fp.from_iterable(range(ROWS))


WAYS: dict[str, Callable[[], fp.Pipe[Any]]] = {
    "mix": lambda: source().mix(*(source() for _ in range(INPUTS - 1)), random=True),
    "round_robin": lambda: source().round_robin(*(source() for _ in range(INPUTS - 1))),
    "interleave": lambda: fp.from_sequence(range(INPUTS)).interleave(lambda _: source(), cycle=INPUTS),
    "zip": lambda: source().zip(*(source() for _ in range(INPUTS - 1))),
    "zip_longest": lambda: source().zip_longest(*(source() for _ in range(INPUTS - 1))),
}


@pytest.mark.parametrize("way", WAYS)
def test_many_inputs_give_long_blocks(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = AdaptiveBlockSize.produced

    def produced(self: Any, rows: Any) -> None:
        sizes.append(len(rows))
        original(self, rows)

    ticks = count(step=20_000)  # each look at the clock takes 20 us
    monkeypatch.setattr(times, "clock", lambda: next(ticks))
    monkeypatch.setattr(AdaptiveBlockSize, "produced", produced)
    assert sum(1 for _ in WAYS[way]()) in (INPUTS * ROWS, ROWS)
    assert len(sizes) < 20 * INPUTS
