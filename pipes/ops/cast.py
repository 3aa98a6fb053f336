"""`cast`, `unnest` and `to_arrow`: columns of other types, fields of structs, batches of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload
from typing import cast as as_type

import numpy as np

from ..core.lazy import pa
from ..core.operator import StageView
from ..core.rows import Column, Rows, grid, is_grid, read_only
from ..core.rows import to_arrow as to_arrow_array
from ..errors import ArgumentError, ArgumentTypeError, UnfitError
from ..formats.columns import Schema, check_names, check_schema, first_duplicate, to_column
from ._column_operator import ColumnConversion, ColumnOperator
from ._shared import as_mapping, as_rows, existing_columns
from .map import BatchMap

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def cast(pipe: Pipe[T], /, schema: Schema) -> Pipe[T]:
    """Give columns other types.

    Element: a row with the same columns. A column whose type is that already is not copied. Numbers become other
    numbers only if no value changes; text is parsed. A type of numbers for a column of arrays is that of their items.
    In rows that are dicts, values become what a column of that type would give: a Python scalar, or an array. Order and
    length are the input's. Indexed if the input is. State: none.

    Args:
        schema: types by name, as Arrow types or their names, such as {"id": "int32", "text": "string"}, or a pyarrow
            schema. Other columns stay as they are.

    Raises:
        ArgumentError: there is no such type.
        PlanError: there is no such column, or values of its type never become the other one. If only a run can tell, a
            `DataError`.
        DataError: a value cannot become the other type; the error names the row. The rows before it come first.

    Example:
        >>> import feedpipe as fp, pyarrow as pa
        >>> table = pa.table({"id": ["1", "2"], "x": [0.5, 1.5]})
        >>> fp.from_table(table).cast({"id": "int32", "x": "float32"}).batch(2).collate()[0]["id"].dtype
        torch.int32
    """
    types = check_schema(schema)
    if not types:
        raise ArgumentError("`schema` must name at least one column but names none")
    return pipe.then(Cast(types))


@dataclass(frozen=True, eq=False, repr=False)
class Cast(ColumnConversion):
    kind: ClassVar[str] = "cast"

    types: Mapping[str, pa.DataType]

    def call(self) -> str:
        types = ", ".join(f"{name!r}: {str(kind)!r}" for name, kind in self.types.items())
        return f"cast({{{types}}})"

    def converted(self) -> Sequence[str]:
        return list(self.types)

    def convert(self, name: str, column: Column) -> Column:
        array = to_arrow_array(column)
        converted = _cast(array, self.types[name])
        if converted is array:
            return column
        stays_array = isinstance(column, np.ndarray) and is_grid(converted)
        return read_only(grid(converted)) if stays_array else to_column(converted)


def _cast(array: Any, kind: Any) -> Any:
    """Convert the values of a column to `kind`, or the items of its values if they are tensors."""
    source = array.type
    try:
        if not isinstance(source, pa.FixedShapeTensorType):
            return array if source == kind else array.cast(kind)
        if not pa.types.is_primitive(kind):
            return array.storage.cast(kind)
        tensor: Any = pa.fixed_shape_tensor(kind, source.shape, source.dim_names, source.permutation)
        return pa.ExtensionArray.from_storage(tensor, array.storage.cast(tensor.storage_type))
    except (pa.ArrowException, ValueError, NotImplementedError, TypeError) as error:
        raise UnfitError(f"of type {source} cannot become {kind}: {' '.join(str(error).split())}") from error


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

    Element: a row with the fields of a column `a` in its place, as `a.b`. Columns of a table stay columns; a
    field of a null is null. In a row that is a dict, values that are dicts or tuples are unnested, as `a.b` or `a.0`.
    In a row that is a tuple, its items that are tuples are, so that `zip(...).zip(...)` gives flat tuples. Order and
    length are the input's. Indexed if the input is. State: none.

    Args:
        columns: the names of the columns to unnest; by default all that have fields.
        separator: between the two names.

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
        raise ArgumentTypeError(f"`separator` must be a string but got: {separator!r}")
    names = check_names("columns", columns)
    return pipe.then(Unnest(None if names is None else tuple(names), separator))


@dataclass(frozen=True, eq=False, repr=False)
class Unnest(ColumnOperator):
    kind: ClassVar[str] = "unnest"

    names: tuple[str, ...] | None = None
    separator: str = "."

    def call(self) -> str:
        columns = [] if self.names is None else [f"{list(self.names)}"]
        return f"unnest({', '.join(columns + ([] if self.separator == '.' else [f'separator={self.separator!r}']))})"

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
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
                values = as_type("Any", column).flatten()  # a field of a null is null
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
        """Return the fields of a value of a row that is a dict, or the value itself."""
        if self.names is None or name in self.names:
            if isinstance(value, Mapping):
                return [(self._path(name, key), item) for key, item in value.items()]
            if isinstance(value, tuple):
                return [(self._path(name, k), item) for k, item in enumerate(as_type("tuple[object, ...]", value))]
            if self.names is not None:
                raise UnfitError(f"column {name!r} has a value of type {type(value).__name__}, which has no fields")
        return [(name, value)]

    def _fields(self, name: str, kind: Any) -> list[Any] | None:
        """Return the fields of a column of a table; None if it stays as it is."""
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


def to_arrow(pipe: Pipe[Sequence[Mapping[str, object]]], /) -> Pipe[pa.RecordBatch]:
    """Turn each batch of rows into an Arrow record batch.

    Element: a `pyarrow.RecordBatch` with the rows of the batch. Columns of a table are not copied; columns of more than
    one dimension become fixed-shape tensors. For lists of dicts, Arrow infers the types from the values of the batch,
    and a name that a row lacks is a null there. Order and length are the input's. Indexed if the input is. State: none.

    Raises:
        DataError: an element is not a batch of rows, or the values of a name cannot form a column; the error names it.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> batches = fp.from_arrays({"x": np.arange(1, 4), "y": np.arange(3) / 2}).batch(2).to_arrow()
        >>> batches[1].to_pydict()
        {'x': [3], 'y': [1.0]}
    """
    return pipe.then(ToArrow())


def record_batch(batch: object) -> pa.RecordBatch:
    """Return `batch` as an Arrow record batch; columns that are Arrow arrays already are not copied."""
    return as_rows(batch).arrow


@dataclass(frozen=True, eq=False, repr=False)
class ToArrow(BatchMap):
    kind: ClassVar[str] = "to_arrow"

    function: Callable[..., object] = record_batch

    def call(self) -> str:
        return "to_arrow()"
