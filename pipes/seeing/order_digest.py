"""`digest_of`: eight bytes of an element, by which two runs are compared, and eight bytes of its rows in any order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.block import row_shape
from ..core.context import mixed
from ..core.rows import Rows

VALUES = 16
"""The values of each row of an array that are looked at, evenly spaced."""
_PRIME = np.uint64(0x100000001B3)
_STEPS = mixed(np.arange(1, VALUES + 1, dtype=np.uint64))

Hashes = npt.NDArray[np.uint64]


class ElementDigest(NamedTuple):
    """The digest of an element.

    Attributes:
        element: of its rows in their order, with shape and type.
        rows: the sum of the hashes of its rows; the sum over an epoch is the same for any division among ranks.
        size: the number of its rows.
    """

    element: int
    rows: int
    size: int


def digest_of(element: object) -> ElementDigest:
    """The digest of an element, from the types, the shapes and 16 values of each of its rows.

    A batch of 12 MB takes some 50 microseconds; a checksum of all of its bytes would take a hundred times as long.
    """
    shape = row_shape(element)
    hashes = np.array([_object_hash(element)], np.uint64) if isinstance(shape, tuple) else _row_hashes(element, shape)
    digest = hashlib.blake2b(hashes.tobytes(), digest_size=8).digest()
    return ElementDigest(int.from_bytes(digest, "little"), int(hashes.sum(dtype=np.uint64)), len(hashes))


def _row_hashes(value: Any, rows: int) -> Hashes:
    """The hash of each row of a batch."""
    if isinstance(value, Rows):
        value = value.columns
    if isinstance(value, Mapping):
        return _joined(((str(name), _row_hashes(column, rows)) for name, column in value.items()), rows)
    if isinstance(value, np.ndarray) and value.ndim and len(value) == rows:
        return _array_hashes(value)
    if (array := _numpy_of_tensor(value)) is not None and array.ndim and len(array) == rows:
        return _array_hashes(array)
    if hasattr(value, "to_numpy") and hasattr(value, "type") and len(value) == rows:
        return _arrow_hashes(value)
    if isinstance(value, tuple) or (isinstance(value, list) and value and hasattr(value[0], "shape")):
        return _joined(((str(place), _row_hashes(part, rows)) for place, part in enumerate(value)), rows)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and len(value) == rows:
        return np.array([_object_hash(row) for row in value], np.uint64)
    return np.full(rows, _object_hash(value))


def _joined(parts: Iterable[tuple[str, Hashes]], rows: int) -> Hashes:
    """One hash of each row of those of its columns."""
    total = np.zeros(rows, np.uint64)
    for name, hashes in parts:
        total = mixed(total * _PRIME + hashes + _text_hash(name))
    return total


def _array_hashes(array: npt.NDArray[Any]) -> Hashes:
    if array.dtype.kind not in "biufcmM" or array.dtype.itemsize not in (1, 2, 4, 8):
        return np.array([_object_hash(value) for value in array.tolist()], np.uint64)
    flat = array.reshape(len(array), -1)
    count = flat.shape[1]
    if count > VALUES:
        flat = flat[:, np.arange(VALUES) * (count - 1) // (VALUES - 1)]
    bits = np.ascontiguousarray(flat).view(f"u{array.dtype.itemsize}").astype(np.uint64)
    kind = _text_hash(f"{array.dtype.str} {array.shape[1:]}")
    return mixed(mixed(bits + _STEPS[: bits.shape[1]]).sum(1, dtype=np.uint64) + kind)


def _arrow_hashes(column: Any) -> Hashes:
    try:
        array = numpy_array(column)
    except (TypeError, ValueError, NotImplementedError):
        array = np.array(column.to_pylist(), object)
    return _array_hashes(array)


def _numpy_of_tensor(value: Any) -> npt.NDArray[Any] | None:
    """The values of a tensor that are looked at, as an array; None for anything else."""
    if not hasattr(value, "detach") or not hasattr(value, "layout"):
        return None
    from ..torch.tensors import few_values

    return few_values(value, VALUES)


def _object_hash(value: Any) -> np.uint64:
    """The hash of one row, or of a part of it. Of an object of a class of the user, the class alone counts."""
    return _text_hash(_text(value))


def _text(value: Any) -> str:
    kind = type(value).__name__
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return f"{kind} {value!r}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {_text(part)}' for name, part in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    array = value if isinstance(value, np.ndarray) else _numpy_of_tensor(value)
    return kind if array is None else f"array {_array_hashes(array[np.newaxis])[0]}"


def _text_hash(text: str) -> np.uint64:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))
