"""Digests of plain values, for the fingerprint of a state.

No code of a user runs: no `__eq__`, `__repr__` or `__getattr__`. Plain values are numbers, strings, bytes, None,
enums, arrays, and tuples, lists, sets, dicts and frozen dataclasses of them. Anything else counts by its type.
"""

from __future__ import annotations

import enum
import functools
import hashlib
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, cast
from uuid import UUID

import numpy as np

SAMPLE_ROWS = 64
"""Of long data, so many rows are looked at."""
MAX_SAMPLE_BYTES = 2**23
"""Fewer rows are looked at if they are longer than that together."""
SAMPLE_VALUE_BYTES = 512
"""What looking at a value of a table costs at least, in bytes of an array."""

_MAX_ITEMS = (1000, 64, 16)
"""Up to so many items, a sequence is looked at as a whole: by itself, in another one, deeper."""
_MAX_UNORDERED = 100_000
"""Up to so many items, a set or a dict is looked at; a larger one counts by its length, for it has no fixed order."""
_MAX_DEPTH = 10
_MAX_TEXT = 2**16
"""A longer string counts by its length, its beginning and its end."""

_SCALARS = (bool, int, float, complex, str, bytes, bytearray)
_CONTAINERS = (tuple, list, dict, set, frozenset)
_LEAVES = frozenset(
    (Decimal, Fraction, date, timedelta, UUID, PurePosixPath, PureWindowsPath, PosixPath, WindowsPath, type(...))
)
"""Types of the standard library whose `repr` is all that they are, and runs no other code."""


