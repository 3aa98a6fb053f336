"""`parse_arrow(indexed=True)`: rows by their position among all record batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import numpy.typing as npt

from ...core.column import Column
from ...core.context import Context
from ...core.cursor import Json
from ...core.operator import Columns, Operator, Order, StageView
from ...core.per_process import PerProcess
from ...core.rows import BlockRows, Indices, Rows, index_array
from ...errors import DataError, Origin, SourceError
from ...formats.arrow.ipc import ArrowIpc
from ._extra_columns import extra_columns
from ._open_files import at_call_site
from ._record_batches import RecordBatch, RecordBatches

if TYPE_CHECKING:
    import pyarrow as pa

    from ._arrow_rows import ArrowRows

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IndexedArrow(Operator):
    kind: ClassVar[str] = "parse_arrow"
    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.MAKES

    format: ArrowIpc = field(repr=False)
    bounds: Positions | None = field(default=None, repr=False)
    """The position of the first row of each record batch, and the number of all rows."""
    memory: PerProcess[ArrowRows] = field(default_factory=PerProcess, repr=False)

    def call(self) -> str:
        return self.format.call()

    def identity(self) -> Json:
        return self.format.identity()

    def resolve(self, stage: StageView) -> Operator:
        if self.bounds is not None:
            return self
        batches = cast("RecordBatches", stage.input.op)
        bounds = np.cumsum([0, *batches.resolved_table.column("rows")], dtype=np.int64)
        # A new memory: open files belong to these record batches, and other batches may be found next time.
        return replace(self, format=batches.format, bounds=bounds, memory=PerProcess())

    def length(self, stage: StageView) -> int:
        return int(self._bounds()[-1])

    def schema(self, stage: StageView) -> pa.Schema | None:
        return self.format.row_schema()

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        owner = int(np.searchsorted(self._bounds(), index, "right")) - 1
        (handle,) = _handles(stage, range(owner, owner + 1))
        return Origin(handle.file.path, handle.first + index - int(self._bounds()[owner]) + 1)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        fixed = self.format.fixed_schema
        if fixed is None:  # there is no file
            return Rows({}, 0)
        try:
            rows = self._arrow_rows(stage).rows(indices)
            if not fixed.folder_types and self.format.lineage == (None, None):
                return rows
            columns = {**rows.columns, **self._extra_columns(stage, index_array(indices))}
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        names = [*fixed.names, *(name for name in self.format.lineage if name is not None)]
        return Rows({name: columns[name] for name in names}, len(rows))

    def _extra_columns(self, stage: StageView, indices: Positions) -> dict[str, Column]:
        """The columns of folders, and those with the path and the number of each row."""
        owners = np.searchsorted(self._bounds(), indices, "right") - 1
        numbers, places = np.unique(owners, return_inverse=True)
        handles = _handles(stage, numbers) if len(numbers) else []
        firsts = np.array([handle.first for handle in handles], np.int64)[places]
        rows = firsts + indices - self._bounds()[owners]
        return extra_columns(self.format, [handle.file.path for handle in handles], places, rows)

    def _arrow_rows(self, stage: StageView) -> ArrowRows:
        def make() -> ArrowRows:
            from ._arrow_rows import ArrowRows

            lengths = np.diff(self._bounds()).tolist()
            return ArrowRows(self.format, lengths, lambda numbers: _handles(stage, numbers))

        return self.memory.get(make)

    def _bounds(self) -> Positions:
        assert self.bounds is not None, "a run begins with `resolve`"
        return self.bounds


def _handles(stage: StageView, numbers: Indices) -> list[RecordBatch]:
    return cast("list[RecordBatch]", stage.input.rows(numbers, Context()))
