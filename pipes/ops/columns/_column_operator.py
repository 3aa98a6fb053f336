"""`ColumnOperator`: the base of the operators that change the columns of each row, such as `select` and `cast`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Operator, Order, StageView
from ...core.rows import BlockRows, Indices, Rows
from ...engine.apply import map_until_error
from ...errors import UnfitError
from .._data_error import data_error
from .._unfit_rows import convert_until_error, plan_error
from ..grouping._tokens import CursorOfInput

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnOperator(CursorOfInput, ABC):
    """Treats columns as a whole: the rows of a table stay columns. Rows that are dicts are treated one by one.

    If the columns are known without a run, a wrong name is an error before the first row.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL
    seeks: ClassVar[bool] = True

    @abstractmethod
    def schema_of(self, schema: pa.Schema) -> pa.Schema | None:
        """The columns that come out, given those that come in; None if a run must tell.

        Raises:
            UnfitError: the operator does not fit the columns.
        """

    @abstractmethod
    def convert_table(self, stage: StageView, rows: Rows) -> Rows:
        """The rows of a table, converted.

        Raises:
            UnfitError: as in `schema_of`, or a row does not fit.
        """

    @abstractmethod
    def row_function(self) -> Callable[[object], object]:
        """The function that converts the rows of one block that are Python objects. It raises an `UnfitError`."""

    def resolve(self, stage: StageView) -> Operator:
        self.schema(stage)  # so that a wrong name fails here
        return self

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def schema(self, stage: StageView) -> pa.Schema | None:
        schema = stage.input.schema
        try:
            return None if schema is None else self.schema_of(schema)
        except UnfitError as error:
            raise plan_error(self, stage, error) from None

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows, error = self._convert(stage, stage.input.rows(indices, context))
        if error is None:
            return rows
        row = int(indices[len(rows)]) if len(indices) else 0
        raise data_error(self, stage.failed_at(error, row, context))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        for block in stage.input.blocks(at, context):
            rows, error = self._convert(stage, block.rows)
            end = block.at.advance(len(rows))
            output = [block.with_rows(rows)] if len(rows) else []
            del block, rows  # only the consumer holds them now
            if output:
                yield output.pop()
            if error is not None:
                raise data_error(self, stage.failed(error, end, context))

    def _convert(self, stage: StageView, rows: BlockRows) -> tuple[BlockRows, Exception | None]:
        """The rows up to the first that does not fit, and its error."""
        if not isinstance(rows, Rows):
            return map_until_error(self.row_function(), rows)
        converted, error = convert_until_error(lambda part: self.convert_table(stage, part), rows)
        return [] if converted is None else converted, error
