"""`fork`: several branches that share one run of what stands before them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from ...core.block import Block
from ...core.checks import check_bytes, check_int
from ...core.code import call_code
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.graph import walk
from ...core.memory import bytes_text
from ...core.operator import Order, StageView
from ...core.rows import BlockRows, Indices
from ...engine.stage import Stage
from ...errors import LimitError, with_call_site
from ..placement._pass_through import PassThrough
from ._shared_run import LagError, SharedRuns

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class ForkBranch(PassThrough):
    """Hands everything through; the branches of one graph read their input together."""

    kind: ClassVar[str] = "fork"
    order: ClassVar[Order] = Order.ROW_LOCAL
    transparent: ClassVar[bool] = True

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
                with_call_site(
                    f"`{call_code(self)}`: branch {branch} is {rows} rows behind branch {self.branch}, and these rows "
                    f"take {bytes_text(size)}; read both at one pace, such as with `zip`, raise `limit=`, or let each "
                    "read the input by itself, without `fork`",
                    stage.call_site,
                )
            ) from None

    def _runs(self, stage: StageView, context: Context) -> SharedRuns | None:
        """The runs that the branches share; None if the graph has no other branch."""
        source = stage.input
        branches = stage.memo("branches", lambda: _branches(cast("Stage", stage)))
        if len(branches) == 1:
            return None
        key = ("fork", id(source), self.count, context.shard)
        limit = check_bytes("limit", self.limit)
        return context.process.resources.get(key, lambda: SharedRuns(source, branches, limit))


def _branches(stage: Stage) -> set[int]:
    """The branches that read from the input of `stage`, in the graph that it belongs to."""
    source = stage.node.inputs[0]
    nodes = (node for node in walk(stage.root) if node.inputs and node.inputs[0] is source)
    return {
        node.op.branch
        for node in nodes
        if isinstance(node.op, ForkBranch) and node.op.count == cast("ForkBranch", stage.op).count
    }


def fork(pipe: Pipe[T], /, count: int = 2, *, limit: int | str = "256MiB") -> tuple[Pipe[T], ...]:
    """Give several branches of the pipe that share one run of it if they are read together.

    Element, order and length: the input's, in each branch. Indexed if the input is. State: that of each branch.

    Branches are read together if they come together again, as in `a.zip(b)`: then what stands before the fork runs once
    for all of them, and rows wait for the branches that lag. If the pipe is indexed, rows are made once if the branches
    ask for the same ones, one branch after the other, as `zip` does. Branches in several loaders share nothing: each
    loader runs the pipe by itself. So does a branch that begins when the others are more than `limit` ahead, as in
    `a.concat(b)`, or that resumes behind them. Branches share the rows, so a function must not change a row in place.

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
