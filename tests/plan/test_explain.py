"""The text of `explain()`: look-back, remarks, and inputs that several shards read."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

import feedpipe as fp
from feedpipe.extensions import Operator, Order

from ..support.engine import resolve
from ..support.operators import PassThrough
from ..support.plan import explained


def lines(pipe: fp.Pipe[object], *, world_size: int = 1, workers: int = 0, shards: int | None = None) -> list[str]:
    return explained(resolve(pipe), world_size=world_size, workers=workers, shards=shards).splitlines()


def add(x: int) -> int:
    return x + 1


def streamed() -> fp.Pipe[int]:
    return fp.from_sequence(range(20)).filter(lambda x: True)


@dataclasses.dataclass(frozen=True)
class Window(PassThrough):
    """Looks back at 1,000 rows."""

    kind: ClassVar[str] = "window"
    order: ClassVar[Order] = Order.ROW_LOCAL

    def lookback(self) -> int:
        return 1000


@dataclasses.dataclass(frozen=True)
class GlobalWindow(Window):
    order: ClassVar[Order] = Order.GLOBAL


@pytest.mark.parametrize("op", [Window(), GlobalWindow()])
def test_look_back_is_shown_whatever_the_order(op: Operator) -> None:
    resume = next(line for line in lines(streamed().then(op).batch(4)) if line.startswith("resume"))
    assert resume == "resume: runs again at most 1000 rows of `window`, 4 rows of `batch`, one block, in each shard"


def test_the_rows_that_windows_hold() -> None:
    def windows(pipe: fp.Pipe[object], **options: int) -> list[str]:
        return [line for line in lines(pipe, **options) if line.startswith("memory")]

    pipe = streamed().shuffle(window=10)
    assert windows(pipe, world_size=2) == [
        "memory: a rank holds up to 10 rows for `shuffle(window=10)`, divided among 8 shards"
    ]
    assert windows(pipe, shards=1) == [
        "memory: a rank holds up to 10 rows for `shuffle(window=10)`, divided among 1 shard"
    ]
    assert windows(streamed()) == windows(fp.from_sequence(range(20)).shuffle()) == []


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({"world_size": 2}, "2 times"),
        ({"workers": 3, "shards": 3}, "3 times"),
        ({"workers": 3, "shards": 2}, "2 times"),
        ({"shards": 3}, "once, by this process"),
    ],
)
def test_how_often_a_shared_input_is_read(options: dict[str, int], times: str) -> None:
    line = f"several shards read: the rows of `take` cannot be divided without reading all of them; it is read {times}"
    assert line in lines(streamed().take(3), **options)


def tree(pipe: fp.Pipe[object]) -> list[str]:
    """The lines of the operators, without the places where rows are divided."""
    return [line for line in lines(pipe) if line.startswith("  ") and " -- " not in line]


def test_further_inputs_stand_behind_a_bar() -> None:
    source = fp.from_sequence(range(3))
    assert tree(source.filter(bool).concat(source.map(str)).batch(2)) == [
        "  from_sequence(range(0, 3))    3 indexed",
        "  .filter(bool)                 ? streamed",
        "  | from_sequence(range(0, 3))  the one above",
        "  | .map(str)                   3 indexed",
        "  .concat()                     ? streamed",
        "  .batch(2)                     ? streamed",
    ]


def test_how_even_the_ranks_are():
    pipe = fp.from_sequence(range(21)).batch(4)
    assert "ranks: 3 elements each" in lines(pipe, world_size=2)
    assert "ranks: 1 to 2 elements each" in lines(pipe, world_size=4)
    assert not any(line.startswith("ranks:") for line in lines(pipe))
    (ranks,) = (line for line in lines(streamed().map(add), world_size=2) if line.startswith("ranks:"))
    assert ranks.startswith("ranks: their lengths are not known before a run, because of `.filter(")
    assert ranks.endswith("so they need a process group, `steps=` or `even=None`")
