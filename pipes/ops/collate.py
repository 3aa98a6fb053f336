"""`collate`: turns batches of rows into tensors, or into arrays."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np

from ..core.arrow import arrow_array
from ..core.checks import check_choice, check_torch
from ..core.code import value_code
from ..core.lazy import pa
from ..core.operator import ElementForm
from ..core.records import fields_of, record_of
from ..core.rows import Array, Column, JaggedData, Rows, Stack, TensorData, concat, to_arrow
from ..errors import ArgumentError, ArgumentTypeError, UnfitError
from ..formats.columns import suggest_name
from ._collate_columns import (
    REPAIR,
    Form,
    NoTensorError,
    Rules,
    check_agreement,
    check_numbers,
    column_arrays,
    column_repair,
    converted,
    offsets_of,
    path_to,
    ragged_repair,
    raise_difference,
    type_name,
    unfit,
)
from ._shared import as_rows, not_a_batch
from .map import BatchMap

if TYPE_CHECKING:
    import torch

    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")

Ragged = Literal["error", "nested"] | Mapping[str, Literal["error", "nested"]]


class CollateOptions(TypedDict, total=False):
    """The options that all overloads without a function have."""

    nulls: Literal["error", "nan"]
    codes: bool


class TorchOptions(CollateOptions, total=False):
    ragged: Literal["error", "nested"] | Mapping[str, Literal["error", "nested"]]
    format: Literal["torch"]


@overload
def collate(
    pipe: Pipe[Sequence[Mapping[str, object]]], /, *, format: Literal["numpy"], **options: Unpack[CollateOptions]
) -> Pipe[dict[str, np.ndarray[Any, Any]]]: ...
@overload
def collate(
    pipe: Pipe[Sequence[float]] | Pipe[Sequence[np.ndarray[Any, Any]]],
    /,
    *,
    format: Literal["numpy"],
    **options: Unpack[CollateOptions],
) -> Pipe[np.ndarray[Any, Any]]: ...
@overload
def collate(
    pipe: Pipe[Sequence[object]], /, *, format: Literal["numpy"], **options: Unpack[CollateOptions]
) -> Pipe[Any]: ...
@overload
def collate(
    pipe: Pipe[Sequence[Mapping[str, object]]], /, **options: Unpack[TorchOptions]
) -> Pipe[dict[str, torch.Tensor]]: ...
@overload
def collate(
    pipe: Pipe[Sequence[torch.Tensor]] | Pipe[Sequence[float]] | Pipe[Sequence[np.ndarray[Any, Any]]],
    /,
    **options: Unpack[TorchOptions],
) -> Pipe[torch.Tensor]: ...
@overload
def collate(pipe: Pipe[Sequence[tuple[object, ...]]], /, **options: Unpack[TorchOptions]) -> Pipe[list[Any]]: ...
@overload
def collate(pipe: Pipe[Sequence[object]], /, **options: Unpack[TorchOptions]) -> Pipe[Any]: ...
@overload
def collate(pipe: Pipe[T], /, function: Callable[[T], U]) -> Pipe[U]: ...
def collate(
    pipe: Pipe[Any],
    /,
    function: Callable[[Any], object] | None = None,
    *,
    nulls: Literal["error", "nan"] = "error",
    ragged: Literal["error", "nested"] | Mapping[str, Literal["error", "nested"]] = "error",
    codes: bool = False,
    format: Literal["torch", "numpy"] = "torch",
) -> Pipe[Any]:
    """Turn each batch of rows into tensors, or into what `function(batch)` returns.

    Element: by the rules of torch's `default_collate`, numbers, arrays and tensors become one tensor whose first
    dimension is the batch; dicts, tuples and lists become one dict or list of tensors; text and bytes stay lists. A
    batch of table rows becomes a dict of tensors, column by column, without a dict for any row: a tensor has the dtype
    of its column, and a column of arrays, or of lists of one length, becomes a tensor of more dimensions. A batch of
    windows of a table, such as those of `sliding`, becomes one too: its tensors have the batch and the window as their
    first dimensions. Objects of a dataclass or an attrs class become one object of that class, which is called once
    with the collated fields. Objects that torch can stack, such as a TensorDict, are stacked; so are sparse tensors of
    the layout COO. Ints and floats in one field become floats in a batch that has both, and integers in one of ints
    alone. The floats are float64 after a float, torch's default dtype after an int, which rounds integers above 2^24
    (`format="numpy"` always gives float64, exact up to 2^53). Tensors can be written to and share no memory. Order and
    length are the input's. Indexed if the input is. State: none.

    Args:
        function: called with each batch, a list of rows or a `feedpipe.Rows`; its errors come with file, line and row
            (`RowError`).
        nulls: "nan" turns a null among numbers into NaN, also inside lists and structs. Floats keep their dtype;
            integers and bools become float64 in the batches and fields that have a null. A null in place of a whole
            list or struct stays an error; a null among text becomes None.
        ragged: "nested" makes nested tensors (`torch.nested`, jagged) of lists of numbers, arrays, tensors and windows,
            which may differ in their first dimension; in every batch, also if they happen to agree. A dict names the
            fields that become nested, as in `{"boxes": "nested"}`. Columns of a table have one form for all rows if
            their type is an array or a list of one size; these are never nested.
        codes: True leaves a dictionary column its codes and makes no text of them: `{"codes": tensor, "vocabulary":
            array}`, where code k stands for value k of a `pyarrow.Array`. Each batch has a vocabulary of its own. See
            `read_parquet(dictionaries=)`.
        format: "numpy" gives NumPy arrays in place of tensors, by the same rules, and needs no torch. Only dtypes that
            differ within a batch are promoted by NumPy's rules.

    Raises:
        DataError: the rows of a batch do not fit together, or a null stands in place of a number; the error names the
            field and the row.
        ArgumentError: `function` and another argument are given; `ragged="nested"` with `format="numpy"`, which has no
            nested arrays; or there is no `function`, the format is "torch", and torch is not installed.

    Source: `torch.utils.data.default_collate`, which gives the same results.

    Example:
        >>> import feedpipe as fp
        >>> fp.from_sequence([{"x": 1.0, "y": "a"}, {"x": 2.0, "y": "b"}]).batch(2).collate()[0]
        {'x': tensor([1., 2.], dtype=torch.float64), 'y': ['a', 'b']}
        >>> fp.from_sequence([1, 2, 3]).batch(2).collate(sum)[0]
        3
        >>> fp.from_sequence([{"x": 1}, {"x": None}]).batch(2).collate(nulls="nan")[0]
        {'x': tensor([1., nan], dtype=torch.float64)}
        >>> fp.from_sequence([{"x": 1}, {"x": 2}]).batch(2).collate(format="numpy")[0]
        {'x': array([1, 2])}
        >>> fp.from_sequence([[1, 2, 3], [4]]).batch(2).collate(ragged="nested")[0].offsets()
        tensor([0, 3, 4])
    """
    return pipe.then(Collate(function, nulls=nulls, ragged=ragged, codes=codes, format=format))


@dataclass(frozen=True, eq=False, repr=False)
class Collate(BatchMap, ElementForm):  # pyright: ignore[reportIncompatibleVariableOverride]
    kind: ClassVar[str] = "collate"

    function: Callable[..., object] | None = None  # type: ignore[assignment]
    nulls: Literal["error", "nan"] = field(default="error", kw_only=True)
    ragged: Ragged = field(default="error", kw_only=True)
    codes: bool = field(default=False, kw_only=True)
    format: Literal["torch", "numpy"] = field(default="torch", kw_only=True)
    is_sent: bool = field(default=False, kw_only=True, repr=False)
    """Whether the results go to another process."""

    def __post_init__(self) -> None:
        if self.function is not None:
            super().__post_init__()
        self._check_ragged()
        check_choice("nulls", self.nulls, ("error", "nan"))
        check_choice("format", self.format, ("torch", "numpy"))
        if self.function is not None and self._changes:
            name, value = next(iter(self._changes.items()))
            raise ArgumentError(
                f"`{name}` must be left out if `function` is given but got: {value!r}; "
                "`function` itself decides what becomes of a batch"
            )
        if self.format == "numpy" and self.rules_ragged:
            raise ArgumentError(
                '`ragged="nested"` needs `format="torch"`, because NumPy has no nested arrays; `.pad_batch()` '
                "makes rows equally long"
            )
        if self.function is None and self.format == "torch":
            check_torch("`collate` makes tensors", ', and `format="numpy"` needs no torch')

    def _check_ragged(self) -> None:
        if not isinstance(self.ragged, Mapping):
            check_choice("ragged", self.ragged, ("error", "nested"))
            return
        for name, value in self.ragged.items():
            if not isinstance(name, str):
                raise ArgumentTypeError(f"`ragged` must have names of fields but has: {name!r}")
            check_choice(f"ragged[{name!r}]", value, ("error", "nested"))

    @property
    def rules_ragged(self) -> frozenset[str] | bool:
        if isinstance(self.ragged, Mapping):
            return frozenset(name for name, value in self.ragged.items() if value == "nested")
        return self.ragged == "nested"

    @property
    def row_function(self) -> Callable[..., object]:
        if self.function is not None:
            return self.function
        form = form_of(self.format, sent=self.is_sent)
        return partial(collate_batch, Rules(form, self.nulls == "nan", self.rules_ragged, self.codes))

    def sent(self) -> Collate:
        return self if self.function is not None else replace(self, is_sent=True)

    def call(self) -> str:
        if self.function is not None:
            return f"collate({value_code(self.function)})"
        return f"collate({', '.join(f'{name}={value!r}' for name, value in self._changes.items())})"

    @property
    def _changes(self) -> dict[str, object]:
        """The arguments that differ from their defaults."""
        return {name: value for name, default in _DEFAULTS.items() if (value := getattr(self, name)) != default}


_DEFAULTS: dict[str, object] = {"nulls": "error", "ragged": "error", "codes": False, "format": "torch"}


def tensors(batch: object) -> object:
    """Collate a batch by the rules of torch's `default_collate`. The first call imports torch."""
    return collate_batch(Rules(form_of("torch")), batch)


