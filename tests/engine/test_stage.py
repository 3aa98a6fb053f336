"""The engine by itself: how a graph is resolved and bound, and what a stage does for its operator."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

import feedpipe as fp
from feedpipe.errors import Origin
from feedpipe.extensions import BlockRows, Context, Indices, Operator, Source, StageView

from ..support.core import walk
from ..support.engine import bind, resolve


@dataclass(frozen=True)
class Listed(Source):
    """A source that must be resolved, counts how often it is, and under which names; the first time may fail."""

    kind: ClassVar[str] = "digits"

    names: tuple[list[str], ...] = ([],)
    failures: tuple[list[Exception], ...] = ([],)
    resolved: bool = False

    def resolve(self, stage: StageView) -> Operator:
        self.names[0].append(stage.name)
        if self.failures[0]:
            raise self.failures[0].pop()
        return replace(self, resolved=True)

    def length(self, stage: StageView) -> int:
        assert self.resolved
        return 10

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin("digits", index + 1)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return [int(index) for index in indices]


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
        ahead = bind(resolve(fp.from_sequence(range(4)).map(abs, concurrency=2)))
        assert ahead.begins == {ahead}
        stage = weakref.ref(ahead)
        del ahead
        assert stage() is None
    finally:
        gc.enable()
