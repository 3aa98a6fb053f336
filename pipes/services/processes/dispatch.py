"""`Dispatcher`: the process that runs the operators before `dispatch`, and what workers read from it.

worker to dispatcher              dispatcher to worker
    ("open", number, run, request)
    ("next", number)                  ("block", number, tables, sizes)           some rows
                                      ("end", number)                            no more rows
                                      ("failed", number, sizes)                  no more rows, because of an error
                                      ("log", records)                           what functions have logged
    ("close", number)

`open` asks for the first block, each `next` for one more. The dispatcher answers each at once: with rows that are at
hand, or by reading on. It answers `end` to a request that belongs to an earlier run.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Literal, NoReturn, Protocol, TypeAlias, cast

from ...core.block import Block, close
from ...core.context import Context, RowsRequest
from ...core.graph import Node
from ...core.times import DISPATCHER, Clock, RunTimes, Table, add_tables, times_of_run, waiting
from ...plan.plan import Plan
from ...plan.shards import requested_rows, share_of
from ..transport.channel import Channel, GoneError, Head, Message, pack_error
from ..transport.graph_file import begin_worker
from ..transport.packing import Packer
from .logs import LogRecords, handle_records
from .protocol import DispatchRequest, Sizes, unpack_error, unpack_message

BlockHead: TypeAlias = tuple[Literal["block"], int, list[Table], Sizes]
"""A block: kind, number of the request, what was counted (mostly none), sizes."""


def dispatch(control: int, graph_file: int) -> None:
    """Serve the workers whose sockets come through `control`, until that is closed."""
    with socket.socket(fileno=control) as end:
        os.register_at_fork(after_in_child=end.close)
        serve_workers(Control(end), graph_file, f"process {os.getpid()}")


def serve_workers(control: DispatchControl, graph_file: int, place: str) -> None:
    """Run the graph for workers until the owner is gone."""
    content, classes = begin_worker(graph_file)
    _, root, _ = cast("tuple[object, Node, object]", content)
    dispatcher = Dispatcher(root, control, Packer(classes, root.call_site), place)
    while dispatcher.serve():
        pass


class DispatchControl(Protocol):
    """How a dispatcher hears of runs from its owner, and of new workers."""

    def filenos(self) -> list[int]:
        """What to poll."""
        ...

    def receive(self) -> tuple[list[socket.socket], DispatchRequest | None] | None:
        """Connections of new workers, and the next run; None once the owner is gone."""
        ...


class Control:
    """The same through one socket, which brings descriptors too."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def filenos(self) -> list[int]:
        return [self._end.fileno()]

    def receive(self) -> tuple[list[socket.socket], DispatchRequest | None] | None:
        data, fds, _, _ = socket.recv_fds(self._end, 2**16, 1)
        if not data:
            return None
        return [socket.socket(fileno=fd) for fd in fds], cast("DispatchRequest | None", pickle.loads(data))


class _Client:
    """A worker, and the blocks of each of its requests."""

    def __init__(self, end: socket.socket) -> None:
        self.channel = Channel(end)
        self.blocks: dict[int, Iterator[Block]] = {}

    def close_requests(self) -> None:
        while self.blocks:
            close(self.blocks.popitem()[1])