def tensor_data(batch: object) -> object:
    """As `tensors`, with a `TensorData` in place of each. Imports torch only for values that need it."""
    return collate_batch(Rules(form_of("torch", sent=True)), batch)


# The forms of the results.


@cache
def form_of(format: Literal["torch", "numpy"], *, sent: bool = False) -> Form:
    """The form of the results; if they are sent, what becomes that form in the other process."""
    if format == "numpy":
        return Form("an array of numbers", _as_it_is if sent else np.asarray, _as_it_is, shares=sent, by_torch=False)
    if sent:
        return Form("a tensor", _tensor_data_of, _as_it_is, shares=True)
    from ..torch.tensors import from_array, nested

    return Form("a tensor", from_array, nested)


def _here(rules: Rules) -> Rules:
    """The rules that give the results at once, and not in the other process."""
    return rules._replace(form=form_of("torch" if rules.form.by_torch else "numpy"))


def _as_it_is(array: object) -> object:
    return array


_TORCH_DTYPES = frozenset("?bhilqBHILQefdFD")
"""NumPy's codes of the dtypes that torch has too."""


def _tensor_data_of(array: Array | Stack) -> object:
    """Make a `TensorData`, without torch unless the dtype is one that torch refuses with an error of its own."""
    if array.dtype.char in _TORCH_DTYPES:
        return TensorData(array)
    from ..torch.tensors import from_array

    return from_array(array)


