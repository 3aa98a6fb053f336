"""Collation of Python objects, one from each row: what they are says how."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np

from ...core.rows import Array
from ...core.tensor_data import Stack
from ...errors import UnfitError
from .misfits import REPAIR, agree, check_numbers, made, said
from .numbers import by_torch, collated_nulls, collated_numbers, collated_scalars
from .rules import Rules

_shape = attrgetter("shape")
_dtype = attrgetter("dtype")


def collated(values: Sequence[object], field: str, rules: Rules) -> object:
    """The values of a field of all rows, or the rows themselves, as tensors; those must not be empty."""
    first = values[0]
    if first is None:
        return collated_nulls(values, field, rules)
    if isinstance(first, dict):
        return _mapping(first, values, field, rules)
    if isinstance(first, np.ndarray):
        return _arrays(values, field, rules)
    # Where there is a tensor, torch has been imported; else another thread may be about to.
    if isinstance(first, getattr(sys.modules.get("torch"), "Tensor", ())):
        return _tensors(values, field)
    if isinstance(first, (str, bytes)):
        return values
    if isinstance(first, (np.number, np.bool_)):
        return collated_scalars(values, field, rules)
    if isinstance(first, (float, int)):
        return collated_numbers(values, field, rules)
    if isinstance(first, Mapping):
        return _mapping(first, values, field, rules)
    if isinstance(first, Sequence):
        return _sequences(first, values, field, rules)
    # What the user has registered in `default_collate_fn_map`; else its TypeError.
    return by_torch(values, field)


def _mapping(first: Mapping[object, object], rows: Sequence[object], field: str, rules: Rules) -> object:
    columns: dict[object, object] = {}
    for key in first:
        name = f"{field}.{key}" if field else str(key)
        try:
            values = [row[key] for row in rows]  # type: ignore[index]
        except (KeyError, TypeError) as error:
            at = next(i for i, row in enumerate(rows) if not (isinstance(row, Mapping) and key in row))
            raise UnfitError(f"{said(name)}missing at row {at + 1} of the batch; {REPAIR}") from error
        columns[key] = collated(values, name, rules)
    if type(first) is dict:
        return columns
    try:
        if isinstance(first, MutableMapping):
            # It may hold more than its items, such as a default: hence a copy, as torch makes one.
            clone = copy.copy(first)
            clone.update(columns)
            return clone
        return type(first)(columns)  # type: ignore[call-arg]
    except TypeError:
        return columns


def _sequences(first: Sequence[object], values: Sequence[object], field: str, rules: Rules) -> object:
    agree("lengths", values, len, field)  # type: ignore[arg-type]
    kind: Any = type(first)
    names: Sequence[str] | None = getattr(first, "_fields", None) if isinstance(first, tuple) else None
    parts: list[object] = []
    for place, items in enumerate(zip(*cast("Sequence[Sequence[object]]", values), strict=True)):
        name = names[place] if names else str(place)
        parts.append(collated(items, f"{field}.{name}" if field else name, rules))
    if names:
        return kind(*parts)
    if isinstance(first, tuple) or type(first) is list:
        return parts
    try:
        if not isinstance(first, MutableSequence):
            return kind(parts)
        clone: MutableSequence[object] = copy.copy(first)
        for place, item in enumerate(parts):
            clone[place] = item
        return clone
    except TypeError:
        return parts


def _tensors(values: Sequence[object], field: str) -> object:
    torch = sys.modules["torch"]
    first: Any = values[0]
    if first.is_nested or first.layout is not torch.strided:
        return by_torch(values, field)
    try:
        return torch.stack(values)
    except (TypeError, RuntimeError) as error:
        # Asked only now: to look at the shapes takes torch longer than to stack them.
        agree("shapes", values, _shape, field)
        raise UnfitError(f"{said(field)}{error}; {REPAIR}") from error


def _arrays(values: Sequence[object], field: str, rules: Rules) -> object:
    first: Array = values[0]  # type: ignore[assignment]
    agree("shapes", values, _shape, field)
    kinds = set(map(_dtype, values))
    if len(kinds) > 1:
        from ...torch.collate import promoted

        return made(lambda: promoted(values), values, field)
    if first.dtype.kind not in "biufc":
        check_numbers(values, field)
        raise UnfitError(f"{said(field)}arrays of dtype {first.dtype} have no tensor; {REPAIR}")
    return rules.leaf(Stack(cast("Sequence[Array]", values)))
