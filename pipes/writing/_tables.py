"""The rows of a run as tables."""

from __future__ import annotations

import sys
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from ..core.arrow import number_dtype
from ..core.lazy import pa
from ..core.rows import ArrowArray, Rows, check_zones, infer_array, scalars
from ..errors import ArgumentError, DataError, call_site
from ..formats.columns import format_names, suggest_name
from ._dataset_writer import Item, OutputFile, Sink
from ._run import ChunkedRun, SavedRun

CHUNK_ROWS = 256
"""The rows that become columns, or come from a worker, at a time."""
_MAX_TABLE_BYTES = 2**26  # of memory, about
Values: TypeAlias = "list[object] | ArrowArray"


@dataclass
class ColumnSink(Sink[Item]):
    """A format whose rows have the same columns, and become record batches of one schema."""

    types: dict[str, pa.DataType]
    fixed: pa.Schema | None = field(default=None, init=False, repr=False)
    """Names and types of the columns, which the first chunk of rows fixes."""
    converted: int = field(default=0, init=False, repr=False)
    """The number of rows so far."""

    @property
    def schema(self) -> pa.Schema | None:
        return self.fixed

    def go_on(self, saved: SavedRun) -> None:
        self.fixed, self.converted = saved.schema, saved.rows

    def batch(self, chunk: Sequence[object]) -> pa.RecordBatch:
        """Convert a chunk of rows."""
        columns = self._columns(chunk)
        if self.fixed is None:
            if missing := next((name for name in self.types if name not in columns), None):
                raise ArgumentError(
                    f"`schema` has a column {missing!r} that the rows do not have; {suggest_name(missing, columns)}"
                )
            arrays = [self._array(name, values, self.types.get(name)) for name, values in columns.items()]
            self.fixed = pa.schema([(name, array.type) for name, array in zip(columns, arrays, strict=True)])
        else:
            arrays = [self._array(field.name, columns[field.name], field.type) for field in self.fixed]
        self.converted += len(chunk)
        return pa.RecordBatch.from_arrays(arrays, schema=self.fixed)

    def schema_without_rows(self) -> pa.Schema:
        """The schema if the pipe gives no row: the types of the user."""
        if not self.types:
            raise DataError("the pipe gives no row, so its columns are not known; `schema=` names them", at=call_site())
        return pa.schema(list(self.types.items()))

    def _columns(self, chunk: Sequence[object]) -> Mapping[str, Values]:
        expected = None if self.fixed is None else self.fixed.names
        if isinstance(chunk, Rows):
            batch = chunk.arrow
            _check_names(batch.schema.names, expected, self.converted + 1)
            return dict(zip(batch.schema.names, batch.columns, strict=True))
        first = chunk[0]
        names = expected or (list(first) if isinstance(first, Mapping) else [])
        for number, row in enumerate(chunk, self.converted + 1):
            if not isinstance(row, Mapping):
                raise DataError(
                    f"`{self.made_by}` writes rows that are dicts, but row {number} is of type {type(row).__name__}; "
                    "`.unbatch()` gives the rows of batches, and `.map` can make dicts"
                )
            if row.keys() != dict.fromkeys(names).keys():
                _check_names(list(row), names, number)
        if not names:
            raise DataError(f"row {self.converted + 1} has no columns")
        return {name: [cast("Any", row)[name] for row in chunk] for name in names}

    def _array(self, name: str, values: Values, kind: pa.DataType | None) -> ArrowArray:
        array, error = _try_array(values, kind)
        if array is not None:
            return array
        # Search the first row that cannot join the rows before it.
        at = bisect_left(range(len(values)), True, key=lambda last: _try_array(values[: last + 1], kind)[0] is None)
        reason = " ".join(str(_try_array(values[: at + 1], kind)[1] or error).split())
        of_type = f" of type {kind}" if kind is not None else ""
        raise DataError(
            f"row {self.converted + at + 1} does not fit column {name!r}{of_type}: {reason}; "
            "the first rows fix the types, unless `schema=` does"
        ) from error


