"""Collation of Python objects, one from each row, by the type of the first."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np

from ....core.column import Array
from ....core.tensor_data import Stack
from .numbers import collate_by_torch, collate_nulls, collate_numbers, collate_numpy_scalars
from .rules import Rules
from .unfit import REPAIR, check_agreement, check_numbers, convert, unfit

_shape = attrgetter("shape")
_dtype = attrgetter("dtype")


def collate_values(values: Sequence[object], field: str, rules: Rules) -> object:
    """`values` as tensors: a field of all rows, or the rows themselves. There is at least one value."""
    first = values[0]
    if first is None:
        return collate_nulls(values, field, rules)
    if isinstance(first, dict):
        return _collate_mappings(first, values, field, rules)
    if isinstance(first, np.ndarray):
        return _collate_arrays(values, field, rules)
    # If there is a tensor, torch has been imported. If not, another thread may be importing it just now.
    if isinstance(first, getattr(sys.modules.get("torch"), "Tensor", ())):
        return _stack_tensors(values, field)
    if isinstance(first, (str, bytes)):
        return values
    if isinstance(first, (np.number, np.bool_)):
        return collate_numpy_scalars(values, field, rules)
    if isinstance(first, (float, int)):
        return collate_numbers(values, field, rules)
    if isinstance(first, Mapping):
        return _collate_mappings(first, values, field, rules)
    if isinstance(first, Sequence):
        return _collate_sequences(first, values, field, rules)
    # The user may have registered the type in `default_collate_fn_map`; if not, torch raises a TypeError.
    return collate_by_torch(values, field)


def _collate_mappings(first: Mapping[object, object], rows: Sequence[object], field: str, rules: Rules) -> object:
    columns: dict[object, object] = {}
    for key in first:
        name = f"{field}.{key}" if field else str(key)
        try:
            values = [row[key] for row in rows]  # type: ignore[index]
        except (KeyError, TypeError) as error:
            position = next(i for i, row in enumerate(rows) if not (isinstance(row, Mapping) and key in row))
            raise unfit(name, f"missing at row {position + 1} of the batch; {REPAIR}") from error
        columns[key] = collate_values(values, name, rules)
    if type(first) is dict:
        return columns
    try:
        if isinstance(first, MutableMapping):
            # It may have more than its items, such as a default factory: hence a copy, as in torch.
            clone = copy.copy(first)
            clone.update(columns)
            return clone
        return type(first)(columns)  # type: ignore[call-arg]
    except TypeError:
        return columns


def _collate_sequences(first: Sequence[object], values: Sequence[object], field: str, rules: Rules) -> object:
    check_agreement("lengths", values, len, field)  # type: ignore[arg-type]
    cls: Any = type(first)
    names: Sequence[str] | None = getattr(first, "_fields", None) if isinstance(first, tuple) else None
    parts: list[object] = []
    for place, items in enumerate(zip(*cast("Sequence[Sequence[object]]", values), strict=True)):
        name = names[place] if names else str(place)
        parts.append(collate_values(items, f"{field}.{name}" if field else name, rules))
    if names:
        return cls(*parts)
    if isinstance(first, tuple) or type(first) is list:
        return parts
    try:
        if not isinstance(first, MutableSequence):
            return cls(parts)
        clone: MutableSequence[object] = copy.copy(first)
        for place, part in enumerate(parts):
            clone[place] = part
        return clone
    except TypeError:
        return parts


def _stack_tensors(values: Sequence[object], field: str) -> object:
    torch = sys.modules["torch"]
    first: Any = values[0]
    if first.is_nested or first.layout is not torch.strided:
        return collate_by_torch(values, field)
    try:
        return torch.stack(values)
    except (TypeError, RuntimeError) as error:
        # Only now, because reading the shapes takes torch longer than stacking the tensors.
        check_agreement("shapes", values, _shape, field)
        raise unfit(field, f"{error}; {REPAIR}") from error


def _collate_arrays(values: Sequence[object], field: str, rules: Rules) -> object:
    first: Array = values[0]  # type: ignore[assignment]
    check_agreement("shapes", values, _shape, field)
    if len(set(map(_dtype, values))) > 1:
        from ....torch.collate import stack_promoted

        return convert(lambda: stack_promoted(values), values, field)
    if first.dtype.kind not in "biufc":
        check_numbers(values, field)
        raise unfit(field, f"arrays of dtype {first.dtype} cannot become a tensor; {REPAIR}")
    return rules.to_tensor(Stack(cast("Sequence[Array]", values)))
