"""`cast`: columns of other types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from typing import cast as as_type

import numpy as np

from ...core.column import grid, is_grid, read_only
from ...core.operator import StageView
from ...core.rows import Rows, select_columns
from ...errors import ArgumentError, UnfitError, with_call_site
from ...formats.tables.arrow import to_column
from ...formats.tables.columns import Schema, check_schema
from .._column_arguments import existing_columns
from .._unfit_rows import as_mapping
from ._column_operator import ColumnOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Cast(ColumnOperator):
    kind: ClassVar[str] = "cast"

    types: Mapping[str, pa.DataType]

    def call(self) -> str:
        types = ", ".join(f"{name!r}: {str(kind)!r}" for name, kind in self.types.items())
        return f"cast({{{types}}})"

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        existing_columns(self.types, types)
        for name, kind in self.types.items():
            types[name] = _cast(pa.nulls(0, types[name]), name, kind).type
        return pa.schema(list(types.items()))

    def convert_table(self, stage: StageView, rows: Rows) -> Rows:
        columns = dict(rows.columns)
        batch = select_columns(rows, existing_columns(self.types, columns)).arrow
        for (name, kind), array in zip(self.types.items(), batch.columns, strict=True):
            converted = _cast(array, name, kind)
            if converted is not array:
                stays_array = isinstance(columns[name], np.ndarray) and is_grid(converted)
                columns[name] = read_only(grid(converted)) if stays_array else to_column(converted)
        return Rows(columns, len(rows))

    def row_function(self) -> Callable[[object], object]:
        def convert(row: object) -> dict[str, object]:
            values = dict(as_mapping(row))
            existing_columns(self.types, values)
            for name, kind in self.types.items():
                values[name] = _cast_value(values[name], name, kind)
            return values

        return convert


def _cast(array: Any, name: str, kind: Any) -> Any:
    """The values of a column as `kind`, or the items of its values if they are tensors."""
    import pyarrow as pa

    source = array.type
    try:
        if not isinstance(source, pa.FixedShapeTensorType) or not pa.types.is_primitive(kind):
            return array if source == kind else array.cast(kind)
        tensor: Any = pa.fixed_shape_tensor(kind, source.shape, source.dim_names, source.permutation)
        return pa.ExtensionArray.from_storage(tensor, array.storage.cast(tensor.storage_type))
    except (pa.ArrowException, ValueError, NotImplementedError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise UnfitError(f"column {name!r} of type {source} cannot become {kind}: {reason}") from error


def _cast_value(value: object, name: str, kind: Any) -> object:
    import pyarrow as pa

    if isinstance(value, np.ndarray) and value.ndim and pa.types.is_primitive(kind):
        items = _cast(pa.array(np.ascontiguousarray(value).reshape(-1)), name, kind)
        return items.to_numpy(zero_copy_only=False).reshape(value.shape)
    try:
        array: Any = pa.array([as_type("Any", value)])
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise UnfitError(f"column {name!r}: {value!r:.80} cannot become {kind}: {error}") from error
    return _cast(array, name, kind)[0].as_py()


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
        raise ArgumentError(with_call_site("`schema` must name at least one column but names none"))
    return pipe.then(Cast(types))