class Dispatcher:
    """The dispatcher's side of both connections: to its owner, through `control`, and to the workers."""

    def __init__(self, root: Node, control: DispatchControl, packer: Packer, place: str) -> None:
        self._root = root
        self._control = control
        self._packer = packer
        self._place = place
        self._records = LogRecords()
        self._clients: dict[int, _Client] = {}
        self._run = -1
        self._plan: Plan | None = None
        self._context = Context()
        self._times: RunTimes | None = None
        self._clock = Clock()

    def serve(self) -> bool:
        """Wait for messages and answer them; False once the owner is gone."""
        poll = select.poll()
        controls = self._control.filenos()
        for fd in controls:
            poll.register(fd, select.POLLIN)
        for client in self._clients.values():
            poll.register(client.channel, select.POLLIN | (0 if client.channel.flush() else select.POLLOUT))
        with self._clock.waiting("consumer"):
            ready = {fd for fd, _ in poll.poll()}
        if not ready.isdisjoint(controls) and not self._receive_control():
            return False
        for fd in ready.intersection(self._clients):
            self._answer(fd)
        return True

    def _receive_control(self) -> bool:
        """Receive a new worker, or the next run; False once the owner is gone."""
        received = self._control.receive()
        if received is None:
            return False
        ends, request = received
        self._clients |= {end.fileno(): _Client(end) for end in ends}
        if request is not None:
            for client in self._clients.values():
                client.close_requests()
            self._context.process.resources.close()
            self._run = request.run
            self._plan = request.arguments.plan(self._root)
            self._context = Context(seed=request.arguments.seed, epoch=request.epoch)
            self._times = times_of_run(self._run, None)
            self._clock = Clock(None if self._times is None else self._times.thread(DISPATCHER, "send"))
        return True

    def _answer(self, fd: int) -> None:
        client = self._clients[fd]
        try:
            while (message := client.channel.receive(wait=False)) is not None:
                self._answer_message(client, message.head)
        except GoneError:
            client.close_requests()
            client.channel.close()
            del self._clients[fd]

    def _answer_message(self, client: _Client, head: Head) -> None:
        kind, number, *arguments = cast("tuple[str, int, object]", head)
        if kind == "close":
            if number in client.blocks:
                close(client.blocks.pop(number))
            return
        try:
            if kind == "open":
                run, request = cast("tuple[int, RowsRequest]", arguments)
                while run > self._run and self._receive_control():
                    pass  # the owner announces a run here before it asks the workers to run it
                if run == self._run:
                    client.blocks[number] = self._open(request)
            block = self._clock.next(client.blocks.get(number, iter(())))
            if block is None:
                self._post(client, ("end", number))
            else:
                packed = self._packer.pack(block)
                tables = [] if self._times is None else self._times.due()
                self._post(client, ("block", number, tables, packed.sizes), packed.body())
        except Exception as error:
            packed = pack_error(error, f"the dispatcher, {self._place}", self._packer)
            self._post(client, ("failed", number, packed.sizes), packed.body())

    def _post(self, client: _Client, head: Head, body: Sequence[bytes | memoryview] = ()) -> None:
        if self._records.waiting:
            client.channel.queue(("log", self._records.take()))
        client.channel.post(head, body)

    def _open(self, request: RowsRequest) -> Iterator[Block]:
        assert self._plan is not None, "the owner announces a run before any worker asks for its rows"
        context = self._context.for_request(request)
        shards = self._plan.rank_shards if request.others is None else request.others
        others = [share_of(shard, request.share.slots) for shard in shards]
        return requested_rows(self._plan.stage_named(request.source), request, others, context)


class DispatchClient:
    """Reads rows from the dispatcher; several requests may run at a time, also in several threads."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._count = 0
        self._answers: dict[int, deque[Message]] = {}
        # A garbage collector may close a request at any moment, so it takes no lock: the next message reports it.
        self._closed: deque[int] = deque()

    def rows(self, run: int, request: RowsRequest) -> Iterator[Block]:
        """The rows that `request` names. While one block is in use, the next one is on its way."""
        with self._lock:
            self._count += 1
            number = self._count
            self._answers[number] = deque()
            self._send(("open", number, run, request))
        try:
            while (message := self._answer(number)).head[0] == "block":
                _, _, tables, _ = cast("BlockHead", message.head)
                add_tables(tables)
                blocks = [cast("Block", unpack_message(message))]
                del message  # the receiver of the block holds the only reference
                with self._lock:
                    self._send(("next", number))
                yield blocks.pop()
            if message.head[0] == "failed":
                raise unpack_error(message)
        finally:
            self._closed.append(number)

    def _send(self, head: tuple[object, ...]) -> None:
        try:
            while self._closed:
                number = self._closed.popleft()
                self._answers.pop(number, None)
                self._channel.send(("close", number))
            self._channel.send(head)
        except GoneError:
            _wait_for_end()

    def _answer(self, number: int) -> Message:
        with waiting("input", DISPATCHER), self._lock:
            while not self._answers[number]:
                try:
                    message = self._channel.receive()
                except GoneError:
                    _wait_for_end()
                assert message is not None, "a channel that waits returns a message"
                if message.head[0] == "log":
                    handle_records(message.head[1])
                elif (answers := self._answers.get(cast("int", message.head[1]))) is not None:
                    answers.append(message)
            return self._answers[number].popleft()


def _wait_for_end() -> NoReturn:
    """Wait: the dispatcher is gone, so the owner ends this process, and starts both of them again."""
    while True:
        threading.Event().wait()
