"""`CrashNote`: what a process was running when it died."""

from __future__ import annotations

import os
import stat

from ...errors import CallSite, Origin
from ..transport.arena import Arena


class CrashNote:
    """Notes the operator that runs, and its row, in memory that survives the process.

    Args:
        arena: has the memory.
        connection: the descriptor of the socket to the owner. If an operator has closed it, the process could tell
            nobody of its end, so it ends at once, and the note names that operator.
    """

    def __init__(self, arena: Arena, connection: int) -> None:
        self._arena = arena
        self._connection = connection
        self._running: list[tuple[str, CallSite | None, Origin | None]] = []

    def enter(self, operator: str, call_site: CallSite | None, origin: Origin | None = None) -> None:
        """An operator, shown as its call, starts to make a row."""
        self._running.append((operator, call_site, origin))
        self._write()

    def leave(self, origin: Origin | None) -> None:
        """The operator has made a row from `origin`, and the operator that asked for it continues."""
        if not _is_socket(self._connection):
            os._exit(1)
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


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False
