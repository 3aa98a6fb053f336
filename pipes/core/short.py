"""`short_repr`, `description`, `Elements`: any value in short, for a terminal and for a notebook."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from .html import Html, fragment, html, table
from .process import bytes_text

ITEMS, COLUMNS = 8, 20
"""The rows and the columns that a notebook shows."""
CELL = 120
"""The characters that a cell shows."""
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
        return _clipped(f"{name} of {', '.join(map(str, list(value)[:ITEMS]))}") if value else f"empty {name}"
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


def cell(value: object) -> str:
    """The value on one line, cut."""
    try:
        return _clipped(short_repr(value))
    except Exception as error:  # of the user's `__repr__`
        return f"<{type(value).__name__}: its repr raises {type(error).__name__}>"


class Elements(list[T]):
    """Elements as a list that a terminal shows in short, and a notebook as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{', '.join(map(short_repr, self))}]"

    def _repr_html_(self) -> str:
        if self and all(isinstance(element, Mapping) for element in self):
            return fragment(rows_table(cast("list[Mapping[str, object]]", self)))
        return fragment([html("<div><code>{}</code></div>", cell(element)) for element in self])


def rows_table(rows: Sequence[Mapping[str, object]]) -> Html:
    """The first rows, with the type of each column."""
    shown = list(rows[:ITEMS])
    names = list(dict.fromkeys(name for row in shown for name in row))
    columns = names[:COLUMNS]
    first = [next((row[name] for row in shown if row.get(name) is not None), None) for name in columns]
    head = [
        html("{}<br><small>{}</small>", _clipped(str(name)), description(value))
        for name, value in zip(columns, first, strict=True)
    ]
    numbers = [place for place, value in enumerate(first) if isinstance(value, (int, float))]
    lines = [[cell(row[name]) if name in row else None for name in columns] for row in shown]
    counts = f"{len(rows):,} row{'s' * (len(rows) != 1)} of {len(names):,} column{'s' * (len(names) != 1)}"
    counts += f", the first {len(shown)} rows" if len(rows) > len(shown) else ""
    counts += f", the first {len(columns)} columns" if len(names) > len(columns) else ""
    return html("{}<small>{}</small>", table(head, lines, numbers), counts)


def _clipped(text: str) -> str:
    """The text on one line, cut."""
    line = " ".join(text[: 4 * CELL].split())
    return line if len(line) <= CELL and len(text) <= 4 * CELL else f"{line[: CELL - 1]}…"
