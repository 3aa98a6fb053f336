"""Collation of numbers that are Python objects, and of nulls among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .arrow import column_arrays
from .rules import Rules, with_tensors
from .unfit import REPAIR, convert, unfit

_NULL = type(None)
_INTS = frozenset({int, bool})
_FLOATS = frozenset({float, int, bool})


def collate_numpy_scalars(values: Sequence[object], field: str, rules: Rules) -> object:
    types = set(map(type, values))
    if _NULL in types:
        return _collate_with_nulls(values, field, rules)
    if len(types) > 1 or np.timedelta64 in types:  # a timedelta64 is an np.number, but torch has no dtype for it
        return collate_by_torch(values, field)
    return rules.to_tensor(np.array(values))


def collate_numbers(values: Sequence[object], field: str, rules: Rules) -> object:
    """Python's own numbers. Ints before a float go to torch: their dtype depends on torch's default dtype."""
    types = set(map(type, values))
    if _NULL in types:
        return _collate_with_nulls(values, field, rules)
    dtype: Any = None
    if isinstance(values[0], float):
        dtype = np.float64 if types <= _FLOATS else None
    elif types <= _INTS:
        dtype = np.int64 if int in types else np.bool_
    if dtype is None:
        return collate_by_torch(values, field)
    try:
        array = np.fromiter(values, dtype, len(values))
    except OverflowError:
        return collate_by_torch(values, field)
    return rules.to_tensor(array)


def collate_nulls(values: Sequence[object], field: str, rules: Rules) -> object:
    """Values that begin with a null; if all are null, they count as numbers."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, (str, bytes)):
        return values
    if first is None or isinstance(first, (float, int, np.number, np.bool_)):
        return _collate_with_nulls(values, field, rules)
    return collate_by_torch(values, field)


def collate_by_torch(values: Sequence[object], field: str) -> object:
    """Leaves the values to torch, which calls a function that the user has registered for their type."""
    from ....torch.collate import collate_by_default

    return convert(lambda: collate_by_default(values), values, field)


def _collate_with_nulls(values: Sequence[object], field: str, rules: Rules) -> object:
    """Collates the values as a column of a table that has nulls."""
    import pyarrow as pa

    try:
        column = pa.array(cast("Any", values))
    except (pa.ArrowException, OverflowError) as error:
        raise unfit(field, f"{error}; {REPAIR}") from error
    return with_tensors(column_arrays(column, field, rules), rules)
