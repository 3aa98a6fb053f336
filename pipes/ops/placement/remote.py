"""`remote`: the place up to which workers run a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.graph import find_remote
from ...core.operator import Boundary, Order, StageView
from ...errors import PlanError, with_call_site
from ._pass_through import PassThrough

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Remote(PassThrough):
    """Passes all rows on. It is streamed, so that services ask workers for rows in order only."""

    kind: ClassVar[str] = "remote"
    order: ClassVar[Order] = Order.ROW_LOCAL
    boundary: ClassVar[Boundary | None] = Boundary.WORKERS

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return False

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        remote = context.process.remote
        return stage.input.blocks(at, context) if remote is None else remote(stage, at, context)


def remote(pipe: Pipe[T], /) -> Pipe[T]:
    """Let workers run the pipe up to here, and the training process the rest.

    By default, workers run all of a pipe, and send its elements. With this operator, `MultiProcess` and `Ray` run only
    what stands before it. What comes after it stays in the training process: it may use a model, a lock or an open file
    there, and rows that are cheaper to make than to send need not be sent. `InProcess` and `Threads` run everything in
    one process anyway. All four give the same elements in the same order, and their states fit each other.

    Element, order, length and state are the input's; streamed.

    Raises:
        PlanError: it stands twice on one path.

    Example:
        >>> import feedpipe as fp
        >>> total = []
        >>> pipe = fp.from_sequence(range(4)).map(lambda x: x * x).remote().map(lambda x: total.append(x) or x)
        >>> with fp.Loader(pipe, workers=2, shards=1) as loader:
        ...     list(loader)
        [0, 1, 4, 9]
        >>> total
        [0, 1, 4, 9]
    """
    if find_remote(pipe) is not None:
        raise PlanError(
            with_call_site(
                "`remote()` must not stand twice on one path, because what comes after the first one runs in the "
                "training process; remove one of the two"
            )
        )
    return pipe.then(Remote())
