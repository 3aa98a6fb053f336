"""`check_operator` refuses operators whose shards together do not give the rows of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.extensions import Block, Context, Cursor, Indices, Operator, Order, Rows, StageView
from feedpipe.testing import check_operator


@dataclass(frozen=True)
class Difference(Operator):
    """Subtracts the row before, which it looks up by position: right for an indexed pipe that is not sharded."""

    kind: ClassVar[str] = "difference"
    order: ClassVar[Order] = Order.ROW_LOCAL

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> list[int]:
        here = stage.input.rows(indices, context)
        before = stage.input.rows(np.maximum(np.asarray(indices) - 1, 0), context)
        return [a - b for a, b in zip(here, before, strict=True)]


@dataclass(frozen=True)
class StreamedDifference(Operator):
    """Subtracts the row before; the token holds that row."""

    kind: ClassVar[str] = "difference"
    order: ClassVar[Order] = Order.ROW_LOCAL

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source, last = (Cursor.of(at.token[0]), at.token[1]) if isinstance(at.token, list) else (Cursor.of(None), 0)
        row = at.row
        for block in stage.input.blocks(source, context):
            for k, value in enumerate(block.rows):
                here = Cursor([block.at.advance(k).plain, last], 0, row)
                row, before, last = row + 1, last, value
                after = block.at.advance(k + 1) if k + 1 < len(block) else block.end
                yield Block([value - before], here, Cursor([after.plain, last], 0, row))


def numbers() -> fp.Pipe[int]:
    return fp.from_sequence([k * k for k in range(20)])


def streamed() -> fp.Pipe[int]:
    return numbers().filter(lambda x: True)


def draw(x: int, rng: np.random.Generator) -> tuple[int, int]:
    return x, int(rng.integers(10**9))


@pytest.mark.parametrize(
    "pipe", [streamed().then(StreamedDifference()), numbers().then(Difference())], ids=["streamed", "indexed"]
)
def test_an_operator_that_looks_at_its_neighbours_and_says_row_local_is_refused(pipe):
    with pytest.raises(
        AssertionError,
        match=r"Difference\(\)\)?` declares `Order.ROW_LOCAL`, but 2 shards together give the row .* where one run "
        r"without shards gives .*; .* must declare `Order.GLOBAL`",
    ):
        check_operator(pipe)


def test_a_wrong_number_of_rows_is_refused_even_where_rows_are_drawn():
    @dataclass(frozen=True)
    class First(Operator):
        kind: ClassVar[str] = "first"
        order: ClassVar[Order] = Order.ROW_LOCAL

        def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
            context.key(stage.name)
            if at.row == 0:
                inner = context.part()
                blocks = stage.input.blocks(Cursor.of(None), inner)
                block = next(blocks)
                inner.running.close()
                yield Block([block.rows[0]], Cursor(None, 0, 0), Cursor(None, 0, 1))

    with pytest.raises(AssertionError, match="2 shards together give 2 rows, and one run without shards gives 1"):
        check_operator(streamed().then(First()))


@pytest.mark.parametrize("source", [numbers, streamed])
def test_keyed_draws_may_differ_between_shards(source):
    assert len(check_operator(source().map(draw, rng=True))) == 20
    assert len(check_operator(source().map(lambda x: (x, np.random.rand()), rng="global"))) == 20


@pytest.mark.parametrize("source", [numbers, streamed])
def test_an_operator_behind_keyed_draws_is_checked_on_their_rows(source):
    check_operator(source().map(draw, rng=True).filter(lambda row: row[1] % 2))
    check_operator(source().map(draw, rng=True).repeat(2))
    with pytest.raises(AssertionError, match=r"must declare `Order.GLOBAL`"):
        check_operator(
            source().map(draw, rng=True).map(lambda row: row[1]).filter(lambda x: True).then(StreamedDifference())
        )


@pytest.mark.parametrize("size", [1, 3, 7, 30])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("source", [numbers, streamed])
def test_groups_are_compared_by_their_rows(source, size, drop_last):
    check_operator(source().batch(size, drop_last=drop_last), samples=2)
    if source is streamed:
        check_operator(source().shuffle(window=4).batch(size, drop_last=drop_last), samples=2)


@dataclass(frozen=True)
class Counted(Operator):
    """Counts its rows up, in place."""

    kind: ClassVar[str] = "counted"
    order: ClassVar[Order] = Order.ROW_LOCAL

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> list[object]:
        rows = list(stage.input.rows(indices, context))
        for row in rows:
            row["n"] += 1
        return rows


def test_an_operator_that_changes_its_input_rows_is_refused():
    with pytest.raises(AssertionError, match=r"`\.then\(Counted\(\)\)` from .*: row 0 is {'n': .*} and should be"):
        check_operator(fp.from_dataset([{"n": k} for k in range(20)]).then(Counted()))


@dataclass(frozen=True)
class Returning(Counted):
    """Returns what a function makes of its input rows."""

    kind: ClassVar[str] = "returning"
    function: Callable[[list[object]], object]

    def rows(self, stage: StageView, indices: Indices, context: Context) -> list[object]:
        return self.function(list(stage.input.rows(indices, context)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (tuple, "must produce its rows as a list or as `Rows` but produced a value of type tuple"),
        (np.asarray, "must produce its rows as a list or as `Rows` but produced a value of type ndarray"),
        (lambda rows: rows[1:], r"must return one row for each index but returned \d+ rows for \d+ ind"),
        (lambda rows: Rows({"a": np.zeros(len(rows)), "b": np.zeros(3)}), "must produce columns of 1 rows each"),
    ],
)
def test_rows_of_another_type_or_number_are_refused(function, message):
    with pytest.raises(AssertionError, match=message):
        check_operator(numbers().then(Returning(function)))


@dataclass(frozen=True)
class Tokens(Operator):
    """Hands rows on, with tokens that a function makes of a cursor of its input."""

    kind: ClassVar[str] = "tokens"
    order: ClassVar[Order] = Order.ROW_LOCAL
    function: Callable[[Cursor], object]

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        for block in stage.input.blocks(Cursor.of(at.token), context):
            here, row = row, row + len(block)
            yield Block(block.rows, Cursor(self.function(block.at), 0, here), Cursor(self.function(block.end), 0, row))


def test_tokens_must_be_plain_json():
    check_operator(streamed().then(Tokens(lambda cursor: cursor.plain)))
    with pytest.raises(AssertionError, match=r"a cursor that JSON changes .*make tokens of `cursor\.plain`"):
        check_operator(streamed().then(Tokens(lambda cursor: cursor)))
    with pytest.raises(AssertionError, match="a cursor that is no plain JSON: .*int64"):
        check_operator(streamed().then(Tokens(lambda cursor: [cursor.token, np.int64(cursor.skip), cursor.row])))


@dataclass(frozen=True)
class FirstBlock(Operator):
    """Gives one block, and leaves its input there."""

    kind: ClassVar[str] = "first_block"
    order: ClassVar[Order] = Order.GLOBAL

    closes: bool

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        if at.row or at.token is not None:
            return
        inner = context.part() if self.closes else context
        blocks = stage.input.blocks(Cursor.of(None), inner)
        try:
            for block in blocks:
                rows = block.rows[:1]
                yield Block(rows, Cursor(None, 0, 0), Cursor("over", 0, len(rows)))
                return
        finally:
            if self.closes:
                inner.running.close()


def test_an_operator_closes_an_input_that_it_leaves():
    source = fp.from_sequence(range(9)).filter(lambda x: True)
    assert check_operator(source.then(FirstBlock(True))) == [0]
    with pytest.raises(
        AssertionError, match=r"`.then\(FirstBlock\(False\)\)` has left its input to the garbage collector"
    ):
        check_operator(source.then(FirstBlock(False)))
