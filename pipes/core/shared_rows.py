"""`SharedRows`: rows that are read again and again, as by `load()`; a change of one must not reach its next reader.

Each reader gets dicts and lists of its own, and read-only views of arrays. Tensors, and objects of the user's classes,
are the same for all.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias, cast

import numpy as np

from .rows import BlockRows, Indices, Rows, take
from .skips import Skipped

Copier: TypeAlias = Callable[[Sequence[Any]], list[Any]]
"""Copies values: all of a block at once, since a call for each takes longer than its copy."""

_SCALARS = frozenset(np.sctypeDict.values()) - {np.object_, np.void}
_PLAIN = _SCALARS | {type(None), bool, int, float, complex, str, bytes, range}
"""Types of values that nobody can change."""


class SharedRows:
    """Rows that are kept for many readers."""

    def __init__(self, rows: BlockRows) -> None:
        self._rows = rows if isinstance(rows, Rows) else shared(rows)
        self._copier = None if isinstance(self._rows, Rows) else copier_of(self._rows)

    def take(self, indices: Indices) -> BlockRows:
        """Return the rows at `indices` for one reader."""
        rows = take(self._rows, indices)
        return rows if self._copier is None else self._copier(cast("list[object]", rows))


def shared(rows: list[object]) -> list[object]:
    """Return the rows for one reader; the same list if nobody can change them."""
    copier = copier_of(rows)
    return rows if copier is None else copier(rows)


def copier_of(values: Sequence[Any]) -> Copier | None:
    """Return a function that copies values such as these for one reader; None if nobody can change them."""
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        return None
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is dict:
        if _are_plain(chain.from_iterable(map(dict.values, values))):
            return partial(_each, dict.copy)
        names = values[0].keys()
        if all(map(names.__eq__, map(dict.keys, values))):
            return _field_copier({name: copier_of([*map(itemgetter(name), values)]) for name in names})
    elif kind is list:
        return partial(_each, list.copy if _are_plain(chain.from_iterable(values)) else _copy)
    elif kind is tuple:
        if _are_plain(chain.from_iterable(values)):
            return None
        if len(set(map(len, values))) == 1:
            return _item_copier([copier_of(items) for items in zip(*values, strict=True)])
    elif kind is np.ndarray:
        return _views if any(value.flags.writeable for value in values) else None
    return partial(_each, _copy)


def _each(function: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    return list(map(function, values))


def _field_copier(copiers: dict[str, Copier | None]) -> Copier:
    def copy_dicts(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        copies = _each(dict.copy, rows)
        for name, copier in copiers.items():
            if copier is not None:
                for row, value in zip(copies, copier([*map(itemgetter(name), rows)]), strict=True):
                    row[name] = value
        return copies

    return copy_dicts


def _item_copier(copiers: list[Copier | None]) -> Copier | None:
    def copy_tuples(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        columns = zip(*rows, strict=True)
        copies = [copier(column) if copier else column for copier, column in zip(copiers, columns, strict=False)]
        return list(zip(*copies, strict=True))

    return copy_tuples if any(copiers) else None


def _views(arrays: Sequence[Any]) -> list[Any]:
    views = [array.view() for array in arrays]
    for view in views:
        view.setflags(False)
    return views


def _view(array: Any) -> Any:
    view = array.view()
    view.setflags(write=False)
    return view


def _copy(value: Any) -> Any:
    """Copy a value of any type."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {key: _copy(item) for key, item in value.items()}
    if kind is list:
        return value.copy() if _are_plain(value) else list(map(_copy, value))
    if kind is tuple:
        return tuple(map(_copy, value))
    if isinstance(value, np.ndarray):
        return _view(value)
    if issubclass(kind, tuple) and hasattr(kind, "_make"):
        return cast("Any", kind)._make(map(_copy, value))
    if kind in (set, bytearray):
        return value.copy()
    if kind in (OrderedDict, defaultdict):
        clone = copy.copy(value)
        clone.update({key: _copy(item) for key, item in value.items()})
        return clone
    return Skipped(value.skips, _copy(value.value), value.is_row) if kind is Skipped else value


def _are_plain(values: Iterable[object]) -> bool:
    return _PLAIN.issuperset(map(type, values))
