"""`InProcess`: runs a plan in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from ..block import Block, close
from ..context import Context, Shared
from ..pace import Clock, GrowingPace, SinglePace
from ..plan.plan import Part, Plan, Position, ShardState
from ..rows import RowList
from .base import Ended, Step


@dataclass(frozen=True)
class InProcess:
    """Runs a pipe in this process.

    Args:
        debug: everything in the calling thread, one row at a time: breakpoints work, and an error comes at its row.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.Loader(fp.from_sequence("ab"), fp.InProcess(debug=True)))
        ['a', 'b']
    """

    debug: bool = False

    @property
    def workers(self) -> int:
        return 0

    def open(self, plan: Plan, position: Position, epoch: int) -> InProcessSession:
        return InProcessSession(plan, position, epoch, debug=self.debug)


_NONE = object()


class InProcessSession:
    """One run in this process. It ends when it is closed or dropped; closing waits for its threads."""

    def __init__(self, plan: Plan, position: Position, epoch: int, *, debug: bool) -> None:
        turns = _Turns(plan, position, epoch, debug=debug)
        self._shared = turns.shared
        self._steps = turns.run()  # holds the turns, and they not it: a dropped session is freed at once

    def __iter__(self) -> Iterator[Step | Ended]:
        return self._steps

    def close(self) -> None:
        self._steps.close()
        self._shared.join()


class _Turns:
    """Shards take turns: the one that has given fewest elements comes next, by number where several have."""

    def __init__(self, plan: Plan, position: Position, epoch: int, *, debug: bool) -> None:
        self._plan = plan
        self._parts = plan.parts(position)
        self._states = dict(position.shards)
        self._held: dict[int, RowList] = {}
        self._position = position
        self._epoch = epoch
        self._debug = debug
        self.shared = Shared()

    def run(self) -> Generator[Step | Ended]:
        shards = tuple(part.shard for part in self._parts)
        running = [_Shard(part, self._context(part, shards)) for part in self._parts]
        try:
            yield from self._in_turn(running)
            tail = self._plan.tail(self._position._replace(shards=self._states), self._held)
            if tail is not None:
                last = _Shard(tail, self._context(tail, ()))
                running.append(last)
                while (step := last.step()) is not None:
                    yield step
                yield Ended(tail.shard, None)
        finally:
            for shard in running:
                shard.close()
            self.shared.close()

    def _in_turn(self, running: list[_Shard]) -> Iterator[Step | Ended]:
        turns = deque(sorted(running, key=lambda shard: (shard.part.at.position, shard.part.shard)))
        while turns:
            shard = turns.popleft()
            step = shard.step()
            if step is not None:
                yield step
                turns.append(shard)
                continue
            number = shard.part.shard
            block = shard.context.leftovers.get(self._plan.tail_name or "")
            if block is not None:
                self._held[number] = block.rows
            leftover = None if block is None else block.at.plain
            self._states[number] = ShardState(None, True, leftover)
            yield Ended(number, leftover)

    def _context(self, part: Part, shards: tuple[int, ...]) -> Context:
        return Context(
            seed=self._plan.seed,
            epoch=self._epoch,
            shard=None if self._plan.indexed else part.shard,
            shards=shards,
            paces=SinglePace if self._debug else GrowingPace,
            clock=Clock(),
            threads=not self._debug,
            leftovers={},
            shared=self.shared,
        )


class _Shard:
    """The elements of one shard, each with the cursor after it."""

    def __init__(self, part: Part, context: Context) -> None:
        self.part = part
        self.context = context
        self._blocks = part.stage.blocks(part.at, context)
        self._rows: Iterator[object] = iter(())
        self._block: Block | None = None
        self._taken = 0
        context.clock.leave()

    def close(self) -> None:
        close(self._blocks)

    def step(self) -> Step | None:
        row = next(self._rows, _NONE)
        if row is _NONE:
            self._block, self._rows = None, iter(())  # free the old block before a new one is made
            self.context.clock.enter()
            self._block = next(self._blocks, None)
            self.context.clock.leave()
            if self._block is None:
                return None
            self._taken = 0
            self._rows = iter(self._block.rows)
            row = next(self._rows)
        block = self._block
        assert block is not None, "there are rows"
        self._taken += 1
        if self._taken == len(block.rows):
            return Step(row, self.part.shard, block.end.plain)
        token, skip, first = block.at
        return Step(row, self.part.shard, [token, skip + self._taken, first])
