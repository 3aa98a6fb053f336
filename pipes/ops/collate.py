"""`collate`: turns batches of rows into tensors."""

from __future__ import annotations

import copy
import datetime
import decimal
import math
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, cast, overload

import numpy as np

from ..core.checks import check_choice, check_torch
from ..core.code import value_code
from ..core.operator import StageView
from ..core.rows import Array, Column, Rows, Stack, TensorData, concat, grid, is_grid, to_arrow
from ..errors import ArgumentError, UnfitError, with_call_site
from ._shared import as_rows, not_a_batch
from .map import BatchMap

if TYPE_CHECKING:
    import torch

    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@overload
def collate(
    pipe: Pipe[Sequence[Mapping[str, object]]], /, *, nulls: Literal["error", "nan"] = "error"
) -> Pipe[dict[str, torch.Tensor]]: ...
@overload
def collate(
    pipe: Pipe[Sequence[torch.Tensor]] | Pipe[Sequence[float]] | Pipe[Sequence[np.ndarray[Any, Any]]],
    /,
    *,
    nulls: Literal["error", "nan"] = "error",
) -> Pipe[torch.Tensor]: ...
@overload
def collate(
    pipe: Pipe[Sequence[tuple[object, ...]]], /, *, nulls: Literal["error", "nan"] = "error"
) -> Pipe[list[Any]]: ...
@overload
def collate(pipe: Pipe[Sequence[object]], /, *, nulls: Literal["error", "nan"] = "error") -> Pipe[Any]: ...
@overload
def collate(pipe: Pipe[T], /, function: Callable[[T], U]) -> Pipe[U]: ...
def collate(
    pipe: Pipe[Any],
    /,
    function: Callable[[Any], object] | None = None,
    *,
    nulls: Literal["error", "nan"] = "error",
) -> Pipe[Any]:
    """Turn each batch of rows into tensors, or into what `function(batch)` returns.

    Element: by the rules of torch's `default_collate`, numbers, arrays and tensors become one tensor whose first
    dimension is the batch; dicts, tuples and lists become one dict or list of tensors; text and bytes stay lists. A
    batch of table rows becomes a dict of tensors, column by column, without a dict for any row: a tensor has the dtype
    of its column, and a column of arrays, or of lists of one length, becomes a tensor of more dimensions. A batch of
    windows of a table, such as those of `sliding`, becomes one too: its tensors have the batch and the window as their
    first dimensions. Objects that torch can stack, such as a TensorDict, are stacked. Tensors can be written to and
    share no memory. Order and length are the input's. Indexed if the input is. State: none.

    Args:
        function: called with each batch, a list of rows or a `feedpipe.Rows`; its errors come with file, line and row
            (`RowError`).
        nulls: "nan" turns a null among numbers into NaN, also inside lists and structs. Floats keep their dtype;
            integers and bools become float64 in the batches and fields that have a null. A null in place of a whole
            list or struct stays an error; a null among text becomes None.

    Raises:
        DataError: the rows of a batch do not fit together, or a null stands in place of a number; the error names the
            field and the row.
        ArgumentError: both `function` and `nulls="nan"` are given; or there is no `function`, and torch is not
            installed.

    Source: `torch.utils.data.default_collate`, which gives the same results.

    Example:
        >>> import feedpipe as fp
        >>> fp.from_sequence([{"x": 1.0, "y": "a"}, {"x": 2.0, "y": "b"}]).batch(2).collate()[0]
        {'x': tensor([1., 2.], dtype=torch.float64), 'y': ['a', 'b']}
        >>> fp.from_sequence([1, 2, 3]).batch(2).collate(sum)[0]
        3
        >>> fp.from_sequence([{"x": 1}, {"x": None}]).batch(2).collate(nulls="nan")[0]
        {'x': tensor([1., nan], dtype=torch.float64)}
    """
    if function is None:
        check_torch("`collate` makes tensors")
    return pipe.then(Collate(tensors if function is None else function, nulls=nulls))


def tensors(batch: object, *, nan: bool = False) -> object:
    """Collate a batch by the rules of torch's `default_collate`. The first call imports torch."""
    return _collate_batch(batch, Rules(_from_array(), nan))


