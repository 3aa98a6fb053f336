"""The rules of collation: a batch to tensors as torch's `default_collate` makes them, but fast for tables and arrays.

torch is needed only where it alone has the rule; what becomes of an array that is to be a tensor is an argument.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from ..rows import Array, Column, Rows, grid, is_grid
from ..tensors import Stack, TensorData
from ..torch import UnfitError
from ._columns import no_batch

T = TypeVar("T")

Leaf: TypeAlias = Callable[[Array | Stack], object]
"""Makes a tensor, or what stands for one, of an array that nothing else refers to."""


class Rules(NamedTuple):
    """What differs from one collation to another.

    Attributes:
        leaf: makes tensors.
        nan: whether a null among numbers becomes NaN; else it is an error.
    """

    leaf: Leaf
    nan: bool = False


_REPAIR = "make them agree with a `.map` before `.batch`, or give `.collate` a function"

_KNOWN = frozenset("?bhilqBHILQefdFD")
"""The dtypes that torch has too, by NumPy's codes."""


def tensor_data(array: Array | Stack) -> object:
    """The leaf that needs no torch; what torch has no tensor for is left to torch, for its error."""
    if array.dtype.char in _KNOWN:
        return TensorData(array)
    from ..torch.collate import from_array

    return from_array(array)


def collate(batch: object, rules: Rules) -> object:
    """`batch`, a sequence of rows, as tensors with one more dimension at the front."""
    if isinstance(batch, Rows):
        columns = batch.columns if rules.leaf is tensor_data else batch.copies()  # `TensorData` is copied on its way
        return {name: _column(column, name, rules) for name, column in columns.items()}
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        raise no_batch(batch)
    if not batch:
        raise UnfitError("a batch is empty, and so has no shape; leave such batches out with `.filter(len)`")
    return _values(batch, "", rules)


def _values(values: Sequence[object], field: str, rules: Rules) -> object:
    first = values[0]
    if first is None:
        return _nulls_first(values, field, rules)
    if isinstance(first, dict):
        return _mapping(first, values, field, rules)
    if isinstance(first, np.ndarray):
        return _arrays(values, field, rules)
    # Where there is a tensor, torch has been imported; else another thread may be about to.
    if isinstance(first, getattr(sys.modules.get("torch"), "Tensor", ())):
        return _tensors(values, field)
    if isinstance(first, (str, bytes)):
        return values
    if isinstance(first, (np.number, np.bool_)):
        return _scalars(values, field, rules)
    if isinstance(first, (float, int)):
        return _numbers(values, field, rules)
    if isinstance(first, Mapping):
        return _mapping(first, values, field, rules)
    if isinstance(first, Sequence):
        return _sequences(first, values, field, rules)
    # What the user has registered in `default_collate_fn_map`; else its TypeError.
    return _by_torch(values, field)


def _mapping(first: Mapping[object, object], rows: Sequence[object], field: str, rules: Rules) -> object:
    columns: dict[object, object] = {}
    for key in first:
        name = f"{field}.{key}" if field else str(key)
        try:
            values = [row[key] for row in rows]  # type: ignore[index]
        except (KeyError, TypeError) as error:
            at = next(i for i, row in enumerate(rows) if not (isinstance(row, Mapping) and key in row))
            raise UnfitError(f"{_said(name)}missing at row {at} of the batch; {_REPAIR}") from error
        columns[key] = _values(values, name, rules)
    if type(first) is dict:
        return columns
    try:
        if isinstance(first, MutableMapping):
            # It may hold more than its items, such as a default: hence a copy, as torch makes one.
            clone = copy.copy(first)
            clone.update(columns)
            return clone
        return type(first)(columns)  # type: ignore[call-arg]
    except TypeError:
        return columns


def _sequences(first: Sequence[object], values: Sequence[object], field: str, rules: Rules) -> object:
    _agree("lengths", values, len, field)  # type: ignore[arg-type]
    kind: Any = type(first)
    names: Sequence[str] | None = getattr(first, "_fields", None) if isinstance(first, tuple) else None
    made: list[object] = []
    for place, items in enumerate(zip(*cast("Sequence[Sequence[object]]", values), strict=True)):
        name = names[place] if names else str(place)
        made.append(_values(items, f"{field}.{name}" if field else name, rules))
    if names:
        return kind(*made)
    if isinstance(first, tuple) or type(first) is list:
        return made
    try:
        if not isinstance(first, MutableSequence):
            return kind(made)
        clone: MutableSequence[object] = copy.copy(first)
        for place, item in enumerate(made):
            clone[place] = item
        return clone
    except TypeError:
        return made


