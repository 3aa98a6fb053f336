"""`ProgressBar`: one line that says how far an operation has come, and when it will end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

SECONDS = 1 / 3
"""The time between two updates on a terminal or in a notebook."""
SECONDS_OF_LOG = 10.0
"""The same where each update is a line, such as a log file."""
KNOWN = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
ESTIMATED = "{desc}: ~{percentage:.0f}%|{bar}| {n_fmt}/~{total_fmt} [{elapsed}<~{remaining}, {rate_fmt}{postfix}]"


class ProgressBar:
    """Counts on one line, by tqdm: on a terminal, in a notebook in its own form, elsewhere a line every ten seconds.

    Args:
        title: the first words of the line.
        total: the count at the end, if it is known.
        unit: what is counted.
        shown: False for no line; None for a line on terminals and in notebooks only, unless `showing` says more.
        initial: the count at the beginning.
        fraction: the part that is done, from 0 to 1, if `total` is None. The line then has an estimate of the total,
            with "~". It is asked at each update.
        notes: the last words of the line; asked at each update.
        delay: the seconds before the first line.

    Attributes:
        is_shown: whether there is a line, now or after the delay.
    """

    def __init__(
        self,
        title: str,
        total: int | None = None,
        *,
        unit: str = " rows",
        shown: bool | None = None,
        initial: int = 0,
        fraction: Callable[[], float | None] | None = None,
        notes: Callable[[], str] | None = None,
        delay: float = 0.0,
    ) -> None:
        is_live = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
        shown = _shown.get() if shown is None else shown
        self.is_shown = is_live if shown is None else shown
        self._title, self._total, self._unit, self._initial, self._delay = title, total, unit, initial, delay
        self._fraction = fraction if total is None else None
        self._notes = notes
        self._count = initial
        self._seconds = SECONDS if is_live else SECONDS_OF_LOG
        self._began = time.perf_counter()
        self._due = self._began + (delay or self._seconds)
        self._bar: Any = None
        if self.is_shown and not delay:
            self._open()

    def update(self, count: int) -> None:
        """Count more."""
        self._count += count
        if not self.is_shown or time.perf_counter() < self._due:
            return
        if self._bar is None:
            self._open()
        if self._fraction is not None and (total := self._estimate()) is not None:
            self._set_total(total, ESTIMATED)
        self._show()
        self._due = time.perf_counter() + self._seconds

    def close(self, *, complete: bool = False) -> None:
        """End the line; `complete` if the operation has come to its end."""
        self.is_shown = False
        if self._bar is None:
            return
        if complete and self._fraction is not None:
            self._set_total(self._count, KNOWN)
        self._show()
        self._bar.close()
        self._bar = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(complete=kind is None)

    def _open(self) -> None:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        self._bar = tqdm(
            total=self._estimate() if self._total is None else self._total,
            initial=self._initial,
            desc=self._title,
            unit=self._unit,
            unit_scale=self._unit == " rows",  # which are many: 3.00k
            mininterval=0,
            miniters=1,
            delay=self._delay,
        )
        self._bar.last_print_t = self._bar.start_t = self._bar.start_t - (time.perf_counter() - self._began)

    def _show(self) -> None:
        if self._notes is not None:
            self._bar.set_postfix_str(self._notes(), refresh=False)
        self._bar.update(self._count - self._bar.n)

    def _estimate(self) -> int | None:
        fraction = None if self._fraction is None else self._fraction()
        return max(self._count, round(self._count / fraction)) if fraction and self._count else None

    def _set_total(self, total: int, form: str) -> None:
        self._bar.total = total
        self._bar.bar_format = None if hasattr(self._bar, "container") else form
        if hasattr(self._bar, "container"):  # the widget of a notebook keeps its own total
            self._bar.container.children[-2].max = max(1, total)


_shown: ContextVar[bool | None] = ContextVar("shown", default=None)


@contextmanager
def showing(shown: bool) -> Generator[None]:
    """Decide for the operations that run meanwhile whether they show their lines, also in a log."""
    before = _shown.set(shown)
    try:
        yield
    finally:
        _shown.reset(before)
