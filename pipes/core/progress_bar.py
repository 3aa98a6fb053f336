"""`ProgressBar`: one line that says how far an operation has come, and when it will end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
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
        shown: False for no line; None for a line on terminals and in notebooks only.
        initial: the count at the beginning.
        fraction: the part that is done, from 0 to 1, if `total` is None. The line then has an estimate of the total,
            with "~". It is asked at each update.
        notes: the last words of the line; asked at each update.
        delay: the seconds before the first line.
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
        self._fraction = fraction if total is None else None
        self._notes = notes
        self._count = initial
        self._seconds = SECONDS if is_live else SECONDS_OF_LOG
        self._due = time.perf_counter() + self._seconds
        self._bar: Any = None
        if is_live if shown is None else shown:
            from tqdm.auto import tqdm  # type: ignore[import-untyped]

            about = self._estimate() if total is None else total
            self._bar = tqdm(
                total=about,
                initial=initial,
                desc=title,
                unit=unit,
                unit_scale=unit == " rows",  # which are many: 3.00k
                mininterval=0,
                miniters=1,
                delay=delay,
            )

    @property
    def is_shown(self) -> bool:
        return self._bar is not None

    def update(self, count: int) -> None:
        """Count more."""
        self._count += count
        if self._bar is None or time.perf_counter() < self._due:
            return
        if self._fraction is not None and (total := self._estimate()) is not None:
            self._set_total(total, ESTIMATED)
        self._show()
        self._due = time.perf_counter() + self._seconds

    def close(self, *, complete: bool = False) -> None:
        """End the line; `complete` if the operation has come to its end."""
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