def tensor_data(batch: object, *, nan: bool = False) -> object:
    """As `tensors`, with a `TensorData` in place of each. Imports torch only for values that need it."""
    return _collate_batch(batch, Rules(_tensor_data_of, nan))


@cache
def _from_array() -> ToTensor:
    from ..torch.tensors import from_array

    return from_array


@dataclass(frozen=True)
class Collate(BatchMap):
    kind: ClassVar[str] = "collate"

    function: Callable[..., object] = tensors
    nulls: Literal["error", "nan"] = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("nulls", self.nulls, ("error", "nan"))
        if self.nulls != "error" and not self._by_rules:
            raise ArgumentError(
                with_call_site(
                    f"`nulls` must be left out if `function` is given but got: {self.nulls!r}; "
                    "`function` itself decides what becomes of nulls"
                )
            )

    @property
    def _by_rules(self) -> bool:
        """Whether torch's default rules make the tensors, and not a function of the user."""
        return self.function in (tensors, tensor_data)

    @property
    def row_function(self) -> Callable[..., object]:
        return partial(self.function, nan=True) if self.nulls == "nan" else self.function

    def sent(self) -> Collate:
        return replace(self, function=tensor_data) if self.function is tensors else self

    def remark(self, stage: StageView) -> None:
        return None

    def call(self) -> str:
        if not self._by_rules:
            return f"collate({value_code(self.function)})"
        return "collate()" if self.nulls == "error" else f"collate(nulls={self.nulls!r})"


# The rules of a collation.


ToTensor: TypeAlias = Callable[[Array | Stack], object]
"""Turns an array that nothing else refers to into a tensor, or into a `TensorData`."""


class Rules(NamedTuple):
    """The rules of a collation.

    Attributes:
        to_tensor: makes a tensor of an array.
        nan: whether a null among numbers becomes NaN; otherwise it is an error.
    """

    to_tensor: ToTensor
    nan: bool = False


_TORCH_DTYPES = frozenset("?bhilqBHILQefdFD")
"""NumPy's codes of the dtypes that torch has too."""


def _tensor_data_of(array: Array | Stack) -> object:
    """Make a `TensorData`, without torch unless the dtype is one that torch refuses with an error of its own."""
    if array.dtype.char in _TORCH_DTYPES:
        return TensorData(array)
    from ..torch.tensors import from_array

    return from_array(array)


def _with_tensors(collated: object, rules: Rules) -> object:
    """Return `collated` with a tensor in place of each array."""
    if isinstance(collated, dict):
        return {name: _with_tensors(part, rules) for name, part in collated.items()}
    return rules.to_tensor(collated) if isinstance(collated, np.ndarray) else collated


# Batches and columns.


PLAIN_TYPES = frozenset(map(np.dtype, "?bBhHiIlLqQefdFD"))
"""Numbers in the byte order of this machine. Most columns have one of these types, and need no further look."""


def _collate_batch(batch: object, rules: Rules) -> object:
    """Collate a sequence of rows to tensors whose first dimension counts the rows."""
    if isinstance(batch, Rows):
        return _collate_columns(_own_columns(batch, rules), "", rules)
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        raise not_a_batch(batch)
    if not batch:
        raise UnfitError("a batch is empty, and so has no shape; leave such batches out with `.filter(len)`")
    return _collate_values(batch, "", rules)


def _own_columns(rows: Rows, rules: Rules) -> Mapping[str, Column]:
    # A worker copies each `TensorData` when it sends it.
    return rows.columns if rules.to_tensor is _tensor_data_of else rows.copies()


def _collate_columns(columns: Mapping[str, Column], field: str, rules: Rules) -> dict[str, object]:
    return {name: _collate_column(columns, name, _path(field, name) if field else name, rules) for name in columns}


def _collate_column(columns: Mapping[str, Column], name: str, field: str, rules: Rules) -> object:
    column = columns[name]
    if isinstance(column, np.ndarray) and column.dtype in PLAIN_TYPES:
        return rules.to_tensor(column)
    if not isinstance(column, np.ndarray):
        try:
            return _with_tensors(_column_arrays(column, field, rules), rules)
        except NoTensorError as error:
            raise UnfitError(f"{error}; {_column_repair([*columns].index(name), name, column.type)}") from error
    if column.dtype.kind in "SU":
        return column.tolist()
    if column.dtype.kind == "O":
        return _collate_values(column.tolist(), field, rules)
    if column.dtype.kind not in "biufc":
        raise UnfitError(f"{NoTensorError(field, column.dtype)}; turn it into numbers, or leave it out")
    return rules.to_tensor(_native(column))


