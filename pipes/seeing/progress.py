"""`progress`: iterates with one line that says how far the epoch is, and how much of the time waits for data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Generic, TypeVar

from ..core.block import row_count
from ..core.ending import Ending
from ..core.progress_bar import ProgressBar, showing
from ..errors import ArgumentTypeError
from ..loader import Loader
from ..pipe import Pipe

T_co = TypeVar("T_co", covariant=True)


def progress(source: Loader[T_co] | Pipe[T_co], *, title: str | None = None) -> ProgressIterator[T_co]:
    """Iterate a loader or a pipe, with one line that says how far it is.

        epoch 0:  43%|####      | 52/120 [00:04<00:05, 11.9 steps/s, 382 rows/s, waits 95% for data]

    It shows the steps of the epoch and when it will end. If the length is not known, the end is an estimate by
    `loader.progress`, with "~"; after a resume the line goes on at the step of the state. "Waits" is the share of the
    time in which the loop had to wait for the next element. The line changes three times a second on a terminal, is a
    widget in a notebook, and comes every ten seconds in a log. Of several ranks, only the first shows it.

    Args:
        source: a loader, whose next epoch it begins, or a pipe.
        title: the first words of the line, instead of the number of the epoch.

    Returns:
        An iterator of the elements; it has a `len()` if the source has one.

    Raises:
        ArgumentTypeError: `source` is neither a loader nor a pipe.

    Example:
        >>> import feedpipe as fp
        >>> loader = fp.Loader(fp.from_sequence(range(6)).batch(2))
        >>> [sum(batch) for batch in fp.progress(loader)]
        [1, 5, 9]
    """
    if not isinstance(source, (Loader, Pipe)):
        raise ArgumentTypeError(f"`source` must be a Loader or a Pipe but got: {source!r:.200}")
    if title is not None and not isinstance(title, str):
        raise ArgumentTypeError(f"`title` must be a string but got: {title!r:.200}")
    return ProgressIterator(source, title)


class ProgressIterator(Generic[T_co]):
    """The elements of a loader or a pipe; it shows a `ProgressBar`."""

    def __init__(self, source: Loader[T_co] | Pipe[T_co], title: str | None) -> None:
        self._source = source
        with showing(True):  # a pipe lists its files now, a loader for its length
            self._elements: Iterator[T_co] = iter(source)
        self._title = title
        self._bar: ProgressBar | None = None
        self._counts = _Counts()

    def __iter__(self) -> ProgressIterator[T_co]:
        return self

    def __len__(self) -> int:
        with showing(self._is_shown()):
            return len(self._source)

    def __next__(self) -> T_co:
        asked = time.perf_counter()
        if self._bar is None:
            self._bar = self._begin()
            self._ending = Ending(self, self._bar.close)  # a loop that is left keeps its line
        try:
            element = next(self._elements)
        except BaseException as error:
            self._bar.close(complete=isinstance(error, StopIteration))
            raise
        if self._bar.is_shown:
            self._counts.add(element, asked)
            self._bar.update(1)
        return element

    def _is_shown(self) -> bool:
        source = self._source
        return not isinstance(source, Loader) or source._epochs.ranks.ask().number == 0  # pyright: ignore[reportPrivateUsage]

    def _begin(self) -> ProgressBar:
        source, notes = self._source, self._counts.notes
        try:
            total: int | None = len(self)
        except TypeError:
            total = None
        if not isinstance(source, Loader):
            return ProgressBar(self._title or "pipe", total, unit=" elements", shown=True, notes=notes)
        return ProgressBar(
            f"epoch {source.epoch}" if self._title is None else self._title,
            total,
            unit=" steps",
            shown=self._is_shown(),
            initial=source.step,
            fraction=lambda: source.progress,
            notes=notes,
        )


class _Counts:
    """The rows after the first element, and the seconds that the loop waited for them and had in all."""

    def __init__(self) -> None:
        self._steps = self._rows = 0
        self._waited = 0.0
        self._first = self._last = 0.0

    def add(self, element: object, asked: float) -> None:
        """Count an element that the loop asked for at this time."""
        self._last = time.perf_counter()
        self._steps += 1
        if self._steps == 1:  # the start of processes is no wait of the loop
            self._first = self._last
        else:
            self._rows += row_count(element)
            self._waited += self._last - asked

    def notes(self) -> str:
        seconds = self._last - self._first
        if not seconds:
            return ""
        rows = [f"{self._rows / seconds:.0f} rows/s"] if self._rows >= self._steps else []
        return ", ".join([*rows, f"waits {self._waited / seconds:.0%} for data"])
