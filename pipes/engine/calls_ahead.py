"""Calls ahead: functions of the next rows are called, several at a time, while the current row is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol, cast

import numpy as np

from ..core.block import Block
from ..core.context import Context, StartedKey, Work
from ..core.operator import Input, Operator, StageView
from .call_pool import AheadLimit


class _Calling(Input, StageView, Protocol):
    """A stage, as far as calling ahead needs it."""

    @property
    def calls_ahead(self) -> int: ...


class _Call(NamedTuple):
    """A row of a stage whose function is called ahead."""

    stage: _Calling
    row: int
    context: Context

    @property
    def key(self) -> StartedKey:
        return self.context.started_key(self.stage, self.row)


def call_ahead(
    stage: _Calling, indices: range, context: Context, make_block: Callable[[int, Context], Block]
) -> Generator[Block, None, None]:
    """The rows at `indices` of an indexed stage, a block each; the calls for the next rows are begun.

    Calls are begun for several rows together, so that their inputs are read together. At least one row is prepared
    ahead, even if it alone needs more calls than may be made ahead.
    """
    limit = AheadLimit(stage.calls_ahead, context)
    context = replace(context, started={})
    rows: deque[tuple[int, list[StartedKey]]] = deque()  # with the calls of each
    works: dict[StartedKey, Work] = {}
    begun = 0
    remaining = iter(indices)
    try:
        while True:
            if begun <= limit.calls * 3 // 4:
                calls: list[_Call] = []
                while begun < limit.calls or len(rows) < 2:
                    index = next(remaining, None)
                    if index is None:
                        break
                    own = list(_calls(stage, index, context))
                    rows.append((index, [call.key for call in own]))
                    calls.extend(own)
                    begun += max(1, len(own))
                works |= _start(calls)
            if not rows:
                return
            index, keys = rows.popleft()
            begun -= max(1, len(keys))
            context.started.update((key, works.pop(key)) for key in keys if key in works)
            block = [make_block(index, context)]
            context.started.clear()
            limit.measure(block[0].rows, max(1, len(keys)))
            yield block.pop()
    finally:
        for work in works.values():
            work.cancel()


def _calls(stage: _Calling, index: int, context: Context) -> Iterator[_Call]:
    """The calls that row `index` of a stage needs; none if it cannot be traced, for then `rows` raises the error."""
    if stage.op.calls_ahead():
        yield _Call(stage, index, context)
    elif stage.calls_ahead and type(stage.op).origin is Operator.origin:
        with suppress(Exception):
            for source, row, inner in stage.op.reads(stage, index, context):
                yield from _calls(cast("_Calling", source), row, inner)


def _start(calls: list[_Call]) -> dict[StartedKey, Work]:
    """Begins calls, those of one stage together. None for rows that cannot be read: `rows` raises their error."""
    groups: dict[tuple[object, ...], dict[int, _Call]] = {}
    for call in calls:
        context = call.context
        group = call.stage, context.seed, context.epoch, context.rounds, context.shard
        groups.setdefault(group, {})[call.row] = call
    works: dict[StartedKey, Work] = {}
    for together in groups.values():
        first = next(iter(together.values()))
        with suppress(Exception):
            started = first.stage.op.start_calls(first.stage, np.array(list(together)), first.context)
            works.update(zip((call.key for call in together.values()), started, strict=True))
    return works
