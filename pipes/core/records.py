"""Records: objects of dataclasses and of attrs classes, as the values of their fields."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def fields_of(cls: type) -> tuple[str, ...] | None:
    """The names of the fields of a dataclass or an attrs class; None for any other class."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    attributes: Any = getattr(cls, "__attrs_attrs__", None)
    return None if attributes is None else tuple(attribute.name for attribute in attributes)


def record_of(cls: type[T], values: Mapping[str, object]) -> T:
    """An object of a class with these values of its fields.

    The class is called with them if its arguments are its fields. Else, as with fields that `__init__` does not take,
    the values are set, and no code of the class runs.
    """
    arguments = _arguments(cast("Hashable", cls))
    if arguments is not None:
        return cls(**{arguments[name]: value for name, value in values.items()})
    return _with_values(object.__new__(cls), values)


def replaced(record: T, values: Mapping[str, object]) -> T:
    """A copy of a record with these values of its fields. No code of the class runs."""
    return _with_values(copy.copy(record), values)


def _with_values(record: T, values: Mapping[str, object]) -> T:
    for name, value in values.items():
        object.__setattr__(record, name, value)  # also of a frozen class
    return record


@lru_cache(64)
def _arguments(cls: Any) -> dict[str, str] | None:
    """The argument of `__init__` for each field; None if there are other arguments than the fields."""
    names = fields_of(cls) or ()
    aliases = {attribute.name: attribute.alias for attribute in getattr(cls, "__attrs_attrs__", ())}
    arguments = {name: aliases.get(name, name) for name in names}
    taken = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    return arguments if set(taken) == set(arguments.values()) else None
