"""Errors that travel to another process. They keep their type and their causes, and show the worker's traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import shown_traceback, text_of
from .packing import PackedElement, Packer, unpack


class RemoteError(Exception):
    """The traceback of an error in the process that raised it. It is the last cause of the error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class _ErrorParts:
    """The parts of an exception, to make it again without its `__init__`."""

    cls: type[BaseException]
    args: tuple[object, ...]
    state: dict[str, object]

    def to_exception(self) -> BaseException:
        error = self.cls.__new__(self.cls, *self.args)
        error.args = self.args
        error.__dict__.update(self.state)
        return error


@dataclass(frozen=True)
class RemoteFailure:
    """An error and its causes, and the traceback of all of them."""

    errors: list[BaseException | _ErrorParts]
    traceback: str

    def to_exception(self) -> BaseException:
        """The error with its causes; the last cause is a `RemoteError`."""
        cause: BaseException = RemoteError(self.traceback)
        for link in reversed(self.errors):
            error = link.to_exception() if isinstance(link, _ErrorParts) else link
            error.__cause__, cause = cause, error
        return cause


def pack_error(error: BaseException, process: str, packer: Packer) -> PackedElement:
    """As much of `error` as can be packed; `process` says where it was raised."""
    text = "".join(traceback.format_exception(type(error), error, shown_traceback(error))).rstrip()
    return packer.pack(RemoteFailure([_packable(link, packer) for link in _causes(error)], f"in {process}:\n{text}"))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _packable(error: BaseException, packer: Packer) -> BaseException | _ErrorParts:
    """`error`, or what of it can be packed: its parts, its class with its text, or a base class with its text."""
    if _survives(error, type(error), packer):
        return error
    text = (text_of(error),)
    parts = [_ErrorParts(type(error), error.args, vars(error))]
    parts += [_ErrorParts(cls, text, {}) for cls in type(error).__mro__ if issubclass(cls, BaseException)]
    return next(candidate for candidate in parts if _survives(candidate, _ErrorParts, packer))


def _survives(value: object, cls: type, packer: Packer) -> bool:
    """Whether `value` can be packed, and unpacked as a `cls`."""
    try:
        stream, *memories = packer.pack(value).body()
        copy = unpack(stream, map(bytearray, memories))
        return type(copy) is cls and (
            not isinstance(copy, _ErrorParts) or isinstance(copy.to_exception(), BaseException)
        )
    except Exception:  # a user's class may do anything here
        return False
