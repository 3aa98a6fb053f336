"""Shards take turns: how one process runs its parts of a plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..core.block import Block, close
from ..core.block_size import AdaptiveBlockSize, BlockSize, Clock, OneRow
from ..core.context import Context, ProcessResources, RowsRequest, Tracer
from ..core.cursor import Cursor
from ..plan.plan import Part, Plan
from .base import ShardEnd, Step


class Mode(NamedTuple):
    """How to run: what a context says beside the plan."""

    block_sizes: Callable[[Clock], BlockSize] = AdaptiveBlockSize
    threads: bool = True
    note: Tracer | None = None
    dispatched: Callable[[RowsRequest], Iterator[Block]] | None = None


DEFAULT = Mode()
DEBUG = Mode(OneRow, threads=False)


def turn_order(places: Mapping[int, Cursor]) -> list[int]:
    """Shards in the order of their turns: the one that has given fewest comes first, by number where several have."""
    return sorted(places, key=lambda shard: (places[shard].position, shard))


def run_shards(
    plan: Plan, parts: Sequence[Part], epoch: int, mode: Mode, shared: ProcessResources
) -> Generator[Step | ShardEnd, None, list[ShardEnd]]:
    """The elements of all parts, `in_turn`.

    The caller closes `shared`, of which all shards make use. Returns what the shards said when they ended.
    """
    numbers = tuple(part.shard for part in parts)
    running: list[_Shard] = []
    ended: list[ShardEnd] = []
    try:
        for number in turn_order({part.shard: part.at for part in parts}):
            part = parts[numbers.index(number)]
            running.append(_Shard(part, _context(plan, part, numbers, epoch, mode, shared)))
        waiting = deque(running)
        while waiting:
            shard = waiting.popleft()
            step = shard.step()
            if step is not None:
                yield step
                del step
                waiting.append(shard)
                continue
            ended.append(shard.ended(plan.tail_name))
            yield ended[-1]
    finally:
        for shard in running:
            shard.close()
    return ended


def _context(
    plan: Plan, part: Part, shards: tuple[int, ...], epoch: int, mode: Mode, shared: ProcessResources
) -> Context:
    return Context(
        seed=plan.seed,
        epoch=epoch,
        shard=None if plan.indexed else part.shard,
        shards=shards,
        block_sizes=mode.block_sizes,
        clock=Clock(),
        threads=mode.threads,
        note=mode.note,
        dispatched=mode.dispatched,
        origins=mode.note is not None,
        leftovers={},
        shared=shared,
    )


_NONE = object()


class _Shard:
    """The elements of one shard, each with the cursor after it."""

    def __init__(self, part: Part, context: Context) -> None:
        self._number = part.shard
        self._context = context
        self._blocks = part.stage.blocks(part.at, context)
        self._rows: Iterator[object] = iter(())
        self._block: Block | None = None
        self._taken = 0
        context.clock.leave()

    def close(self) -> None:
        close(self._blocks)

    def ended(self, tail_name: str | None) -> ShardEnd:
        """What to say when there is no further step."""
        left = self._context.leftovers.get(tail_name or "")
        return ShardEnd(self._number) if left is None else ShardEnd(self._number, left.at.plain, left.rows)

    def step(self) -> Step | None:
        row = next(self._rows, _NONE)
        if row is _NONE:
            self._block, self._rows = None, iter(())  # free the old block before a new one is made
            self._context.clock.enter()
            self._block = next(self._blocks, None)
            self._context.clock.leave()
            if self._block is None:
                return None
            self._taken = 0
            self._rows = iter(self._block.rows)
            row = next(self._rows)
        block = self._block
        assert block is not None, "there are rows"
        self._taken += 1
        if self._taken == len(block.rows):
            return Step(row, self._number, block.end.plain)
        token, skip, first = block.at
        return Step(row, self._number, [token, skip + self._taken, first])
