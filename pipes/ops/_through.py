"""What operators share that hand rows through as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from ..block import Block
from ..context import Context
from ..cursor import Cursor
from ..rows import Indices, RowList
from ..traits import Operator

if TYPE_CHECKING:
    from ..stage import Stage


class Through(Operator):
    """The base: each row of the input, in its place."""

    seeks: ClassVar[bool] = True

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def length(self, stage: Stage) -> int | None:
        return stage.input.length

    def rows(self, stage: Stage, indices: Indices, context: Context) -> RowList:
        return stage.input.rows(indices, context)

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        return stage.input.blocks(at, context)
