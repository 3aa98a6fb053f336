"""How `collate` turns Arrow columns into arrays, and its errors: the field, the row, the reason and the repair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import compress, pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.lazy import pa
from ..core.rows import Array, JaggedData, Stack, grid, is_grid
from ..errors import UnfitError

T = TypeVar("T")


class Form(NamedTuple):
    """The form of what `collate` makes."""

    noun: Literal["a tensor", "an array of numbers"]
    of_array: Callable[[Array | Stack], object]  # of one that nothing else refers to
    of_jagged: Callable[[JaggedData], object]
    shares: bool = False  # the memory of a column, because it is copied when it is sent
    by_torch: bool = True  # torch collates what has no rule here


class Rules(NamedTuple):
    """The rules of a collation."""

    form: Form
    nan: bool = False  # a null among numbers becomes NaN; otherwise it is an error
    ragged: frozenset[str] | bool = False  # the fields that become nested tensors, or whether all do that can
    codes: bool = False  # a dictionary column stays codes, with its vocabulary

    def is_ragged(self, field: str) -> bool:
        return self.ragged if isinstance(self.ragged, bool) else field in self.ragged


# Arrow columns, as arrays of numbers, dicts and lists.


RowOf: TypeAlias = Callable[[int], int]
"""Gives the row of the batch that value `i` of a column belongs to."""


def column_arrays(column: Any, field: str, rules: Rules) -> object:
    """Return an Arrow array as an array, as a dict of arrays, or, if it is text, as a list."""
    return _arrays(column, field, rules, lambda value: value)


def _arrays(column: Any, field: str, rules: Rules, row_of: RowOf) -> object:
    arrow_type: Any = column.type
    if pa.types.is_dictionary(arrow_type) and rules.codes:
        return {"codes": _arrays(column.indices, field, rules, row_of), "vocabulary": column.dictionary}
    if pa.types.is_dictionary(arrow_type):
        return _arrays(column.dictionary_decode(), field, rules, row_of)
    if isinstance(arrow_type, pa.BaseExtensionType) and not is_grid(column):
        return _arrays(column.storage, field, rules, row_of)
    if _is_text(arrow_type):
        return cast("list[object]", column.to_pylist())
    is_number = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_boolean(arrow_type)
    can_be_nan = is_number or pa.types.is_null(arrow_type)
    if not (can_be_nan or pa.types.is_struct(arrow_type) or _is_list(arrow_type) or is_grid(column)):
        raise NoTensorError(field, arrow_type, rules)
    if column.null_count:
        if rules.nan and can_be_nan:
            return _with_nan(column, field)
        raise _null_error(column, field, rules, row_of, can_be_nan)
    if is_grid(column):
        return _grid_array(column, field, rules, row_of)
    if pa.types.is_struct(arrow_type):
        parts = zip(arrow_type, column.flatten(), strict=True)
        return {part.name: _arrays(values, f"{field}.{part.name}", rules, row_of) for part, values in parts}
    if _is_list(arrow_type):
        return _list_array(column, field, rules, row_of)
    # Arrow's memory is read-only, and tensors can be written to: hence a copy.
    return np.array(numpy_array(column))


def _with_nan(column: Any, field: str) -> Array:
    """Return numbers with NaN for each null. Floats keep their dtype; other numbers become float64 if that is exact."""
    if not pa.types.is_floating(column.type):
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise unfit(
                field,
                "there are nulls among integers beyond 2**53, which float64 does not represent exactly: "
                f"{error}; fill the nulls before `.batch`",
            ) from error
    return np.array(numpy_array(column))


def _null_error(column: Any, field: str, rules: Rules, row_of: RowOf, can_be_nan: bool) -> UnfitError:
    row = row_of(next(compress(range(len(column)), column.is_null().to_pylist())))
    nan = ', or turn nulls among numbers into NaN with `.collate(nulls="nan")`' if can_be_nan else ""
    return unfit(
        field,
        f"null at row {row + 1} of the batch, and {rules.form.noun} has no null; fill or drop it before `.batch`{nan}",
    )


def _grid_array(column: Any, field: str, rules: Rules, row_of: RowOf) -> Array:
    values = column.storage.flatten()
    if not values.null_count:
        return np.array(grid(column))
    shape = column.type.shape
    size = math.prod(shape)

    def row_of_value(value: int) -> int:
        return row_of(value // size)

    if column.type.permutation is not None:  # the values are stored in another order than that of the axes
        raise _null_error(values, field, rules, row_of_value, can_be_nan=False)
    return cast("Array", _arrays(values, field, rules, row_of_value)).reshape(len(column), *shape)


def _list_array(column: Any, field: str, rules: Rules, row_of: RowOf) -> object:
    fixed: int | None = getattr(column.type, "list_size", None)
    lengths = np.asarray(column.value_lengths()) if fixed is None else np.full(len(column), fixed)
    inner = rules._replace(ragged=False)  # a nested tensor has one dimension of different lengths
    if fixed is None and rules.is_ragged(field):
        offsets = offsets_of(lengths)
        items = _arrays(
            column.flatten(), field, inner, lambda item: row_of(int(np.searchsorted(offsets[1:], item, "right")))
        )
        return _in_ragged_lists(items, offsets)
    width = int(lengths[0]) if len(lengths) else 0
    different = np.flatnonzero(lengths != width)
    if len(different):
        row, other = row_of(int(different[0])), int(lengths[different[0]])
        repair = ragged_repair(rules, field if hasattr(column.type.value_type, "value_type") else "")
        raise unfit(field, f"lengths {width} and {other} differ at row {row + 1} of the batch; {repair}")
    values = _arrays(column.flatten(), field, inner, lambda value: row_of(value // max(width, 1)))
    return _in_lists(values, len(column), width)


def offsets_of(lengths: Any) -> npt.NDArray[np.int64]:
    """The first item of each list among the items of all lists, and the end of the last."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _in_lists(values: Any, count: int, width: int) -> object:
    """Divide the values of a column of lists of one length."""
    if isinstance(values, dict):
        return {name: _in_lists(part, count, width) for name, part in values.items()}
    if isinstance(values, list):
        return [values[number * width : (number + 1) * width] for number in range(count)]
    if isinstance(values, np.ndarray):
        return values.reshape(count, width, *values.shape[1:])
    return values  # a vocabulary


