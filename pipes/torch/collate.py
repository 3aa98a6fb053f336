"""A batch to tensors, by the rules of torch's `default_collate`, made fast for tables and for dicts of arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from torch.utils.data import default_collate

from ..rows import Array, Column, Rows, grid, is_grid
from . import UnfitError

if TYPE_CHECKING:
    pass

T = TypeVar("T")

_REPAIR = "make them agree with a `.map` before `.batch`, or give `.collate` a function"


def collate(batch: object) -> object:
    """`batch`, a sequence of rows, as tensors with one more dimension at the front."""
    if isinstance(batch, Rows):
        return {name: _column(column, name) for name, column in batch.copies().items()}
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        raise UnfitError(
            f"an element must be a batch of rows but is of type {type(batch).__name__}; put `.batch(n)` before it"
        )
    if not batch:
        raise UnfitError("a batch is empty, and so has no shape; leave such batches out with `.filter(len)`")
    return _values(batch, "")


def _values(values: Sequence[object], field: str) -> object:
    first = values[0]
    if isinstance(first, dict):
        return _mapping(first, values, field)
    if isinstance(first, torch.Tensor):
        return _tensors(values, field)
    if isinstance(first, np.ndarray):
        return _arrays(values, field)
    if isinstance(first, (str, bytes)):
        return values
    if isinstance(first, (np.number, np.bool_)):
        return _scalars(values, field)
    if isinstance(first, float):
        return _made(lambda: torch.tensor(values, dtype=torch.float64), values, field)
    if isinstance(first, int):
        return _made(lambda: torch.tensor(values), values, field)
    if isinstance(first, Mapping):
        return _mapping(first, values, field)
    if isinstance(first, Sequence):
        return _sequences(first, values, field)
    # What the user has registered in `default_collate_fn_map`; else its TypeError.
    return _made(lambda: default_collate(list(values)), values, field)


def _mapping(first: Mapping[object, object], rows: Sequence[object], field: str) -> object:
    columns: dict[object, object] = {}
    for key in first:
        name = f"{field}.{key}" if field else str(key)
        try:
            values = [row[key] for row in rows]  # type: ignore[index]
        except (KeyError, TypeError) as error:
            at = next(i for i, row in enumerate(rows) if not (isinstance(row, Mapping) and key in row))
            raise UnfitError(f"{_said(name)}missing at row {at} of the batch; {_REPAIR}") from error
        columns[key] = _values(values, name)
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


def _sequences(first: Sequence[object], values: Sequence[object], field: str) -> object:
    _agree("lengths", values, len, field)  # type: ignore[arg-type]
    kind: Any = type(first)
    names: Sequence[str] | None = getattr(first, "_fields", None) if isinstance(first, tuple) else None
    made: list[object] = []
    for place, items in enumerate(zip(*cast("Sequence[Sequence[object]]", values), strict=True)):
        name = names[place] if names else str(place)
        made.append(_values(items, f"{field}.{name}" if field else name))
    if names:
        return kind(*made)
    if isinstance(first, tuple) or type(first) is list:
        return made
    try:
        if not isinstance(first, MutableSequence):
            return kind(made)
        clone: MutableSequence[object] = copy.copy(first)
        for place, item in enumerate(made):
            clone[place] = item
        return clone
    except TypeError:
        return made


def _tensors(values: Sequence[object], field: str) -> torch.Tensor:
    first: torch.Tensor = values[0]  # type: ignore[assignment]
    if first.is_nested or first.layout is not torch.strided:
        return _made(lambda: cast("torch.Tensor", default_collate(list(values))), values, field)
    try:
        return torch.stack(cast("list[torch.Tensor]", values))
    except (TypeError, RuntimeError) as error:
        # Asked only now: to look at the shapes takes torch longer than to stack them.
        _agree("shapes", values, _shape, field)
        raise UnfitError(f"{_said(field)}{error}; {_REPAIR}") from error


def _arrays(values: Sequence[object], field: str) -> torch.Tensor:
    first: Array = values[0]  # type: ignore[assignment]
    _agree("shapes", values, _shape, field)
    kinds = set(map(_dtype, values))
    if len(kinds) > 1:  # torch has rules of its own for what two dtypes become
        return _made(lambda: torch.stack([torch.as_tensor(np.array(v)) for v in values]), values, field)
    if first.dtype.kind not in "biufc":
        raise UnfitError(f"{_said(field)}arrays of dtype {first.dtype} have no tensor; {_REPAIR}")
    # Joined along the axis they have, then cut: one copy of each, in C. `np.stack` makes a view of each first.
    joined = np.concatenate(values) if first.ndim else np.array(values)  # type: ignore[arg-type]
    return torch.from_numpy(_native(joined).reshape(len(values), *first.shape))


def _scalars(values: Sequence[object], field: str) -> torch.Tensor:
    kinds = set(map(type, values))
    if len(kinds) > 1:
        return _made(lambda: torch.as_tensor(values), values, field)
    return torch.from_numpy(np.array(values))


def _column(column: Column, field: str) -> object:
    if not isinstance(column, np.ndarray):
        return _arrow(column, field)
    if column.dtype.kind in "SU":
        return column.tolist()
    if column.dtype.kind == "O":
        return _values(column.tolist(), field)
    if column.dtype.kind not in "biufc":
        raise UnfitError(
            f"{_said(field)}a column of dtype {column.dtype} has no tensor; turn it into numbers, or leave it out"
        )
    return torch.from_numpy(_native(column))


def _arrow(column: Any, field: str, per_row: int = 1) -> object:
    """`column` as a tensor, or as a list where it holds text; each row of the batch is `per_row` of its values."""
    import pyarrow as pa

    kind: Any = column.type
    if pa.types.is_dictionary(kind):
        return _arrow(column.dictionary_decode(), field, per_row)
    if isinstance(kind, pa.BaseExtensionType) and not is_grid(column):
        return _arrow(column.storage, field, per_row)
    if _is_text(kind):
        return cast("list[object]", column.to_pylist())
    if column.null_count:
        at = next(compress(range(len(column)), column.is_null().to_pylist())) // per_row
        raise UnfitError(
            f"{_said(field)}null at row {at} of the batch, and a tensor has no null; fill or drop it before `.batch`"
        )
    if is_grid(column):
        return torch.from_numpy(np.array(grid(column)))
    if pa.types.is_struct(kind):
        parts = zip(kind, column.flatten(), strict=True)
        return {part.name: _arrow(values, f"{field}.{part.name}", per_row) for part, values in parts}
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(column, field, per_row)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise UnfitError(f"{_said(field)}a column of type {kind} has no tensor; turn it into numbers, or leave it out")
    # Arrow's memory must not be written to, and a tensor's may be: hence a copy.
    return torch.from_numpy(np.array(column.to_numpy(zero_copy_only=False)))


def _lists(column: Any, field: str, per_row: int) -> object:
    fixed: int | None = getattr(column.type, "list_size", None)
    lengths = np.asarray(column.value_lengths()) if fixed is None else np.full(len(column), fixed)
    width = int(lengths[0]) if len(lengths) else 0
    differ = np.flatnonzero(lengths != width)
    if len(differ):
        row, other = int(differ[0]) // per_row, int(lengths[differ[0]])
        raise UnfitError(f"{_said(field)}lengths {width} and {other} differ at row {row} of the batch; {_REPAIR}")
    values = _arrow(column.flatten(), field, per_row * max(width, 1))
    if not isinstance(values, torch.Tensor):
        raise UnfitError(f"{_said(field)}a column of type {column.type} has no tensor; {_REPAIR}")
    return values.reshape(len(column), width, *values.shape[1:])


def _is_text(kind: Any) -> bool:
    """Whether `kind` is text or bytes, or lists of them."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_text(kind.value_type)
    tests = (types.is_string, types.is_large_string, types.is_string_view)
    more = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(kind) for test in (*tests, *more))