def _formed(collated: object, rules: Rules) -> object:
    """Return `collated` in the form of the results."""
    if isinstance(collated, dict):
        return {name: _formed(part, rules) for name, part in collated.items()}
    if isinstance(collated, JaggedData):
        return rules.form.of_jagged(collated)
    return rules.form.of_array(collated) if isinstance(collated, np.ndarray) else collated


# Batches and columns.


PLAIN_TYPES = frozenset(map(np.dtype, "?bBhHiIlLqQefdFD"))
"""Numbers in the byte order of this machine. Most columns have one of these types, and need no further look."""


def collate_batch(rules: Rules, batch: object) -> object:
    """Collate a sequence of rows to tensors whose first dimension counts the rows."""
    if isinstance(batch, Rows):
        return _collate_columns(_own_columns(batch, rules), "", rules)
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        raise not_a_batch(batch)
    if not batch:
        raise UnfitError("a batch is empty, and so has no shape; leave such batches out with `.filter(len)`")
    return _collate_values(batch, "", rules)


def _own_columns(rows: Rows, rules: Rules) -> Mapping[str, Column]:
    return rows.columns if rules.form.shares else rows.copies()


def _collate_columns(columns: Mapping[str, Column], field: str, rules: Rules) -> dict[str, object]:
    if not field and rules.ragged:
        _check_ragged_names(columns, rules)
    of_array = rules.form.of_array
    collated: dict[str, object] = {}
    for name, column in columns.items():
        if isinstance(column, np.ndarray) and column.dtype in PLAIN_TYPES:
            collated[name] = of_array(column)
        else:
            collated[name] = _collate_column(column, name, path_to(field, name), rules)
    return collated


