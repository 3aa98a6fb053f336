"""`fill_null`: values in place of missing ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from ...core.column import Column, is_grid, read_only, scalars
from ...errors import ArgumentTypeError, UnfitError, with_call_site
from ...formats.tables.arrow import to_column
from .._column_arguments import existing_columns
from .._unfit_rows import as_mapping
from ._column_conversion import ColumnConversion, whole_grid
from ._missing_values import is_missing, missing_mask, numbers_and_nulls

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class FillNull(ColumnConversion):
    kind: ClassVar[str] = "fill_null"

    values: Mapping[str, object]

    def __post_init__(self) -> None:
        if not (
            isinstance(cast("object", self.values), Mapping)
            and self.values
            and all(isinstance(name, str) for name in self.values)
        ):
            raise ArgumentTypeError(
                with_call_site(
                    f'`values` must map names of columns to values, such as {{"x": 0}}, but got: {self.values!r}'
                )
            )
        values = dict(self.values)
        for name, value in values.items():
            values[name] = value.item() if isinstance(value, np.generic) else value
            if value is None or value != value:
                raise ArgumentTypeError(with_call_site(f"the value for {name!r} must not be missing but got: {value}"))
        object.__setattr__(self, "values", values)

    def converted(self) -> Sequence[str]:
        return list(self.values)

    def convert(self, name: str, column: Column) -> Column:
        import pyarrow as pa
        import pyarrow.compute as pc

        value: Any = self.values[name]
        if not isinstance(column, np.ndarray) and is_grid(column):
            column = whole_grid(column)
        if isinstance(column, np.ndarray):
            _check_fits(value, pa.from_numpy_dtype(column.dtype))
            nan = np.isnan(column) if column.dtype.kind == "f" else np.False_
            return read_only(np.where(nan, np.asarray(value, column.dtype), column)) if nan.any() else column
        array: Any = column
        if pa.types.is_null(array.type):
            return to_column(pa.array([value] * len(array), pa.scalar(value).type))
        if isinstance(array.type, pa.DictionaryType):
            array = array.dictionary_decode()
        _check_fits(value, array.type)
        mask = missing_mask(array)
        if mask is not None and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
            numbers, _ = numbers_and_nulls(array)
            return read_only(np.where(mask, np.asarray(value, numbers.dtype), numbers))
        return to_column(array if mask is None else pc.if_else(pa.array(mask), pa.scalar(value, array.type), array))

    def row_function(self) -> Callable[[object], object]:
        def fill(row: object) -> dict[str, object]:
            values = dict(as_mapping(row))
            for name in existing_columns(self.values, values):
                value = values[name]
                if is_missing(value):
                    values[name] = self.values[name]
                elif isinstance(value, np.ndarray) and value.ndim:
                    values[name] = scalars(self.convert(name, value[None]))[0]
            return values

        return fill


def _check_fits(value: Any, kind: Any) -> None:
    """Checks that a column of type `kind` can have the value.

    Raises:
        UnfitError: it would be another value.
    """
    import pyarrow as pa

    try:
        item = pa.scalar(value, kind).as_py()
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError):
        item = None
    if item is None or (item != value and not pa.types.is_floating(kind)):
        raise UnfitError(
            f"is of type {kind}, which does not have the value {value!r}; `.cast` the column, or give another value"
        )


def fill_null(pipe: Pipe[T], /, values: Mapping[str, object]) -> Pipe[T]:
    """Put a value in place of each missing one: of nulls, and of NaN among floats.

    Element: a row with the same columns, whose types stay. Order and length are the input's. Indexed if the input is.
    State: none.

    Args:
        values: by the name of the column the value, which must be one of its type. A fitted statistic may give it, such
            as `stats["x"].mean`.

    Raises:
        PlanError: there is no such column, or its type does not have the value. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp, pyarrow as pa
        >>> table = pa.table({"x": [1.5, None], "city": [None, "Rome"]})
        >>> list(fp.from_table(table).fill_null({"x": 0, "city": "unknown"}))
        [{'x': 1.5, 'city': 'unknown'}, {'x': 0.0, 'city': 'Rome'}]
    """
    return pipe.then(FillNull(values))
