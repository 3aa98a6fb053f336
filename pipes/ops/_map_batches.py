"""The base of the operators that map whole batches: `collate`, `map_columns`, `to_arrow`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..core.block import Block
from ..core.code import step_code
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Columns, StageView
from ..core.rows import BlockRows, Indices
from ..errors import DataError, RowError, UnfitError
from .map import Map


@dataclass(frozen=True)
class MapBatches(Map):
    """A `map` over batches. A batch that does not fit is a `DataError`, not a failure of the user's function."""

    columns: ClassVar[Columns] = Columns.KEEPS

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        try:
            return super().rows(stage, indices, context)
        except RowError as error:
            raise self._data_error(error) from error.__cause__

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        try:
            yield from super().blocks(stage, at, context)
        except RowError as error:
            raise self._data_error(error) from error.__cause__

    def _data_error(self, error: RowError) -> Exception:
        """The `DataError` in place of `error`, if the batch was at fault; else `error` itself."""
        if not isinstance(error.__cause__, UnfitError):
            return error
        batch = f"\n  in the batch that begins at {error.origin}" if error.origin else ""
        line = f"\n  at {error.where.file}:{error.where.line}" if error.where else ""
        return DataError(f"`{step_code(self, source=False)}`: {error.__cause__}{batch}{line}")
