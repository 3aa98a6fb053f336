"""`ValueNumbers`: the place of each value of a column in a list of values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...core.column import Column, is_grid, to_arrow
from ...core.per_process import PerProcess
from ...errors import ArgumentError, ArgumentTypeError, UnfitError, with_call_site
from ._column_conversion import type_name
from ._missing_values import numbers_and_nulls

Ints = npt.NDArray[np.int64]


class ValueNumbers:
    """Numbers the values of a list from 0.

    A block is encoded first, so that each of its distinct values is looked up once.

    Args:
        values: different values of one type.
    """

    def __init__(self, values: Sequence[Hashable]) -> None:
        self._values = values
        self._numbers: PerProcess[dict[Hashable, int]] = PerProcess()

    def of(self, column: Column, unknown: int) -> Ints:
        """The number of each value of the column; `unknown` for nulls and for values that the list lacks.

        Raises:
            UnfitError: values of this type are never in the list.
        """
        if column.ndim > 1 if isinstance(column, np.ndarray) else is_grid(column):
            raise UnfitError(f"is of type {type_name(column)}, and single values are needed")
        self._check_type(column)
        encoded = cast("Any", to_arrow(column))
        if not hasattr(encoded, "dictionary"):
            encoded = encoded.dictionary_encode()
        number = self._numbers.get(self._make_numbers).get
        numbers = [number(value, unknown) for value in encoded.dictionary.to_pylist()]
        places: Any
        places, nulls = numbers_and_nulls(encoded.indices)
        if nulls is not None:
            places = np.where(nulls, len(numbers), places)
        result: Ints = np.array([*numbers, unknown], np.int64)[places]
        return result

    def _make_numbers(self) -> dict[Hashable, int]:
        return {value: number for number, value in enumerate(self._values)}

    def _check_type(self, column: Column) -> None:
        import pyarrow as pa

        kind: Any = pa.from_numpy_dtype(column.dtype) if isinstance(column, np.ndarray) else column.type
        kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
        family, own = _family(kind), _family(pa.array(cast("Any", self._values[:1])).type)
        if family not in (own, "null"):
            raise UnfitError(f"is of type {kind}, and `values` has {own}, such as {self._values[0]!r}; `.cast` it")


def check_values(value: object) -> tuple[Hashable, ...]:
    """The argument `values`: at least one, all different and of one type."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ArgumentTypeError(with_call_site(f"`values` must be a list of values but got: {value!r:.200}"))
    values: tuple[Any, ...] = tuple(item.item() if isinstance(item, np.generic) else item for item in value)
    if not values:
        raise ArgumentError(with_call_site("`values` must have at least one value but got: []"))
    import pyarrow as pa

    try:
        kind: Any = pa.array(values).type
        is_mixed = pa.types.is_null(kind) or len({_family(pa.array([item]).type) for item in values[:1000]}) > 1
        repeated = (
            next((item for n, item in enumerate(values) if item in values[:n]), None) if _repeats(values) else None
        )
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        is_mixed, repeated = True, None
    if is_mixed or None in values:
        raise ArgumentTypeError(with_call_site(f"`values` must be of one type, without None, but got: {value!r:.200}"))
    if repeated is not None:
        raise ArgumentError(with_call_site(f"`values` must be different but has {repeated!r} twice"))
    return values


def _repeats(values: tuple[Hashable, ...]) -> bool:
    return len(set(values)) < len(values)


def _family(kind: Any) -> str:
    """What values are compared with, in words."""
    import pyarrow as pa

    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "numbers"
    return str(kind)
