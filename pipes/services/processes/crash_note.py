"""`CrashNote`: what a process was running when it died."""

from __future__ import annotations

from ...core.graph import node_code
from ...engine.stage import Stage
from ...errors import Origin
from ..transport.arena import Arena


class CrashNote:
    """Notes the operator that runs, and its row, in memory that survives the process."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._running: list[tuple[Stage, Origin | None]] = []

    def enter(self, stage: Stage, origin: Origin | None = None) -> None:
        """An operator begins to make a row."""
        self._running.append((stage, origin))
        self._write()

    def leave(self, origin: Origin | None) -> None:
        """The operator has made a row from `origin`, and the operator that asked for it continues."""
        self._running.pop()
        if self._running:
            stage, before = self._running.pop()
            self._running.append((stage, origin or before))
        self._write()

    def _write(self) -> None:
        text = ""
        if self._running:
            stage, origin = self._running[-1]
            text = f"`{node_code(stage.node)}`"
            text += f"\n  on {origin}" if origin else ""
            text += f"\n  at {stage.node.call_site.file}:{stage.node.call_site.line}" if stage.node.call_site else ""
        self._arena.note(text.encode())