def _collate_windows(windows: Sequence[object], field: str, rules: Rules) -> dict[str, object]:
    """Collate windows of a table, column by column, to tensors whose second dimension counts the rows of a window."""
    _check_agreement("lengths", windows, len, field)  # type: ignore[arg-type]
    width = len(cast("Rows", windows[0]))
    if not width:
        raise _unfit(field, "windows have no rows, and so no shape; leave them out with a `.filter` before `.batch`")
    columns = _own_columns(as_rows(concat(cast("Sequence[Rows]", windows))), rules)
    return _collate_columns({name: _windowed(column, width) for name, column in columns.items()}, field, rules)


def _windowed(column: Column, width: int) -> Column:
    """Return a column with `width` values in each row."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return column.reshape(len(column) // width, width, *column.shape[1:])
    import pyarrow as pa

    return cast("Column", pa.FixedSizeListArray.from_arrays(to_arrow(column), width))


def _native(array: Array) -> Array:
    """Return `array` in the byte order of this machine, the only one that torch supports."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


# Python objects, one from each row, by the type of the first.


_shape = attrgetter("shape")
_dtype = attrgetter("dtype")


def _collate_values(values: Sequence[object], field: str, rules: Rules) -> object:
    """Collate a field of all rows, or the rows themselves. There is at least one value."""
    first = values[0]
    if first is None:
        return _collate_nulls(values, field, rules)
    if isinstance(first, dict):
        return _collate_mappings(first, values, field, rules)
    if isinstance(first, np.ndarray):
        return _collate_arrays(values, field, rules)
    # If there is a tensor, torch has been imported. If not, another thread may be importing it just now.
    if isinstance(first, getattr(sys.modules.get("torch"), "Tensor", ())):
        return _stack_tensors(values, field)
    if isinstance(first, (str, bytes)):
        return values
    if isinstance(first, (np.number, np.bool_)):
        return _collate_numpy_scalars(values, field, rules)
    if isinstance(first, (float, int)):
        return _collate_numbers(values, field, rules)
    if isinstance(first, Rows):
        return _collate_windows(values, field, rules)
    if hasattr(type(first), "__torch_function__"):  # such as a TensorDict
        from ..torch.tensors import stack_objects

        return _convert(lambda: stack_objects(values), values, field)
    if isinstance(first, Mapping):
        return _collate_mappings(first, values, field, rules)
    if isinstance(first, Sequence):
        return _collate_sequences(first, values, field, rules)
    # The user may have registered the type in `default_collate_fn_map`; if not, torch raises a TypeError.
    return _collate_by_torch(values, field)


def _collate_mappings(first: Mapping[object, object], rows: Sequence[object], field: str, rules: Rules) -> object:
    columns: dict[object, object] = {}
    for key in first:
        name = _path(field, key)
        try:
            values = [row[key] for row in rows]  # type: ignore[index]
        except (KeyError, TypeError) as error:
            position = next(i for i, row in enumerate(rows) if not (isinstance(row, Mapping) and key in row))
            raise _unfit(name, f"missing at row {position + 1} of the batch; {REPAIR}") from error
        columns[key] = _collate_values(values, name, rules)
    if type(first) is dict:
        return columns
    try:
        if isinstance(first, MutableMapping):
            # It may have more than its items, such as a default factory: hence a copy, as in torch.
            clone = copy.copy(first)
            clone.update(columns)
            return clone
        return type(first)(columns)  # type: ignore[call-arg]
    except TypeError:
        return columns


