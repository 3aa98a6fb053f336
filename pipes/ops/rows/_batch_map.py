"""The base of the operators that map whole batches: `collate`, `map_columns`, `to_arrow`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Columns, StageView
from ...core.rows import BlockRows, Indices
from ...errors import RowError
from .._data_error import data_error
from ._map import Map

_IN_BATCH = "in the batch that begins at"


@dataclass(frozen=True)
class BatchMap(Map):
    """A `map` over batches. A batch that does not fit is a `DataError`, not a failure of the user's function."""

    columns: ClassVar[Columns] = Columns.KEEPS

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        try:
            return super().rows(stage, indices, context)
        except RowError as error:
            raise data_error(self, error, _IN_BATCH) from error.__cause__

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        try:
            yield from super().blocks(stage, at, context)
        except RowError as error:
            raise data_error(self, error, _IN_BATCH) from error.__cause__
