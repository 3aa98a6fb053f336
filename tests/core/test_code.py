"""Operators as code: what `repr` prints makes the same pipe again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

import feedpipe as fp
from feedpipe.extensions import START, Block, BlockRows, Context, Cursor, Indices, Operator, Order, StageView


@dataclass(frozen=True)
class EverySecond(Operator):
    """Give every second row, from row `first` on."""

    kind: ClassVar[str] = "every_second"
    order: ClassVar[Order] = Order.GLOBAL

    first: int = 0

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        for position, row in enumerate(row for block in stage.input.blocks(START, context) for row in block.rows):
            if position >= self.first and (position - self.first) % 2 == 0:
                number = (position - self.first) // 2
                yield Block([row], START.advance(number), START.advance(number + 1))


@dataclass(frozen=True)
class Joined(Operator):
    """Give the rows of all inputs, one input after the other, each with a label."""

    kind: ClassVar[str] = "zip"  # the name of another operator's method
    order: ClassVar[Order] = Order.GLOBAL

    label: str
    weights: object = None
    notes: list[str] = field(default_factory=list, kw_only=True)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        number = 0
        for source in stage.inputs:
            for block in source.blocks(START, context):
                rows = [(self.label, row) for row in block.rows]
                yield Block(rows, START.advance(number), START.advance(number + len(rows)))
                number += len(rows)


@dataclass(frozen=True)
class CountFrom(Operator):
    """Give `count` numbers from `start` on."""

    kind: ClassVar[str] = "count_from"
    order: ClassVar[Order] = Order.GLOBAL

    start: int
    count: int = field(kw_only=True)

    def indexed(self, inputs: object) -> bool:
        return True

    def length(self, stage: StageView) -> int:
        return self.count

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return [self.start + int(index) for index in indices]


def inverse(number: float) -> float:
    return 1 / number


NAMES = {"fp": fp, "EverySecond": EverySecond, "Joined": Joined, "CountFrom": CountFrom, "inverse": inverse}


def counted(count: int = 9) -> fp.Pipe[int]:
    return fp.Pipe.source(CountFrom(3, count=count))


@pytest.mark.parametrize(
    ("pipe", "code"),
    [
        (counted(), "fp.Pipe.source(CountFrom(3, count=9))"),
        (fp.from_sequence([4, 5, 6]).then(EverySecond()), "fp.from_sequence([4, 5, 6]).then(EverySecond())"),
        (counted().then(EverySecond(first=1)).batch(2), None),
        (counted(2).then(Joined("a", notes=["b"]), counted(3), fp.from_sequence([1]).skip(1)), None),
        (counted(2).zip(counted(2).then(EverySecond(1))).repeat(2), None),
    ],
)
def test_operators_of_other_packages_are_printed_as_code_that_runs(pipe, code):
    assert code is None or repr(pipe) == code
    again = eval(repr(pipe), NAMES)
    assert repr(again) == repr(pipe) and list(again) == list(pipe)


def test_a_kind_that_is_also_a_method_is_no_method():
    """`Joined` says that it is a `zip`; the method `zip` would make another operator."""
    assert ".then(Joined('a'))" in repr(fp.from_sequence([1]).then(Joined("a")))


def test_a_subclass_of_an_operator_of_ours_is_another_operator():
    operator = fp.from_sequence([1]).take(1).op

    class First(type(operator)):
        """Like `take`, but not what `take()` makes."""

    assert repr(fp.from_sequence([1]).then(First(1))) == "fp.from_sequence([1]).then(First(1))"


def test_errors_show_the_same_calls():
    class Failing(Joined):
        def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
            raise stage.failed(ValueError("no"), START, context)
            yield

    with pytest.raises(fp.RowError, match=r"^`\.then\(Failing\('a'\)\)` failed with ValueError: no"):
        list(counted().then(Failing("a")))
    with pytest.raises(TypeError, match=r"because of `\.then\(EverySecond\(\)\)`;"):
        len(counted().then(EverySecond()).map(inverse))
    with pytest.raises(TypeError, match=r"and `\.then\(EverySecond\(\)\)` is streamed"):
        counted().then(EverySecond())[0]
