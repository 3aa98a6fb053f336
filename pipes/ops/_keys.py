"""Keys of rows, which `key=` names or computes: as Python objects, as numbers and as digests.

All operators compare keys by one rule, for rows that are objects and for columns. Two keys are equal if Python says so:
1, 1.0, True and `Decimal(1)` are one key, and so are 0.0 and -0.0; "1", b"1", a date and a datetime are others. Null is
a key of its own, and NaN is another, whichever type it has. NumPy's scalars count as Python's. `join` alone finds no
partner for null and NaN. A list or an array is a key where digests are compared, and an error elsewhere.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from hashlib import blake2b
from types import NoneType
from typing import Any, TypeAlias, cast
from uuid import UUID
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.context import mixed
from ..core.lazy import pa
from ..core.operator import Input, Operator, StageView
from ..core.rows import BlockRows, Column, Rows, column_names, scalars, select_columns, take
from ..engine.calls import map_until_error
from ..errors import ArgumentTypeError, UnfitError
from ..formats.columns import check_names
from ._shared import as_mapping, convert_until_error, existing_columns, plan_error, read_each_row

Key: TypeAlias = str | Sequence[str] | Callable[[Any], Hashable]
"""The name of a column, several names, or a function of the row."""


def check_key(argument: str, key: object) -> tuple[str, ...] | Callable[[Any], Hashable] | None:
    """Return a key as names or as a function; None is the row itself."""
    if key is None or callable(key):
        return cast("Callable[[Any], Hashable] | None", key)
    if not isinstance(key, (str, Sequence)):
        raise ArgumentTypeError(
            f"`{argument}` must be the name of a column, names, or a function of the row but got: {key!r}"
        )
    return tuple(check_names(argument, [key] if isinstance(key, str) else key) or ())


def check_named_key(op: Operator, stage: StageView, key: object, source: Input | None = None) -> None:
    """Raise a `PlanError` if `key` names a column that `source`, by default the only input, is known not to have."""
    schema = (source or stage.input).schema
    if schema is not None and isinstance(key, tuple):
        try:
            existing_columns(cast("tuple[str, ...]", key), schema.names)
        except UnfitError as error:
            raise plan_error(op, stage, error) from None


def keys_of(
    rows: BlockRows, key: tuple[str, ...] | Callable[[Any], Hashable] | None
) -> tuple[list[Hashable], Exception | None]:
    """Return the keys of the rows before the first that has none, and its error. A key may be unhashable."""
    if not isinstance(rows, Rows) or callable(key):
        of_row = key if callable(key) else _whole_row if key is None else partial(_named_values, key)
        keys, error = map_until_error(of_row, rows)
        return _comparable_keys(keys), error
    names = column_names(rows)
    try:
        columns = select_columns(rows, existing_columns(key or names, names)).columns
    except UnfitError as error:
        return [], error
    values = [_comparable_keys(scalars(column)) for column in columns.values()]
    if key is None:
        return [_hashable(zip(names, row, strict=True)) for row in zip(*values, strict=True)], None
    return values[0] if len(key) == 1 else [*zip(*values, strict=True)], None


_COMPARABLE = {int, str, bytes, bool, NoneType}
"""Types whose values are keys as they are."""


def _comparable_keys(keys: list[Any]) -> list[Hashable]:
    return keys if _COMPARABLE.issuperset(map(type, keys)) else list(map(comparable_key, keys))


def comparable_key(key: Any) -> Any:
    """Return a key so that Python compares it by the rule of this module: each NaN is one object."""
    if isinstance(key, np.generic):
        key = _python_time(key) if isinstance(key, (np.datetime64, np.timedelta64)) else key.item()
    if isinstance(key, (float, Decimal)):
        return math.nan if (key.is_nan() if isinstance(key, Decimal) else key != key) else key
    if isinstance(key, tuple):
        return tuple(map(comparable_key, cast("tuple[object, ...]", key)))
    return frozenset(map(comparable_key, cast("frozenset[object]", key))) if type(key) is frozenset else key


def _python_time(value: np.datetime64 | np.timedelta64) -> Any:
    """Return a time of NumPy as one of Python, which has microseconds; itself if it is more exact."""
    kind = "M" if isinstance(value, np.datetime64) else "m"
    coarse: Any = value.astype(f"{kind}8[us]")
    return coarse.item() if coarse == value or np.isnat(value) else value


def check_hashable(key: object) -> UnfitError | None:
    """Return the error of a key that is not hashable."""
    try:
        hash(key)
    except TypeError:
        return UnfitError(f"a key must be hashable but is: {key!r:.80}; give another `key`")
    return None


def _whole_row(row: object) -> Hashable:
    return _hashable(row.items()) if isinstance(row, Mapping) else row


def _hashable(items: Iterable[tuple[object, object]]) -> Hashable:
    """Return the items of a row in any order; a list, which is unhashable too, if one of them is."""
    listed = list(items)
    try:
        return frozenset(listed)
    except TypeError:
        return cast("Hashable", listed)


def _named_values(key: tuple[str, ...], row: object) -> Hashable:
    values = as_mapping(row)
    named = tuple(values[name] for name in existing_columns(key, values))
    return named[0] if len(key) == 1 else named


# Keys of rows as numbers.


Ints: TypeAlias = npt.NDArray[np.int64]


def key_numbers(rows: BlockRows, key: tuple[str, ...] | Callable[[Any], Hashable]) -> tuple[Ints, Exception | None]:
    """Number the keys of the rows before the first that has none; return also its error. NaN is one key, as is null."""
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


class KeyNumbers:
    """Numbers the keys of the rows of several blocks: one number for each key."""

    def __init__(self, key: tuple[str, ...] | Callable[[Any], Hashable]) -> None:
        self._key = key
        self._numbers: dict[object, int] = {}

    def of(self, rows: BlockRows) -> tuple[Ints, Exception | None]:
        """Number the keys of the rows before the first that has none; return also its error."""
        numbers, error = key_numbers(rows, self._key)
        _, firsts, own = np.unique(numbers, return_index=True, return_inverse=True)
        keys, _ = keys_of(take(rows, firsts), self._key)
        order = [self._numbers.setdefault(key, len(self._numbers)) for key in keys]
        return np.array(order, np.int64)[own], error


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
    if isinstance(column, np.ndarray):
        return (np.unique(column, return_inverse=True)[1], None) if column.ndim == 1 else _values(list(column), None)
    encoded: Any = column
    if not isinstance(column.type, pa.DictionaryType):
        try:
            encoded = encoded.dictionary_encode()
        except (pa.ArrowNotImplementedError, AttributeError):  # of lists
            return _values(scalars(column), None)
    places = numpy_array(encoded.indices)  # a null is NaN
    if encoded.indices.null_count:
        places = np.where(np.isnan(places), len(encoded.dictionary), places)
    places = places.astype(np.int64)
    if encoded is not column and not pa.types.is_floating(column.type):
        return places, None
    # Floats are encoded by their bits, so 0.0 and -0.0 are two; a dictionary from a file may have a value twice.
    numbers, error = _values([*scalars(encoded.dictionary), None], None)
    return (numbers[places], None) if error is None else _values(scalars(column), None)


def _values(values: Sequence[object], error: Exception | None) -> tuple[Ints, Exception | None]:
    numbers: dict[object, int] = {}
    keys = _comparable_keys(cast("list[Hashable]", values))
    results, unhashable = map_until_error(lambda key: numbers.setdefault(key, len(numbers)), keys)
    if unhashable is not None:
        error = check_hashable(values[len(results)]) or unhashable
    return np.array(results, np.int64), error


# Digests of values: numbers of 64 bits, the same on every machine and in every Python. Equal keys have equal digests,
# whether they are Python objects or in a column. Text, bytes and arrays count by a checksum: of 32 bits where digests
# divide rows at random, and of 64 bits where equal digests are taken for equal keys.


Digests: TypeAlias = npt.NDArray[np.uint64]
Checksum: TypeAlias = Callable[[bytes], int]

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15  # the increment of SplitMix64: neighbours are mixed better at this distance

# Added to what is mixed, so that values of different types differ.
_INT, _, _, _TEXT, _BYTES, _ARRAY, _, _, _OTHER = (_STEP * k & _MASK for k in range(1, 10))


def _mixed(value: int) -> int:
    """`mixed` of one number, modulo 2**64."""
    value &= _MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


# Numbers far from all multiples of `_STEP`, which the digests of small ints are made of.
_NULL, _FLOAT, _LIST, _RECORD, _LARGE = (_mixed(_STEP * k) ^ _STEP for k in (2, 3, 7, 8, 10))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def digest_of(value: object, checksum: Checksum = crc32) -> int:
    """The digest of one value.

    Raises:
        UnfitError: its type has no digest that is the same in every process.
    """
    if isinstance(value, (np.datetime64, np.timedelta64)):
        value = comparable_key(value)
        if isinstance(value, np.generic):
            return _of_bytes(_OTHER, str(value).encode(), checksum)
    if value is None:
        return _of_word(_NULL)
    if isinstance(value, (int, np.integer, np.bool_)):
        return _of_int(int(value), checksum)
    if isinstance(value, (float, np.floating)):
        return _of_float(float(value), checksum)
    if isinstance(value, str):
        return _of_bytes(_TEXT, _encoded(value), checksum)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _of_bytes(_BYTES, bytes(value), checksum)
    if isinstance(value, np.ndarray):
        return _of_array(value, checksum)
    if isinstance(value, (list, tuple, Rows)):
        result = _LIST + len(value)
        for item in cast("Sequence[object]", value):
            result = _mixed(result + digest_of(item, checksum))
        return result
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value).items()
        return _mixed(
            _RECORD + sum(_mixed(digest_of(name) * _STEP + digest_of(field, checksum)) for name, field in fields)
        )
    if isinstance(value, Decimal):
        if not value.is_finite() or Decimal(float(value)) == value:
            return _of_float(math.nan if value.is_nan() else float(value), checksum)
        whole = value == value.to_integral_value()
        return _of_int(int(value), checksum) if whole else _of_bytes(_OTHER, _decimal_text(value), checksum)
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return digest_of(("UTC", value - _EPOCH), checksum)  # equal times may be in several zones
    if isinstance(value, (date, time)):
        return _of_bytes(_OTHER, value.isoformat().encode(), checksum)
    if isinstance(value, timedelta) and not getattr(value, "nanoseconds", 0):
        value = timedelta(value.days, value.seconds, value.microseconds)  # that of pandas has another text
    if isinstance(value, (timedelta, UUID)):
        return _of_bytes(_OTHER, str(value).encode(), checksum)
    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        return _of_array(cast("Any", value).numpy(force=True), checksum)
    raise UnfitError(
        f"a value of type {type(value).__name__} has no digest that is the same in each process; give a key of numbers "
        "or text"
    )


def digests_of_values(values: Sequence[object], checksum: Checksum = crc32) -> Digests:
    """Return the digests of Python objects; at once if they are of one type."""
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is int or kind is bool:
        try:
            return _of_ints(np.array(values, np.int64))
        except OverflowError:
            pass
    elif kind is float:
        return _of_floats(np.array(values, np.float64), checksum)
    elif kind is str:
        return _of_words(_TEXT, [checksum(_encoded(value)) for value in cast("Sequence[str]", values)])
    elif kind is bytes:
        return _of_words(_BYTES, [checksum(value) for value in cast("Sequence[bytes]", values)])
    elif kind is dict:
        rows = cast("Sequence[dict[object, object]]", values)
        names = rows[0].keys()
        if all(row.keys() == names for row in rows):
            columns = {name: digests_of_values([row[name] for row in rows], checksum) for name in names}
            return digests_of_records(columns, len(rows))
    return np.fromiter((digest_of(value, checksum) for value in values), np.uint64, len(values))


def digests_of_column(column: Column, checksum: Checksum = crc32) -> Digests:
    """The digests of the values of a column; numbers and dictionaries never become Python objects."""
    if isinstance(column, np.ndarray):
        if column.ndim == 1 and column.dtype.kind in "iub":
            return _of_ints(column)
        if column.ndim == 1 and column.dtype.kind == "f" and column.dtype.itemsize <= 8:
            return _of_floats(column.astype(np.float64), checksum)
        return digests_of_values(scalars(column), checksum)
    kind: Any = column.type
    if column.null_count:
        digests = np.full(len(column), _of_word(_NULL), np.uint64)
        digests[numpy_array(column.is_valid())] = digests_of_column(column.drop_null(), checksum)
        return digests
    if pa.types.is_dictionary(kind):
        encoded = cast("Any", column)
        indices: npt.NDArray[np.int64] = numpy_array(encoded.indices)
        return digests_of_column(encoded.dictionary, checksum)[indices]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return digests_of_column(numpy_array(column), checksum)
    return digests_of_values(scalars(column), checksum)


def digests_of_records(columns: Mapping[Any, Digests], count: int) -> Digests:
    """The digests of dicts, from the digests of their values by name."""
    total = np.full(count, _RECORD, np.uint64)
    for name, digests in columns.items():
        total += mixed(digests + np.uint64(digest_of(name) * _STEP & _MASK))
    return mixed(total)


def digests_of_tuples(columns: Sequence[Digests]) -> Digests:
    """The digests of tuples, from the digests of their items."""
    result = np.full(len(columns[0]), (_LIST + len(columns)) & _MASK, np.uint64)
    for digests in columns:
        result = mixed(result + digests)
    return result


def _of_word(kind: int, word: int = 0) -> int:
    return _mixed(kind + word * _STEP)


def _of_words(kind: int, words: Any) -> Digests:
    return mixed(np.asarray(words, np.uint64) * np.uint64(_STEP) + np.uint64(kind))


def _of_ints(values: npt.NDArray[Any]) -> Digests:
    signed = values.dtype.kind in "ib"
    words = values.astype(np.int64 if signed else np.uint64).view(np.uint64)
    digests = _of_words(_INT, words)
    if not signed and (large := words >= np.uint64(2**63)).any():
        digests[large] = _of_words(_LARGE, words[large])
    return digests


def _of_int(number: int, checksum: Checksum) -> int:
    if -(2**63) <= number < 2**64:
        return _of_word(_INT if number < 2**63 else _LARGE, number)
    return _of_bytes(_OTHER, hex(number).encode(), checksum)


def _of_floats(values: npt.NDArray[np.float64], checksum: Checksum) -> Digests:
    whole = np.floor(values) == values
    bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    digests = _of_words(_FLOAT, (bits >> np.uint64(32)) | (bits << np.uint64(32)))
    small = whole & (np.abs(values) < 2.0**63)
    digests[small] = _of_ints(values[small].astype(np.int64))
    for place in np.flatnonzero(whole & ~small).tolist():
        digests[place] = _of_float(float(values[place]), checksum)
    return digests


def _of_float(number: float, checksum: Checksum) -> int:
    if number.is_integer():
        return _of_int(int(number), checksum)
    low, high = struct.unpack("<II", struct.pack("<d", math.nan if math.isnan(number) else number))
    # Most floats differ in their first bits, which are spread best if they are the last ones.
    return _of_word(_FLOAT, (low << 32) + high)


def _decimal_text(value: Decimal) -> bytes:
    """Return the digits of a decimal, without zeros at the end; `normalize` would round to those of the context."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' * sign}{text.rstrip('0')}E{cast('int', exponent) + len(text) - len(text.rstrip('0'))}".encode()


