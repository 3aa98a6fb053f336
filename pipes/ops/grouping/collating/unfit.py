"""Errors for values that disagree with each other, or that cannot become a tensor; each says how to repair that."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ....errors import UnfitError

T = TypeVar("T")

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


def unfit(field: str, message: str) -> UnfitError:
    """The error about `field`, which is empty if the rows themselves are the values."""
    return UnfitError(f"{_prefix(field)}{message}")


def column_repair(position: int, name: str, column_type: Any) -> str:
    """What to do about column `name`, the one at `position`, if its type has no tensor."""
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


def check_agreement(what: str, values: Sequence[object], of: Callable[[object], object], field: str) -> None:
    """Raises an error if `of` is not the same for all `values`; the error names the first value that differs."""
    try:
        if len(set(map(of, values))) == 1:
            return
    except (AttributeError, TypeError):
        _raise_difference("types", values, _type_name, field)
    _raise_difference(what, values, of, field)


def convert(conversion: Callable[[], T], values: Sequence[object], field: str) -> T:
    """The result of `conversion`, which collates `values`; if it fails, the error says why."""
    try:
        return conversion()
    except (TypeError, ValueError, RuntimeError) as error:
        check_numbers(values, field)
        _raise_difference("types", values, _type_name, field)
        raise unfit(field, f"{error}; {REPAIR}") from error


def check_numbers(values: Sequence[object], field: str) -> None:
    """Raises an error if the values are times or decimals."""
    first = next((value for value in values if value is not None), None)
    code = _conversion_code(first)
    if code is not None:
        what = (
            f"arrays of dtype {first.dtype}" if isinstance(first, np.ndarray) else f"values of type {_type_name(first)}"
        )
        raise unfit(
            field,
            f"{what} cannot become a tensor; make numbers of them with a `.map` before `.batch`, such as `{code}`, or "
            "give `.collate` a function",
        )


def _conversion_code(value: object) -> str | None:
    """The code that turns a time or a decimal into a number; None for other values."""
    if isinstance(value, np.ndarray):
        return "value.astype('int64')" if value.dtype.kind in "Mm" else None
    return next((code for cls, code in _CONVERSIONS if isinstance(value, cls)), None)


def _raise_difference(what: str, values: Iterable[object], of: Callable[[object], object], field: str) -> None:
    """Raises an error that names the first value that differs from value 0, if one does."""
    first, *others = map(of, values)
    for row, other in enumerate(others, 2):
        if other != first:
            raise unfit(field, f"{what} {first} and {other} differ at row {row} of the batch; {REPAIR}")


def _type_name(value: object) -> str:
    return type(value).__name__


def _prefix(field: str) -> str:
    return f"field `{field}`: " if field else ""
