"""Calls ahead: functions of the next rows are called, several at a time, while the current row is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol, cast

import numpy as np

from ..core.block import Block
from ..core.block_size import BlockSize
from ..core.context import Call, Context, StartedKey
from ..core.operator import Input, Operator, StageView
from ..core.rows import BlockRows
from .call_pool import AheadLimit

MAX_ROWS_TRACED = 8192
"""About so many rows are traced ahead to find the next that have calls."""


class _Calling(Input, StageView, Protocol):
    """A stage, as far as calling ahead needs it."""

    @property
    def calls_ahead(self) -> int: ...

    def block(self, start: int, stop: int, context: Context) -> Block: ...

    def one_by_one(self, indices: range, context: Context, error: Exception) -> Iterator[Block]: ...


class _PlannedCall(NamedTuple):
    """A row of a stage whose function is called ahead."""

    stage: _Calling
    row: int
    context: Context

    @property
    def key(self) -> StartedKey:
        return self.context.started_key(self.stage, self.row)


def call_ahead(
    stage: _Calling, indices: range, context: Context, block_size: BlockSize
) -> Generator[Block, None, None]:
    """The rows at `indices` of an indexed stage; the calls for the next rows are begun.

    Calls are begun for several rows together, so that their inputs are read together. At least one row is prepared
    ahead, even if it alone needs more calls than may be made ahead. A block waits only for the calls of its first row;
    its further rows have no calls, or finished ones. These are a quarter of the calls at most, so that others still run
    while the consumer has the block.
    """
    context = replace(context, started={})
    calls = _CallsAhead(stage, indices, context)
    start = indices.start
    try:
        while start < indices.stop:
            calls.begin()
            # A unit that is handed out is gone for other shards, so it comes alone.
            stop, count, started = calls.take(start + (1 if stage.op.hands_out else block_size.rows()))
            context.started.update(started)
            block: list[Block] = []
            failure: list[Exception] = []
            try:
                block.append(stage.block(start, stop, context))
            except Exception as error:
                if stop - start == 1:
                    raise
                failure.append(error)
            if failure:  # not within `except`, as in `Stage`
                context.started.update(started)  # their results serve again, so no function is called twice
                yield from stage.one_by_one(range(start, stop), context, failure.pop())
            context.started.clear()
            del started  # only the consumer holds results now
            block_size.produced(block[0].rows)
            calls.measure(block[0].rows, count)
            yield block.pop()
            start = stop
    finally:
        calls.cancel()


class _CallsAhead:
    """The calls for the next of the rows at `indices`: begun for some of them, and taken with blocks of rows."""

    def __init__(self, stage: _Calling, indices: range, context: Context) -> None:
        self._stage = stage
        self._indices = indices
        self._context = context
        self._limit = AheadLimit(stage.calls_ahead, context)
        self._first = self._traced = indices.start  # the next row to take, and the next to trace
        self._rows: deque[tuple[int, list[StartedKey]]] = deque()  # rows between them that have calls
        self._calls: dict[StartedKey, Call] = {}
        self._begun = 0

    def begin(self) -> None:
        """Begins the calls that may be made ahead now, if these are more than a few."""
        first, most = self._first, self._limit.calls
        if self._begun > most * 3 // 4 and self._traced - first > 1:
            return
        # Tracing takes time, so it reaches further ahead only when rows have been taken: the first block comes at once.
        end = first + most + min(first - self._indices.start, MAX_ROWS_TRACED)
        calls: list[_PlannedCall] = []
        while self._traced < self._indices.stop:
            if self._traced - first > 1 and (self._begun >= most or self._traced >= end):
                break
            if own := list(_calls(self._stage, self._traced, self._context)):
                self._rows.append((self._traced, [call.key for call in own]))
                self._begun += len(own)
                calls += own
            self._traced += 1
        self._calls |= _start(calls)

    def take(self, stop: int) -> tuple[int, int, dict[StartedKey, Call]]:
        """The end of the next block, at most `stop`; how many calls its rows have; and those of them that are begun."""
        first = self._first
        stop = min(stop, self._traced)
        count = 0
        taken: dict[StartedKey, Call] = {}
        while self._rows and self._rows[0][0] < stop:
            row, keys = self._rows[0]
            calls = {key: self._calls[key] for key in keys if key in self._calls}
            if row > first:
                are_done = len(calls) == len(keys) and all(call.is_done() for call in calls.values())
                if not are_done or count + len(keys) > self._limit.calls // 4:
                    stop = row
                    break
            elif len(calls) < len(keys):
                stop = row + 1
            self._rows.popleft()
            for key in calls:
                del self._calls[key]
            taken |= calls
            count += len(keys)
        self._begun -= count
        self._first = stop
        return stop, count, taken

    def measure(self, rows: BlockRows, count: int) -> None:
        """Adapts how many calls may be made ahead to rows that have so many calls."""
        if count:
            self._limit.measure(rows, count)

    def cancel(self) -> None:
        for call in self._calls.values():
            call.cancel()


def _calls(stage: _Calling, index: int, context: Context) -> Iterator[_PlannedCall]:
    """The calls that row `index` of a stage needs; none if it cannot be traced, for then `rows` raises the error."""
    if stage.op.calls_ahead():
        yield _PlannedCall(stage, index, context)
    elif stage.calls_ahead and type(stage.op).origin is Operator.origin:
        with suppress(Exception):
            for source, row, inner in stage.op.reads(stage, index, context):
                yield from _calls(cast("_Calling", source), row, inner)


def _start(calls: list[_PlannedCall]) -> dict[StartedKey, Call]:
    """Begins calls, those of one stage together. None for rows that cannot be read: `rows` raises their error."""
    groups: dict[tuple[object, ...], dict[int, _PlannedCall]] = {}
    for call in calls:
        context = call.context
        group = call.stage, context.seed, context.epoch, context.rounds, context.shard
        groups.setdefault(group, {})[call.row] = call
    begun: dict[StartedKey, Call] = {}
    for together in groups.values():
        first = next(iter(together.values()))
        with suppress(Exception):
            started = first.stage.op.start_calls(first.stage, np.array(list(together)), first.context)
            begun.update(zip((call.key for call in together.values()), started, strict=True))
    return begun