def _check_ragged_names(names: Mapping[Any, object], rules: Rules) -> None:
    if isinstance(rules.ragged, bool):
        return
    listed = [*map(str, names)]
    for name in rules.ragged:
        if not any(name == each or name.startswith(f"{each}.") for each in listed):
            raise UnfitError(f"`ragged` names {name!r}, and rows have no such field; {suggest_name(name, listed)}")


def _collate_column(column: Column, name: str, field: str, rules: Rules) -> object:
    if not isinstance(column, np.ndarray):
        try:
            return _formed(column_arrays(column, field, rules), rules)
        except NoTensorError as error:
            raise UnfitError(f"{error}; {column_repair(name, column.type)}") from error
    if column.dtype.kind in "SU":
        return column.tolist()
    if column.dtype.kind == "O":
        return _collate_values(column.tolist(), field, rules)
    if column.dtype.kind not in "biufc":
        raise UnfitError(f"{NoTensorError(field, column.dtype, rules)}; turn it into numbers, or leave it out")
    return rules.form.of_array(_native(column))


def _collate_windows(windows: Sequence[object], field: str, rules: Rules) -> dict[str, object]:
    """Collate windows of a table, column by column, to tensors whose second dimension counts the rows of a window."""
    raise_difference("types", windows, type_name, field)
    tables = cast("Sequence[Rows]", windows)
    columns = _own_columns(as_rows(concat(tables)), rules)
    lengths = [len(table) for table in tables]
    if not all(rules.is_ragged(path_to(field, name)) for name in columns):
        check_agreement("lengths", tables, len, field, ragged_repair(rules))  # type: ignore[arg-type]
        if not lengths[0]:
            raise unfit(field, "windows have no rows, and so no shape; leave them out with a `.filter` before `.batch`")
    windowed = {
        name: _ragged(column, lengths) if rules.is_ragged(path_to(field, name)) else _windowed(column, lengths[0])
        for name, column in columns.items()
    }
    return _collate_columns(windowed, field, rules)