def _collate_sequences(first: Sequence[object], values: Sequence[object], field: str, rules: Rules) -> object:
    _check_agreement("lengths", values, len, field)  # type: ignore[arg-type]
    cls: Any = type(first)
    names: Sequence[str] | None = getattr(first, "_fields", None) if isinstance(first, tuple) else None
    parts: list[object] = []
    for place, items in enumerate(zip(*cast("Sequence[Sequence[object]]", values), strict=True)):
        name = names[place] if names else str(place)
        parts.append(_collate_values(items, _path(field, name), rules))
    if names:
        return cls(*parts)
    if isinstance(first, tuple) or type(first) is list:
        return parts
    try:
        if not isinstance(first, MutableSequence):
            return cls(parts)
        clone: MutableSequence[object] = copy.copy(first)
        for place, part in enumerate(parts):
            clone[place] = part
        return clone
    except TypeError:
        return parts


def _stack_tensors(values: Sequence[object], field: str) -> object:
    torch = sys.modules["torch"]
    first: Any = values[0]
    if first.is_nested or first.layout is not torch.strided:
        return _collate_by_torch(values, field)
    try:
        return torch.stack(values)
    except (TypeError, RuntimeError) as error:
        # Only now, because reading the shapes takes torch longer than stacking the tensors.
        _check_agreement("shapes", values, _shape, field)
        raise _unfit(field, f"{error}; {REPAIR}") from error


def _collate_arrays(values: Sequence[object], field: str, rules: Rules) -> object:
    first: Array = values[0]  # type: ignore[assignment]
    _check_agreement("shapes", values, _shape, field)
    if len(set(map(_dtype, values))) > 1:
        from ..torch.tensors import stack_promoted

        return _convert(lambda: stack_promoted(values), values, field)
    if first.dtype.kind not in "biufc":
        _check_numbers(values, field)
        raise _unfit(field, f"arrays of dtype {first.dtype} cannot become a tensor; {REPAIR}")
    return rules.to_tensor(Stack(cast("Sequence[Array]", values)))


# Arrow columns, as arrays of numbers, dicts and lists.


def _column_arrays(column: Any, field: str, rules: Rules, per_row: int = 1) -> object:
    """Return an Arrow array as an array, as a dict of arrays, or, if it is text, as a list.

    Args:
        column: an Arrow array.
        field: its name in errors.
        rules: of the collation.
        per_row: the number of values of `column` that belong to one row of the batch.
    """
    import pyarrow as pa

    arrow_type: Any = column.type
    if pa.types.is_dictionary(arrow_type):
        return _column_arrays(column.dictionary_decode(), field, rules, per_row)
    if isinstance(arrow_type, pa.BaseExtensionType) and not is_grid(column):
        return _column_arrays(column.storage, field, rules, per_row)
    if _is_text(arrow_type):
        return cast("list[object]", column.to_pylist())
    is_number = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_boolean(arrow_type)
    can_be_nan = is_number or pa.types.is_null(arrow_type)
    if not (can_be_nan or pa.types.is_struct(arrow_type) or _is_list(arrow_type) or is_grid(column)):
        raise NoTensorError(field, arrow_type)
    if column.null_count:
        if rules.nan and can_be_nan:
            return _with_nan(column, field)
        raise _null_error(column, field, per_row, can_be_nan)
    if is_grid(column):
        return _grid_array(column, field, rules, per_row)
    if pa.types.is_struct(arrow_type):
        parts = zip(arrow_type, column.flatten(), strict=True)
        return {part.name: _column_arrays(values, f"{field}.{part.name}", rules, per_row) for part, values in parts}
    if _is_list(arrow_type):
        return _list_array(column, field, rules, per_row)
    # Arrow's memory is read-only, and tensors can be written to: hence a copy.
    return np.array(column.to_numpy(zero_copy_only=False))


def _with_nan(column: Any, field: str) -> Array:
    """Return numbers with NaN for each null. Floats keep their dtype; other numbers become float64 if that is exact."""
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise _unfit(
                field,
                "there are nulls among integers beyond 2**53, which float64 does not represent exactly: "
                f"{error}; fill the nulls before `.batch`",
            ) from error
    return np.array(column.to_numpy(zero_copy_only=False))


def _null_error(column: Any, field: str, per_row: int, can_be_nan: bool) -> UnfitError:
    row = next(compress(range(len(column)), column.is_null().to_pylist())) // per_row
    nan = ', or turn nulls among numbers into NaN with `.collate(nulls="nan")`' if can_be_nan else ""
    return _unfit(
        field, f"null at row {row + 1} of the batch, and a tensor has no null; fill or drop it before `.batch`{nan}"
    )