def _tensors(values: Sequence[object], field: str) -> object:
    torch = sys.modules["torch"]
    first: Any = values[0]
    if first.is_nested or first.layout is not torch.strided:
        return _by_torch(values, field)
    try:
        return torch.stack(values)
    except (TypeError, RuntimeError) as error:
        # Asked only now: to look at the shapes takes torch longer than to stack them.
        _agree("shapes", values, _shape, field)
        raise UnfitError(f"{_said(field)}{error}; {_REPAIR}") from error


def _arrays(values: Sequence[object], field: str, rules: Rules) -> object:
    first: Array = values[0]  # type: ignore[assignment]
    _agree("shapes", values, _shape, field)
    kinds = set(map(_dtype, values))
    if len(kinds) > 1:
        from ..torch.collate import promoted

        return _made(lambda: promoted(values), values, field)
    if first.dtype.kind not in "biufc":
        raise UnfitError(f"{_said(field)}arrays of dtype {first.dtype} have no tensor; {_REPAIR}")
    return rules.leaf(Stack(cast("Sequence[Array]", values)))


def _scalars(values: Sequence[object], field: str, rules: Rules) -> object:
    kinds = set(map(type, values))
    if _NULL in kinds:
        return _with_nulls(values, field, rules)
    if len(kinds) > 1:
        return _by_torch(values, field)
    return rules.leaf(np.array(values))


_NULL = type(None)
_INTS = frozenset({int, bool})
_FLOATS = frozenset({float, int, bool})


def _numbers(values: Sequence[object], field: str, rules: Rules) -> object:
    """Of Python's own numbers. Ints before a float become what torch's default dtype says: left to torch."""
    kinds = set(map(type, values))
    if _NULL in kinds:
        return _with_nulls(values, field, rules)
    dtype: Any = None
    if isinstance(values[0], float):
        dtype = np.float64 if kinds <= _FLOATS else None
    elif kinds <= _INTS:
        dtype = np.int64 if int in kinds else np.bool_
    if dtype is None:
        return _by_torch(values, field)
    try:
        array = np.fromiter(values, dtype, len(values))
    except OverflowError:
        return _by_torch(values, field)
    return rules.leaf(array)


