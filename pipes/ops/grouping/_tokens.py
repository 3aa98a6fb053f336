"""`TokenOfInput`, `CursorOfInput`: the bases of operators whose cursors have no more in them than one of the input."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.cursor import Cursor, Json
from ...core.operator import Input, Operator, StageView


class TokenOfInput(Operator):
    """A token is a cursor of the only input."""

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield stage.input, at.token


class CursorOfInput(Operator):
    """A cursor is one of the only input."""

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield stage.input, at.plain
