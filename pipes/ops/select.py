"""`select`, `drop` and `rename`: some of the columns, or other names for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from ..core.cursor import Json
from ..core.lazy import pa
from ..core.operator import Operator, StageView
from ..core.rows import Rows, column_names, select_columns
from ..errors import ArgumentTypeError, UnfitError
from ..files.parquet import LaterChoice
from ..formats.columns import check_names, first_duplicate
from ._column_operator import ColumnOperator
from ._filter_rows import ExpressionFilter, told_parquet
from ._shared import as_mapping, existing_columns
from .shuffle import Shuffle
from .slice import SliceBase

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def select(pipe: Pipe[T], /, *columns: str | Sequence[str]) -> Pipe[T]:
    """Keep only these columns, in this order.

    Element: a row with these columns. Columns of a table are not copied; a row that is a dict becomes a new dict. Order
    and length are the input's. Indexed if the input is. State: none. Parquet files before it read no others.

    Args:
        columns: names, one by one or as one list.

    Raises:
        PlanError: there is no such column. If only a run can tell, a `DataError` names the first row without it.

    Example:
        >>> import feedpipe as fp, pyarrow as pa
        >>> pipe = fp.from_table(pa.table({"id": [1, 2], "text": ["a", "b"], "length": [1, 1]}))
        >>> list(pipe.select("text", "id"))
        [{'text': 'a', 'id': 1}, {'text': 'b', 'id': 2}]
    """
    return _before_choice(pipe, names := check_columns("columns", columns)).then(Select(names))


def drop(pipe: Pipe[T], /, *columns: str | Sequence[str]) -> Pipe[T]:
    """Leave out these columns.

    Element: a row with the other columns, in their order. Order and length are the input's. Indexed if the input is.
    State: none.

    Args:
        columns: names, one by one or as one list.

    Raises:
        PlanError, DataError: as in `select`, or no column would be left.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence([{"id": 1, "text": "a"}]).drop("id"))
        [{'text': 'a'}]
    """
    return pipe.then(Drop(check_columns("columns", columns)))


def rename(pipe: Pipe[T], /, names: Mapping[str, str]) -> Pipe[T]:
    """Give columns other names.

    Element: a row with all columns in their places. Order and length are the input's. Indexed if the input is. State:
    none.

    Args:
        names: the new names by the old ones. Two columns may swap their names.

    Raises:
        PlanError, DataError: as in `select`, or two columns would have one name.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> list(fp.from_arrays({"x": np.arange(2), "y": np.arange(2) / 2}).rename({"y": "half"}))
        [{'x': 0, 'half': 0.0}, {'x': 1, 'half': 0.5}]
    """
    return pipe.then(Rename(check_renames(names)))


class _ColumnChoice(ColumnOperator):
    """Gives columns of the input as they are; nothing is copied."""

    @abstractmethod
    def sources(self, names: list[str]) -> dict[str, str]:
        """The name in the input of each output column; `names` are those in the input."""

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([(name, schema.field(source).type) for name, source in self.sources(schema.names).items()])

    def convert_table(self, stage: StageView, rows: Rows) -> Rows:
        return select_columns(rows, self.sources(column_names(rows)))

    def row_function(self) -> Callable[[object], object]:
        names: list[str] | None = None
        sources: dict[str, str] = {}

        def convert(row: object) -> dict[str, object]:
            nonlocal names, sources
            values = as_mapping(row)
            if list(values) != names:  # most rows have the names of the one before
                names, sources = list(values), self.sources(list(values))
            return {name: values[source] for name, source in sources.items()}

        return convert


@dataclass(frozen=True, eq=False, repr=False)
class _ListedColumns(_ColumnChoice):
    names: tuple[str, ...]

    def call(self) -> str:
        return f"{self.kind}({', '.join(map(repr, self.names))})"

    def identity(self) -> Json:
        return list(self.names)


class Select(_ListedColumns):
    kind: ClassVar[str] = "select"

    def sources(self, names: list[str]) -> dict[str, str]:
        return existing_columns(self.names, names)


class Drop(_ListedColumns):
    kind: ClassVar[str] = "drop"

    def sources(self, names: list[str]) -> dict[str, str]:
        dropped = existing_columns(self.names, names)
        if len(dropped) == len(names):
            raise UnfitError("no column would be left; `select` those to keep")
        return {name: name for name in names if name not in dropped}


@dataclass(frozen=True, eq=False, repr=False)
class Rename(_ColumnChoice):
    kind: ClassVar[str] = "rename"

    names: Mapping[str, str]

    def sources(self, names: list[str]) -> dict[str, str]:
        existing_columns(self.names, names)
        renamed = [self.names.get(name, name) for name in names]
        if twice := first_duplicate(renamed):
            raise UnfitError(f"two columns would have the name {twice!r}; rename or drop the other one too")
        return dict(zip(renamed, names, strict=True))


def _before_choice(pipe: Pipe[T], columns: tuple[str, ...]) -> Pipe[T]:
    """The pipe before a `select` of `columns`, in which Parquet files read no other columns.

    The operators between give rows as they are, and use no columns but those of filters.
    """
    filters: list[Any] = []

    def passes_on(op: Operator) -> bool:
        if isinstance(op, ExpressionFilter):
            filters.append(op.expression)
        return isinstance(op, (ExpressionFilter, Shuffle, SliceBase))

    return told_parquet(pipe, lambda files: files.with_later_choice(LaterChoice(columns, tuple(filters))), passes_on)


def check_columns(argument: str, value: tuple[object, ...]) -> tuple[str, ...]:
    """Names as the user gave them: one by one, or as one list."""
    (only,) = value if len(value) == 1 else (None,)
    return tuple(check_names(argument, list(value) if only is None or isinstance(only, str) else only) or ())


def check_renames(value: object) -> dict[str, str]:
    """New names by old ones."""
    names = dict(cast("Mapping[object, object]", value)) if isinstance(value, Mapping) else None
    if not names or not all(isinstance(name, str) for pair in names.items() for name in pair):
        raise ArgumentTypeError(f"`names` must map names of columns to new names but got: {value!r}")
    return cast("dict[str, str]", names)
