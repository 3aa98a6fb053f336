"""`with_columns`: columns that are computed from others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, Union

from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.lazy import pa, pc
from ..core.operator import StageView
from ..core.rows import Array, BlockRows, Indices, Rows, column_names, select_columns, take
from ..errors import ArgumentError, ArgumentTypeError, UnfitError
from ..formats.columns import to_column
from ..formats.expressions import (
    check_expression,
    expression_code,
    expression_identity,
    expression_type,
    is_expression,
)
from ._column_operator import ColumnOperator, check_fit, values_of
from ._shared import numpy_columns
from .map_columns import column_of_result

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..pipe import Pipe

T = TypeVar("T")
Compute: TypeAlias = Union[
    "pc.Expression", Callable[["Mapping[str, npt.NDArray[Any]]"], "npt.NDArray[Any] | list[Any]"]
]


def with_columns(pipe: Pipe[T], /, **columns: Compute) -> Pipe[T]:
    """Add columns that are computed from the others, or replace some.

    Element: a row with the columns of the input in their places, then the new ones. All are computed from the input's
    columns, many rows at once; no row becomes a Python object. Order and length are the input's. Indexed if the input
    is. State: none.

    Args:
        columns: by name an expression of `pyarrow.compute`, such as `pc.field("x") * 2`. Or a function that is called
            with read-only NumPy arrays by name, and returns an array or a list with a value for each row. It may be
            called with any number of rows, so each value must depend on its own row alone. Columns that it does not ask
            for are not converted. Its errors come with file, line and row (`RowError`).

    Raises:
        PlanError: an expression does not fit the columns. If only a run can tell, a `DataError`.
        DataError: rows are not those of a table; an expression has no value for a row; or a function returned another
            number of values. The rows before it come first.

    Example:
        >>> import feedpipe as fp, numpy as np, pyarrow.compute as pc
        >>> pipe = fp.from_arrays({"x": np.array([1, 4, 9])})
        >>> list(pipe.with_columns(root=lambda columns: np.sqrt(columns["x"]), x=pc.field("x") + 1).take(2))
        [{'x': 2, 'root': 1.0}, {'x': 5, 'root': 2.0}]
    """
    return pipe.then(WithColumns(columns))


@dataclass(frozen=True, eq=False, repr=False)
class WithColumns(ColumnOperator):
    kind: ClassVar[str] = "with_columns"

    computed: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not self.computed:
            raise ArgumentError("`with_columns` must name at least one column but names none")
        for name, value in self.computed.items():
            if is_expression(value):
                check_expression(name, value)
            elif not callable(value):
                raise ArgumentTypeError(
                    f"`{name}` must be an expression of `pyarrow.compute`, or a function of columns, but got: "
                    f"{value!r:.80}; a column of one value is `pc.scalar(...)`"
                )

    @property
    def _expressions(self) -> dict[str, Any]:
        return {name: value for name, value in self.computed.items() if is_expression(value)}

    @property
    def _functions(self) -> dict[str, Callable[[Mapping[str, Array]], object]]:
        return {name: value for name, value in self.computed.items() if not is_expression(value)}

    def call(self) -> str:
        codes = (expression_code(v) if is_expression(v) else value_code(v) for v in self.computed.values())
        return f"with_columns({', '.join(f'{n}={code}' for n, code in zip(self.computed, codes, strict=True))})"

    def identity(self) -> Json:
        return {name: expression_identity(value) for name, value in self._expressions.items()}

    def schema_of(self, schema: pa.Schema) -> pa.Schema | None:
        types = check_fit([*self._expressions.values()], schema)
        computed = {name: expression_type(value, types) for name, value in self._expressions.items()}
        return None if self._functions else pa.schema(list({**types, **computed}.items()))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if len(indices) or not self._functions:
            return super().rows(stage, indices, context)
        # A function may need rows to return columns, so those of the first row are returned, without the row.
        return take(super().rows(stage, range(1), context), range(0)) if stage.input.length else []

    def convert_table(self, stage: StageView, rows: Rows) -> Rows:
        computed = {}
        if self._expressions:
            values = values_of([*self._expressions.values()], stage, rows)
            computed = {name: to_column(value) for name, value in zip(self._expressions, values, strict=True)}
        arrays = _LazyArrays(rows)
        for name, function in self._functions.items():
            computed[name] = column_of_result(function(arrays), name)
            if len(computed[name]) != len(rows):
                raise UnfitError(
                    f"field `{name}`: the function must return a value for each of the {len(rows)} rows but returned "
                    f"{len(computed[name])}"
                )
        columns = {**rows.columns, **{name: computed[name] for name in self.computed}}
        return Rows(columns, len(rows))

    def row_function(self) -> Callable[[object], object]:
        def refuse(row: object) -> object:
            kind = type(row).__name__
            raise UnfitError(f"it computes columns of a table, but a row is of type {kind}; `.map` computes on one row")

        return refuse


class _LazyArrays(Mapping[str, Array]):
    """Read-only arrays by name. A column that nobody asks for is neither gathered nor converted."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._arrays: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._arrays:
            names = column_names(self._rows)
            if name not in names:
                raise KeyError(f"{name!r} is none of the columns: {', '.join(map(repr, names))}")
            try:
                self._arrays |= numpy_columns(select_columns(self._rows, {name: name}))
            except UnfitError as error:
                raise UnfitError(
                    f"column {name!r} has a null, and NumPy has no null for numbers; use an expression, or fill "
                    f"it before: `.with_columns({name}=pc.coalesce(pc.field({name!r}), pc.scalar(0)))`"
                ) from error
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(column_names(self._rows))

    def __len__(self) -> int:
        return len(column_names(self._rows))