def _native(array: Array) -> Array:
    """`array` in the byte order of this machine, the only one that torch knows."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


_shape = attrgetter("shape")
_dtype = attrgetter("dtype")


def _agree(what: str, values: Sequence[object], of: Callable[[object], object], field: str) -> None:
    try:
        if len(set(map(of, values))) == 1:
            return
    except (AttributeError, TypeError):
        _differ("types", values, lambda value: type(value).__name__, field)
    _differ(what, values, of, field)


def _differ(what: str, values: Iterable[object], of: Callable[[object], object], field: str) -> None:
    """Raises the error that names the first of `values` that is unlike the one at row 0."""
    said = [of(value) for value in values]
    at = next((i for i, one in enumerate(said) if one != said[0]), None)
    if at is not None:
        raise UnfitError(f"{_said(field)}{what} {said[0]} and {said[at]} differ at row {at} of the batch; {_REPAIR}")


def _made(make: Callable[[], T], values: Sequence[object], field: str) -> T:
    try:
        return make()
    except (TypeError, ValueError, RuntimeError) as error:
        _differ("types", values, lambda value: type(value).__name__, field)
        raise UnfitError(f"{_said(field)}{error}; {_REPAIR}") from error


def _said(field: str) -> str:
    return f"field `{field}`: " if field else ""
