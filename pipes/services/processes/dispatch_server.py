"""The process that runs what stands before `dispatch`, for all workers.

    worker to dispatcher            dispatcher to worker
    ("open", number, run, share)
    ("next", number)                ("block", number, at, end, sizes)    some rows
                                    ("end", number)                      no more
                                    ("failed", number, sizes)            no more, because of an error
    ("close", number)

`open` is also the first `next`. Each is answered at once, by what is at hand or by reading on; `end` answers one that
is of an earlier run.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
from collections.abc import Iterator
from typing import cast

from ...core.block import Block, close
from ...core.context import Context, ProcessResources, RowsRequest
from ...core.graph import Node
from ...plan.plan import Plan
from ...plan.shared_reading import shared_rows
from ..transport.bundle import bundled
from ..transport.channel import Channel, GoneError, Head
from ..transport.class_registry import adopt
from ..transport.graph_file import read_parcel
from ..transport.packing import Packer
from ..transport.remote_error import packed_failure
from .parent_watch import end_with_owner
from .protocol import Program, plan_of


def dispatch(control: int, parcel: int) -> None:
    """Serves the workers whose sockets come through `control`, until that is closed."""
    end_with_owner(control)
    content, classes = read_parcel(parcel)
    adopt(classes)
    root, _ = cast("tuple[Node, object]", content)
    with socket.socket(fileno=control) as end:
        os.register_at_fork(after_in_child=end.close)
        dispatcher = _Dispatcher(root, end, Packer(classes, root.call_site))
        while dispatcher.serve():
            pass


class _Client:
    """A worker, and the shares that it reads."""

    def __init__(self, end: socket.socket) -> None:
        self.channel = Channel(end)
        self.shares: dict[int, Iterator[Block]] = {}

    def drop(self) -> None:
        while self.shares:
            close(self.shares.popitem()[1])


class _Dispatcher:
    def __init__(self, root: Node, control: socket.socket, packer: Packer) -> None:
        self._root = root
        self._control = control
        self._packer = packer
        self._clients: dict[int, _Client] = {}
        self._run = -1
        self._plan: Plan | None = None
        self._context = Context()

    def serve(self) -> bool:
        """Does what is asked; False once the owner is gone."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        for client in self._clients.values():
            poll.register(client.channel, select.POLLIN | (0 if client.channel.flush() else select.POLLOUT))
        asking = {fd for fd, _ in poll.poll()}
        if self._control.fileno() in asking and not self._told():
            return False
        for fd in asking.intersection(self._clients):
            self._answer(fd)
        return True

    def _told(self) -> bool:
        """Takes a new worker, or the plan of the next run; False once the owner is gone."""
        told, fds, _, _ = socket.recv_fds(self._control, 2**16, 1)
        if not told:
            return False
        for fd in fds:
            self._clients[fd] = _Client(socket.socket(fileno=fd))
        program = cast("Program | None", pickle.loads(told))
        if program is not None:
            for client in self._clients.values():
                client.drop()
            self._context.shared.close()
            self._run, terms, epoch = program
            self._plan = plan_of(self._root, terms)
            self._context = Context(seed=terms.seed, epoch=epoch, shared=ProcessResources())
        return True

    def _answer(self, fd: int) -> None:
        client = self._clients[fd]
        try:
            while (message := client.channel.receive(wait=False)) is not None:
                self._do(client, message.head)
        except GoneError:
            client.drop()
            client.channel.close()
            del self._clients[fd]

    def _do(self, client: _Client, head: Head) -> None:
        kind, number, *asked = cast("tuple[str, int, object]", head)
        if kind == "close":
            if number in client.shares:
                close(client.shares.pop(number))
            return
        try:
            if kind == "open":
                run, share = cast("tuple[int, RowsRequest]", asked)
                while run > self._run and self._told():
                    pass  # the owner has spoken since it was last heard: before it gave this worker its orders
                if run == self._run:
                    client.shares[number] = self._opened(share)
            block = next(client.shares.get(number, iter(())), None)
            if block is None:
                client.channel.post(("end", number))
            else:
                packed = self._packer.pack((block.rows, block.origins))
                where = ("block", number, block.at.plain, block.end.plain, packed.sizes)
                client.channel.post(where, bundled(packed))
        except Exception as error:
            failed = packed_failure(error, f"the dispatcher, process {os.getpid()}", self._packer)
            client.channel.post(("failed", number, failed.sizes), bundled(failed))

    def _opened(self, share: RowsRequest) -> Iterator[Block]:
        assert self._plan is not None, "the owner speaks of a run before any worker does"
        context = self._context.reading(share)
        return shared_rows(self._plan.stage_named(share.source), share, self._plan.mine, context)
