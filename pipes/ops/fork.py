"""`fork` and `route`: several pipes of one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from ..core.block import Block
from ..core.checks import check_bytes, check_callable, check_int
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.graph import walk
from ..core.operator import Input, Order, StageView, Trait
from ..core.process import bytes_text
from ..core.rows import BlockRows, Indices
from ..engine.calls import map_until_error
from ..engine.sharing import AllRows, LagError, SharedRuns, round_key_of
from ..engine.stage import Stage
from ..errors import LimitError, UnfitError
from ._filter_rows import FilterResult, FilterRows
from ._shared import PassThrough

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


@dataclass(frozen=True, eq=False, repr=False)
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
            yield from runs.read(AllRows(self.branch), at, map(AllRows, self._branches(stage)), context)
        except LagError as lag:
            raise LimitError(
                f"`{call_code(self)}`: branch {lag.reader} is {lag.rows} rows behind branch {self.branch}, and these "
                f"rows take {bytes_text(lag.bytes)}; read both at one pace, such as with `zip`, raise `limit=`, or let "
                "each read the input by itself, without `fork`",
                at=stage.call_site,
            ) from None

    def _runs(self, stage: StageView, context: Context) -> BranchRuns | None:
        """Return the runs that the branches share; None if the graph has no other branch."""
        source, branches = stage.input, self._branches(stage)
        if len(branches) == 1:
            return None
        key = ("fork", id(source), self.count, context.shard)
        limit = check_bytes("limit", self.limit)
        return context.process.resources.get(key, lambda: BranchRuns(source, branches, limit))

    def _branches(self, stage: StageView) -> set[int]:
        """Return the branches of the graph that read from the input of `stage`."""
        return stage.memo("branches", lambda: {op.branch for op in self._forks(cast("Stage", stage))})

    def _forks(self, stage: Stage) -> Iterator[ForkBranch]:
        source = stage.node.inputs[0]
        for node in walk(stage.root):
            if isinstance(node.op, ForkBranch) and node.inputs[0] is source and node.op.count == self.count:
                yield node.op


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


@dataclass(frozen=True, eq=False, repr=False)
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


class BranchRuns(SharedRuns):
    """The runs of one input that the branches of one shard share, and the rows that one of them asked for last."""

    def __init__(self, source: Input, branches: Collection[int], limit: int) -> None:
        super().__init__(source, limit)
        self._input = source
        self._branches = frozenset(branches)
        self._asked: tuple[object, BlockRows, set[int]] | None = None

    def rows(self, branch: int, indices: Indices, context: Context) -> BlockRows:
        """Return the rows at `indices`; they are made once if the branches ask for the same, one after the other."""
        request = round_key_of(context), indices if isinstance(indices, range) else indices.tobytes()
        with self._lock:
            if self._asked is not None and self._asked[0] == request and branch in self._asked[2]:
                _, rows, waiting = self._asked
                waiting.discard(branch)
                if not waiting:
                    self._asked = None
                return rows
        rows = self._input.rows(indices, context)
        with self._lock:
            self._asked = request, rows, set(self._branches - {branch})
        return rows

    def close(self) -> None:
        self._asked = None
        super().close()
