"""`Snapshot`: what one connection sees, for other connections of the same job."""

from __future__ import annotations

import weakref

from .database import Connected


class Snapshot:
    """A snapshot that a connection has exported. It lives as long as this object; a pickle has its name only.

    Attributes:
        name: by which other connections to the same server use it.
    """

    def __init__(self, name: str, connected: Connected | None = None) -> None:
        self.name = name
        if connected is not None:
            weakref.finalize(self, connected.close)

    def __reduce__(self) -> tuple[object, ...]:
        return Snapshot, (self.name,)


def exported_snapshot(connected: Connected) -> Snapshot | None:
    """The snapshot of a connection, which the snapshot then owns; None if the database exports none."""
    statements = connected.statements
    if statements is None or statements.dialect.export_snapshot is None:
        return None
    connected.begin(None)
    name = connected.call(statements.export_snapshot)
    return None if name is None else Snapshot(name, connected)