@dataclass
class TableSink(ColumnSink["pa.Table"]):
    """A format whose files hold tables, as row groups or record batches."""

    max_rows: int

    @abstractmethod
    def open_tables(self, file: OutputFile, first: pa.Table) -> AbstractContextManager[Callable[[pa.Table], object]]:
        """Begin a file of tables like the first one, which has no rows if the run has none; as `open` does."""

    def open(self, file: OutputFile, first: pa.Table | None) -> AbstractContextManager[Callable[[pa.Table], object]]:
        return self.open_tables(file, self.schema_without_rows().empty_table() if first is None else first)

    def rows(self, item: pa.Table) -> int:
        return len(item)

    def items(self, run: ChunkedRun) -> Iterator[pa.Table]:
        max_bytes = min(_MAX_TABLE_BYTES, self.limits.bytes or _MAX_TABLE_BYTES)
        # A run that goes on cuts the same tables, also after a file that ended early.
        before = run.rows % (self.limits.rows or 1)
        return slice_tables(map(self.batch, run), self.max_rows, max_bytes, self.limits.rows, before)


def _check_names(names: Sequence[str], expected: Sequence[str] | None, row: int) -> None:
    for name in names:
        if not isinstance(name, str):
            raise DataError(f"row {row} has a column whose name is no string: {name!r}")
        if expected is not None and name not in expected:
            raise DataError(
                f"row {row} has a column {name!r} that the first rows do not have: {format_names(expected)}"
            )
    for name in expected or ():
        if name not in names:
            raise DataError(f"row {row} has no column {name!r}, but the first rows do; None stands for a missing value")


def _try_array(values: Values, kind: pa.DataType | None) -> tuple[ArrowArray | None, Exception | None]:
    try:
        try:
            return _to_array(values, kind), None
        except (pa.ArrowException, TypeError):
            times = _with_arrow_times(values)
            if times is values:
                raise
            return _to_array(cast("Values", times), kind), None
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return None, error


