"""What operators share: rows as columns, errors that name a row, bases of operators that pass rows on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.block import Block, parted
from ..core.code import step_code
from ..core.context import Context
from ..core.cursor import START, Cursor
from ..core.lazy import pa
from ..core.operator import CursorOfInput, Input, Operator, Order, StageView, Weights, each_row
from ..core.rows import Array, BlockRows, Column, Indices, Rows, grid, index_array, infer_array, is_grid, read_only
from ..errors import ArgumentError, ArgumentTypeError, DataError, PlanError, RowError, UnfitError
from ..formats.columns import suggest_name

T = TypeVar("T")
N = TypeVar("N", np.float64, np.uint64)


def not_a_batch(element: object) -> UnfitError:
    return UnfitError(
        f"an element must be a batch of rows but is of type {type(element).__name__}; put `.batch(n)` before it"
    )


def as_rows(batch: object) -> Rows:
    """Return a batch as columns. Arrow infers the types of a list of dicts; a name that a row lacks is a null."""
    if isinstance(batch, Rows):
        return batch
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        raise not_a_batch(batch)
    other = next((row for row in batch if not isinstance(row, Mapping)), None)
    if other is not None:
        raise UnfitError(
            f"rows must be dicts, whose keys name the columns, but one is of type {type(other).__name__}; make dicts "
            "with a `.map` before `.batch`"
        )
    names = dict.fromkeys(name for row in batch for name in row)
    columns = {check_name(name): column_of_values([row.get(name) for row in batch], name) for name in names}
    return Rows(columns, len(batch))


def numpy_columns(rows: Rows) -> dict[str, Array]:
    """Return the columns as read-only NumPy arrays; values that NumPy has no type for become Python objects."""
    return {name: _numpy_column(column, name) for name, column in rows.columns.items()}


def column_of_values(values: list[object], name: object) -> Column:
    """Make a column of Python values: arrays of one shape become one array; Arrow infers the type of other values."""
    if values and isinstance(values[0], np.ndarray):
        if np.ma.MaskedArray in set(map(type, values)):
            raise UnfitError(f"field `{name}`: a column of arrays has no mask; fill it with `.filled(...)`")
        try:
            return column_of_array(np.stack(cast("Any", values)), name)
        except ValueError:  # the shapes differ: Arrow makes lists
            pass
    return _infer_column(values, name)


def column_of_array(array: Array, name: object) -> Column:
    """Return `array` itself if it has numbers; text, times and Python objects become an Arrow array."""
    is_masked = isinstance(array, np.ma.MaskedArray)  # Arrow makes nulls of what is masked
    return read_only(array) if array.dtype.kind in "biufc" and not is_masked else _infer_column(array, name)


def check_name(name: object) -> str:
    if not isinstance(name, str):
        raise UnfitError(f"the name of a column must be a string but got: {name!r}")
    return name


def _numpy_column(column: Column, name: str) -> Array:
    if isinstance(column, np.ndarray):
        return column
    arrow_type: Any = column.type
    if pa.types.is_dictionary(arrow_type):
        return _numpy_column(cast("Any", column).dictionary_decode(), name)
    if is_grid(column) and not column.null_count:
        return read_only(grid(column))
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _numpy_column(cast("Any", column).storage, name)
    is_number = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_boolean(arrow_type)
    if is_number and column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise UnfitError(
            f"field `{name}`: null at row {row + 1} of the batch, and NumPy has no null for numbers; fill or drop it "
            'before, or use `format="arrow"`, which has nulls'
        )
    return read_only(numpy_array(column))


def _infer_column(values: object, name: object) -> Column:
    try:
        return infer_array(values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise UnfitError(f"field `{name}`: its values cannot form a column: {error}") from error


def existing_columns(names: Iterable[str], columns: Iterable[str]) -> dict[str, str]:
    """Return `names` as `select_columns` takes them.

    Raises:
        UnfitError: a name is not among the `columns`; the error has a similar one.
    """
    existing = set(columns)
    sources: dict[str, str] = {}
    for name in names:
        if name not in existing:
            raise UnfitError(f"there is no column {name!r}; {suggest_name(name, columns)}")
        sources[name] = name
    return sources


# Errors of rows that do not fit an operator.


def data_error(op: Operator, error: Exception, what: str = "on") -> Exception:
    """Return a `DataError` for a `RowError` whose row is at fault, and any other error itself.

    `error` is the result of `stage.failed`, and `what` leads to the origin of the row.
    """
    if not isinstance(error, RowError) or not isinstance(error.__cause__, UnfitError):
        return error
    origin = f"\n  {what} {error.origin}" if error.origin else ""
    line = f"\n  at {error.where.file}:{error.where.line}" if error.where else ""
    unfit = DataError(f"`{step_code(op, source=False)}`: {error.__cause__}{origin}{line}")
    unfit.__cause__ = error.__cause__
    return unfit


def convert_until_error(convert: Callable[[Rows], T], rows: Rows) -> tuple[T | None, Exception | None]:
    """Convert the rows before the first that fails; None if that is the first row. Return also its error.

    `convert` treats each row by itself.
    """
    try:
        return convert(rows), None
    except Exception as error:
        if not rows:
            return None, error
        failing = bisect_left(range(len(rows)), True, key=lambda k: _error(convert, rows[: k + 1]) is not None)
        if failing == len(rows):  # it does not fail again
            return None, error
        before = convert(rows[:failing]) if failing else None
        return before, _error(convert, rows[failing : failing + 1]) or error


def read_each_row(
    op: Operator,
    stage: StageView,
    values_of: Callable[[BlockRows], tuple[npt.NDArray[Any], Exception | None]],
    dtype: type[N],
) -> tuple[npt.NDArray[N], npt.NDArray[np.int64]]:
    """Return a number of each row of the indexed input, and the positions of rows that are skipped, whose number is 0.

    `values_of` returns the numbers of the rows before the first that has none, and its error, which is about `op`.
    """
    values = np.zeros(stage.input.length or 0, dtype)
    skipped = [np.zeros(0, np.int64)]
    with closing(Context()) as context:
        for block in stage.input.blocks(START, context):
            parts = parted(block.rows)
            places = np.array(parts.places, np.int64)
            own, error = values_of(parts.values)
            if error is not None:
                raise data_error(op, stage.failed(error, block.at.advance(int(places[len(own)])), context))
            values[block.at.position + places] = own
            holes = [place for place, mark in parts.skipped.items() if mark.is_row]
            skipped.append(block.at.position + np.array(holes, np.int64))
    return values, np.concatenate(skipped)


def _error(convert: Callable[[Rows], object], rows: Rows) -> Exception | None:
    try:
        convert(rows)
    except Exception as error:
        return error
    return None


def plan_error(op: Operator, stage: StageView, error: UnfitError) -> PlanError:
    """Return the error of an operator that does not fit the columns of its input, which are known without a run."""
    return PlanError(f"`{step_code(op, source=False)}`: {error}", at=stage.call_site)


def fit_to_schema(op: Operator, stage: StageView, fit: Callable[[pa.Schema], T]) -> T | None:
    """Return `fit(schema)` for the columns of the input; None if only a run can tell these.

    Raises:
        PlanError: `fit` raised an `UnfitError`.
    """
    schema = stage.input.schema
    try:
        return None if schema is None else fit(schema)
    except UnfitError as error:
        raise plan_error(op, stage, error) from None


def check_rising(name: str, value: object) -> None:
    """Check an argument: numbers that rise."""
    try:
        numbers = np.array(value, np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros((0, 0))
    if numbers.ndim != 1 or isinstance(value, (str, bytes)):
        raise ArgumentTypeError(f"`{name}` must be a list of numbers but got: {value!r:.80}")
    if not len(numbers) or not (np.diff(numbers) > 0).all() or np.isnan(numbers).any():
        raise ArgumentError(f"`{name}` must be numbers that rise but got: {value!r:.80}")


def as_mapping(row: object) -> Mapping[str, object]:
    """Return `row`, which must be a dict; else raise an `UnfitError`."""
    if isinstance(row, Mapping):
        return cast("Mapping[str, object]", row)
    repair = "put this before `.batch`" if isinstance(row, Rows) else "make dicts with a `.map`"
    kind = type(row).__name__
    raise UnfitError(f"rows must be dicts, whose keys name the columns, but one is of type {kind}; {repair}")


class RowByRow(CursorOfInput, ABC):
    """Gives a row for each row of its only input; the rows of a block are made together."""

    order: ClassVar[Order] = Order.ROW_LOCAL
    seeks: ClassVar[bool] = True

    @abstractmethod
    def results(
        self,
        stage: StageView,
        rows: BlockRows,
        positions: Indices,
        place: Callable[[int], Cursor | int],
        context: Context,
    ) -> tuple[BlockRows, Exception | None]:
        """The results for the rows at `positions` up to the first that fails, and its error.

        `place` gives what `StageView.skip` takes for a row.
        """

    def row_error(self, error: Exception) -> Exception:
        """The error to raise if a row failed."""
        return error

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows = stage.input.rows(indices, context)
        results, error = self.results(stage, rows, indices, lambda row: int(indices[row]), context)
        if error is None:
            return results
        row = int(indices[len(results)]) if len(indices) else 0
        raise self.row_error(stage.failed_at(error, row, context))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        for block in stage.input.blocks(at, context):
            start = block.at.position
            positions = range(start, start + len(block))
            results, error = self.results(stage, block.rows, positions, block.at.advance, context)
            end = block.at.advance(len(results))
            output = [block.with_rows(results)] if len(results) else []
            del block, results  # only the consumer holds them now
            if output:
                yield output.pop()
            if error is not None:
                raise self.row_error(stage.failed(error, end, context))


# The bases of operators that give rows of their input unchanged.


class SameRows(Operator):
    """Gives rows of its only input as they are: some or all of them, in any order, perhaps repeatedly."""

    def schema(self, stage: StageView) -> pa.Schema | None:
        return stage.input.schema


class Rearranged(SameRows, ABC):
    """Of an indexed input, gives the rows at positions that can be computed."""

    moves_skipped: ClassVar[bool] = True

    @abstractmethod
    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        """The positions in the input of the rows at `indices`."""

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        yield stage.input, int(self.places(stage, range(index, index + 1), context)[0]), context

    def traced(
        self, stage: StageView, indices: Indices, context: Context
    ) -> Iterator[tuple[int, Indices, Indices | None, Context]]:
        yield 0, self.places(stage, indices, context), None, context

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return stage.input.rows(self.places(stage, indices, context), context)

    def weights(self, stage: StageView, context: Context) -> Weights | None:
        weights = stage.input.weights(context)
        if weights is None or not each_row([weights]):
            return None
        places = self.places(stage, range(self.length(stage) or 0), context)
        return Weights(weights.values[index_array(places)], weights.are_rows)


class PassThrough(CursorOfInput, SameRows):
    """Gives the rows of its input, each at its position."""

    seeks: ClassVar[bool] = True
    moves_skipped: ClassVar[bool] = True

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return stage.input.rows(indices, context)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return stage.input.blocks(at, context)
