"""`Worker`: runs requests in a worker process until its owner is gone."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from ...core.block_size import OneRow
from ...core.code import value_code
from ...core.context import ProcessResources
from ...core.graph import Node, sent
from ...core.rows import BlockRows
from ...engine.global_seeds import seed_process
from ...errors import LimitError
from ...plan.plan import Plan, ShardRun
from ..base import ShardEnd, Step
from ..fetching import FetchEnd, Fetcher, FetchRequest, FetchSource
from ..plan_arguments import PlanArguments
from ..prefetch_limit import PrefetchLimit
from ..round_robin import DEFAULT, run_shards
from ..row_server import RowServer
from ..transport.arena import Arena
from ..transport.channel import Channel, GoneError, Head
from ..transport.class_registry import adopt
from ..transport.graph_file import read_graph_file
from ..transport.packing import PackedElement, Packer, unpack_body
from ..transport.remote_error import pack_error
from .crash_note import CrashNote
from .dispatch_client import DispatchClient
from .parent_watch import exit_with_owner
from .protocol import ArenaPlace, FetchHead, RunRequest, TakenHead, WorkerSettings

Init = Callable[[int], object]


class _StopError(Exception):
    """The owner has ended the run, or has sent a new request."""


def serve(control: int, graph_file: int, *others: int) -> None:
    """Runs requests that come through `control` until its other end is gone.

    Args:
        control: a socket.
        graph_file: the graph.
        others: the arena, a pipe for stacks and a socket of the dispatcher, each only if the settings say so.
    """
    exit_with_owner(control)
    faulthandler.enable()
    with socket.socket(fileno=control) as end, contextlib.suppress(GoneError):
        # A process that a user's function forks would keep the connection open, and hide the end of this one.
        os.register_at_fork(after_in_child=end.close)
        Worker(Channel(end), graph_file, list(others)).run()


class Worker:
    """The worker's side of the protocol."""

    def __init__(self, channel: Channel, graph_file: int, others: list[int]) -> None:
        self._channel = channel
        message = channel.receive()
        assert message is not None, "a channel that waits returns a message"
        self._settings = cast("WorkerSettings", message.head)
        arena_bytes = self._settings.arena_bytes
        self._arena = Arena(others.pop(0), arena_bytes, self._settings.leased) if arena_bytes else None
        if self._settings.stacks:
            faulthandler.register(signal.SIGUSR1, others.pop(0))
        dispatcher = Channel(socket.socket(fileno=others.pop(0))) if self._settings.dispatched else None
        self._dispatch = None if dispatcher is None else DispatchClient(dispatcher)
        self._graph_file = graph_file
        self._packer = Packer()
        self._request: RunRequest | FetchRequest | None = None
        self._keys: deque[FetchHead] = deque()
        self._fetcher: Fetcher | None = None
        self._server: RowServer | None = None
        self._limit = PrefetchLimit(self._settings.prefetch)
        self._plan: tuple[PlanArguments, Plan] | None = None

    def run(self) -> None:
        """Reads the graph, and then runs requests."""
        number = self._settings.number
        doing = "reading its pipe"
        try:
            content, classes = read_graph_file(self._graph_file)
            self._root, init = cast("tuple[Node, Init | None]", content)
            adopt(classes)
            self._packer = Packer(classes, self._root.call_site)
            if init is not None:
                doing = f"`init={value_code(init)}`"
                init(number)
        except BaseException as error:
            self._send_error(("broken", doing), error)
            return
        self._channel.send(("ready",))
        while True:
            request, self._request = self._request, None
            try:
                if request is None:
                    self._listen(wait=True)
                elif isinstance(request, FetchRequest):
                    self._fetch(request)
                else:
                    self._run(request)
            except _StopError:
                pass
            except GoneError:
                raise
            except BaseException as error:
                self._send_error(("failed", cast("RunRequest | FetchRequest", request).run), error)

    def _run(self, request: RunRequest) -> None:
        plan = self._plan_of(request)
        seed_process(request.arguments.worker_seed(request.epoch, request.assignment.worker))
        mode = DEFAULT
        if request.careful and self._arena is not None:
            mode = mode._replace(
                block_sizes=OneRow, threads=False, tracer=CrashNote(self._arena, self._channel.fileno())
            )
        if self._dispatch is not None:
            mode = mode._replace(dispatched=partial(self._dispatch.rows, request.run))
        if plan.has_remote:
            self._serve(request.run, RowServer(plan, _parts(plan, request), request.epoch, mode))
            return
        resources = ProcessResources()
        items = run_shards(plan, _parts(plan, request), request.epoch, mode, resources)
        try:
            while True:
                self._listen_all()
                item = next(items, None)
                if item is None:
                    return
                self._send(request.run, item)
                del item  # its memory serves the next one
        finally:
            items.close()
            resources.close()
            resources.join()

    def _serve(self, run: int, server: RowServer) -> None:
        """Makes rows for the training process, which runs the rest of the graph."""
        self._server = server
        try:
            while True:
                while self._listen(wait=not server.has_work):
                    pass
                number = server.next_number()
                try:
                    self._send(run, server.next(number))
                except (_StopError, GoneError):
                    raise
                except BaseException as error:
                    self._send_error(("failed", run, number), error)
        finally:
            self._server = None
            server.close()

    def _fetch(self, request: FetchRequest) -> None:
        fetcher: Fetcher | None = None
        while True:
            self._listen_all()
            while not self._keys:
                self._listen(wait=True)
            _, run, number, key = self._keys.popleft()
            try:
                if fetcher is None:
                    fetcher = self._begin_fetching(request)
                self._send(run, Step(fetcher.fetch(number, key), request.worker, fetcher.position()))
            except FetchEnd:
                self._send(run, ShardEnd(request.worker))
            except (_StopError, GoneError):
                raise
            except Exception as error:
                self._send_error(("failed", run), error)

    def _begin_fetching(self, request: FetchRequest) -> Fetcher:
        if self._fetcher is None:
            self._fetcher = cast("FetchSource", self._root.op).fetcher(request)
        self._fetcher.begin(request)
        return self._fetcher

    def _plan_of(self, request: RunRequest) -> Plan:
        if self._plan is None or self._plan[0] != request.arguments:
            self._plan = request.arguments, request.arguments.plan(sent(self._root))
        return self._plan[1]

    def _listen_all(self) -> None:
        """Receives what the owner has sent, and waits while enough elements are ready."""
        while self._listen(wait=self._limit.is_full()):
            pass

    def _listen(self, *, wait: bool) -> bool:
        """Receives one message from the owner, if there is one."""
        message = self._channel.receive(wait=wait)
        if message is None:
            return False
        head = message.head
        if isinstance(head, (RunRequest, FetchRequest)):
            self._keys.clear()
            self._request, self._limit.waiting = head, head.waiting
            raise _StopError
        if head[0] == "stop":
            raise _StopError
        if head[0] == "fetch":
            self._keys.append(cast("FetchHead", head))
            return True
        if head[0] != "took":
            if self._server is not None:  # else the run of the stream has ended
                self._server.receive(head)
            return True
        _, count, offsets = cast("TakenHead", head)
        self._limit.remove(count)
        for offset in offsets:
            cast("Arena", self._arena).free(offset)
        return True

    def _send(self, run: int, item: Step | ShardEnd) -> None:
        if isinstance(item, Step):
            packed = self._packer.pack(item.element)
            places = self._reserve([region.nbytes for region in packed.regions])
            self._limit.add(sum(packed.sizes))
            self._send_packed(("step", run, item.shard, item.cursor, places, packed.sizes), packed, places)
        elif item.rows is None:
            self._channel.send(("ended", run, item.shard, item.leftover, (), ()))
        else:
            packed = self._packer.pack(item.rows)
            self._send_packed(("ended", run, item.shard, item.leftover, (), packed.sizes), packed)

    def _send_packed(self, head: Head, packed: PackedElement, places: Sequence[ArenaPlace] = ()) -> None:
        if self._arena is None or not places:
            self._channel.send(head, packed.body())
            return
        for region, place in zip(packed.regions, places, strict=True):
            region.write(self._arena.region(*place))
        self._channel.send(head, [packed.stream])

    def _reserve(self, sizes: list[int]) -> list[ArenaPlace]:
        """Places in the arena for regions of these `sizes`; none if the regions travel with their message.

        While the consumer has elements to take, memory will become free. Once it has taken all of them, it keeps the
        memory, and waiting would never end. Nor would it if the consumer waits for another stream of rows.
        """
        if not sizes or self._arena is None:
            return []
        size = sum(sizes)
        if size > self._arena.capacity:
            raise LimitError(
                f"an element of {size / 2**20:.1f} MiB does not fit into the {self._arena.capacity / 2**20:.1f} MiB "
                "that `memory` leaves each worker; allow more, use fewer workers, or make smaller batches"
            )
        while (offsets := self._arena.reserve(sizes)) is None and self._limit.waiting and self._server is None:
            self._listen(wait=True)
        return [] if offsets is None else list(zip(offsets, sizes, strict=True))

    def _send_error(self, head: Head, error: BaseException) -> None:
        packed = pack_error(error, f"worker {self._settings.number}, process {os.getpid()}", self._packer)
        self._send_packed((*head, packed.sizes), packed)


def _parts(plan: Plan, request: RunRequest) -> list[ShardRun]:
    leftovers = {shard: cast("BlockRows", unpack_body(*packed)) for shard, packed in request.leftovers.items()}
    return request.assignment.parts(plan, leftovers)