def _grid_array(column: Any, field: str, rules: Rules, per_row: int) -> Array:
    values = column.storage.flatten()
    if not values.null_count:
        return np.array(grid(column))
    shape = column.type.shape
    if column.type.permutation is not None:  # the values are stored in another order than that of the axes
        raise _null_error(values, field, per_row * math.prod(shape), can_be_nan=False)
    numbers = cast("Array", _column_arrays(values, field, rules, per_row * math.prod(shape)))
    return numbers.reshape(len(column), *shape)


def _list_array(column: Any, field: str, rules: Rules, per_row: int) -> object:
    fixed: int | None = getattr(column.type, "list_size", None)
    lengths = np.asarray(column.value_lengths()) if fixed is None else np.full(len(column), fixed)
    width = int(lengths[0]) if len(lengths) else 0
    different = np.flatnonzero(lengths != width)
    if len(different):
        row, other = int(different[0]) // per_row, int(lengths[different[0]])
        raise _unfit(field, f"lengths {width} and {other} differ at row {row + 1} of the batch; {REPAIR}")
    values = _column_arrays(column.flatten(), field, rules, per_row * max(width, 1))
    return _in_lists(values, len(column), width)


def _in_lists(values: Any, count: int, width: int) -> object:
    """Divide the values of a column of lists of one length."""
    if isinstance(values, dict):
        return {name: _in_lists(part, count, width) for name, part in values.items()}
    if isinstance(values, list):
        return [values[number * width : (number + 1) * width] for number in range(count)]
    return values.reshape(count, width, *values.shape[1:])


def _is_list(arrow_type: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type))


def _is_text(arrow_type: Any) -> bool:
    """Return whether `arrow_type` is text or bytes, or a list of them."""
    from pyarrow import types

    if _is_list(arrow_type):
        return _is_text(arrow_type.value_type)
    is_string = (types.is_string, types.is_large_string, types.is_string_view)
    is_binary = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(arrow_type) for test in (*is_string, *is_binary))


# Numbers that are Python objects, and nulls among them.


_NULL = type(None)
_INTS = frozenset({int, bool})
_FLOATS = frozenset({float, int, bool})


def _collate_numpy_scalars(values: Sequence[object], field: str, rules: Rules) -> object:
    types = set(map(type, values))
    if _NULL in types:
        return _collate_with_nulls(values, field, rules)
    if len(types) > 1 or np.timedelta64 in types:  # a timedelta64 is an np.number, but torch has no dtype for it
        return _collate_by_torch(values, field)
    return rules.to_tensor(np.array(values))


def _collate_numbers(values: Sequence[object], field: str, rules: Rules) -> object:
    """Collate Python's own numbers. Ints before a float go to torch, whose default dtype decides on theirs."""
    types = set(map(type, values))
    if _NULL in types:
        return _collate_with_nulls(values, field, rules)
    dtype: Any = None
    if isinstance(values[0], float):
        dtype = np.float64 if types <= _FLOATS else None
    elif types <= _INTS:
        dtype = np.int64 if int in types else np.bool_
    if dtype is None:
        return _collate_by_torch(values, field)
    try:
        array = np.fromiter(values, dtype, len(values))
    except OverflowError:
        return _collate_by_torch(values, field)
    return rules.to_tensor(array)


