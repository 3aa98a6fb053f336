"""`enumerate`: rows with their positions."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.block import Block
from ...core.checks import check_int
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Columns, Order, StageView
from ...core.rows import BlockRows, Indices
from ..grouping._tokens import CursorOfInput

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Enumerate(CursorOfInput):
    kind: ClassVar[str] = "enumerate"
    order: ClassVar[Order] = Order.GLOBAL
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    start: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", check_int("start", self.start, least=-(2**63)))

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        positions = indices if isinstance(indices, range) else indices.tolist()
        rows = stage.input.rows(indices, context)
        return [(self.start + position, row) for position, row in zip(positions, rows, strict=True)]

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        for block in stage.input.blocks(at, context):
            yield block.with_rows(list(builtins.enumerate(block.rows, self.start + block.at.position)))


def enumerate(pipe: Pipe[T], /, start: int = 0) -> Pipe[tuple[int, T]]:
    """Pair each row with its position among all rows of the pipe.

    Element: a tuple `(position, row)`. Order and length are the input's. Indexed if the input is. State: a position.

    Args:
        start: the position that the first row gets.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("ab").enumerate())
        [(0, 'a'), (1, 'b')]
    """
    return pipe.then(Enumerate(start))
