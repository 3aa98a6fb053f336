"""`unnest`: the fields of structs as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast, overload

import numpy as np

from ...core.column import Column
from ...core.operator import StageView
from ...core.rows import Rows
from ...errors import ArgumentTypeError, UnfitError, with_call_site
from ...formats.tables.arrow import to_column
from ...formats.tables.columns import check_names, first_duplicate
from .._column_arguments import existing_columns
from .._unfit_rows import as_mapping
from ._column_operator import ColumnOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from ...pipe import Pipe


@dataclass(frozen=True)
class Unnest(ColumnOperator):
    kind: ClassVar[str] = "unnest"

    names: tuple[str, ...] | None = None
    separator: str = "."

    def call(self) -> str:
        columns = [] if self.names is None else [f"{list(self.names)}"]
        return f"unnest({', '.join(columns + ([] if self.separator == '.' else [f'separator={self.separator!r}']))})"

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        types: list[tuple[str, Any]] = []
        existing_columns(self.names or (), schema.names)
        for name, kind in zip(schema.names, schema.types, strict=True):
            fields = self._fields(name, kind)
            types += [(name, kind)] if fields is None else [(self._path(name, f.name), f.type) for f in fields]
        _check_different(name for name, _ in types)
        return pa.schema(types)

    def convert_table(self, stage: StageView, rows: Rows) -> Rows:
        columns: list[tuple[str, Column]] = []
        existing_columns(self.names or (), list(rows.columns))
        for name, column in rows.columns.items():
            fields = self._fields(name, column.dtype if isinstance(column, np.ndarray) else column.type)
            if fields is None:
                columns.append((name, column))
            else:
                values = cast("Any", column).flatten()  # a field of a null is null
                columns += [(self._path(name, f.name), to_column(v)) for f, v in zip(fields, values, strict=True)]
        _check_different(name for name, _ in columns)
        return Rows(dict(columns), len(rows))

    def row_function(self) -> Callable[[object], object]:
        return self._unnest_row

    def _unnest_row(self, row: object) -> object:
        if isinstance(row, tuple) and self.names is None:
            return tuple(value for item in row for value in (item if isinstance(item, tuple) else (item,)))
        values = as_mapping(row)
        existing_columns(self.names or (), list(values))
        items = [item for name, value in values.items() for item in self._items(name, value)]
        _check_different(name for name, _ in items)
        return dict(items)

    def _items(self, name: str, value: object) -> list[tuple[str, object]]:
        """The fields of a value of a row that is a dict, or the value itself."""
        if self.names is None or name in self.names:
            if isinstance(value, Mapping):
                return [(self._path(name, key), item) for key, item in value.items()]
            if isinstance(value, tuple):
                return [(self._path(name, k), item) for k, item in enumerate(cast("tuple[object, ...]", value))]
            if self.names is not None:
                raise UnfitError(f"column {name!r} has a value of type {type(value).__name__}, which has no fields")
        return [(name, value)]

    def _fields(self, name: str, kind: Any) -> list[Any] | None:
        """The fields of a column of a table; None if it stays as it is."""
        import pyarrow as pa

        if self.names is not None and name not in self.names:
            return None
        if isinstance(kind, pa.StructType):
            return [kind.field(k) for k in range(kind.num_fields)]
        if self.names is not None:
            raise UnfitError(f"column {name!r} is of type {kind}, which has no fields")
        return None

    def _path(self, name: str, key: object) -> str:
        return f"{name}{self.separator}{key}"


def _check_different(names: Iterator[str]) -> None:
    if twice := first_duplicate(names):
        raise UnfitError(
            f"two columns would have the name {twice!r}; give another `separator`, or `.rename` one of them"
        )


@overload
def unnest(
    pipe: Pipe[Mapping[str, object]], /, columns: Sequence[str] | None = None, separator: str = "."
) -> Pipe[dict[str, object]]: ...
@overload
def unnest(pipe: Pipe[tuple[object, ...]], /) -> Pipe[tuple[object, ...]]: ...
def unnest(
    pipe: Pipe[Any], /, columns: Sequence[str] | None = None, separator: str = "."
) -> Pipe[dict[str, object]] | Pipe[tuple[object, ...]]:
    """Make columns of the fields of structs, one level deep.

    Element: a row in which the fields of a column `a` stand in its place, as `a.b`. Columns of a table stay columns; a
    field of a null is null. In a row that is a dict, values that are dicts or tuples are unnested, as `a.b` or `a.0`.
    In a row that is a tuple, its items that are tuples are, so that `zip(...).zip(...)` gives flat tuples. Order and
    length are the input's. Indexed if the input is. State: none.

    Args:
        columns: the names of the columns to unnest; by default all that have fields.
        separator: stands between the names.

    Raises:
        PlanError: there is no such column, it has no fields, or two columns would have one name. If only a run can
            tell, a `DataError` names the row.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence([{"id": 1, "place": {"x": 3, "y": 4}}]).unnest())
        [{'id': 1, 'place.x': 3, 'place.y': 4}]
        >>> list(fp.from_sequence("ab").zip(fp.from_sequence([1, 2])).enumerate().unnest())
        [(0, 'a', 1), (1, 'b', 2)]
    """
    if not isinstance(separator, str):
        raise ArgumentTypeError(with_call_site(f"`separator` must be a string but got: {separator!r}"))
    names = check_names("columns", columns)
    return pipe.then(Unnest(None if names is None else tuple(names), separator))
