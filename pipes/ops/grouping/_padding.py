"""`Padding`: makes the lists or arrays of a batch equally long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...core.column import Array, Column, grid, is_grid, read_only
from ...core.rows import Rows
from ...errors import UnfitError
from .._columns import not_a_batch
from ._fill import filled
from ._list_values import NUMBERS, UnfitRowError, described, list_values

Ints = npt.NDArray[np.int64]

_RULE = "`pad_batch` takes lists or arrays of numbers; convert them before, or leave the column out of `columns`"
_RAGGED = (
    "it is ragged in more than one dimension, and `pad_batch` pads the first one only; pad the others before `.batch`"
)


class Padding(NamedTuple):
    """How to pad; `pad_batch` explains the values."""

    value: float
    columns: tuple[str, ...] | None
    to: int | None
    multiple_of: int | None
    lengths: str | None

    def batch(self, batch: object) -> object:
        """`batch`, padded."""
        if isinstance(batch, Rows):
            return self._table(batch)
        if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
            raise not_a_batch(batch)
        rows: list[Any] = list(batch)
        if rows and all(isinstance(row, Mapping) for row in rows):
            return self._dicts(rows)
        if self.columns is not None or self.lengths is not None:
            raise UnfitError("rows must be dicts or rows of a table if `columns` or `lengths` is given")
        if rows and all(isinstance(row, tuple) for row in rows):
            return self._tuples(rows)
        return list(self._arrays([_array(row, "row") for row in rows], "row")) if rows else rows

    def _table(self, rows: Rows) -> Rows:
        names = [n for n, c in rows.columns.items() if _is_list(c)] if self.columns is None else self.columns
        padded: dict[str, Array] = {}
        lengths: dict[str, Ints] = {}
        for name in names:
            if name not in rows.columns:
                raise UnfitError(f"`columns` must name columns of the rows, {list(rows.columns)}, but has: {name!r}")
            array, lengths[name] = self._column(rows.columns[name], name)
            padded[name] = read_only(array)
        added = self._lengths(list(rows.columns), lengths)
        return Rows({**rows.columns, **padded, **added}, len(rows))

    def _column(self, column: Column, field: str) -> tuple[Array, Ints]:
        array = grid(column) if not isinstance(column, np.ndarray) and is_grid(column) else column
        if isinstance(array, np.ndarray) and array.ndim > 1:
            lengths = np.full(len(array), array.shape[1])
            padded = filled((len(array), self._width(lengths, field), *array.shape[2:]), self.value, array.dtype, field)
            padded[:, : array.shape[1]] = array
            return padded, lengths
        try:
            values, lengths = list_values(column, field, _RAGGED if _is_nested(column) else _RULE)
        except UnfitRowError as error:
            raise UnfitError(f"{error} (row {error.row + 1} of the batch)") from None
        width = self._width(lengths, field)
        padded = filled((len(lengths), width), self.value, values.dtype, field)
        padded[np.arange(width) < lengths[:, None]] = values
        return padded, lengths

    def _dicts(self, rows: list[Mapping[str, object]]) -> list[dict[str, object]]:
        padded: dict[str, Array] = {}
        lengths: dict[str, Ints] = {}
        for name in list(rows[0]) if self.columns is None else self.columns:
            if not all(name in row for row in rows):
                raise UnfitError(f"rows must have a field {name!r}, but one has only: {list(rows[0])}")
            values = [row[name] for row in rows]
            if self.columns is None and not _are_lists(values):
                continue
            arrays = [_array(value, name) for value in values]
            padded[name], lengths[name] = self._arrays(arrays, name), _lengths_of(arrays)
        added = self._lengths(list(rows[0]), lengths)
        items = {**padded, **{name: values.tolist() for name, values in added.items()}}
        return [{**row, **{name: values[i] for name, values in items.items()}} for i, row in enumerate(rows)]

    def _tuples(self, rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
        columns: list[Sequence[object]] = [*zip(*rows, strict=True)] if len(set(map(len, rows))) == 1 else []
        if not columns:
            raise UnfitError("rows that are tuples must have as many items")
        for place, values in enumerate(columns):
            if _are_lists(values):
                field = f"[{place}]"
                columns[place] = [*self._arrays([_array(value, field) for value in values], field)]
        return list(zip(*columns, strict=True))

    def _arrays(self, arrays: list[Array], field: str) -> Array:
        full = [array for array in arrays if len(array)]
        shape, dtype = (full[0].shape[1:], np.result_type(*full)) if full else ((), np.asarray(self.value).dtype)
        if any(array.shape[1:] != shape for array in full):
            raise UnfitError(f"field `{field}`: {_RAGGED}")
        padded = filled((len(arrays), self._width(_lengths_of(arrays), field), *shape), self.value, dtype, field)
        for target, array in zip(padded, arrays, strict=True):
            if len(array):
                target[: len(array)] = array
        return padded

    def _width(self, lengths: Ints, field: str) -> int:
        longest = int(lengths.max(initial=0))
        if self.to is None:
            return longest + -longest % (self.multiple_of or 1)
        if longest > self.to:
            row = int(np.argmax(lengths)) + 1
            raise UnfitError(
                f"field `{field}`: row {row} of the batch has {longest} items, and `to` is {self.to}; cut longer rows "
                "before, or raise `to`"
            )
        return self.to

    def _lengths(self, names: list[str], lengths: Mapping[str, Ints]) -> dict[str, Ints]:
        """The column of lengths, if one is asked for."""
        if self.lengths is None:
            return {}
        if self.lengths in names:
            raise UnfitError(f"`lengths` must be a new name, but rows have a column {self.lengths!r}")
        first = next(iter(lengths), None)
        if first is None:
            raise UnfitError("`lengths` needs a column that is padded, but rows have no lists of numbers")
        for name, others in lengths.items():
            if (others != lengths[first]).any():
                raise UnfitError(
                    f"`lengths` must hold for all columns that are padded, but the lengths of {first!r} and {name!r} "
                    "differ; name one in `columns`, and pad the other with a second `.pad_batch`"
                )
        return {self.lengths: lengths[first]}


def _lengths_of(arrays: list[Array]) -> Ints:
    return np.fromiter(map(len, arrays), np.int64, len(arrays))


def _array(value: object, field: str) -> Array:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UnfitError(f"field `{field}`: {_RAGGED}") from error
    except (TypeError, RuntimeError) as error:
        raise UnfitError(f"field `{field}`: {error}; {_RULE}") from error
    if not array.ndim or array.dtype.kind not in NUMBERS:
        raise UnfitError(f"field `{field}`: a value of type {type(value).__name__}, {described(array)}; {_RULE}")
    return array


def _are_lists(values: Sequence[object]) -> bool:
    """Whether all values are one-dimensional: lists of numbers, arrays or tensors."""
    return all(map(_is_list_of_numbers, values))


def _is_list_of_numbers(value: object) -> bool:
    if isinstance(value, list):
        items = cast("list[object]", value)
        return not items or isinstance(items[0], (bool, int, float, np.number, np.bool_))
    return getattr(value, "ndim", 0) == 1 and hasattr(value, "__array__")


def _is_list(column: Column) -> bool:
    """Whether the rows of a column are lists of numbers."""
    import pyarrow.types as types

    if isinstance(column, np.ndarray):
        return False
    kind: Any = column.type
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    values = kind.value_type
    return bool(types.is_integer(values) or types.is_floating(values) or types.is_boolean(values))


def _is_nested(column: Column) -> bool:
    return not isinstance(column, np.ndarray) and "list" in str(getattr(column.type, "value_type", ""))
