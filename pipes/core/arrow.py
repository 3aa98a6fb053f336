"""Arrow arrays of NumPy arrays and of Python values, without pandas."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence, Sized
from types import NoneType
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from .lazy import pa

Times = TypeVar("Times", bound=Any)

_FAMILIES: dict[type, tuple[str, ...]] = {
    bool: ("is_boolean",),
    int: ("is_integer",),
    float: ("is_floating",),
    str: ("is_string", "is_large_string"),
    bytes: ("is_binary", "is_large_binary"),
}
"""The tests of Arrow's types that values of a Python type fit."""


def arrow_array(
    values: npt.NDArray[Any] | Iterable[object],
    kind: pa.DataType | None = None,
    *,
    missing: npt.NDArray[np.bool_] | None = None,
) -> Any:
    """An array as `pa.array` makes it, which imports pandas if it is installed: 35 MB and 0.14 s of CPU in a process.

    The memory of a NumPy array of numbers is shared. Times are converted to a unit that Arrow has. Python values other
    than numbers, texts and bytes of one type are left to `pa.array`; where there are many, that is faster too.

    Args:
        values: a NumPy array of one dimension, or Python values.
        kind: the type; None: the type of the values.
        missing: the rows that are null, if `values` is a NumPy array.

    Raises:
        pyarrow.ArrowNotImplementedError: Arrow has no type for the dtype.
        pyarrow.ArrowInvalid: a value does not fit `kind`.
    """
    if not isinstance(values, np.ndarray):
        return _of_objects(values if isinstance(values, list) else list(values), kind)
    if isinstance(values, np.ma.MaskedArray):
        missing, values = np.ma.getmaskarray(values), values.data
    if values.dtype.kind not in "biufmM":
        listed: list[object] = values.tolist()
        if missing is not None:
            listed = [None if null else value for value, null in zip(listed, missing.tolist(), strict=True)]
        return _of_objects(listed, kind if kind is not None or values.dtype == object else _type_of(values))
    values = with_arrow_unit(values)
    if values.dtype.kind in "mM":
        missing = np.isnat(values) if missing is None else np.isnat(values) | missing
    own, data = _type_of(values), np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    data = _bits(data) if data.dtype.kind == "b" else data.view(np.int64) if data.dtype.kind in "mM" else data
    if own == pa.date32():  # which has 32 bits
        array = _of_buffers(pa.int64(), len(values), missing, data).cast(pa.int32()).view(own)
    else:
        array = _of_buffers(own, len(values), missing, data)
    return array if kind is None or kind == own else array.cast(kind)


def arrow_scalar(value: object, kind: pa.DataType | None = None) -> Any:
    """A scalar as `pa.scalar` makes it, which imports pandas as `pa.array` does."""
    return arrow_array([value], kind)[0]


def with_arrow_unit(values: Times) -> Times:
    """`values`, but times in a unit that Arrow has: weeks, months and years become days, and minutes seconds."""
    code = values.dtype.kind
    if code not in "mM":
        return values
    unit, step = np.datetime_data(values.dtype)
    longer = dict.fromkeys("YMWD", "D") if code == "M" else dict.fromkeys("WD", "s")
    new = {"h": "s", "m": "s", **longer}.get(unit, unit)
    return values if (new, 1) == (unit, step) else cast("Times", values.astype(f"{code}8[{new}]"))


def numpy_array(array: Any) -> npt.NDArray[Any]:
    """An array as `to_numpy(zero_copy_only=False)` makes it, which imports pandas too; other types are left to it.

    Numbers share its memory. Numbers with nulls are copied, as floats, and a null is NaN.
    """
    if hasattr(array, "chunks"):
        array = array.combine_chunks()
    dtype = number_dtype(array.type)
    is_bool = dtype == np.bool_
    if dtype is None or (is_bool and array.null_count):
        return cast("npt.NDArray[Any]", array.to_numpy(zero_copy_only=False))
    if not len(array):
        return np.empty(0, dtype)
    present, data = array.buffers()
    if is_bool:
        return _unpacked(data, array)
    numbers = np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)
    if array.null_count:
        nan = np.array(np.nan, dtype if dtype.kind == "f" else np.float64)
        numbers = np.where(_unpacked(present, array), numbers, nan)
    numbers.flags.writeable = False
    return numbers


def number_dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    """The NumPy type of Arrow's numbers and bools; None for any other type.

    `DataType.to_pandas_dtype` gives the same, but some versions of pyarrow import pandas for it.
    """
    return _number_dtypes().get(kind.id)


@functools.cache
def _number_dtypes() -> dict[int, np.dtype[Any]]:
    names = "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
    return {pa.bool_().id: np.dtype(np.bool_), **{getattr(pa, name)().id: np.dtype(name) for name in names}}


def _of_objects(values: list[Any], kind: pa.DataType | None) -> Any:
    types = set(map(type, values))
    if types <= {NoneType}:
        return pa.nulls(len(values), cast("Any", kind))
    array: Any
    if all(issubclass(each, pa.Scalar) for each in types):
        array = pa.concat_arrays([pa.repeat(value, 1) for value in values])
        return array if kind is None else array.cast(kind)
    has_nulls = NoneType in types
    own = next(iter(types - {NoneType})) if len(types) == 1 + has_nulls else object
    if own not in _FAMILIES or (kind is not None and not any(getattr(pa.types, test)(kind) for test in _FAMILIES[own])):
        return pa.array(values, kind)
    missing: npt.NDArray[np.bool_] | None = None
    items: list[Any] = values
    if has_nulls:
        missing, nothing = np.array([value is None for value in values]), cast("Any", own())
        items = [nothing if value is None else value for value in values]
    if own is str:
        text = "".join(items)
        if text.isascii():
            array = _of_texts(pa.large_string(), text.encode(), items, missing)
        else:
            encoded = [value.encode() for value in items]
            array = _of_texts(pa.large_string(), b"".join(encoded), encoded, missing)
        return array.cast(kind or pa.string())
    if own is bytes:
        return _of_texts(pa.large_binary(), b"".join(items), items, missing).cast(kind or pa.binary())
    try:
        numbers: npt.NDArray[Any] = np.array(items, np.int64 if own is int else own)
    except OverflowError:  # of unsigned ones, which Arrow does not infer
        return pa.array(values, kind or pa.uint64())
    return arrow_array(numbers, kind, missing=missing)


def _of_texts(kind: pa.DataType, data: bytes, values: Sequence[Sized], missing: npt.NDArray[np.bool_] | None) -> Any:
    ends = np.zeros(len(values) + 1, np.int64)
    np.fromiter(map(len, values), np.int64, len(values)).cumsum(out=ends[1:])
    return _of_buffers(kind, len(values), missing, ends, data)


def _type_of(values: npt.NDArray[Any]) -> pa.DataType:
    return pa.from_numpy_dtype(values.dtype)


def _of_buffers(kind: pa.DataType, length: int, missing: npt.NDArray[np.bool_] | None, *buffers: Any) -> Any:
    present = None if missing is None or not missing.any() else pa.py_buffer(cast("Any", _bits(~missing)))
    return pa.Array.from_buffers(kind, length, [present, *map(pa.py_buffer, buffers)])


def _unpacked(memory: pa.Buffer, array: Any) -> npt.NDArray[np.bool_]:
    stop = array.offset + len(array)
    bits = np.unpackbits(np.frombuffer(cast("Any", memory), np.uint8), count=stop, bitorder="little")
    return bits[array.offset :].view(np.bool_)


def _bits(values: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return np.packbits(values, bitorder="little")
