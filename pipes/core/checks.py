"""Checks of arguments and of signatures, all in one voice; optional packages, and digests of plain values.

Plain values are numbers, strings, bytes, None, enums, arrays, and tuples, lists, sets, dicts and frozen dataclasses of
them. Anything else counts by its type. A digest runs no code of a user: no `__eq__`, `__repr__` or `__getattr__`.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError


def check_int(name: str, value: object, *, least: int) -> int:
    """`value` as an int that is at least `least`; NumPy integers are accepted, bools are not."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(f"`{name}` must be an int but got: {value!r} of type {type(value).__name__}") from None
    if number < least:
        raise ArgumentError(f"`{name}` must be >= {least} but got: {number}")
    return number


def check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"`{name}` must be True or False but got: {value!r}")


def check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(f"`{name}` must be a number of seconds but got: {value!r}")
    if not value > 0:
        raise ArgumentError(f"`{name}` must be > 0 but got: {value!r}")


def check_callable(name: str, value: object, *, coroutines: bool = False) -> None:
    if not isinstance(value, Callable):  # type: ignore[arg-type]
        raise ArgumentTypeError(f"`{name}` must be callable but got: {value!r}")
    if not coroutines and is_coroutine_function(value):
        raise ArgumentTypeError(
            f"`{name}` must be a plain function but is a coroutine function, and only `map` awaits those; put "
            "`.map(function, concurrency=n)` before"
        )


def is_coroutine_function(value: object) -> bool:
    """Whether a function, a `partial` of one, or a callable object is declared with `async def`."""
    while isinstance(value, functools.partial):
        value = cast("functools.partial[object]", value).func
    return inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(class_attribute(type(value), "__call__"))


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        listed = ", ".join(map(repr, choices))
        raise ArgumentError(f"`{name}` must be one of {listed} but got: {value!r}")


