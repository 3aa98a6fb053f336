"""What does not fit: values that disagree, and such as have no tensor."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...errors import UnfitError

T = TypeVar("T")

REPAIR = "make them agree with a `.map` before `.batch`, or give `.collate` a function"

# A datetime is a date too, and comes first.
_NUMBERS: tuple[tuple[type, str], ...] = (
    (datetime.datetime, "value.timestamp()"),
    (datetime.date, "value.toordinal()"),
    (datetime.timedelta, "value.total_seconds()"),
    (decimal.Decimal, "float(value)"),
    (np.datetime64, "value.astype('int64')"),
    (np.timedelta64, "value.astype('int64')"),
)


class NoTensorError(UnfitError):
    """There is no tensor for the type of a column, or of a part of it."""

    def __init__(self, field: str, kind: object) -> None:
        super().__init__(f"{said(field)}a column of type {kind} has no tensor")


def said(field: str) -> str:
    """How an error about a field begins."""
    return f"field `{field}`: " if field else ""


def column_repair(at: int, name: str, kind: Any) -> str:
    """What to do about column `name`, the one at `at`, which has no tensor."""
    from pyarrow import types

    number = None
    if types.is_decimal(kind):
        number = "float64"
    elif types.is_time32(kind) or types.is_date32(kind):
        number = "int32"  # Arrow has no other cast of these
    elif types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind) or types.is_duration(kind):
        number = "int64"
    done, call = "leave it out", f"b.drop_columns([{name!r}])"
    if number is not None:
        done, call = "make numbers of it", f"b.set_column({at}, {name!r}, b[{name!r}].cast({number!r}))"
    return f"{done} before, with `.map_columns(lambda b: {call}, format='arrow')`"


def as_number(value: object) -> str | None:
    """How to make a number of a time or a decimal; None for other values."""
    if isinstance(value, np.ndarray):
        return "value.astype('int64')" if value.dtype.kind in "Mm" else None
    return next((number for kind, number in _NUMBERS if isinstance(value, kind)), None)


def agree(what: str, values: Sequence[object], of: Callable[[object], object], field: str) -> None:
    """Raises the error that names the first of `values` that is unlike the first, if there is one."""
    try:
        if len(set(map(of, values))) == 1:
            return
    except (AttributeError, TypeError):
        _differ("types", values, _kind, field)
    _differ(what, values, of, field)


def made(make: Callable[[], T], values: Sequence[object], field: str) -> T:
    """What `make` makes of `values`, or the error that says why that fails."""
    try:
        return make()
    except (TypeError, ValueError, RuntimeError) as error:
        check_numbers(values, field)
        _differ("types", values, _kind, field)
        raise UnfitError(f"{said(field)}{error}; {REPAIR}") from error


def check_numbers(values: Sequence[object], field: str) -> None:
    """Raises the error for times and decimals."""
    first = next((value for value in values if value is not None), None)
    number = as_number(first)
    if number is not None:
        what = f"arrays of dtype {first.dtype}" if isinstance(first, np.ndarray) else f"values of type {_kind(first)}"
        raise UnfitError(
            f"{said(field)}{what} have no tensor; make numbers of them with a `.map` before `.batch`, such as "
            f"`{number}`, or give `.collate` a function"
        )


def _differ(what: str, values: Iterable[object], of: Callable[[object], object], field: str) -> None:
    found = [of(value) for value in values]
    at = next((i for i, one in enumerate(found) if one != found[0]), None)
    if at is not None:
        raise UnfitError(
            f"{said(field)}{what} {found[0]} and {found[at]} differ at row {at + 1} of the batch; {REPAIR}"
        )


def _kind(value: object) -> str:
    return type(value).__name__
