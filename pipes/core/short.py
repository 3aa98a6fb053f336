"""`short_repr`, `description`, `Elements`: any value in short, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from .process import bytes_text

NAMES, TEXT = 8, 120
"""The names of a mapping, and the characters of these, that a description has."""
MAX_ITEMS, MAX_TEXT = 64, 1000
"""The largest array and the longest text that are shown whole."""

T = TypeVar("T")


def description(value: object) -> str:
    """Type and shape: `uint8[28, 28]`, `dict of image, label`, `list of 3 x int`."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]" if shape else str(dtype)
    name = type(value).__name__
    if isinstance(value, (str, bytes, bytearray)):
        return f"{name} of {len(value):,}" if isinstance(value, str) else f"{name} of {bytes_text(len(value))}"
    if isinstance(value, Mapping):
        return _clipped(f"{name} of {', '.join(map(str, list(value)[:NAMES]))}") if value else f"empty {name}"
    if isinstance(value, (list, tuple)):
        return f"{name} of {len(value):,} x {description(value[0])}" if value else f"empty {name}"
    return name


def short_repr(value: object) -> str:
    """`repr` of an element, but of a large array, a long text or many bytes only what they are."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and hasattr(value, "dtype") and math.prod(cast("Any", shape)) > MAX_ITEMS:
        return f"<{description(value)}>"
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {short_repr(item)}" for key, item in value.items()) + "}"
    if type(value) is list and len(value) <= MAX_ITEMS:
        return f"[{', '.join(map(short_repr, value))}]"
    if type(value) is tuple and len(value) <= MAX_ITEMS:
        return f"({', '.join(map(short_repr, value))}{',' * (len(value) == 1)})"
    if isinstance(value, (str, bytes, list, tuple)) and len(value) > MAX_TEXT:
        return f"<{description(value)}>"
    return repr(value)


class Elements(list[T]):
    """Elements as a list that is shown in short."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{', '.join(map(short_repr, self))}]"


def _clipped(text: str) -> str:
    """The text on one line, cut."""
    line = " ".join(text[: 4 * TEXT].split())
    return line if len(line) <= TEXT and len(text) <= 4 * TEXT else f"{line[: TEXT - 1]}…"
