"""`dispatch`: where one process produces for all workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Boundary, Operator, Order

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Dispatch(Operator):
    """Hands everything through; a plan deals the rows only behind it, and a service reads them in one process."""

    kind: ClassVar[str] = "dispatch"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True
    boundary: ClassVar[Boundary | None] = Boundary.ONE_PROCESS

    def length(self, stage: Stage) -> int | None:
        return stage.input.length

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        return stage.input.blocks(at, context)

    def remark(self) -> str:
        return "made in one process for all workers of a rank"


def dispatch(pipe: Pipe[T], /) -> Pipe[T]:
    """Run everything up to here once, in one process, and deal its rows to the workers in order.

    For a source that cannot be cut, such as one huge gzip file, a socket or a generator: without this operator each
    worker reads all of it and keeps its share. With `MultiProcess` one more process reads for all workers of the rank;
    each rank still reads by itself. In this process nothing changes. Element, order, length and state are the input's.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_iterable(lambda: iter(range(6))).dispatch().map(lambda x: x * x).batch(2)
        >>> list(pipe)
        [[0, 1], [4, 9], [16, 25]]
    """
    return pipe.then(Dispatch())
