"""`fork`, `route` and `unzip`: several pipes of one."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, cast, overload

import numpy as np

from ..core.block import Block, nbytes
from ..core.checks import check_bytes, check_callable, check_int
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.graph import walk
from ..core.operator import Input, Order, StageView, Trait
from ..core.process import bytes_text
from ..core.rows import BlockRows, Indices
from ..core.times import Clock
from ..engine.calls import map_until_error
from ..engine.stage import Stage
from ..errors import LimitError, UnfitError
from ._filter_rows import FilterResult, FilterRows
from ._shared import PassThrough, data_error
from .map import Map

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def fork(pipe: Pipe[T], /, count: int = 2, *, limit: int | str = "256MiB") -> tuple[Pipe[T], ...]:
    """Give several branches of the pipe that share one run of it if they are read together.

        a b c   ->   fork(2): a b c   and   a b c

    Element, order and length: the input's, in each branch. Indexed if the input is. State: that of each branch.

    Branches are read together if they come together again, as in `a.zip(b)`: then what comes before the fork runs once
    for all of them, and rows wait for the branches that lag. If the pipe is indexed, rows are made once if the branches
    ask for the same ones, one branch after the other, as `zip` does. Branches in several loaders share nothing: each
    loader runs the pipe by itself. So does a branch that begins when the others are more than `limit` ahead, as in
    `a.concat(b)`, or that resumes after them. Branches share the rows, so a function must not change a row in place.

    Args:
        count: the number of branches.
        limit: the number of bytes of rows that may wait for a branch, as an int or a string such as "1GiB".

    Raises:
        ArgumentError: `count` is below 1, or `limit` is no size in bytes.
        LimitError: more rows wait for a branch; the error names the branch that lags, and what the rows take so far.

    Example:
        >>> import feedpipe as fp
        >>> images, labels = fp.from_sequence([(3, "a"), (5, "b")]).filter(bool).fork()
        >>> list(images.map(lambda row: row[0] / 2).zip(labels.map(lambda row: row[1])))
        [(1.5, 'a'), (2.5, 'b')]
    """
    count = check_int("count", count, least=1)
    check_bytes("limit", limit)
    return tuple(pipe.then(ForkBranch(count, limit, branch=branch)) for branch in range(count))


@dataclass(frozen=True)
class ForkBranch(PassThrough):
    """Gives the rows of its input; the branches of one graph read it together."""

    kind: ClassVar[str] = "fork"
    order: ClassVar[Order] = Order.ROW_LOCAL
    trait: ClassVar[Trait | None] = Trait.TRANSPARENT

    count: int = 2
    limit: int | str = "256MiB"
    branch: int = field(kw_only=True, repr=False)

    def call(self) -> str:
        return f"{call_code(self)}[{self.branch}]"

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        runs = self._runs(stage, context)
        return stage.input.rows(indices, context) if runs is None else runs.rows(self.branch, indices, context)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        runs = self._runs(stage, context)
        if runs is None:
            yield from stage.input.blocks(at, context)
            return
        try:
            yield from runs.read(self.branch, at, context)
        except LagError as error:
            branch, rows, size = error.lag
            raise LimitError(
                f"`{call_code(self)}`: branch {branch} is {rows} rows behind branch {self.branch}, and these rows "
                f"take {bytes_text(size)}; read both at one pace, such as with `zip`, raise `limit=`, or let each "
                "read the input by itself, without `fork`",
                at=stage.call_site,
            ) from None

    def _runs(self, stage: StageView, context: Context) -> SharedRuns | None:
        """Return the runs that the branches share; None if the graph has no other branch."""
        source = stage.input
        branches = stage.memo("branches", lambda: _branches(cast("Stage", stage)))
        if len(branches) == 1:
            return None
        key = ("fork", id(source), self.count, context.shard)
        limit = check_bytes("limit", self.limit)
        return context.process.resources.get(key, lambda: SharedRuns(source, branches, limit))


def _branches(stage: Stage) -> set[int]:
    """Return the branches that read from the input of `stage`, in its graph."""
    source = stage.node.inputs[0]
    nodes = (node for node in walk(stage.root) if node.inputs and node.inputs[0] is source)
    return {
        node.op.branch
        for node in nodes
        if isinstance(node.op, ForkBranch) and node.op.count == cast("ForkBranch", stage.op).count
    }


def route(pipe: Pipe[T], /, function: Callable[[T], int], count: int) -> tuple[Pipe[T], ...]:
    """Give each row to one of `count` pipes: to the one whose number `function(row)` returns, from 0.

        a B c D   ->   route(str.isupper, 2): a c   and   B D

    Element: the rows as they are; columns stay columns. Order: the input's. Length: unknown; streamed. State: a
    position in the input. Each pipe reads the input and calls `function` for each row by itself; put `fork` before it,
    or `load`, if that is costly.

    Args:
        function: called once for each row and pipe, so it must not draw at random; True and False are 1 and 0. Its
            errors come with file, line and row (`RowError`).
        count: the number of pipes.

    Raises:
        ArgumentError: `count` is below 1.
        DataError: `function` returns something else than a number of a pipe.

    Example:
        >>> import feedpipe as fp
        >>> even, odd = fp.from_sequence(range(6)).route(lambda x: x % 2, 2)
        >>> list(even), list(odd)
        ([0, 2, 4], [1, 3, 5])
    """
    check_callable("function", function)
    count = check_int("count", count, least=1)
    return tuple(pipe.then(Route(function, count, part=part)) for part in range(count))


@dataclass(frozen=True)
class Route(FilterRows):
    """Gives the rows of one of the pipes."""

    kind: ClassVar[str] = "route"

    function: Callable[[Any], int]
    count: int
    part: int = field(kw_only=True, repr=False)

    def call(self) -> str:
        return f"{call_code(self)}[{self.part}]"

    def identity(self) -> Json:
        return {"part": self.part}

    def select(self, stage: StageView, block: Block, context: Context) -> FilterResult:
        numbers, error = map_until_error(self._number, block.rows, user_function=self.function)
        places = np.flatnonzero(np.array(numbers, np.int64) == self.part)
        return FilterResult(*block.select(places), len(numbers), error)

    def _number(self, row: object) -> int:
        answer: Any = self.function(row)
        try:
            number = operator.index(bool(answer) if isinstance(answer, np.bool_) else answer)
        except TypeError:
            number = -1
        if not 0 <= number < self.count:
            raise UnfitError(
                f"the function must return the number of a pipe, an int from 0 to {self.count - 1}, but returned: "
                f"{answer!r:.80}"
            )
        return number


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


@overload
def unzip(pipe: Pipe[tuple[A, B]], /, count: Literal[2]) -> tuple[Pipe[A], Pipe[B]]: ...
@overload
def unzip(pipe: Pipe[tuple[A, B, C]], /, count: Literal[3]) -> tuple[Pipe[A], Pipe[B], Pipe[C]]: ...
@overload
def unzip(pipe: Pipe[tuple[A, B, C, D]], /, count: Literal[4]) -> tuple[Pipe[A], Pipe[B], Pipe[C], Pipe[D]]: ...
@overload
def unzip(
    pipe: Pipe[tuple[A, B, C, D, E]], /, count: Literal[5]
) -> tuple[Pipe[A], Pipe[B], Pipe[C], Pipe[D], Pipe[E]]: ...
@overload
def unzip(pipe: Pipe[Any], /, count: int) -> tuple[Pipe[Any], ...]: ...
def unzip(pipe: Pipe[Any], /, count: int) -> tuple[Pipe[Any], ...]:
    """Give each item of tuples in a pipe of its own.

        (a 1) (b 2)   ->   unzip(2): a b   and   1 2

    Element: item 0 of each row in the first pipe, item 1 in the second, and so on. Order and length are the input's.
    Indexed if the input is. State: none. Each pipe reads the input by itself; put `fork` before it, or `load`, if that
    is costly.

    Args:
        count: the number of items of each tuple or list, and of pipes.

    Raises:
        ArgumentError: `count` is below 1.
        DataError: a row is no tuple or list, or has another number of items.

    Example:
        >>> import feedpipe as fp
        >>> letters, numbers = fp.from_sequence([("a", 1), ("b", 2)]).unzip(2)
        >>> list(letters), list(numbers)
        (['a', 'b'], [1, 2])
    """
    count = check_int("count", count, least=1)
    return tuple(pipe.then(Unzip(ItemOfTuple(count, number))) for number in range(count))


@dataclass(frozen=True)
class ItemOfTuple:
    """Returns item `number` of a tuple of `count` items."""

    count: int
    number: int

    def __call__(self, row: Any) -> object:
        if not isinstance(row, (tuple, list)):
            raise UnfitError(f"rows must be tuples or lists but one is of type {type(row).__name__}")
        items = cast("tuple[object, ...]", row)
        if len(items) != self.count:
            raise UnfitError(f"rows must have {self.count} items but one has {len(items)}")
        return items[self.number]


@dataclass(frozen=True)
class Unzip(Map):
    """A `map` whose function is an `ItemOfTuple`."""

    kind: ClassVar[str] = "unzip"

    function: Callable[..., object]

    def call(self) -> str:
        item = cast("ItemOfTuple", self.function)
        return f"unzip({item.count})[{item.number}]"

    def identity(self) -> Json:
        return {"call": self.call()}

    def row_error(self, error: Exception) -> Exception:
        return data_error(self, error)


# Runs of an input that several branches of a graph read.


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
        """Give the rows of the input from `at` on to a branch."""
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
                    run.close()

    def rows(self, branch: int, indices: Indices, context: Context) -> BlockRows:
        """Return the rows at `indices`; they are made once if the branches ask for the same, one after the other."""
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
        """End all runs. If a thread is still reading, its run is freed with this object."""
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
        self._clock = Clock(thread=context.pacing.clock.thread)
        self._context = context.with_clock(self._clock)
        self._blocks = source.blocks(at, self._context)
        self._first = at.position
        self.round_key = _round_key(context)
        self._limit = limit
        self._lock = lock
        self._error: BaseException | None = None
        self._queues: dict[int, deque[tuple[Block, int]]] = {branch: deque() for branch in branches}
        self._bytes = dict.fromkeys(branches, 0)
        self.begun: set[int] = set()

    def serves(self, branch: int, position: int) -> bool:
        """Return whether the run has all rows from a position on for a branch that has not begun."""
        return branch in self._queues and branch not in self.begun and self._first <= position

    @property
    def is_over(self) -> bool:
        """Whether no branch reads it, or may begin to."""
        return not self._queues

    def leave(self, branch: int) -> None:
        """End the reading of a branch."""
        self.begun.discard(branch)
        self._queues.pop(branch, None)

    def close(self) -> None:
        self._context.running.close()

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
        try:
            return self._clock.next(self._blocks)
        except BaseException as error:
            self._error = error
            raise

    def _keep(self, block: Block) -> None:
        size = nbytes(block.rows)
        for branch, queue in self._queues.items():
            queue.append((block, size))
            self._bytes[branch] += size

    def _check(self, reading: int) -> None:
        """Raise an error if a branch lags too far. One that has not begun leaves: it gets its own run if it begins."""
        for branch in [branch for branch in self._queues if branch != reading and self._bytes[branch] > self._limit]:
            if branch not in self.begun:
                self.leave(branch)
                continue
            rows = sum(len(block) for block, _ in self._queues[branch])
            self._error = LagError(Lag(branch, rows, self._bytes[branch]))
            raise self._error


def _round_key(context: Context) -> tuple[object, ...]:
    """Return the key of the rows: with equal keys they are the same in each branch."""
    return context.seed, context.epoch, context.rounds
