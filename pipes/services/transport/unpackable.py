"""Names the part of an element that cannot leave its worker, and the repair."""

from __future__ import annotations

import dataclasses
import io
import reprlib
from collections.abc import Callable, Iterable, Iterator

from ...errors import CallSite, with_call_site

_MAX_STEPS = 20


def describe_unpackable(
    element: object, error: Exception, can_pack: Callable[[object], bool], call_site: CallSite | None
) -> str:
    """The message for an element that could not be packed because of `error`; `can_pack` is asked about its parts."""
    path, culprit = "element", element
    for _ in range(_MAX_STEPS):
        unpackable = next(((step, part) for step, part in _parts(culprit) if not can_pack(part)), None)
        if unpackable is None:
            break
        path, culprit = path + unpackable[0], unpackable[1]
    cls = type(culprit)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    message = (
        f"an element cannot leave its worker: `{path}`, of type {name}, cannot be packed "
        f"({str(error) or type(error).__name__}); {_repair(culprit)}"
    )
    return message if call_site is None else with_call_site(message, call_site)


def _repair(culprit: object) -> str:
    """What to return instead."""
    if isinstance(culprit, io.IOBase):
        return "return what is in the file, or its path"
    if isinstance(culprit, Iterator):
        return "return a list of what it gives"
    return "keep such things out of elements"


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """The parts of an object, each with the step that leads to it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"[{reprlib.repr(key)}]", part
    elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        for i, part in enumerate(value):
            yield f"[{i}]", part
    elif not isinstance(value, type):
        names: Iterable[str] = getattr(value, "_fields", ()) or getattr(value, "__dict__", ())
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
        for name in names:
            yield f".{name}", getattr(value, name)