def digest(value: object) -> str:
    """A digest of a plain value, with a # in front; the same in every process."""
    return "#" + hashlib.blake2b(value_text(value).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def sample_positions(length: int, row_bytes: int = 0) -> list[int]:
    """Positions spread evenly from the first row to the last: all if there are few, and fewer of long rows."""
    count = min(SAMPLE_ROWS, length, max(2, MAX_SAMPLE_BYTES // max(row_bytes, 1)))
    return [i * (length - 1) // (count - 1) for i in range(count)] if count > 1 else list(range(count))


def is_plain(value: object) -> bool:
    """Whether the content of `value` counts, not only its type."""
    kind = type(value)
    return (
        value is None
        or kind in _LEAVES
        or kind is range
        or issubclass(kind, (*_SCALARS, *_CONTAINERS, np.ndarray, np.generic, enum.Enum))
        or _is_tensor(kind)
        or frozen_fields(value) is not None
    )


def value_text(value: object, parents: tuple[int, ...] = ()) -> str:
    """All that counts of `value`, as a text for a digest; `parents` are the ids of the containers around it."""
    kind = type(value)
    if value is None or kind in _LEAVES:
        return f"{kind.__name__}:{value!r}"
    if issubclass(kind, enum.Enum):
        members = attributes(value)
        return f"{type_name(kind)}.{members.get('_name_')}:{value_text(members.get('_value_'), (*parents, id(value)))}"
    if issubclass(kind, np.generic):
        return _array_text(np.asarray(value))
    for scalar in _SCALARS:
        if issubclass(kind, scalar):
            return _scalar_text(scalar, value)
    if kind is range:
        numbers = cast("range", value)
        return f"range:{numbers.start:x}:{numbers.stop:x}:{numbers.step:x}"
    if issubclass(kind, np.ndarray):
        return _array_text(cast("np.ndarray[Any, Any]", value))
    if _is_tensor(kind):
        return _tensor_text(value)
    if len(parents) < _MAX_DEPTH and id(value) not in parents:
        parents = *parents, id(value)
        if issubclass(kind, _CONTAINERS):
            return _container_text(value, parents)
        if (fields := frozen_fields(value)) is not None:
            return f"{type_name(kind)}{_unordered_text(fields.items(), parents)}"
    return f"<{type_name(kind)}>"


def type_name(kind: type) -> str:
    """The module and the qualified name of a type."""
    return f"{type.__getattribute__(kind, '__module__')}.{type.__getattribute__(kind, '__qualname__')}"


def class_attribute(kind: type, name: str, default: object = None) -> object:
    """What a class or its bases define under `name`, without a call of a descriptor; else `default`."""
    for base in type.__getattribute__(kind, "__mro__"):
        members = type.__getattribute__(base, "__dict__")
        if name in members:
            return members[name]
    return default


def attributes(value: object) -> dict[str, object]:
    """The attributes of the object itself, in its `__dict__` or in slots."""
    members: dict[str, object] = {}
    for base in type.__getattribute__(type(value), "__mro__"):
        for name, member in type.__getattribute__(base, "__dict__").items():
            if isinstance(member, MemberDescriptorType) and name != "__dict__":
                try:
                    members.setdefault(name, member.__get__(value))
                except AttributeError:  # the slot is empty
                    continue
    descriptor = class_attribute(type(value), "__dict__")
    if isinstance(descriptor, (GetSetDescriptorType, MemberDescriptorType)):  # the latter in a `SimpleNamespace`
        members.update(descriptor.__get__(value))
    return members


def partial_parts(value: object) -> tuple[object, tuple[object, ...], dict[str, object]]:
    """The function, the arguments and the keyword arguments of a `functools.partial`, or of a subclass of it."""
    members = vars(functools.partial)
    function, arguments, keywords = (members[name].__get__(value) for name in ("func", "args", "keywords"))
    return function, arguments, keywords


def frozen_fields(value: object) -> dict[str, object] | None:
    """The fields of a frozen dataclass; None for anything else."""
    parameters = class_attribute(type(value), "__dataclass_params__")
    if parameters is None or not getattr(parameters, "frozen", False):
        return None
    fields = cast("Mapping[str, object]", class_attribute(type(value), "__dataclass_fields__"))
    return {name: member for name, member in attributes(value).items() if name in fields}


def _scalar_text(scalar: type, value: Any) -> str:
    if scalar is int:
        return f"int:{int.__index__(value):x}"  # hexadecimal: the decimal text of a long int is refused
    if scalar is bool or scalar is float or scalar is complex:
        return f"{scalar.__name__}:{scalar.__repr__(value)}"
    text = str.__str__(value) if scalar is str else bytes(memoryview(value)).decode("latin-1")
    if len(text) > _MAX_TEXT:
        text = f"{len(text)}:{text[: _MAX_TEXT // 2]}{text[-_MAX_TEXT // 2 :]}"
    return f"{scalar.__name__}:{len(text)}:{text}"


def _container_text(value: Any, parents: tuple[int, ...]) -> str:
    container: Any = next(kind for kind in _CONTAINERS if issubclass(type(value), kind))
    length = container.__len__(value)
    if container in (tuple, list):
        if length > _MAX_ITEMS[min(len(parents), len(_MAX_ITEMS)) - 1]:
            items: Iterable[object] = [container.__getitem__(value, i) for i in sample_positions(length)]
        else:
            items = container.__iter__(value)
        return f"{container.__name__}:{length}[{','.join(value_text(item, parents) for item in items)}]"
    if length > _MAX_UNORDERED:
        return f"{container.__name__}:{length}"
    items = dict.items(value) if container is dict else container.__iter__(value)
    return f"{container.__name__}{_unordered_text(items, parents)}"


def _unordered_text(items: Iterable[object], parents: tuple[int, ...]) -> str:
    """Items without an order of their own, such as those of a set: the order differs between processes."""
    return f"{{{','.join(sorted(value_text(item, parents) for item in items))}}}"


def _array_text(array: np.ndarray[Any, Any]) -> str:
    plain = array.view(np.ndarray)
    head = f"array:{plain.dtype.str}:{plain.shape}"
    if plain.ndim == 0 or plain.size == 0:
        rows = plain
    else:
        rows = plain[sample_positions(len(plain), plain.nbytes // len(plain))]
    if plain.dtype.hasobject:
        return f"{head}:{value_text(rows.ravel().tolist())}" if plain.dtype == object else head
    return f"{head}:{hashlib.blake2b(rows.tobytes(), digest_size=8).hexdigest()}"


def _is_tensor(kind: type) -> bool:
    return type_name(kind) in ("torch.Tensor", "torch.nn.parameter.Parameter")


def _tensor_text(tensor: Any) -> str:
    head = f"tensor:{tensor.dtype}:{tuple(tensor.shape)}"
    try:
        array = tensor.detach().numpy()
    except (RuntimeError, TypeError):  # on an accelerator, or of a type that NumPy has not
        return head
    return f"{head}:{_array_text(array)}"