def _windowed(column: Column, width: int) -> Column:
    """Return a column with `width` values in each row."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return column.reshape(len(column) // width, width, *column.shape[1:])
    return cast("Column", pa.FixedSizeListArray.from_arrays(to_arrow(column), width))


def _ragged(column: Column, lengths: Sequence[int]) -> Column:
    """Return a column with as many values in each row."""
    return cast("Column", pa.LargeListArray.from_arrays(arrow_array(offsets_of(lengths)), to_arrow(column)))


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
        return _collate_tensors(values, field, rules)
    if isinstance(first, (str, bytes)):
        return values
    if isinstance(first, (np.number, np.bool_)):
        return _collate_numpy_scalars(values, field, rules)
    if isinstance(first, (float, int)):
        return _collate_numbers(values, field, rules)
    if isinstance(first, Rows):
        return _collate_windows(values, field, rules)
    if hasattr(type(first), "__torch_function__"):  # such as a TensorDict
        return _collate_torch_objects(values, field, rules)
    if isinstance(first, Mapping):
        return _collate_mappings(first, values, field, rules)
    if isinstance(first, list) and rules.is_ragged(field):
        return _collate_by_arrow(values, field, rules)
    if isinstance(first, Sequence):
        return _collate_sequences(first, values, field, rules)
    return _collate_others(values, field, rules)


def _collate_mappings(first: Mapping[object, object], rows: Sequence[object], field: str, rules: Rules) -> object:
    if not field and rules.ragged:
        _check_ragged_names(first, rules)
    columns: dict[object, object] = {}
    for key in first:
        name = path_to(field, key)
        try:
            values = [row[key] for row in rows]  # type: ignore[index]
        except (KeyError, TypeError) as error:
            position = next(i for i, row in enumerate(rows) if not (isinstance(row, Mapping) and key in row))
            raise unfit(name, f"missing at row {position + 1} of the batch; {REPAIR}") from error
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
    repair = ragged_repair(rules) if isinstance(first, list) else REPAIR
    check_agreement("lengths", values, len, field, repair)  # type: ignore[arg-type]
    cls: Any = type(first)
    names: Sequence[str] | None = getattr(first, "_fields", None) if isinstance(first, tuple) else None
    parts: list[object] = []
    for place, items in enumerate(zip(*cast("Sequence[Sequence[object]]", values), strict=True)):
        name = names[place] if names else str(place)
        parts.append(_collate_values(items, path_to(field, name), rules))
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


def _collate_records(cls: type, names: Sequence[str], records: Sequence[object], field: str, rules: Rules) -> object:
    raise_difference("types", records, type_name, field)
    here = _here(rules)  # code of the class may use the values
    values = {
        name: _collate_values([getattr(record, name) for record in records], path_to(field, name), here)
        for name in names
    }
    return converted(lambda: record_of(cls, values), records, field, rules)


def _collate_tensors(values: Sequence[object], field: str, rules: Rules) -> object:
    if not rules.form.by_torch:
        return _collate_arrays(converted(lambda: _arrays_of_tensors(values), values, field, rules), field, rules)
    from ..torch.tensors import cannot_stack, joined

    first: Any = values[0]
    if problem := cannot_stack(first):
        raise unfit(field, problem)
    try:
        if rules.is_ragged(field) and first.ndim and not first.is_sparse:
            return joined(cast("Any", values))
        return sys.modules["torch"].stack(values)
    except (TypeError, RuntimeError) as error:
        # Only now, because reading the shapes takes torch longer than stacking the tensors.
        _check_shapes(values, field, rules)
        raise unfit(field, f"{error}; {REPAIR}") from error


def _arrays_of_tensors(values: Sequence[Any]) -> list[Array]:
    return [value.numpy(force=True) for value in values]


def _collate_torch_objects(values: Sequence[object], field: str, rules: Rules) -> object:
    if not rules.form.by_torch:
        raise unfit(
            field,
            f'a {type_name(values[0])} is made of tensors, and `format="numpy"` has none; leave out `format`, or make '
            "a dict of it with a `.map` before `.batch`",
        )
    from ..torch.tensors import stack_objects

    return converted(lambda: stack_objects(values), values, field, rules)


def _collate_arrays(values: Sequence[object], field: str, rules: Rules) -> object:
    first: Array = values[0]  # type: ignore[assignment]
    if np.ma.MaskedArray in set(map(type, values)):
        raise unfit(field, f"{rules.form.noun} have no mask, and a row is a masked array; fill it with `.filled(...)`")
    if rules.is_ragged(field) and first.ndim:
        return rules.form.of_jagged(_jagged(values, field, rules))
    _check_shapes(values, field, rules)
    if len(set(map(_dtype, values))) > 1:
        return converted(lambda: _stack_promoted(values, rules), values, field, rules)
    _check_kind(first, values, field, rules)
    return rules.form.of_array(Stack(cast("Sequence[Array]", values)))


def _stack_promoted(arrays: Sequence[Any], rules: Rules) -> object:
    if rules.form.by_torch:
        from ..torch.tensors import stack_promoted

        return stack_promoted(arrays)
    stacked = np.stack(arrays)
    if stacked.dtype.kind not in "biufc":
        raise TypeError(f"arrays of dtype {stacked.dtype} cannot become {rules.form.noun}")
    return rules.form.of_array(stacked)


def _jagged(values: Sequence[object], field: str, rules: Rules) -> JaggedData:
    check_agreement("dimensions", values, _ndim, field)
    arrays = cast("Sequence[Array]", values)
    check_agreement("shapes after the first dimension", arrays, lambda array: _shape(array)[1:], field)
    whole = _native(np.concatenate([array for array in arrays if len(array)] or arrays[:1]))  # empty ones have no dtype
    _check_kind(whole, values, field, rules)
    return JaggedData(whole, offsets_of([len(array) for array in arrays]))


def _check_kind(array: Array, values: Sequence[object], field: str, rules: Rules) -> None:
    if array.dtype.kind not in "biufc":
        check_numbers(values, field, rules)
        raise unfit(field, f"arrays of dtype {array.dtype} cannot become {rules.form.noun}; {REPAIR}")


def _check_shapes(values: Sequence[object], field: str, rules: Rules) -> None:
    """Raise an error that names the first shape that differs, and its repair."""
    shapes = {getattr(value, "shape", ()) for value in values}
    is_ragged = len({(len(shape), *shape[1:]) for shape in shapes}) == 1 and () not in shapes
    named = field if any(len(shape) > 1 for shape in shapes) else ""
    check_agreement("shapes", values, _shape, field, ragged_repair(rules, named) if is_ragged else REPAIR)


def _ndim(value: object) -> int:
    return cast("Array", value).ndim


def _collate_others(values: Sequence[object], field: str, rules: Rules) -> object:
    """Collate objects of other types: those with fields, and those for which the user has registered a function."""
    cls = type(values[0])
    names = fields_of(cls)
    if names is not None and not (rules.form.by_torch and _is_registered(values[0])):
        return _collate_records(cls, names, values, field, rules)
    return _collate_otherwise(values, field, rules)


def _is_registered(value: object) -> bool:
    """Whether the user has given torch's `default_collate` a function for this type."""
    if "torch" not in sys.modules:
        return False
    from ..torch.tensors import is_registered

    return is_registered(value)


