"""Deaths of workers: the warning or the error about one, and the note of what a worker was running."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import CallSite, Origin, WorkerError, WorkerWarning, warn

MAX_DEATHS = 3
"""The workers in a row that may die at one element."""


def report_death(deaths: int, message: str, frames: str = "") -> None:
    """Warn of a death, or raise an error, with the last frames, if too many workers have died in this place."""
    if deaths >= MAX_DEATHS:
        frames = frames and f"\nits last call was:\n{frames}"
        raise WorkerError(f"{message}; it has died there {deaths} times, so it is not started again{frames}")
    warn(f"{message}; it is started again from there, nothing is lost", WorkerWarning)


class CrashNote:
    """Notes the operator that runs, and its row.

    Args:
        write: sends the note.
        after_row: called when an operator has made a row, while the note still names that operator.
    """

    def __init__(self, write: Callable[[str], None], after_row: Callable[[], None] | None = None) -> None:
        self._write_note = write
        self._after_row = after_row
        self._running: list[tuple[str, CallSite | None, Origin | None]] = []

    def enter(self, operator: str, call_site: CallSite | None, origin: Origin | None = None) -> None:
        """An operator, shown as its call, starts to make a row."""
        self._running.append((operator, call_site, origin))
        self._write()

    def leave(self, origin: Origin | None) -> None:
        """The operator has made a row from `origin`, and the operator that asked for it continues."""
        if self._after_row is not None:
            self._after_row()
        self._running.pop()
        if self._running:
            operator, call_site, before = self._running.pop()
            self._running.append((operator, call_site, origin or before))
        self._write()

    def _write(self) -> None:
        text = ""
        if self._running:
            operator, call_site, origin = self._running[-1]
            text = f"`{operator}`"
            text += f"\n  on {origin}" if origin else ""
            text += f"\n  at {call_site.file}:{call_site.line}" if call_site else ""
        self._write_note(text)