def _with_arrow_times(value: object) -> object:
    """The value with the times of NumPy in units that Arrow has: days become dates, minutes seconds."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "mM":
        unit, _ = np.datetime_data(cast("np.dtype[np.datetime64]", value.dtype))
        if value.dtype.kind == "M" and unit in ("Y", "M", "W", "D"):
            return value.astype("M8[D]").tolist()
        return value.astype(f"{value.dtype.kind}8[s]") if unit in ("W", "D", "h", "m") else value
    if isinstance(value, (list, tuple)):
        items = [_with_arrow_times(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        return {name: _with_arrow_times(item) for name, item in value.items()}
    return value


def _to_array(values: Values, kind: pa.DataType | None) -> ArrowArray:
    """Convert the values to an array of type `kind`, or of their own if that is None; an error if one would change."""
    if not isinstance(values, list):
        if kind is None or values.type == kind:
            return values
        if _converts_columns(values.type, kind):
            return cast("ArrowArray", values.cast(kind))
        values = scalars(values)
    if any(issubclass(value_type, _array_types()) for value_type in set(map(type, values))):
        values, kind = _flatten_arrays(values, kind)
        if isinstance(kind, pa.FixedShapeTensorType):
            storage = pa.array(cast("Any", values), kind.storage_type)
            return cast("ArrowArray", pa.ExtensionArray.from_storage(kind, storage))
    check_zones(values)
    try:
        own: Any = infer_array(values)
    except (pa.ArrowException, TypeError, OverflowError):
        if kind is None:
            raise
        return cast("ArrowArray", pa.array(cast("Any", values), kind))
    if kind is None or own.type == kind:
        return cast("ArrowArray", own)
    array = pa.array(cast("Any", values), kind)  # refuses other kinds of values, but drops the fraction of a float
    own.cast(kind)  # refuses to drop a fraction
    if lost := set(_fields(own.type)) - set(_fields(kind)):
        raise ValueError(f"it has a field {min(lost)!r}")
    return cast("ArrowArray", array)


def _flatten_arrays(values: list[object], kind: Any) -> tuple[list[object], pa.DataType | None]:
    """Prepare values for Arrow if some are arrays. Arrays of one shape become a column of tensors."""
    if np.ma.MaskedArray in set(map(type, values)):
        raise ValueError("a masked array has no place in a file; fill it with `.filled(...)`")
    arrays = [np.asarray(v) if isinstance(v, _array_types()) else v for v in values]
    present = [array for array in arrays if isinstance(array, np.ndarray)]
    shapes = {array.shape for array in present}
    only_arrays = all(array is None or isinstance(array, np.ndarray) for array in arrays)
    if kind is None and only_arrays and len(shapes) == 1 and present[0].ndim and present[0].size:
        kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(np.result_type(*present)), present[0].shape)
    if isinstance(kind, pa.FixedShapeTensorType):
        return [None if array is None else _flat(array, kind) for array in arrays], kind
    if kind is None and any(len(shape) > 1 for shape in shapes):
        what = "of several shapes" if len(shapes) > 1 else f"without items, of shape {present[0].shape}"
        raise ValueError(f"there are arrays {what}; `.tolist()` makes lists of them")
    # Arrow takes scalars and arrays of one axis.
    plain = [a if not isinstance(a, np.ndarray) or a.ndim == 1 else a.tolist() if a.ndim else a[()] for a in arrays]
    return list[object](plain), kind


def _flat(value: object, kind: Any) -> object:
    array = np.asarray(value)
    dtype = number_dtype(kind.value_type)
    if dtype is None:  # of times
        dtype = pa.nulls(0, kind.value_type).to_numpy(zero_copy_only=False).dtype
    if array.shape != tuple(kind.shape):
        raise ValueError(f"its shape is {array.shape}")
    if not np.can_cast(array.dtype, dtype) and not array.dtype.kind == dtype.kind == "f":
        raise ValueError(f"its type is {array.dtype}")
    return array.astype(dtype, copy=False).ravel()


def _array_types() -> tuple[type, ...]:
    # If a value is a tensor, torch has been imported.
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return (np.ndarray,) if tensor is None else (np.ndarray, tensor)


def _converts_columns(kind: pa.DataType, to: pa.DataType) -> bool:
    """Return True if Arrow converts whole columns, and refuses values that would change."""
    return pa.types.is_null(kind) or _family(kind) == _family(to)


def _family(kind: pa.DataType) -> str:
    types: Any = pa.types
    if types.is_integer(kind) or types.is_floating(kind):
        return "number"
    return "text" if types.is_string(kind) or types.is_large_string(kind) else str(kind)


def _fields(kind: Any, above: str = "") -> Iterator[str]:
    """The names of struct fields at any depth, with dots between the levels."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield above + field.name
            yield from _fields(field.type, f"{above}{field.name}.")
    elif isinstance(kind, pa.BaseExtensionType):  # whose class may give other attributes any meaning
        yield from _fields(kind.storage_type, above)
    elif inner := getattr(kind, "value_type", None):
        yield from _fields(inner, above)


def slice_tables(
    batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int, rows_per_file: int | None, before: int = 0
) -> Iterator[pa.Table]:
    """Slice the rows into tables within both limits, none of which crosses the end of a file that has `before` rows."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    left = rows_per_file and rows_per_file - before  # of this file
    for batch in batches:
        rest = batch
        while len(rest):
            room = max_rows - rows if left is None else min(max_rows, left) - rows
            part = rest[:room]
            rest = rest[room:]
            parts.append(part)
            rows += len(part)
            size += part.nbytes
            if len(part) == room or size >= max_bytes:
                yield pa.Table.from_batches(parts)
                if left is not None:
                    left = left - rows or rows_per_file
                parts, rows, size = [], 0, 0
    if parts:
        yield pa.Table.from_batches(parts)
