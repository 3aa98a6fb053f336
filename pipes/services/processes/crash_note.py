"""`CrashNote`: what a process was running when it died."""

from __future__ import annotations

from ...errors import CallSite, Origin
from ..transport.arena import Arena


class CrashNote:
    """Notes the operator that runs, and its row, in memory that survives the process."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._running: list[tuple[str, CallSite | None, Origin | None]] = []

    def enter(self, operator: str, call_site: CallSite | None, origin: Origin | None = None) -> None:
        """An operator, shown as its call, starts to make a row."""
        self._running.append((operator, call_site, origin))
        self._write()

    def leave(self, origin: Origin | None) -> None:
        """The operator has made a row from `origin`, and the operator that asked for it continues."""
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
        self._arena.note(text.encode())
