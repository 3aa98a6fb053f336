"""Keys of rows as numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..core.column import Column, scalars
from ..core.rows import BlockRows, Rows
from ..engine.apply import map_until_error
from ..errors import UnfitError
from ._column_arguments import existing_columns
from ._keys import keys_of

Ints: TypeAlias = npt.NDArray[np.int64]


def key_numbers(rows: BlockRows, key: tuple[str, ...] | Callable[[Any], Hashable]) -> tuple[Ints, Exception | None]:
    """For each row a number, equal for equal keys; only for the rows before the first without a key, and its error.

    NaN is one key, and so is null.
    """
    if isinstance(rows, Rows) and not callable(key):
        try:
            columns = [rows.columns[name] for name in existing_columns(key, rows.columns)]
        except UnfitError as unfit:
            return np.zeros(0, np.int64), unfit
        return _together([_column(column) for column in columns])
    values, error = keys_of(rows, key)
    if callable(key) or len(key) == 1 or not values:
        return _values(values, error)
    columns_of_values: list[tuple[object, ...]] = list(zip(*cast("list[tuple[object, ...]]", values), strict=True))
    numbers, unhashable = _together([_values(column, None) for column in columns_of_values])
    return numbers, unhashable or error


def _together(parts: list[tuple[Ints, Exception | None]]) -> tuple[Ints, Exception | None]:
    """The numbers of keys of several columns."""
    first, error = min(parts, key=lambda part: len(part[0]))
    count = len(first)
    numbers = parts[0][0][:count]
    for others, _ in parts[1:]:
        pairs = numbers * (int(others.max(initial=0)) + 1) + others[:count]
        numbers = np.unique(pairs, return_inverse=True)[1]
    return numbers, error


def _column(column: Column) -> tuple[Ints, Exception | None]:
    import pyarrow as pa

    if isinstance(column, np.ndarray) and column.ndim == 1:
        return np.unique(column, return_inverse=True)[1], None
    if not isinstance(column, np.ndarray):
        try:
            encoded: Any = column.dictionary_encode(null_encoding="encode")
            return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), None
        except (pa.ArrowNotImplementedError, AttributeError):  # of lists, and of columns that are encoded already
            pass
    return _values(scalars(column), None)


def _values(values: Sequence[object], error: Exception | None) -> tuple[Ints, Exception | None]:
    numbers: dict[object, int] = {}
    results, unhashable = map_until_error(lambda value: numbers.setdefault(value, len(numbers)), values)
    if unhashable is not None:
        value = values[len(results)]
        error = UnfitError(
            f"a key must be hashable but is of type {type(value).__name__}: {value!r:.80}; convert it, such as with a "
            "function that returns a tuple"
        )
    nans = [number for value, number in numbers.items() if isinstance(value, float) and value != value]
    array = np.array(results, np.int64)
    if len(nans) > 1:
        array[np.isin(array, nans)] = nans[0]
    return array, error