def _collate_nulls(values: Sequence[object], field: str, rules: Rules) -> object:
    """Collate values that begin with a null; if all are null, they count as numbers."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, (str, bytes)):
        return values
    if first is None or isinstance(first, (float, int, np.number, np.bool_)):
        return _collate_with_nulls(values, field, rules)
    return _collate_by_torch(values, field)


def _collate_by_torch(values: Sequence[object], field: str) -> object:
    """Leave the values to torch, which calls a function that the user has registered for their type."""
    from ..torch.tensors import collate_by_default

    return _convert(lambda: collate_by_default(values), values, field)


def _collate_with_nulls(values: Sequence[object], field: str, rules: Rules) -> object:
    """Collate the values as a column of a table that has nulls."""
    import pyarrow as pa

    try:
        column = pa.array(cast("Any", values))
    except (pa.ArrowException, OverflowError) as error:
        raise _unfit(field, f"{error}; {REPAIR}") from error
    return _with_tensors(_column_arrays(column, field, rules), rules)


# Errors, each with its repair.


REPAIR = "make them agree with a `.map` before `.batch`, or give `.collate` a function"

# A datetime is a date too, and so comes first.
_CONVERSIONS: tuple[tuple[type, str], ...] = (
    (datetime.datetime, "value.timestamp()"),
    (datetime.date, "value.toordinal()"),
    (datetime.timedelta, "value.total_seconds()"),
    (decimal.Decimal, "float(value)"),
    (np.datetime64, "value.astype('int64')"),
    (np.timedelta64, "value.astype('int64')"),
)


class NoTensorError(UnfitError):
    """The type of a column, or of a part of it, has no counterpart in torch."""

    def __init__(self, field: str, column_type: object) -> None:
        super().__init__(f"{_prefix(field)}a column of type {column_type} cannot become a tensor")


def _unfit(field: str, message: str) -> UnfitError:
    """Return the error about `field`, which is empty if the rows themselves are the values."""
    return UnfitError(f"{_prefix(field)}{message}")


def _column_repair(position: int, name: str, column_type: Any) -> str:
    """Return the repair of column `name`, at `position`, whose type has no tensor."""
    from pyarrow import types

    target = None
    if types.is_decimal(column_type):
        target = "float64"
    elif types.is_time32(column_type) or types.is_date32(column_type):
        target = "int32"  # the only cast that Arrow has for these
    elif (
        types.is_timestamp(column_type)
        or types.is_date(column_type)
        or types.is_time(column_type)
        or types.is_duration(column_type)
    ):
        target = "int64"
    action, call = "leave it out", f"b.drop_columns([{name!r}])"
    if target is not None:
        action, call = "make numbers of it", f"b.set_column({position}, {name!r}, b[{name!r}].cast({target!r}))"
    return f"{action} before, with `.map_columns(lambda b: {call}, format='arrow')`"


def _check_agreement(what: str, values: Sequence[object], of: Callable[[object], object], field: str) -> None:
    """Raise an error that names the first value with another `of` than value 0, if there is one."""
    try:
        if len(set(map(of, values))) == 1:
            return
    except (AttributeError, TypeError):
        _raise_difference("types", values, _type_name, field)
    _raise_difference(what, values, of, field)


def _convert(conversion: Callable[[], T], values: Sequence[object], field: str) -> T:
    """Return the result of `conversion`, which collates `values`; if it fails, the error says why."""
    try:
        return conversion()
    except (TypeError, ValueError, RuntimeError) as error:
        _check_numbers(values, field)
        _raise_difference("types", values, _type_name, field)
        raise _unfit(field, f"{error}; {REPAIR}") from error


def _check_numbers(values: Sequence[object], field: str) -> None:
    """Raise an error if the values are times or decimals."""
    first = next((value for value in values if value is not None), None)
    code = _conversion_code(first)
    if code is not None:
        what = (
            f"arrays of dtype {first.dtype}" if isinstance(first, np.ndarray) else f"values of type {_type_name(first)}"
        )
        raise _unfit(
            field,
            f"{what} cannot become a tensor; make numbers of them with a `.map` before `.batch`, such as `{code}`, or "
            "give `.collate` a function",
        )


def _conversion_code(value: object) -> str | None:
    """Return the code that turns a time or a decimal into a number; None for other values."""
    if isinstance(value, np.ndarray):
        return "value.astype('int64')" if value.dtype.kind in "Mm" else None
    return next((code for cls, code in _CONVERSIONS if isinstance(value, cls)), None)


def _raise_difference(what: str, values: Iterable[object], of: Callable[[object], object], field: str) -> None:
    """Raise an error that names the first value that differs from value 0, if there is one."""
    first, *others = map(of, values)
    for row, other in enumerate(others, 2):
        if other != first:
            raise _unfit(field, f"{what} {first} and {other} differ at row {row} of the batch; {REPAIR}")


def _type_name(value: object) -> str:
    return type(value).__name__


def _path(field: str, name: object) -> str:
    return f"{field}.{name}" if field else str(name)


def _prefix(field: str) -> str:
    return f"field `{field}`: " if field else ""