# Numbers that are Python objects, lists of them, and nulls among them.


_NULL = type(None)
_INTS = frozenset({int, bool})
_FLOATS = frozenset({float, int, bool})


def _collate_numpy_scalars(values: Sequence[object], field: str, rules: Rules) -> object:
    types = set(map(type, values))
    if _NULL in types:
        return _collate_by_arrow(values, field, rules)
    if len(types) > 1 or np.timedelta64 in types:  # a timedelta64 is an np.number, but torch has no dtype for it
        return _collate_otherwise(values, field, rules)
    return rules.form.of_array(np.array(values))


def _collate_numbers(values: Sequence[object], field: str, rules: Rules) -> object:
    """Collate Python's own numbers. Ints before a float go to torch, whose default dtype decides on theirs."""
    types = set(map(type, values))
    if _NULL in types:
        return _collate_by_arrow(values, field, rules)
    dtype: Any = None
    if isinstance(values[0], float):
        dtype = np.float64 if types <= _FLOATS else None
    elif types <= _INTS:
        dtype = np.int64 if int in types else np.bool_
    if dtype is None:
        return _collate_otherwise(values, field, rules)
    try:
        array = np.fromiter(values, dtype, len(values))
    except OverflowError:
        return _collate_otherwise(values, field, rules)
    return rules.form.of_array(array)


def _collate_nulls(values: Sequence[object], field: str, rules: Rules) -> object:
    """Collate values that begin with a null; if all are null, they count as numbers."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, (str, bytes)):
        return values
    if first is None or isinstance(first, (float, int, np.number, np.bool_)):
        return _collate_by_arrow(values, field, rules)
    return _collate_otherwise(values, field, rules)


def _collate_otherwise(values: Sequence[object], field: str, rules: Rules) -> object:
    """Leave the values to torch, which calls a function that the user has registered for their type, or to NumPy."""
    if not rules.form.by_torch:
        return rules.form.of_array(converted(lambda: _array_of(values, rules), values, field, rules))
    from ..torch.tensors import collate_by_default

    return converted(lambda: collate_by_default(values), values, field, rules)


def _array_of(values: Sequence[object], rules: Rules) -> Array:
    array = np.array(values)
    if array.ndim != 1 or array.dtype.kind not in "biufc":
        raise TypeError(f"values of type {type_name(values[0])} cannot become {rules.form.noun}")
    if array.dtype.kind == "f" and all(isinstance(value, int) for value in values):
        raise ValueError("no dtype of integers holds all of these, and floats would round them")
    return array


def _collate_by_arrow(values: Sequence[object], field: str, rules: Rules) -> object:
    """Collate the values as a column of a table: numbers with nulls, or lists."""
    try:
        column = arrow_array(values)
    except (pa.ArrowException, OverflowError) as error:
        raise unfit(field, f"{error}; {REPAIR}") from error
    return _formed(column_arrays(column, field, rules), rules)
