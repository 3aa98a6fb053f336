"""`run_shards`: how one process or thread runs its parts of a plan, one element of each shard in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from ..core.block import Block, close
from ..core.block_size import AdaptiveBlockSize, BlockSize, Clock, OneRow
from ..core.context import Context, Pacing, ProcessContext, ProcessResources, RowsRequest, Tracer, Tracing
from ..core.cursor import START, Cursor, Json
from ..core.meter import Meter
from ..core.signals import raised_by_signal_handler
from ..engine.run import empty_block
from ..errors import FeedpipeError, StateError
from ..plan.plan import Plan, Position, ShardRun
from .base import ShardEnd, Step


class Mode(NamedTuple):
    """How to run, as far as the plan does not say it; `Context` explains the values."""

    block_sizes: Callable[[Clock], BlockSize] = AdaptiveBlockSize
    threads: bool = True
    tracer: Tracer | None = None
    dispatched: Callable[[RowsRequest], Iterator[Block]] | None = None
    remote: Callable[[object, Cursor, Context], Iterator[Block]] | None = None
    before_block: Callable[[], None] | None = None


DEFAULT = Mode()
DEBUG = Mode(OneRow, threads=False)


def turn_order(cursors: Mapping[int, Cursor]) -> list[int]:
    """The shards in the order of their turns: fewest elements first, then by number."""
    return sorted(cursors, key=lambda shard: (cursors[shard].position, shard))


def run_shards(
    plan: Plan,
    parts: Sequence[ShardRun],
    epoch: int,
    mode: Mode,
    resources: ProcessResources,
    shards: tuple[int, ...] = (),
) -> Generator[Step | ShardEnd, None, list[ShardEnd]]:
    """The elements of all parts, one of each in turn, and the end of each shard.

    Args:
        plan, parts, epoch: what to run.
        mode: how to run it.
        resources: what all shards of the process share; the caller closes them.
        shards: those of the process, if other threads run some of them.

    Returns:
        The ends of all shards.
    """
    by_shard = {part.shard: part for part in parts}
    numbers = shards or tuple(by_shard)
    running: list[_Shard] = []
    ends: list[ShardEnd] = []
    try:
        for number in turn_order({number: part.at for number, part in by_shard.items()}):
            part = by_shard[number]
            resumed = part.at != START or number == plan.tail_shard
            context = shard_context(plan, part, numbers, epoch, mode, resources)
            running.append(_Shard(part, context, mode.before_block, resumed=resumed))
        turns = deque(running)
        while turns:
            shard = turns.popleft()
            step = shard.step()
            if step is not None:
                yield step
                del step
                turns.append(shard)
                continue
            ends.append(shard.end(plan.tail_name))
            yield ends[-1]
    finally:
        for shard in running:
            shard.close()
    return ends


class BeginParts(Protocol):
    """Is told what runs next: the shards of a rank, and then their tail."""

    def __call__(self, position: Position, parts: list[ShardRun], *, in_tail: bool) -> None: ...


def run_rank(
    plan: Plan,
    position: Position,
    epoch: int,
    mode: Mode,
    resources: ProcessResources,
    begin_parts: BeginParts | None = None,
) -> Generator[Step | ShardEnd]:
    """The elements of all shards of the rank from a position on, and then of the tail."""
    parts = plan.parts(position)
    if begin_parts is not None:
        begin_parts(position, parts, in_tail=False)
    ends = yield from run_shards(plan, parts, epoch, mode, resources)
    position = position.after({end.shard: end.leftover for end in ends})
    tail = plan.tail(position, {end.shard: end.rows for end in ends if end.rows is not None})
    if tail is not None:
        if begin_parts is not None:
            begin_parts(position, [tail], in_tail=True)
        yield from run_shards(plan, [tail], epoch, mode, resources)


def shard_context(
    plan: Plan, part: ShardRun, shards: tuple[int, ...], epoch: int, mode: Mode, resources: ProcessResources
) -> Context:
    return Context(
        seed=plan.seed,
        epoch=epoch,
        shard=None if plan.indexed else part.shard,
        pacing=Pacing(mode.block_sizes),
        process=ProcessContext(shards, resources, mode.dispatched, mode.threads, len(plan.rank_shards), mode.remote),
        tracing=Tracing(origins=mode.tracer is not None, tracer=mode.tracer),
        meter=None if plan.indexed else Meter(part.marks),
    )


_NO_ROW = object()


class _Shard:
    """The elements of one shard, each with the cursor after it."""

    def __init__(
        self, part: ShardRun, context: Context, before_block: Callable[[], None] | None, *, resumed: bool
    ) -> None:
        self._number = part.shard
        self._begins_by_cursor = resumed
        self._context = context
        self._before_block = before_block
        self._blocks = part.stage.blocks(part.at, context)
        self._rows: Iterator[object] = iter(())
        self._block: Block | None = None
        self._at = part.at  # the cursor of the next block
        self._marks: list[Json] = []  # of what the run had opened when it made the block
        self._taken = 0
        context.pacing.clock.leave()

    def close(self) -> None:
        close(self._blocks)

    def end(self, tail_name: str | None) -> ShardEnd:
        """The end of the shard, after the last step."""
        leftover = self._context.leftovers.get(tail_name or "")
        if leftover is None:
            return ShardEnd(self._number)
        return ShardEnd(self._number, leftover.at.plain, leftover.rows)

    def step(self) -> Step | None:
        """The next element, or None after the last one."""
        row = next(self._rows, _NO_ROW)
        if row is _NO_ROW:
            self._block, self._rows = None, iter(())  # frees the old block before there is a new one
            if self._before_block is not None:
                self._before_block()
            self._context.pacing.clock.enter()
            self._block = self._next_block()
            self._context.pacing.clock.leave()
            if self._block is None:
                return None
            self._taken = 0
            if self._context.meter is not None:
                self._marks = [self._context.meter.marks]
            self._rows = iter(self._block.rows)
            row = next(self._rows, _NO_ROW)
            if row is _NO_ROW:
                raise empty_block()
        block = self._block
        assert block is not None, "a row belongs to a block"
        self._taken += 1
        if self._taken == len(block.rows):
            return Step(row, self._number, [*block.end, *self._marks])
        token, skip, first = block.at
        return Step(row, self._number, [token, skip + self._taken, first, *self._marks])

    def _next_block(self) -> Block | None:
        try:
            block = next(self._blocks, None)
        except FeedpipeError as error:
            error.place = self._number, self._at.plain
            raise
        except Exception as error:
            if not self._begins_by_cursor or raised_by_signal_handler(error):
                raise
            # A function of the user fails with a `FeedpipeError`, so this is a cursor that does not fit the pipe.
            raise StateError(
                f"`position` of the state does not fit this pipe: shard {self._number} cannot begin there: {error!r}"
            ) from error
        self._begins_by_cursor = False
        if block is not None:
            self._at = block.end
        return block
