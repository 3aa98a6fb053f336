"""`dispatch`: one process produces the rows for all workers of a rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.graph import find_remote
from ...core.operator import Boundary, Order, StageView
from ...errors import PlanError, with_call_site
from .._same_rows import SameRows
from ..grouping._tokens import CursorOfInput

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Dispatch(CursorOfInput, SameRows):
    """Passes all rows on. A plan shards only after it, and a service runs what stands before it in one process."""

    kind: ClassVar[str] = "dispatch"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True
    boundary: ClassVar[Boundary | None] = Boundary.ONE_PROCESS

    def moves_skipped(self) -> bool:
        return True

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return stage.input.blocks(at, context)

    def remark(self, stage: StageView) -> str:
        return "runs in one process for all workers of a rank"


def dispatch(pipe: Pipe[T], /) -> Pipe[T]:
    """Run everything before this operator in one process, which sends each worker its rows.

    It is meant for a source that cannot be split, such as one huge gzip file, a socket or a generator. Without it, each
    worker reads the whole source and keeps only its own rows. With it, `MultiProcess` starts one more process, which
    reads the source once for all workers of the rank; each rank still reads by itself. Without workers it does nothing.
    Element, order, length and state are the input's; streamed.

    Raises:
        PlanError: it stands behind `remote()`.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_iterable(lambda: iter(range(6))).dispatch().map(lambda x: x * x).batch(2)
        >>> list(pipe)
        [[0, 1], [4, 9], [16, 25]]
    """
    if find_remote(pipe) is not None:
        raise PlanError(
            with_call_site(
                "`dispatch()` must stand before `remote()`, because what comes after that runs in the training process "
                "alone; swap the two, or leave out `dispatch()`"
            )
        )
    return pipe.then(Dispatch())
