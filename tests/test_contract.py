"""The contract of operators: what is refused, where the chain is written, and in which words."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import cloudpickle
import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, PlanError
from feedpipe.extensions import Block, BlockRows, Context, Cursor, Indices, Operator, Order, StageView

from .support.core import MAX_DEPTH

HERE = r"(.|\n)*\n  at .*test_contract\.py:\d+$"


class Blocks(Operator):
    """Hands rows on. What the tests leave out is left out on top of this."""

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return stage.input.blocks(at, context)


@dataclass(frozen=True)
class Complete(Blocks):
    kind: ClassVar[str] = "complete"
    order: ClassVar[Order] = Order.ROW_LOCAL
    seeks: ClassVar[bool] = True


@pytest.fixture
def pipe() -> fp.Pipe[int]:
    return fp.from_sequence(range(5))


def test_an_operator_that_says_all_is_taken(pipe: fp.Pipe[int]) -> None:
    for _ in range(2):
        chain: fp.Pipe[int] = pipe.then(Complete())
        assert list(chain) == list(range(5))
        assert list(pickle.loads(cloudpickle.dumps(chain))) == list(range(5))


def test_what_is_no_operator(pipe: fp.Pipe[int]) -> None:
    with pytest.raises(ArgumentTypeError, match="must be an operator but got one of type int; derive" + HERE):
        pipe.then(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"got the class `Complete`; call it: `Complete\(\.\.\.\)`" + HERE):
        pipe.then(Complete)  # type: ignore[arg-type]


def test_no_dataclass(pipe: fp.Pipe[int]) -> None:
    class Plain(Blocks):
        kind: ClassVar[str] = "plain"
        order: ClassVar[Order] = Order.ROW_LOCAL

    for _ in range(2):
        with pytest.raises(
            ArgumentTypeError, match=r"`Plain` must be a frozen dataclass.*@dataclass\(frozen=True\)" + HERE
        ):
            pipe.then(Plain())


def test_no_kind(pipe: fp.Pipe[int]) -> None:
    @dataclass(frozen=True)
    class Nameless(Blocks):
        order: ClassVar[Order] = Order.ROW_LOCAL

    with pytest.raises(ArgumentTypeError, match=r"`Nameless` must have a `kind`.*set `kind = " + HERE):
        pipe.then(Nameless())
    with pytest.raises(ArgumentTypeError, match="`Nameless` must have a `kind`" + HERE):
        fp.Pipe.source(Nameless())


@dataclass(frozen=True)
class Mirrored(Operator):
    kind: ClassVar[str] = "mirrored"
    order: ClassVar[Order] = Order.GLOBAL

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        length = stage.input.length or 0
        return stage.input.rows(np.array([length - 1 - int(index) for index in indices]), context)


@dataclass(frozen=True)
class Endless(Operator):
    kind: ClassVar[str] = "endless"

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return list(indices)


def test_indexed_with_a_length_that_is_none() -> None:
    @dataclass(frozen=True)
    class Vague(Endless):
        kind: ClassVar[str] = "vague"

        def length(self, stage: StageView) -> int | None:
            return None

    vague: fp.Pipe[int] = fp.Pipe.source(Vague())
    for look in (lambda: vague.head(3), lambda: vague[0], lambda: len(vague), lambda: vague.batch(2).head(1)):
        with pytest.raises(PlanError, match=r"`Pipe\.source\(Vague\(\)\)` gives rows by position.*`length`" + HERE):
            look()


def test_a_subclass_that_is_not_decorated_may_not_add_fields(pipe: fp.Pipe[int]) -> None:
    class Renamed(Complete):
        kind: ClassVar[str] = "renamed"

    assert list(pipe.then(Renamed())) == list(range(5))

    class Derived(Complete):
        def __init__(self, extra: int) -> None:
            self.extra = extra

    with pytest.raises(ArgumentTypeError, match="`Derived` must be a frozen dataclass" + HERE):
        pipe.then(Derived(1))


@pytest.mark.parametrize("length", [-1, 2.5, "3"])
def test_a_length_that_is_no_number_of_rows(pipe: fp.Pipe[int], length: object) -> None:
    @dataclass(frozen=True)
    class Mistaken(Mirrored):
        kind: ClassVar[str] = "mistaken"

        def length(self, stage: StageView) -> int | None:
            return length  # type: ignore[return-value]

    mistaken: fp.Pipe[int] = pipe.then(Mistaken())
    with pytest.raises(PlanError, match=r"`length` of `\.then\(.*\)` must be an int >= 0, or None, but is:" + HERE):
        list(mistaken)


def test_blocks_that_returns_no_iterator(pipe: fp.Pipe[int]) -> None:
    @dataclass(frozen=True)
    class Listed(Complete):
        def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
            return list(stage.input.blocks(at, context))  # type: ignore[return-value]

    with pytest.raises(PlanError, match=r"must return an iterator of blocks but returned a value of type list" + HERE):
        list(pipe.then(Listed()))


def test_an_empty_block_is_no_end(pipe: fp.Pipe[int]) -> None:
    @dataclass(frozen=True)
    class Emptied(Complete):
        def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
            for block in stage.input.blocks(at, context):
                yield Block([], block.at, block.at)

    emptied: fp.Pipe[int] = pipe.then(Emptied())
    for run in (lambda: list(emptied), lambda: list(fp.Loader(emptied))):
        with pytest.raises(PlanError, match="a block must have rows"):
            run()


def test_operators_in_a_row_are_counted_where_the_chain_is_written() -> None:
    pipe: fp.Pipe[int] = fp.from_sequence(range(3)).filter(lambda n: True)
    while pipe.depth < MAX_DEPTH:
        pipe = pipe.filter(lambda n: True)
    loader = fp.Loader(pipe)
    elements = iter(loader)
    next(elements)
    resumed = fp.Loader(pipe)
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == [1, 2]
    with pytest.raises(PlanError, match=r"`\.take\(1\)` is operator 151 in a row, and 150 are most.*\n  at .*py:"):
        pipe.take(1)