_DECIMAL = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS = _DECIMAL | {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def check_bytes(name: str, value: object) -> int:
    """A number of bytes: an int, or a string such as "1GiB" or "500 MB"."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise ArgumentError(f'`{name}` must be a size such as "1GiB" but got: {value!r}')
        value = int(float(match[1]) * unit)
    return check_int(name, value, least=1)


# Signatures


C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


def explains_wrong_arguments(function: F) -> F:
    """`function`, whose errors of unknown, missing and surplus arguments are ours, and whose flags are bools."""
    code = getattr(function, "__code__", None)
    positional = code.co_varnames[: code.co_argcount] if code is not None else ()
    # A function that takes `**options` has a signature with their names. For any other `inspect.signature` would take
    # some milliseconds of the import.
    signature: inspect.Signature | None = getattr(function, "__signature__", None)
    options = None if signature is None else {name: p.annotation for name, p in signature.parameters.items()}
    annotations = function.__annotations__ if options is None else options
    kinds = {name: kind for name, kind in annotations.items() if kind in ("bool", "bool | None")}
    flags = [(name, kind, positional.index(name) if name in positional else None) for name, kind in kinds.items()]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if options is not None and not kwargs.keys() <= options.keys():
            raise ArgumentTypeError(_message(function, args, kwargs) or "")
        for name, kind, place in flags:
            if name in kwargs:
                _check_flag(name, kind, kwargs[name])
            elif place is not None and place < len(args):
                _check_flag(name, kind, args[place])
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # A call that does not fit the signature fails here, and not in a frame of the function.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            message = _message(function, args, kwargs)
            if message is None:
                raise
            raise ArgumentTypeError(message) from None

    return call  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def _check_flag(name: str, kind: str, value: object) -> None:
    if value is not None or kind == "bool":
        check_bool(name, value)


def methods_explain_wrong_arguments(cls: C) -> C:
    """A decorator of a class: all its public functions, and its construction, explain wrong arguments."""
    for name, value in list(vars(cls).items()):
        if inspect.isfunction(value) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, explains_wrong_arguments(value))
    return cls


def _message(function: Callable[..., Any], values: tuple[Any, ...], by_name: dict[str, Any]) -> str | None:
    """The fault of a call; None if Python's own error must name it."""
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and (parameters[0].name == "self" or parameters[0].kind is Parameter.POSITIONAL_ONLY):
        parameters, values = parameters[1:], values[1:]  # a method's object is no argument to its user
    named = [p for p in parameters if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]
    called = getattr(function, "__qualname__", "the function").removesuffix(".__init__").rpartition(".")[2]
    unknown = next((name for name in by_name if all(name != p.name for p in named)), None)
    if unknown is not None:
        return f"`{called}` has no argument `{unknown}`; {_advice(called, unknown, [p.name for p in named])}"
    positional = [p for p in named if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if len(values) > len(positional) and all(p.kind is not Parameter.VAR_POSITIONAL for p in parameters):
        named_only = next((p for p in named if p.kind is Parameter.KEYWORD_ONLY and p.name not in by_name), None)
        taken = f"only {_listed(positional)}" if positional else "nothing"
        repair = f"; name the others, such as {_listed([named_only])}" if named_only else ""
        return f"`{called}` takes {taken} by position but got {len(values)}{repair}"
    missing = [p for p in named[len(values) :] if p.default is Parameter.empty and p.name not in by_name]
    return f"`{called}` needs {_listed(missing)}" if missing else None


def _listed(parameters: list[Parameter]) -> str:
    names = [f"`{p.name}=`" if p.kind is Parameter.KEYWORD_ONLY else f"`{p.name}`" for p in parameters]
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


_MEANT = {  # the names of other libraries, and the names here
    "ahead": ("count", "prefetch"),
    "batch_size": ("size",),
    "buffer_size": ("window", "count"),
    "collate_fn": ("function",),
    "drop_remainder": ("drop_last",),
    "fn": ("function", "predicate"),
    "func": ("function", "predicate"),
    "dtype": ("schema",),
    "names": ("column_names",),
    "na_values": ("null_values",),
    "sep": ("delimiter",),
    "usecols": ("columns",),
    "handler": ("on_error",),
    "num_parallel_calls": ("concurrency", "workers"),
    "num_workers": ("workers",),
    "on_bad_rows": ("on_error",),
    "prefetch_factor": ("prefetch",),
    "world": ("world_size",),
}
_ADVICE = {  # for a function that has none of these names; an argument that went, for the function that had it
    "batch_size": "`.batch(n)` in the chain groups rows",
    "batched": "`.map_batches(function, n)` calls it with up to n rows at a time",
    "buffer_size": "`.shuffle(window=n)` and `.prefetch(n)` are operators of the chain",
    "collate_fn": "`.collate(function)` in the chain makes batches",
    "map_batches.concurrency": "`.batch(n).map(function, concurrency=k).unbatch()` calls it for k batches at a time",
    "distinct": "a contrastive loss masks the pairs of a batch whose keys are equal",
    "drop_last": "`.batch(n, drop_last=True)` in the chain drops it",
    "drop_remainder": "`.batch(n, drop_last=True)` in the chain drops it",
    "handler": '`.on_error("skip")` in the chain leaves out rows that fail',
    "num_parallel_calls": "`Loader(pipe, workers=n)` runs the chain in several processes",
    "num_workers": "`Loader(pipe, workers=n)` runs the chain in several processes",
    "on_bad_rows": '`read_csv(..., on_error="skip")` leaves out rows that cannot be parsed',
    "ordered": "elements come in the order of the plan; `prefetch=n` lets fast workers run ahead of a slow one",
    "partition_by": "`pyarrow.dataset.write_dataset(pipe.to_table(), ..., partitioning=[...])` writes into folders",
    "pin_memory": "`Loader(pipe, pin_memory=True)` gives tensors in pinned memory",
    "prefetch_factor": "`MultiProcess(workers, prefetch=n)` keeps elements ready",
    "record": "`fp.replay(pipe, info.cursor)` makes an element again, with `info` from `loader.with_info()`",
    "fit.resume": "run it again; the statistics are the same floats",
    "map_batches.rng": "`.batch(n).map(function, rng=True).unbatch()` gives each batch a generator",
    "samples": "`pipe.head(n)` returns the first elements",
    "operator.segment": "`.batch(n).flat_map(function)` calls a generator for each n rows",
    "shuffle": "`.shuffle()` is an operator of the chain",
    "index.statistics": "`filter=` leaves out folders such as `day=1/`, and row groups by footers",
    "start_method": "a server forks all workers from a clean interpreter",
}


def _advice(called: str, unknown: str, names: list[str]) -> str:
    """The repair for an argument that is not among `names`."""
    meant = next((name for name in _MEANT.get(unknown, ()) if name in names), None)
    advice = _ADVICE.get(f"{called}.{unknown}") or _ADVICE.get(unknown)
    if meant is None and advice is not None:
        return advice
    meant = meant or similar_name(unknown, names)
    if meant is not None:
        return f"did you mean `{meant}`?"
    return f"it takes {', '.join(f'`{name}`' for name in names)}" if names else "it takes none by name"


def similar_name(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that a user who wrote `name` may have meant."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(names), 1)), None)


# Optional packages


class Package(NamedTuple):
    """A package that something needs.

    Attributes:
        module: the name of the module to import.
        name: the name of the package that has the module.
        extra: the extra of feedpipe that installs it.
        purpose: its use, which begins the error: "TFRecord files are read".
    """

    module: str
    name: str
    extra: str
    purpose: str

    def check(self, otherwise: str = "") -> None:
        """Check that it is installed, without importing it.

        Args:
            otherwise: ends the error: what the user may do without the package.

        Raises:
            ArgumentError: it is not.
        """
        if find_spec(self.module.partition(".")[0]) is None:
            raise ArgumentError(
                f"{self.purpose} with the package {self.name}, which is not installed; "
                f"`pip install 'feedpipe[{self.extra}]'` installs it{otherwise}"
            )

    def load(self) -> Any:
        """The module.

        Raises:
            ArgumentError: the package is not installed.
        """
        self.check()
        return import_module(self.module)


def check_torch(purpose: str, otherwise: str = "") -> None:
    """Check that torch is installed, as `Package.check` does; `otherwise` is what else the user may do."""
    Package("torch", "torch", "torch", purpose).check(otherwise)


# Plain values


SAMPLE_ROWS = 64
"""The number of rows in a sample of long data."""
MAX_SAMPLE_BYTES = 2**23
"""The size of a sample of long rows, which has fewer of them."""
SAMPLE_VALUE_BYTES = 512
"""The least cost of a sampled value of a table, in bytes of an array."""

_MAX_ITEMS = (1000, 64, 16)
"""The longest sequence that counts as a whole: by itself, in another one, deeper. Of a longer one a sample counts."""
_MAX_UNORDERED = 100_000
"""The largest set or dict that counts as a whole. A larger one counts by its length, for it has no fixed order."""
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


MAX_SHOWN = 60
"""The most characters of a value that is shown itself."""


def shown_value(value: object) -> str:
    """A plain value as text: itself if it holds only numbers and is short, else a digest."""
    if _is_number(value) or (type(value) in (tuple, list) and all(map(_is_number, cast("list[object]", value)))):
        text = repr(value)
        if len(text) <= MAX_SHOWN:
            return text
    return digest(value)


def _is_number(value: object) -> bool:
    return value is None or type(value) in (bool, float) or (type(value) is int and value.bit_length() <= 128)


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


def sample_positions(length: int, row_bytes: int = 0) -> list[int]:
    """Positions spread evenly from the first row to the last: all if there are few, and fewer of long rows."""
    count = min(SAMPLE_ROWS, length, max(2, MAX_SAMPLE_BYTES // max(row_bytes, 1)))
    return [i * (length - 1) // (count - 1) for i in range(count)] if count > 1 else list(range(count))


def frozen_fields(value: object) -> dict[str, object] | None:
    """The fields of a frozen dataclass; None for anything else."""
    parameters = class_attribute(type(value), "__dataclass_params__")
    if parameters is None or not getattr(parameters, "frozen", False):
        return None
    fields = cast("Mapping[str, object]", class_attribute(type(value), "__dataclass_fields__"))
    return {name: member for name, member in attributes(value).items() if name in fields}


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


def class_attribute(kind: type, name: str, default: object = None) -> object:
    """The attribute `name` of a class or its bases, without a call of a descriptor; else `default`."""
    for base in type.__getattribute__(kind, "__mro__"):
        members = type.__getattribute__(base, "__dict__")
        if name in members:
            return members[name]
    return default


def type_name(kind: type) -> str:
    """The module and the qualified name of a type."""
    return f"{type.__getattribute__(kind, '__module__')}.{type.__getattribute__(kind, '__qualname__')}"


def partial_parts(value: object) -> tuple[object, tuple[object, ...], dict[str, object]]:
    """The function, the arguments and the keyword arguments of a `functools.partial`, or of a subclass of it."""
    members = vars(functools.partial)
    function, arguments, keywords = (members[name].__get__(value) for name in ("func", "args", "keywords"))
    return function, arguments, keywords