def _of_bytes(kind: int, value: bytes, checksum: Checksum) -> int:
    return _of_word(kind, checksum(value))


def _of_array(array: npt.NDArray[Any], checksum: Checksum) -> int:
    if array.ndim == 0 or array.dtype.hasobject:
        return digest_of(array.tolist(), checksum)
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    head = crc32(f"{array.dtype.str}{array.shape}".encode())
    return _of_word(_ARRAY, (head << 32) + checksum(array.tobytes()))


def long_checksum(value: bytes) -> int:
    """Return a checksum of 64 bits, for digests that tell keys apart."""
    return int.from_bytes(blake2b(value, digest_size=8).digest(), "little")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# Digests of the keys of rows.


RowKey = tuple[str, ...] | Callable[[Any], Hashable] | None
"""Names of columns, a function of the row, or None for the whole row."""


def key_digests(rows: BlockRows, key: RowKey, checksum: Checksum = crc32) -> tuple[Digests, Exception | None]:
    """Return the digests of the keys of the rows before the first that has none, and its error."""
    if isinstance(rows, Rows) and not callable(key):
        digests, error = convert_until_error(partial(_of_table, key, checksum), rows)
        return np.zeros(0, np.uint64) if digests is None else digests, error
    if key is None:
        return _of_values(rows, None, checksum)
    return _of_values(*keys_of(rows, key), checksum)


def _of_values(
    values: Sequence[object], error: Exception | None, checksum: Checksum
) -> tuple[Digests, Exception | None]:
    try:
        return digests_of_values(values, checksum), error
    except UnfitError:
        digests, unfit = map_until_error(partial(digest_of, checksum=checksum), values)
        return np.array(digests, np.uint64), unfit


def _of_table(key: tuple[str, ...] | None, checksum: Checksum, rows: Rows) -> Digests:
    names = column_names(rows)
    columns = select_columns(rows, existing_columns(names if key is None else key, names)).columns
    digests = {name: digests_of_column(column, checksum) for name, column in columns.items()}
    if key is None:
        return digests_of_records(digests, len(rows))
    return digests[key[0]] if len(key) == 1 else digests_of_tuples(list(digests.values()))


def read_key_digests(op: Operator, stage: StageView, key: RowKey, checksum: Checksum = crc32) -> tuple[Digests, Ints]:
    """Return the digests of the keys of all rows of the input, and the positions of those that are skipped.

    The digest of a skipped row is 0.
    """
    return read_each_row(op, stage, partial(key_digests, key=key, checksum=checksum), np.uint64)
