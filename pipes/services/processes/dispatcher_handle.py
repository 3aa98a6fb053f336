"""`DispatcherHandle`: the process that runs the operators before `dispatch`, as its owner sees it."""

from __future__ import annotations

import contextlib
import pickle
import socket

from .child import Death
from .connection import open_connection
from .protocol import DispatchRequest
from .start_methods import Starter


class DispatcherHandle:
    """The place of the dispatcher. When a process dies, another one takes its place.

    Attributes:
        progress: whether a worker has sent anything of the run and has been replaced, since the present process began.
        deaths: processes that have died here in a row before their workers sent anything.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.progress = False
        self.deaths = 0
        self._control: socket.socket | None = None

    def fileno(self) -> int:
        return self._open.fileno()

    @property
    def running(self) -> bool:
        return self._control is not None

    @property
    def _open(self) -> socket.socket:
        assert self._control is not None, "a dispatcher is started before it is used"
        return self._control

    def start(self, starter: Starter, graph_file: int) -> None:
        with open_connection(socket.SOCK_SEQPACKET) as (ours, theirs):
            self.pid = starter.start("dispatcher", [theirs.fileno(), graph_file], ours.fileno())
        self._control = ours
        self.progress = False

    def connect(self) -> socket.socket:
        """A new connection to the process; returns the end for a worker."""
        with open_connection() as (ours, theirs):
            self._send(None, theirs.fileno())
        return ours

    def begin(self, request: DispatchRequest) -> None:
        """Announces the next run."""
        self._send(request)

    def end(self, starter: Starter) -> Death:
        self.close()
        return starter.end(self.pid)

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    def _send(self, request: DispatchRequest | None, *fds: int) -> None:
        with contextlib.suppress(ConnectionError):  # a poll finds a process that has died
            socket.send_fds(self._open, [pickle.dumps(request)], fds)
