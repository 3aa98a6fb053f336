"""The base of the operators that pass rows on unchanged: `prefetch`, `shard_by_rank`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import StageView
from ...core.rows import BlockRows, Indices
from .._same_rows import SameRows
from ..grouping._tokens import CursorOfInput


class PassThrough(CursorOfInput, SameRows):
    """Gives the rows of its input, each at its position."""

    seeks: ClassVar[bool] = True

    def moves_skipped(self) -> bool:
        return True

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return stage.input.rows(indices, context)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return stage.input.blocks(at, context)