def _nulls_first(values: Sequence[object], field: str, rules: Rules) -> object:
    """Of values that begin with a null; nothing but nulls is taken for numbers."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, (str, bytes)):
        return values
    if first is None or isinstance(first, (float, int, np.number, np.bool_)):
        return _with_nulls(values, field, rules)
    return _by_torch(values, field)


def _with_nulls(values: Sequence[object], field: str, rules: Rules) -> object:
    """Of numbers with nulls among them: as of a column that holds them."""
    import pyarrow as pa

    try:
        column = pa.array(cast("Any", values))
    except (pa.ArrowException, OverflowError) as error:
        raise UnfitError(f"{_said(field)}{error}; {_REPAIR}") from error
    return _leaves(_arrow(column, field, rules), rules)


def _by_torch(values: Sequence[object], field: str) -> object:
    from ..torch.collate import by_default

    return _made(lambda: by_default(values), values, field)


def _column(column: Column, field: str, rules: Rules) -> object:
    if not isinstance(column, np.ndarray):
        return _leaves(_arrow(column, field, rules), rules)
    if column.dtype.kind in "SU":
        return column.tolist()
    if column.dtype.kind == "O":
        return _values(column.tolist(), field, rules)
    if column.dtype.kind not in "biufc":
        raise UnfitError(
            f"{_said(field)}a column of dtype {column.dtype} has no tensor; turn it into numbers, or leave it out"
        )
    return rules.leaf(_native(column))


def _leaves(made: object, rules: Rules) -> object:
    if isinstance(made, dict):
        return {name: _leaves(part, rules) for name, part in made.items()}
    return rules.leaf(made) if isinstance(made, np.ndarray) else made


def _arrow(column: Any, field: str, rules: Rules, per_row: int = 1) -> object:
    """`column` as an array, a dict of them, or a list of text; each row of the batch is `per_row` of its values."""
    import pyarrow as pa

    kind: Any = column.type
    if pa.types.is_dictionary(kind):
        return _arrow(column.dictionary_decode(), field, rules, per_row)
    if isinstance(kind, pa.BaseExtensionType) and not is_grid(column):
        return _arrow(column.storage, field, rules, per_row)
    if _is_text(kind):
        return cast("list[object]", column.to_pylist())
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if column.null_count:
        can_be_nan = numbers or pa.types.is_null(kind)
        if rules.nan and can_be_nan:
            return _with_nan(column, field)
        raise _null(column, field, per_row, can_be_nan)
    if is_grid(column):
        return _grid(column, field, rules, per_row)
    if pa.types.is_struct(kind):
        parts = zip(kind, column.flatten(), strict=True)
        return {part.name: _arrow(values, f"{field}.{part.name}", rules, per_row) for part, values in parts}
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(column, field, rules, per_row)
    if not numbers:
        raise UnfitError(f"{_said(field)}a column of type {kind} has no tensor; turn it into numbers, or leave it out")
    # Arrow's memory must not be written to, and a tensor's may be: hence a copy.
    return np.array(column.to_numpy(zero_copy_only=False))


def _with_nan(column: Any, field: str) -> Array:
    """Numbers with NaN for each null: floats as they are, others as float64 where that holds them exactly."""
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise UnfitError(
                f"{_said(field)}nulls stand among integers beyond 2**53, which float64 does not hold exactly: {error}; "
                "fill the nulls before `.batch`"
            ) from error
    return np.array(column.to_numpy(zero_copy_only=False))


def _null(column: Any, field: str, per_row: int, can_be_nan: bool) -> UnfitError:
    at = next(compress(range(len(column)), column.is_null().to_pylist())) // per_row
    nan = ', or make NaN of those among numbers with `.collate(nulls="nan")`' if can_be_nan else ""
    return UnfitError(
        f"{_said(field)}null at row {at} of the batch, and a tensor has no null; fill or drop it before `.batch`{nan}"
    )


def _grid(column: Any, field: str, rules: Rules, per_row: int) -> Array:
    values = column.storage.flatten()
    if not values.null_count:
        return np.array(grid(column))
    shape = column.type.shape
    if column.type.permutation is not None:  # whose axes are stored in another order
        raise _null(values, field, per_row * math.prod(shape), can_be_nan=False)
    filled = cast("Array", _arrow(values, field, rules, per_row * math.prod(shape)))
    return filled.reshape(len(column), *shape)


def _lists(column: Any, field: str, rules: Rules, per_row: int) -> object:
    fixed: int | None = getattr(column.type, "list_size", None)
    lengths = np.asarray(column.value_lengths()) if fixed is None else np.full(len(column), fixed)
    width = int(lengths[0]) if len(lengths) else 0
    differ = np.flatnonzero(lengths != width)
    if len(differ):
        row, other = int(differ[0]) // per_row, int(lengths[differ[0]])
        raise UnfitError(f"{_said(field)}lengths {width} and {other} differ at row {row} of the batch; {_REPAIR}")
    values = _arrow(column.flatten(), field, rules, per_row * max(width, 1))
    if not isinstance(values, np.ndarray):
        raise UnfitError(f"{_said(field)}a column of type {column.type} has no tensor; {_REPAIR}")
    return values.reshape(len(column), width, *values.shape[1:])


def _is_text(kind: Any) -> bool:
    """Whether `kind` is text or bytes, or lists of them."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_text(kind.value_type)
    tests = (types.is_string, types.is_large_string, types.is_string_view)
    more = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(kind) for test in (*tests, *more))


def _native(array: Array) -> Array:
    """`array` in the byte order of this machine, the only one that torch knows."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


_shape = attrgetter("shape")
_dtype = attrgetter("dtype")


def _agree(what: str, values: Sequence[object], of: Callable[[object], object], field: str) -> None:
    try:
        if len(set(map(of, values))) == 1:
            return
    except (AttributeError, TypeError):
        _differ("types", values, lambda value: type(value).__name__, field)
    _differ(what, values, of, field)


def _differ(what: str, values: Iterable[object], of: Callable[[object], object], field: str) -> None:
    """Raises the error that names the first of `values` that is unlike the one at row 0."""
    said = [of(value) for value in values]
    at = next((i for i, one in enumerate(said) if one != said[0]), None)
    if at is not None:
        raise UnfitError(f"{_said(field)}{what} {said[0]} and {said[at]} differ at row {at} of the batch; {_REPAIR}")


def _made(make: Callable[[], T], values: Sequence[object], field: str) -> T:
    try:
        return make()
    except (TypeError, ValueError, RuntimeError) as error:
        _differ("types", values, lambda value: type(value).__name__, field)
        raise UnfitError(f"{_said(field)}{error}; {_REPAIR}") from error


def _said(field: str) -> str:
    return f"field `{field}`: " if field else ""
