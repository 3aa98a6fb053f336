"""The files that units are in, as far as they are open."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from ...engine.readahead import MOST
from ...storage.file import File
from ...storage.tasks import Task

_OPEN = 8  # units in a random order come back to the same few files


class _InFile(Protocol):
    @property
    def file(self) -> File: ...
    @property
    def seal(self) -> int: ...


U = TypeVar("U", bound=_InFile)
T = TypeVar("T")


class KeptOpen(Generic[U, T]):
    """Opens files; keeps the last few open.

    Args:
        open: opens the file that a unit is in.
        close: closes it.
    """

    def __init__(self, open: Callable[[U], T], close: Callable[[T], object]) -> None:
        self._open = open
        self._close = close
        self._tasks: OrderedDict[tuple[int, str, int], Task[T]] = OrderedDict()

    def file(self, unit: U) -> T:
        """The file that a unit is in."""
        task = self.task(unit)
        try:
            return task.result()
        except BaseException:
            self._tasks.pop(_key(unit), None)  # another time it may be there
            raise

    def task(self, unit: U) -> Task[T]:
        """The same, for a thread to open it."""
        key = _key(unit)
        if key not in self._tasks:
            most = _OPEN if unit.file.is_near() else _OPEN + MOST  # with those that are begun ahead
            while len(self._tasks) >= most:
                self._close_oldest()
            self._tasks[key] = Task(partial(self._open, unit))
        self._tasks.move_to_end(key)
        return self._tasks[key]

    def close(self) -> None:
        while self._tasks:
            self._close_oldest()

    def _close_oldest(self) -> None:
        _, task = self._tasks.popitem(last=False)
        task.cancel()
        if task.finished is not None:
            self._close(task.finished)


def _key(unit: _InFile) -> tuple[int, str, int]:
    return id(unit.file.filesystem), unit.file.path, unit.seal
