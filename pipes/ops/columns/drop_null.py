"""`drop_null`: only rows in which nothing is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ...core.block import Block
from ...core.operator import Operator, StageView
from ...core.rows import BlockRows, Rows, column_names, select_columns
from ...engine.apply import map_until_error
from ...errors import UnfitError
from .._column_arguments import existing_columns
from .._unfit_rows import as_mapping, plan_error
from ..rows._filter_rows import FilterResult, FilterRows
from ._column_conversion import check_column_names
from ._missing_values import Mask, is_missing, missing_mask

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class DropNull(FilterRows):
    kind: ClassVar[str] = "drop_null"

    names: tuple[str, ...] | None = None

    def call(self) -> str:
        return f"drop_null({'' if self.names is None else list(self.names)})"

    def resolve(self, stage: StageView) -> Operator:
        schema = stage.input.schema
        try:
            if schema is not None:
                existing_columns(self.names or (), schema.names)
        except UnfitError as error:
            raise plan_error(self, stage, error) from None
        return self

    def select(self, stage: StageView, block: Block) -> FilterResult:
        incomplete, error = self._incomplete(block.rows)
        if not incomplete.any() and error is None:
            return FilterResult(block.rows, block.origins, len(block), None)
        return FilterResult(*block.select(np.flatnonzero(~incomplete)), len(incomplete), error)

    def _incomplete(self, rows: BlockRows) -> tuple[Mask, Exception | None]:
        """Whether something is missing in each row, up to the first that lacks a column, and its error."""
        if not isinstance(rows, Rows):
            flags, error = map_until_error(self._is_incomplete, rows)
            return np.array(flags, np.bool_), error
        names = column_names(rows)
        try:
            tested = select_columns(rows, existing_columns(self.names or names, names))
        except UnfitError as error:
            return np.zeros(0, np.bool_), error
        incomplete: Mask = np.zeros(len(rows), np.bool_)
        for column in tested.columns.values():
            mask = missing_mask(column)
            if mask is not None:
                incomplete |= mask
        return incomplete, None

    def _is_incomplete(self, row: object) -> bool:
        values = as_mapping(row)
        names = values if self.names is None else existing_columns(self.names, values)
        return any(is_missing(values[name]) for name in names)


def drop_null(pipe: Pipe[T], /, columns: str | Sequence[str] | None = None) -> Pipe[T]:
    """Leave out rows in which a value is missing: a null, or NaN among floats.

    Element: the other rows, as they are. Length: unknown; streamed. State: a position in the input. Memory: one block.

    Args:
        columns: the names of the columns to look at; by default all.

    Raises:
        PlanError: there is no such column. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp, pyarrow as pa
        >>> pipe = fp.from_table(pa.table({"id": [1, 2, 3], "x": [0.5, None, float("nan")]}))
        >>> list(pipe.drop_null("x"))
        [{'id': 1, 'x': 0.5}]
    """
    return pipe.then(DropNull(None if columns is None else check_column_names(columns)))
