"""The engine by itself: how a graph is resolved and bound, and what a stage does for its operator."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import CallSite, Origin
from feedpipe.extensions import (
    START,
    Block,
    BlockRows,
    Context,
    Cursor,
    Indices,
    Input,
    Operator,
    Order,
    Plan,
    Source,
    StageView,
)

from ..support.core import Ahead, Clock, Node, Pacing, ProcessContext, Tracing, names, node_code, walk
from ..support.engine import REQUESTS, Stage, bind, resolve


@dataclass(frozen=True)
class Digits(Source):
    """A source that must be resolved, counts what it is asked, and fails on some rows."""

    kind: ClassVar[str] = "digits"

    count: int = 10
    fails: tuple[int, ...] = ()
    resolved: bool = False

    def resolve(self, stage: StageView) -> Operator:
        return self if self.resolved else replace(self, resolved=True)

    def length(self, stage: StageView) -> int:
        assert self.resolved
        return self.count

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin("digits", index + 1)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        for index in indices:
            if int(index) in self.fails:
                raise ValueError(f"no digit {index}")
        return [int(index) for index in indices]


@dataclass(frozen=True)
class Backwards(Operator):
    """Looks at its input from the end; its rows are traced there."""

    kind: ClassVar[str] = "backwards"
    order: ClassVar[Order] = Order.GLOBAL

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        yield stage.input, (stage.input.length or 0) - 1 - index, context

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return stage.input.rows((stage.input.length or 0) - 1 - np.asarray(indices, np.int64), context)


def digits(**options: object) -> fp.Pipe[int]:
    return fp.Pipe.source(Digits(**options))  # type: ignore[arg-type]


def rows_of(stage: Stage, at: Cursor = START, context: Context | None = None) -> list[object]:
    return [row for block in stage.blocks(at, context or Context()) for row in block.rows]


def test_resolve_keeps_what_is_resolved_and_shares_nodes() -> None:
    source = digits()
    pipe = source.zip(source.map(abs))
    root = resolve(pipe)
    assert sum(isinstance(node.op, Digits) for node in walk(root)) == 1
    assert [node.call_site for node in walk(root)] == [node.call_site for node in walk(pipe)]
    assert resolve(root) is root


def test_bind_gives_one_stage_for_each_node_and_shares_those_of_another_graph() -> None:
    root = resolve(digits().map(abs))
    stages: dict[object, Stage] = {}
    stage = bind(root, stages=stages)  # type: ignore[arg-type]
    assert list(stages) == list(walk(root))
    longer = Node(Backwards(), (root,))
    assert bind(longer, stages=stages).input is stage  # type: ignore[arg-type]
    assert bind(longer).input is not stage


def test_names_that_a_rewrite_must_keep() -> None:
    root = resolve(digits().map(abs))
    assert [names(root)[node] for node in walk(root)] == ["digits-1", "map-1"]
    assert bind(root, {root: "map-7"}).name == "map-7"


def test_length_is_asked_once() -> None:
    asked: list[int] = []

    @dataclass(frozen=True)
    class Counted(Digits):
        def length(self, stage: StageView) -> int:
            asked.append(1)
            return 3

    stage = bind(fp.Pipe.source(Counted()))
    assert not asked and (stage.length, stage.length) == (3, 3) and len(asked) == 1


def test_rounds_that_are_read_in_turn_draw_their_orders_once() -> None:
    """A shuffle behind a `repeat` reads all rounds in turn, each in an order of its own."""
    stage = bind(resolve(fp.from_sequence(range(1000)).shuffle().repeat(40).shuffle()))
    drawn: list[object] = []
    orders = stage.input.input  # of the first shuffle
    original = orders.memo
    orders.memo = lambda key, make: original(key, lambda: (drawn.append(key), make())[1])  # type: ignore[method-assign]
    for _ in range(3):
        stage.rows(range(0, 40_000, 7), Context())
    assert len(drawn) == len(set(drawn)) == 40
    held = sum(value.nbytes for value in orders._memos.values())
    assert 0 < held <= 40 * 4000


def test_large_values_are_remembered_for_a_few_keys_only() -> None:
    stage, made = bind(resolve(digits())), []
    for key in (0, 1, 2, 3, 0, 4, 4, 0):
        stage.memo(key, lambda key=key: made.append(key))
    assert made == [0, 1, 2, 3, 4, 0]


@pytest.mark.parametrize("position", [0, 1, 9, 10, 12])
def test_an_indexed_stage_goes_on_at_any_position(position: int) -> None:
    stage = bind(resolve(digits()))
    assert rows_of(stage, START.advance(position)) == list(range(position, 10))


def test_an_operator_that_does_not_seek_gets_no_skip() -> None:
    given: list[Cursor] = []

    @dataclass(frozen=True)
    class Streamed(Operator):
        kind: ClassVar[str] = "streamed"
        order: ClassVar[Order] = Order.ROW_LOCAL

        def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
            given.append(at)
            return stage.input.blocks(at, context)

    stage = bind(resolve(digits().then(Streamed())))
    assert rows_of(stage, Cursor(None, 4)) == [4, 5, 6, 7, 8, 9] and given == [START]


def test_rows_before_a_failing_one_come_first() -> None:
    stage = bind(resolve(digits(fails=(5,))))
    got: list[object] = []
    with pytest.raises(ValueError, match="no digit 5"):
        for block in stage.blocks(START, Context()):
            got += block.rows
    assert got == [0, 1, 2, 3, 4]


def test_a_failure_that_does_not_come_again_is_raised() -> None:
    stops: list[int] = []

    @dataclass(frozen=True)
    class Once(Digits):
        def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
            if len(indices) > 1 and not stops:
                stops.append(int(indices[-1]) + 1)
                raise ValueError("once")
            return super().rows(stage, indices, context)

    stage = bind(resolve(fp.Pipe.source(Once())))
    got: list[object] = []
    with pytest.raises(ValueError, match="once"):
        for block in stage.blocks(START, Context()):
            got += block.rows
    assert got == [*range(stops[0])]


def test_a_row_is_traced_to_its_origin() -> None:
    stage = bind(resolve(digits().then(Backwards()).map(abs).slice(1, None, 2)))
    assert stage.origin(0, Context()) == Origin("digits", 9)
    assert [
        row for block in stage.blocks(START, Context(tracing=Tracing(origins=True))) for row in block.origins or ()
    ] == [Origin("digits", number) for number in (9, 7, 5, 3, 1)]
    assert bind(resolve(digits().batch(4))).origin(1, Context()) == Origin("digits", 5)
    assert bind(resolve(digits().concat(digits(count=3)))).origin(12, Context()) == Origin("digits", 3)
    assert bind(resolve(digits().repeat(2))).origin(12, Context()) == Origin("digits", 3)


def test_a_source_without_addresses() -> None:
    @dataclass(frozen=True)
    class Nowhere(Operator):
        kind: ClassVar[str] = "nowhere"

        def length(self, stage: StageView) -> int:
            return 2

        def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
            return [None for _ in indices]

    stage = bind(fp.Pipe.source(Nowhere()).map(str))  # type: ignore[arg-type]
    assert stage.origin(1, Context()) is None
    assert "on" not in str(stage.failed_at(ValueError("x"), 1, Context())).split()


@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_names_operator_row_and_line(streamed: bool) -> None:
    pipe = digits().then(Backwards())
    pipe = (pipe.filter(lambda row: True) if streamed else pipe).map(str)
    stage = bind(resolve(pipe))
    error = ValueError("bad")
    row_error = stage.failed(error, START.advance(2), Context())
    if not streamed:
        assert str(stage.failed_at(error, 2, Context())) == str(row_error)
    assert row_error.__cause__ is error
    assert str(row_error).startswith("`.map(str)` failed with ValueError: bad\n  on digits, row 8\n  at ")
    assert stage.failed(row_error, START, Context()) is row_error


@dataclass(frozen=True)
class Remote(Digits):
    """Its rows wait for storage: work can start before they are asked for."""

    kind: ClassVar[str] = "remote"

    def ahead(self) -> Ahead:
        return REQUESTS

    def begin(self, stage: StageView, indices: Indices, context: Context) -> list[Fetch]:
        return [Fetch(int(index)) for index in indices]

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        works = context.take_started(stage.name, indices)
        return [
            (int(index), isinstance(work, Fetch) and work.started) for index, work in zip(indices, works, strict=True)
        ]


class Fetch:
    def __init__(self, index: int) -> None:
        self.index = index
        self.started = False

    def start(self) -> bool:
        self.started = True
        return True

    def is_done(self) -> bool:
        return self.started

    def cancel(self) -> None:
        pass


def test_work_is_started_early_for_all_rows_but_the_first_ones() -> None:
    stage = bind(resolve(fp.Pipe.source(Remote(20)).then(Backwards())))
    assert [source.op.kind for source in stage.begins] == ["remote"]
    rows = rows_of(stage)
    assert [row[0] for row in rows] == list(range(19, -1, -1))  # type: ignore[index]
    assert [row[1] for row in rows][2:] == [True] * 18  # type: ignore[index]
    without = Context(process=ProcessContext(threads=False))
    assert rows_of(stage, context=without) == [(index, False) for index in range(19, -1, -1)]


def test_what_regroups_or_is_read_whole_reads_no_rows_ahead() -> None:
    remote: fp.Pipe[object] = fp.Pipe.source(Remote(20))
    assert not bind(resolve(remote.batch(2))).begins and not bind(resolve(remote.load())).begins
    assert not bind(resolve(digits())).begins


def test_the_tracer_follows_each_row() -> None:
    events: list[object] = []

    class Tracer:
        def enter(self, operator: str, call_site: CallSite | None, origin: Origin | None = None) -> None:
            assert call_site is not None and call_site.file.endswith("test_stage.py")
            events.append((operator, origin and origin.row))

        def leave(self, origin: Origin | None) -> None:
            events.append(origin and origin.row)

    stage = bind(resolve(digits(count=2).map(abs)))
    context = Context(tracing=Tracing(origins=True, tracer=Tracer()))
    assert rows_of(stage, context=context) == [0, 1]
    source = node_code(next(walk(stage.node)))
    assert events == [event for row in (1, 2) for event in ((".map(abs)", row), (source, row), row, row)]


def test_other_shards_and_epochs_begin_with_the_size_of_block_that_was_found() -> None:
    class Stopped(Clock):
        def now(self) -> float:
            return 0.0

    plan = Plan(fp.from_sequence(range(2000)).filter(bool), seed=0, rank=0, world_size=1, shards=2)

    def sizes(shard: int) -> list[int]:
        rows = plan.shard_stage(shard).input
        return [len(block) for block in rows.blocks(START, Context(pacing=Pacing(clock=Stopped())))]

    assert sizes(0) == [1, 8, 64, 512, 415]
    assert sizes(1) == sizes(0) == [1000]


def test_blocks_may_be_cut() -> None:
    stage = bind(resolve(digits()))
    context = Context(pacing=Pacing(cut=lambda length: [1] * length))
    assert [len(block) for block in stage.blocks(START, context)] == [1] * 10


@dataclass(frozen=True)
class Listed(Digits):
    """Counts how often it is resolved, under which names; the first time may fail."""

    names: tuple[list[str], ...] = ([],)
    failures: tuple[list[Exception], ...] = ([],)

    def resolve(self, stage: StageView) -> Operator:
        self.names[0].append(stage.name)
        if self.failures[0]:
            raise self.failures[0].pop()
        return replace(self, resolved=True)


def test_a_pipe_is_resolved_once_for_all_its_uses() -> None:
    op = Listed(names=([],))
    source: fp.Pipe[int] = fp.Pipe.source(op)
    pipe = source.batch(2)
    assert len(pipe) == 5
    assert len(list(fp.Loader(pipe))) == len(list(fp.Loader(pipe, seed=1))) == 5
    pipe.explain()
    assert len(source) == len(list(source.shuffle())) == 10
    assert len(list(fp.Loader(source.concat(source)))) == 20
    assert op.names[0] == ["digits-1"]
    assert resolve(pipe).inputs[0] is resolve(source)


def test_a_pipe_is_resolved_anew_under_another_name() -> None:
    # Draws depend on names, and the first file may be drawn.
    op = Listed(names=([],))
    source: fp.Pipe[int] = fp.Pipe.source(op)
    zipped = fp.from_sequence(range(10)).zip(source)
    assert len(source) == len(zipped) == len(source.batch(1)) == 10
    assert op.names[0] == ["digits-1", "digits-1@1", "digits-1"]


def test_a_failed_resolve_is_tried_again() -> None:
    source: fp.Pipe[int] = fp.Pipe.source(Listed(failures=([OSError("away")],)))
    with pytest.raises(OSError, match="away"):
        len(source)
    assert len(source) == 10


def test_resolved_pipes_are_freed_at_once() -> None:
    gc.disable()
    try:
        pipe = fp.Pipe.source(Listed()).batch(2)
        plain = fp.from_sequence(range(4)).shuffle()
        nodes = [weakref.ref(node) for root in (pipe, resolve(pipe), plain, resolve(plain)) for node in walk(root)]
        del pipe, plain
        assert [node() for node in nodes] == [None] * 8
        ahead = bind(resolve(fp.Pipe.source(Remote())))
        assert ahead.begins == {ahead}
        stage = weakref.ref(ahead)
        del ahead
        assert stage() is None
    finally:
        gc.enable()
