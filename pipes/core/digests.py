"""Digests of values: numbers of 64 bits that are the same in every process, on every machine and in every Python.

Equal values have equal digests, whether they come as Python objects, in a NumPy array or in an Arrow column; an int and
a float of one value are equal. Digests divide rows at random. They are no proof that two values are equal: text, bytes
and arrays count by their CRC-32.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias, cast
from uuid import UUID
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ..errors import UnfitError
from .column import Column, scalars
from .randomness import mixed
from .rows import Rows

Digests: TypeAlias = npt.NDArray[np.uint64]

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15  # the increment of SplitMix64: neighbours are mixed better if they lie so far apart
# Added to what is mixed, so that values of different types differ.
_INT, _NULL, _FLOAT, _TEXT, _BYTES, _ARRAY, _LIST, _RECORD, _OTHER = (_STEP * k & _MASK for k in range(1, 10))


def digest_of(value: object) -> int:
    """The digest of one value.

    Raises:
        UnfitError: nothing about it is the same in every process.
    """
    if value is None:
        return _of_word(_NULL)
    if isinstance(value, (int, np.integer, np.bool_)):
        number = int(value)
        return _of_word(_INT, number) if -(2**63) <= number < 2**64 else _of_bytes(_OTHER, hex(number).encode())
    if isinstance(value, (float, np.floating)):
        return _of_float(float(value))
    if isinstance(value, str):
        return _of_bytes(_TEXT, _encoded(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _of_bytes(_BYTES, bytes(value))
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if isinstance(value, np.generic):
        return digest_of(value.item())
    if isinstance(value, (list, tuple, Rows)):
        result = _LIST + len(value)
        for item in cast("Sequence[object]", value):
            result = _mixed(result + digest_of(item))
        return result
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value).items()
        return _mixed(_RECORD + sum(_mixed(digest_of(name) * _STEP + digest_of(field)) for name, field in fields))
    if isinstance(value, (date, time)):
        return _of_bytes(_OTHER, value.isoformat().encode())
    if isinstance(value, (timedelta, UUID, Decimal)):
        return _of_bytes(_OTHER, str(value.normalize() if isinstance(value, Decimal) else value).encode())
    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        return _of_array(cast("Any", value).numpy(force=True))
    raise UnfitError(
        f"a value of type {type(value).__name__} has no digest that is the same in each process; give a key of numbers "
        "or text"
    )


def digests_of_values(values: Sequence[object]) -> Digests:
    """The digests of Python objects; faster than one by one if they are of one type."""
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is int or kind is bool:
        try:
            return _of_ints(np.array(values, np.int64))
        except OverflowError:
            pass
    elif kind is float:
        return _of_floats(np.array(values, np.float64))
    elif kind is str:
        return _of_words(_TEXT, [crc32(_encoded(value)) for value in cast("Sequence[str]", values)])
    elif kind is bytes:
        return _of_words(_BYTES, [crc32(value) for value in cast("Sequence[bytes]", values)])
    elif kind is dict:
        rows = cast("Sequence[dict[object, object]]", values)
        names = rows[0].keys()
        if all(row.keys() == names for row in rows):
            columns = {name: digests_of_values([row[name] for row in rows]) for name in names}
            return digests_of_records(columns, len(rows))
    return np.fromiter(map(digest_of, values), np.uint64, len(values))


def digests_of_column(column: Column) -> Digests:
    """The digests of the values of a column; numbers and dictionaries never become Python objects."""
    if isinstance(column, np.ndarray):
        if column.ndim == 1 and column.dtype.kind in "iub":
            return _of_ints(column)
        if column.ndim == 1 and column.dtype.kind == "f" and column.dtype.itemsize <= 8:
            return _of_floats(column.astype(np.float64))
        return digests_of_values(scalars(column))
    import pyarrow as pa

    kind: Any = column.type
    if column.null_count:
        digests = np.full(len(column), _of_word(_NULL), np.uint64)
        digests[column.is_valid().to_numpy(zero_copy_only=False)] = digests_of_column(column.drop_null())
        return digests
    if pa.types.is_dictionary(kind):
        encoded = cast("Any", column)
        indices: npt.NDArray[np.int64] = encoded.indices.to_numpy(zero_copy_only=False)
        return digests_of_column(encoded.dictionary)[indices]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return digests_of_column(column.to_numpy(zero_copy_only=False))
    return digests_of_values(scalars(column))


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


def _mixed(value: int) -> int:
    """`mixed` of one number, modulo 2**64."""
    value &= _MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


def _of_word(kind: int, word: int = 0) -> int:
    return _mixed(kind + word * _STEP)


def _of_words(kind: int, words: Any) -> Digests:
    return mixed(np.asarray(words, np.uint64) * np.uint64(_STEP) + np.uint64(kind))


def _of_ints(values: npt.NDArray[Any]) -> Digests:
    return _of_words(_INT, values.astype(np.int64 if values.dtype.kind == "i" else np.uint64).view(np.uint64))


def _of_floats(values: npt.NDArray[np.float64]) -> Digests:
    whole = (np.floor(values) == values) & (np.abs(values) < 2.0**63)
    bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    digests = _of_words(_FLOAT, (bits >> np.uint64(32)) | (bits << np.uint64(32)))
    digests[whole] = _of_ints(values[whole].astype(np.int64))
    return digests


def _of_float(number: float) -> int:
    if number.is_integer() and abs(number) < 2.0**63:
        return _of_word(_INT, int(number))
    low, high = struct.unpack("<II", struct.pack("<d", math.nan if math.isnan(number) else number))
    # Most floats differ in their first bits, which are spread best if they are the last ones.
    return _of_word(_FLOAT, (low << 32) + high)


def _of_bytes(kind: int, value: bytes) -> int:
    return _of_word(kind, crc32(value))


def _of_array(array: npt.NDArray[Any]) -> int:
    if array.ndim == 0 or array.dtype.hasobject:
        return digest_of(array.tolist())
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    head = crc32(f"{array.dtype.str}{array.shape}".encode())
    return _of_word(_ARRAY, (head << 32) + crc32(array.tobytes()))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
