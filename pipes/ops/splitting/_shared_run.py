"""`SharedRuns`: one run of an input, read by several branches of a graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from threading import RLock
from typing import NamedTuple

from ...core.block import Block, close
from ...core.block_size import Clock
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Input
from ...core.row_bytes import nbytes
from ...core.rows import BlockRows, Indices


class Lag(NamedTuple):
    """How far a branch is behind the one that asks for rows now."""

    branch: int
    rows: int
    bytes: int


class LagError(Exception):
    """A branch lags so far that its rows exceed the limit."""

    def __init__(self, lag: Lag) -> None:
        self.lag = lag


class SharedRuns:
    """The runs of one input that the branches of one shard share.

    One run is enough, unless a branch resumes from a row that the run of the others has passed.
    """

    def __init__(self, source: Input, branches: Collection[int], limit: int) -> None:
        self._source = source
        self._branches = frozenset(branches)
        self._limit = limit
        self._lock = RLock()  # the garbage collector may close a branch while its thread holds the lock
        self._runs: list[_SharedRun] = []
        self._asked: tuple[object, BlockRows, set[int]] | None = None

    def read(self, branch: int, at: Cursor, context: Context) -> Iterator[Block]:
        """The rows of the input from `at` on, for one branch."""
        round_key = _round_key(context)
        with self._lock:
            # Rows of another round that wait for a branch wait in vain.
            self._runs = [run for run in self._runs if run.begun or run.round_key == round_key]
            run = next(
                (run for run in self._runs if run.round_key == round_key and run.serves(branch, at.position)), None
            )
            if run is None:
                others = [other for other in self._runs if other.round_key == round_key]
                for other in others:
                    if branch not in other.begun:  # else it is read twice, as in `pipe.zip(pipe)`
                        other.leave(branch)
                begun = {number for other in others for number in other.begun}
                run = _SharedRun(
                    self._source, at, context, {branch, *(self._branches - begun)}, self._limit, self._lock
                )
                self._runs.append(run)
            run.begun.add(branch)
        try:
            yield from run.read(branch, at.position)
        finally:
            with self._lock:
                run.leave(branch)
                if run.is_over and run in self._runs:
                    self._runs.remove(run)

    def rows(self, branch: int, indices: Indices, context: Context) -> BlockRows:
        """The rows at `indices`. If the branches ask for the same rows, one after the other, they are made once."""
        request = _round_key(context), indices if isinstance(indices, range) else indices.tobytes()
        with self._lock:
            if self._asked is not None and self._asked[0] == request and branch in self._asked[2]:
                _, rows, waiting = self._asked
                waiting.discard(branch)
                if not waiting:
                    self._asked = None
                return rows
        rows = self._source.rows(indices, context)
        with self._lock:
            self._asked = request, rows, set(self._branches - {branch})
        return rows

    def close(self) -> None:
        """Ends all runs. A thread may still be reading; its run is then freed with this object."""
        self._asked = None
        if self._lock.acquire(blocking=False):
            try:
                for run in self._runs:
                    run.close()
            finally:
                self._lock.release()


class _SharedRun:
    """One run. Each branch has a queue for the blocks that it has not asked for yet."""

    def __init__(
        self, source: Input, at: Cursor, context: Context, branches: Collection[int], limit: int, lock: RLock
    ) -> None:
        self._clock = Clock()
        self._blocks = source.blocks(at, context.with_clock(self._clock))
        self._clock.leave()
        self._first = at.position
        self.round_key = _round_key(context)
        self._limit = limit
        self._lock = lock
        self._error: BaseException | None = None
        self._queues: dict[int, deque[tuple[Block, int]]] = {branch: deque() for branch in branches}
        self._bytes = dict.fromkeys(branches, 0)
        self.begun: set[int] = set()

    def serves(self, branch: int, position: int) -> bool:
        """Whether the run has all rows from a position on for a branch that has not begun."""
        return branch in self._queues and branch not in self.begun and self._first <= position

    @property
    def is_over(self) -> bool:
        """Whether no branch reads it any more, or may begin to."""
        return not self._queues

    def leave(self, branch: int) -> None:
        """The branch reads no further."""
        self.begun.discard(branch)
        self._queues.pop(branch, None)

    def close(self) -> None:
        close(self._blocks)

    def read(self, branch: int, position: int) -> Iterator[Block]:
        while (block := self._next(branch)) is not None:
            skipped = position - block.at.position
            if skipped < len(block):
                yield block.slice(max(0, skipped), len(block))

    def _next(self, branch: int) -> Block | None:
        with self._lock:
            queue = self._queues[branch]
            if not queue:
                if self._error is not None:  # else a failed run would look like the end to the other branches
                    raise self._error
                block = self._produce()
                if block is None:
                    return None
                self._keep(block)
                self._check(branch)
            block, size = queue.popleft()
            self._bytes[branch] -= size
            return block

    def _produce(self) -> Block | None:
        self._clock.enter()
        try:
            return next(self._blocks, None)
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._clock.leave()

    def _keep(self, block: Block) -> None:
        size = nbytes(block.rows)
        for branch, queue in self._queues.items():
            queue.append((block, size))
            self._bytes[branch] += size

    def _check(self, reading: int) -> None:
        """Refuses a branch that lags too far. One that has not begun has its own run, if it ever begins."""
        for branch in [branch for branch in self._queues if branch != reading and self._bytes[branch] > self._limit]:
            if branch not in self.begun:
                self.leave(branch)
                continue
            rows = sum(len(block) for block, _ in self._queues[branch])
            self._error = LagError(Lag(branch, rows, self._bytes[branch]))
            raise self._error


def _round_key(context: Context) -> tuple[object, ...]:
    """Rows of one key are the same in each branch."""
    return context.seed, context.epoch, context.rounds