def _in_ragged_lists(values: Any, offsets: npt.NDArray[np.int64]) -> object:
    """Divide the values of a column of lists."""
    if isinstance(values, dict):
        return {name: _in_ragged_lists(part, offsets) for name, part in values.items()}
    if isinstance(values, list):
        bounds: list[int] = offsets.tolist()
        return [values[start:stop] for start, stop in pairwise(bounds)]
    return JaggedData(values, offsets) if isinstance(values, np.ndarray) else values


def _is_list(arrow_type: Any) -> bool:
    types = pa.types
    return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type))


def _is_text(arrow_type: Any) -> bool:
    """Return whether `arrow_type` is text or bytes, or a list of them."""
    types = pa.types
    if _is_list(arrow_type):
        return _is_text(arrow_type.value_type)
    is_string = (types.is_string, types.is_large_string, types.is_string_view)
    is_binary = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(arrow_type) for test in (*is_string, *is_binary))


# Errors, each with its repair.


REPAIR = "make them agree with a `.map` before `.batch`, or give `.collate` a function"


class NoTensorError(UnfitError):
    """The type of a column, or of a part of it, has no counterpart in the form of the results."""

    def __init__(self, field: str, column_type: object, rules: Rules) -> None:
        super().__init__(f"{_prefix(field)}a column of type {column_type} cannot become {rules.form.noun}")


def unfit(field: str, message: str) -> UnfitError:
    """Return the error about `field`, which is empty if the rows themselves are the values."""
    return UnfitError(f"{_prefix(field)}{message}")


def ragged_repair(rules: Rules, field: str = "") -> str:
    """Return the repair of values that differ in their first dimension."""
    pad = f".pad_batch(columns=[{field!r}])" if field else ".pad_batch()"
    nested = ' or `ragged="nested"`' if rules.form.by_torch else ""
    return f"make them agree with `{pad}` or with a `.map` before `.batch`, or give `.collate` a function{nested}"


def column_repair(name: str, column_type: Any) -> str:
    """Return the repair of column `name`, whose type has no tensor."""
    types = pa.types
    if types.is_decimal(column_type):
        target = "float64"
    elif types.is_time32(column_type) or types.is_date32(column_type):
        target = "int32"  # the only cast that Arrow has for these
    elif types.is_temporal(column_type):
        target = "int64"
    else:
        return f"leave it out with `.drop({name!r})` before `.batch`"
    return f"make numbers of it with `.cast({{{name!r}: {target!r}}})` before `.batch`"


def check_agreement(
    what: str,
    values: Sequence[object],
    of: Callable[[object], object],
    field: str,
    repair: str = REPAIR,
) -> None:
    """Raise an error that names the first value with another `of` than value 0, if there is one."""
    try:
        if len(set(map(of, values))) == 1:
            return
    except (AttributeError, TypeError):
        raise_difference("types", values, type_name, field)
    raise_difference(what, values, of, field, repair)


def converted(conversion: Callable[[], T], values: Sequence[object], field: str, rules: Rules) -> T:
    """Return the result of `conversion`, which collates `values`; if it fails, the error says why."""
    try:
        return conversion()
    except UnfitError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        check_numbers(values, field, rules)
        raise_difference("types", values, type_name, field)
        raise unfit(field, f"{error}; {REPAIR}") from error


def check_numbers(values: Sequence[object], field: str, rules: Rules) -> None:
    """Raise an error if the values are times or decimals."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, np.ndarray) and first.dtype.kind in "Mm":
        what = f"arrays of dtype {first.dtype}"
    elif isinstance(first, (date, timedelta, Decimal, np.datetime64, np.timedelta64)):
        what = f"values of type {type_name(first)}"
    else:
        return
    raise unfit(field, f"{what} cannot become {rules.form.noun}; make numbers of them with a `.map` before `.batch`")


def raise_difference(
    what: str, values: Iterable[object], of: Callable[[object], object], field: str, repair: str = REPAIR
) -> None:
    """Raise an error that names the first value that differs from value 0, if there is one."""
    first, *others = map(of, values)
    for row, other in enumerate(others, 2):
        if other != first:
            raise unfit(field, f"{what} {first} and {other} differ at row {row} of the batch; {repair}")


def type_name(value: object) -> str:
    return type(value).__name__


def path_to(field: str, name: object) -> str:
    return f"{field}.{name}" if field else str(name)


def _prefix(field: str) -> str:
    return f"field `{field}`: " if field else ""
