"""Connections to child processes."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Generator

END_SECONDS = 3.0
"""The other end of a connection is waited for so long."""


@contextlib.contextmanager
def open_connection(
    kind: socket.SocketKind = socket.SOCK_STREAM,
) -> Generator[tuple[socket.socket, socket.socket]]:
    """A connection to a new process: our end, which stays open unless an error occurs, and theirs, which is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with theirs:
        try:
            yield ours, theirs
        except BaseException:
            ours.close()
            raise


def hang_up(connection: socket.socket) -> bool:
    """Closes a connection, and waits until the other end is closed, too; returns whether it was."""
    with connection:
        connection.shutdown(socket.SHUT_WR)
        end = select.poll()
        end.register(connection, select.POLLIN)
        return bool(end.poll(END_SECONDS * 1000))
