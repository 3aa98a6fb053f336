"""The base of the filters, and the filter by an expression: `select` and `filter` both tell Parquet files of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_scalar, numpy_array
from ..core.block import Block
from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.graph import Node
from ..core.operator import Amount, Operator, Order, StageView, TokenOfInput, Trait, amount_of_inputs
from ..core.origins import Origins
from ..core.rows import BlockRows, Rows
from ..core.skips import OnError, check_on_error
from ..errors import UnfitError
from ..files.parquet import Parquet
from ..files.units import Parse, Units
from ..formats.expressions import check_expression, expression_code, expression_identity, filter_problem
from ._column_operator import check_fit, values_of
from ._shared import SameRows, convert_until_error, data_error, fit_to_schema

N = TypeVar("N", bound=Node)


class FilterResult(NamedTuple):
    """The rows of a block that pass a filter, with their origins."""

    rows: BlockRows
    origins: Origins | None
    tested: int  # the number of rows before the first that could not be tested
    error: Exception | None  # of that row


class FilterRows(TokenOfInput, SameRows, ABC):
    """Gives the rows that pass a test; each row is tested by itself."""

    kind: ClassVar[str] = "filter"
    order: ClassVar[Order] = Order.ROW_LOCAL
    needs_positions: ClassVar[bool] = False  # type: ignore[misc]

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        return amount_of_inputs(self, stage, at, context, at.skip)

    def within(self, rows: range) -> Operator:
        return self

    @abstractmethod
    def select(self, stage: StageView, block: Block, context: Context) -> FilterResult:
        """Test the rows of a block, up to the first that cannot be tested."""

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        for block in stage.input.blocks(Cursor.of(at.token), context):
            rest = [block]
            del block
            while rest:
                block = rest.pop()
                rows, origins, tested, error = self.select(stage, block, context)
                start, end = block.at, block.end if tested == len(block) else block.at.advance(tested)
                first, row = row, row + len(rows)
                output = [Block(rows, Cursor(start.plain, 0, first), Cursor(end.plain, 0, row), origins)]
                if error is not None:
                    rest = [block.slice(tested, len(block))]
                del block, rows  # only the consumer holds them now
                if row > first:
                    yield output.pop()
                if error is None:
                    continue
                failed = rest.pop()
                skipped = stage.skip(error, end, next(iter(failed.rows)), context)
                if skipped is None:
                    raise data_error(self, stage.failed(error, end, context))
                single = failed.slice(0, 1)
                yield Block([skipped], Cursor(end.plain, 0, row), Cursor(single.end.plain, 0, row + 1), single.origins)
                row += 1
                if len(failed) > 1:
                    rest.append(failed.slice(1, len(failed)))


@dataclass(frozen=True, eq=False, repr=False)
class ExpressionFilter(FilterRows):
    """Tests whole blocks. The rows stay columns, and only the columns of the expression are read."""

    expression: Any
    on_error: OnError | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_expression("predicate", self.expression)

    def call(self) -> str:
        policy = "" if self.on_error is None else f", on_error={value_code(self.on_error)}"
        return f"filter({expression_code(self.expression)}{policy})"

    def identity(self) -> Json:
        return expression_identity(self.expression)

    def resolve(self, stage: StageView) -> Operator:
        fit_to_schema(self, stage, lambda schema: check_fit([self.expression], schema, filter_problem))
        return self

    def select(self, stage: StageView, block: Block, context: Context) -> FilterResult:
        rows = block.rows
        if not isinstance(rows, Rows):
            kind = type(rows[0]).__name__
            error = UnfitError(f"an expression tests rows of a table, but one is of type {kind}; give a function")
            return FilterResult([], None, 0, error)
        matches, failure = convert_until_error(partial(self._matches, stage), rows)
        if matches is None:
            return FilterResult([], None, 0, failure)
        if matches.all() and len(matches) == len(rows):
            return FilterResult(rows, block.origins, len(rows), failure)
        return FilterResult(*block.select(np.flatnonzero(matches)), len(matches), failure)

    def _matches(self, stage: StageView, rows: Rows) -> npt.NDArray[np.bool_]:
        (matches,) = values_of([self.expression], stage, rows, filter_problem)
        return cast("npt.NDArray[np.bool_]", numpy_array(matches.fill_null(arrow_scalar(False))))


# What Parquet files before `filter` and `select` are told, so that they read less.


def told_parquet(node: N, tell: Callable[[Parquet], Parquet], passes_on: Callable[[Operator], bool]) -> N:
    """The graph, in which Parquet files are told something; `passes_on` says of an operator if it may be told early."""
    op = node.op
    if isinstance(op, Units) and isinstance(op.format, Parquet):
        return type(node)(replace(op, format=tell(op.format)), node.inputs, node.call_site)
    if len(node.inputs) != 1 or not (op.trait is Trait.TRANSPARENT or isinstance(op, Parse) or passes_on(op)):
        return node
    source = told_parquet(node.inputs[0], tell, passes_on)
    return node if source is node.inputs[0] else type(node)(op, (source,), node.call_site)
