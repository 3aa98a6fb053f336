"""Operators and values as code."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import redacted

if TYPE_CHECKING:
    from .operator import Operator


def call_code(op: Operator) -> str:
    """`op` as a call: arguments that have no default stand by position, others by name where they differ from it."""
    arguments: list[str] = []
    for item in dataclasses.fields(op):  # type: ignore[arg-type]
        if not item.init or not item.repr:
            continue
        value = getattr(op, item.name)
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            arguments.append(value_code(value))
        elif value != item.default:
            arguments.append(f"{item.name}={value_code(value)}")
    return f"{op.kind}({', '.join(arguments)})"


def value_code(value: object) -> str:
    """`value` as code where that is short, else what it is: `<list of 500000>`."""
    if callable(value):
        return getattr(value, "__qualname__", None) or type(value).__qualname__
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {value_code(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return redacted(repr(value))
    if value is None or isinstance(value, (bool, int, float, bytes, range)):
        return repr(value)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"<{type(value).__name__} {' x '.join(map(str, shape))}>"
    if isinstance(value, (list, tuple)) and len(value) <= 8 and all(isinstance(v, (str, int)) for v in value):
        return redacted(repr(value))
    try:
        return f"<{type(value).__name__} of {len(value)}>"  # type: ignore[arg-type]
    except TypeError:
        return f"<{type(value).__name__}>"
