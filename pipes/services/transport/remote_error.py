"""Errors that cross: they keep their type and their cause, and tell where in the worker they came from."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from .bundle import bundled
from .packing import Packed, Packer, unpack


class RemoteError(Exception):
    """The traceback of an error, from the process where it was raised; the cause of the error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class _Bare:
    """An exception without what its class does when it is made."""

    kind: type[BaseException]
    args: tuple[object, ...]
    state: dict[str, object]

    def made(self) -> BaseException:
        error = self.kind.__new__(self.kind, *self.args)
        error.args = self.args
        error.__dict__.update(self.state)
        return error


@dataclass(frozen=True)
class Failure:
    """An error and its causes, and the worker's traceback of them."""

    errors: list[BaseException | _Bare]
    text: str

    def error(self) -> BaseException:
        """The error, caused by what caused it."""
        cause: BaseException = RemoteError(self.text)
        for link in reversed(self.errors):
            error = link.made() if isinstance(link, _Bare) else link
            error.__cause__, cause = cause, error
        return cause


def packed_failure(error: BaseException, where: str, packer: Packer) -> Packed:
    """As much of `error`, raised in the process `where`, as can be sent."""
    text = "".join(traceback.format_exception(error)).rstrip()
    return packer.pack(Failure([_sendable(one, packer) for one in _causes(error)], f"in {where}:\n{text}"))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _sendable(error: BaseException, packer: Packer) -> BaseException | _Bare:
    """`error` as it is, or as much of it as can be sent: without `__init__`, with its text alone, as a base class."""
    if _crosses(error, type(error), packer):
        return error
    text = (str(error),)
    bare = [_Bare(type(error), error.args, vars(error))]
    bare += [_Bare(kind, text, {}) for kind in type(error).__mro__ if issubclass(kind, BaseException)]
    return next(one for one in bare if _crosses(one, _Bare, packer))


def _crosses(value: object, kind: type, packer: Packer) -> bool:
    try:
        stream, *memories = bundled(packer.pack(value))
        back = unpack(stream, memories)
        return type(back) is kind and (not isinstance(back, _Bare) or isinstance(back.made(), BaseException))
    except Exception:  # whatever a user's class does when it is taken apart and put together
        return False
