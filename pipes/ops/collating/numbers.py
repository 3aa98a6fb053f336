"""Collation of numbers that are Python objects, and of nulls among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ...errors import UnfitError
from .arrow import arrays
from .misfits import REPAIR, made, said
from .rules import Rules, leaves

_NULL = type(None)
_INTS = frozenset({int, bool})
_FLOATS = frozenset({float, int, bool})


def collated_scalars(values: Sequence[object], field: str, rules: Rules) -> object:
    """Of NumPy's numbers."""
    kinds = set(map(type, values))
    if _NULL in kinds:
        return _with_nulls(values, field, rules)
    if len(kinds) > 1 or np.timedelta64 in kinds:  # which NumPy takes for an int
        return by_torch(values, field)
    return rules.leaf(np.array(values))


def collated_numbers(values: Sequence[object], field: str, rules: Rules) -> object:
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
        return by_torch(values, field)
    try:
        array = np.fromiter(values, dtype, len(values))
    except OverflowError:
        return by_torch(values, field)
    return rules.leaf(array)


def collated_nulls(values: Sequence[object], field: str, rules: Rules) -> object:
    """Of values that begin with a null; nothing but nulls is taken for numbers."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, (str, bytes)):
        return values
    if first is None or isinstance(first, (float, int, np.number, np.bool_)):
        return _with_nulls(values, field, rules)
    return by_torch(values, field)


def by_torch(values: Sequence[object], field: str) -> object:
    """What torch has for them, such as a function that the user has registered."""
    from ...torch.collate import by_default

    return made(lambda: by_default(values), values, field)


def _with_nulls(values: Sequence[object], field: str, rules: Rules) -> object:
    """As of a column that holds them."""
    import pyarrow as pa

    try:
        column = pa.array(cast("Any", values))
    except (pa.ArrowException, OverflowError) as error:
        raise UnfitError(f"{said(field)}{error}; {REPAIR}") from error
    return leaves(arrays(column, field, rules), rules)
