"""`CrashNote`: what a process was running when it died."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import CallSite, Origin


class CrashNote:
    """Notes the operator that runs, and its row.

    Args:
        write: keeps the note where it survives the process.
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
