"""`ColumnOperator`: the base of the operators that change the columns of each row, such as `select` and `cast`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from ..core.block import Block
from ..core.code import step_code
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Operator, Order, StageView
from ..core.rows import BlockRows, Indices, Rows
from ..engine.apply import map_until_error
from ..errors import ArgumentTypeError, DataError, PlanError, RowError, UnfitError, with_call_site
from ..formats.tables.columns import check_names, suggest_name

if TYPE_CHECKING:
    import pyarrow as pa


class Converted(NamedTuple):
    """The rows up to the first that cannot be converted, and the error of that row."""

    rows: BlockRows
    error: Exception | None = None


class ColumnOperator(Operator, ABC):
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
    def convert_table(self, stage: StageView, rows: Rows) -> Converted:
        """The rows of a table, converted.

        Raises:
            UnfitError: as in `schema_of`.
        """

    @abstractmethod
    def row_function(self) -> Callable[[object], object]:
        """The function that converts a row that is a Python object; for one block. It raises an `UnfitError`."""

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
            raise PlanError(with_call_site(f"`{self._code}`: {error}", stage.call_site)) from None

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows, error = self._convert(stage, stage.input.rows(indices, context))
        if error is None:
            return rows
        row = int(indices[len(rows)]) if len(indices) else 0
        raise self._error(stage.failed_at(error, row, context))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        for block in stage.input.blocks(at, context):
            rows, error = self._convert(stage, block.rows)
            end = block.at.advance(len(rows))
            output = [block.with_rows(rows)] if len(rows) else []
            del block, rows  # only the consumer holds them now
            if output:
                yield output.pop()
            if error is not None:
                raise self._error(stage.failed(error, end, context))

    @property
    def _code(self) -> str:
        return step_code(self, source=False)

    def _convert(self, stage: StageView, rows: BlockRows) -> Converted:
        if isinstance(rows, Rows):
            try:
                return self.convert_table(stage, rows)
            except UnfitError as error:
                return Converted([], error)
        return Converted(*map_until_error(self.row_function(), rows))

    def _error(self, error: Exception) -> Exception:
        """A `DataError` if a row does not fit; the error itself if a function of the user failed."""
        if not isinstance(error, RowError) or not isinstance(error.__cause__, UnfitError):
            return error
        origin = f"\n  on {error.origin}" if error.origin else ""
        line = f"\n  at {error.where.file}:{error.where.line}" if error.where else ""
        return DataError(f"`{self._code}`: {error.__cause__}{origin}{line}")


def check_column(name: str, names: list[str]) -> str:
    """`name`, which must be one of `names`.

    Raises:
        UnfitError: it is none of them; the error has a similar one.
    """
    if name not in names:
        raise UnfitError(f"there is no column {name!r}; {suggest_name(name, names)}")
    return name


def as_mapping(row: object) -> Mapping[str, object]:
    """`row`, which must be a dict.

    Raises:
        UnfitError: it is something else.
    """
    if isinstance(row, Mapping):
        return cast("Mapping[str, object]", row)
    repair = "put this before `.batch`" if isinstance(row, Rows) else "make dicts with a `.map`"
    raise UnfitError(
        f"rows must be dicts, whose keys name the columns, but one is of type {type(row).__name__}; {repair}"
    )


def names_argument(argument: str, value: tuple[object, ...]) -> tuple[str, ...]:
    """Names of columns as the user gave them: one by one, or as one list."""
    (only,) = value if len(value) == 1 else (None,)
    listed = list(value) if only is None or isinstance(only, str) else only
    return tuple(check_names(argument, listed) or ())


def renames_argument(value: object) -> dict[str, str]:
    """New names by old ones."""
    names = list(value.items()) if isinstance(value, Mapping) else None
    if not names or not all(isinstance(name, str) for pair in names for name in pair):
        raise ArgumentTypeError(with_call_site(f"`names` must map names of columns to new names but got: {value!r}"))
    return dict(names)
