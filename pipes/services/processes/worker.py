"""`Worker`: runs requests in a worker process, and sends what it makes."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TypeAlias, cast

from ...core.block import Block, OneRow, close
from ...core.code import value_code
from ...core.context import Context, Pacing
from ...core.cursor import Cursor, Json
from ...core.ending import ProcessResources
from ...core.graph import Node, sent
from ...core.rows import BlockRows
from ...core.times import Clock, RunTimes, thread_of_worker, times_of_run
from ...engine.seeds import seed_process
from ...errors import CallSite, LimitError, Origin
from ...plan.plan import Plan, ShardRun, remote_stages
from ...plan.spans import SpanStart
from ..base import ShardEnd, SpanEnd, Step
from ..fetching import Fetcher, FetchRequest, FetchSource, fetched
from ..transport.channel import Channel, GoneError, pack_error
from ..transport.graph_file import begin_worker
from ..transport.memory import PAGE_BYTES, Arena
from ..transport.packing import PackedElement, Packer, unpack_body
from ..turns import (
    DEFAULT,
    Item,
    Mode,
    NextSpan,
    PrefetchLimit,
    run_shards,
    run_spans,
    shard_context,
    step_count,
)
from .dispatch import DispatchClient
from .logs import WorkerLine
from .protocol import (
    MAX_COPIED_BYTES,
    ArenaPlace,
    FetchHead,
    ItemHead,
    ItemKind,
    PlanArguments,
    RunRequest,
    StartHead,
    StreamRequest,
    TakenHead,
    WorkerSettings,
)

Init = Callable[[int], object]


class _StopError(Exception):
    """The owner has ended the run, or has sent a new request."""


def serve(control: int, graph_file: int, stacks: int, *others: int) -> None:
    """Run requests that come through the socket `control` until its other end is gone.

    `stacks` is a pipe for the stacks of this process, on request and at a fatal signal. `others` are the arena and a
    socket of the dispatcher, each only if the settings say so.
    """
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks)
    with socket.socket(fileno=control) as end, contextlib.suppress(GoneError):
        # A process that a user's function forks would keep the connection open, and hide the end of this one.
        os.register_at_fork(after_in_child=end.close)
        Worker(Channel(end), graph_file, list(others)).run()


class Worker:
    """The worker's side of the protocol."""

    def __init__(self, channel: Channel, graph_file: int, others: list[int], place: str = "") -> None:
        self._channel = channel
        self._place = place or f"process {os.getpid()}"
        message = channel.receive()
        assert message is not None, "a channel that waits returns a message"
        self._settings = cast("WorkerSettings", message.head)
        channel.spin_wait.allowed = self._settings.spins
        arena_bytes = self._settings.arena_bytes
        self._arena = Arena(others.pop(0), arena_bytes, self._settings.leased) if arena_bytes else None
        dispatcher = Channel(socket.socket(fileno=others.pop(0))) if self._settings.dispatched else None
        self._dispatch = None if dispatcher is None else DispatchClient(dispatcher)
        self._graph_file = graph_file
        self._packer = Packer()
        self._request: RunRequest | FetchRequest | None = None
        self._keys: deque[FetchHead] = deque()
        self._starts: dict[int, StartHead] = {}  # where spans of the run begin
        self._fetcher: Fetcher | None = None
        self._server: RowServer | None = None
        self._limit = PrefetchLimit(self._settings.prefetch, self._settings.most_bytes)
        self._clock = Clock()
        self._line = WorkerLine(channel)
        self._outbox = Outbox(self._line, self._arena, self._limit, self._await_memory)
        self._plan: tuple[PlanArguments, Plan] | None = None

    def run(self) -> None:
        """Read the graph, and then run requests."""
        number = self._settings.number
        doing = "reading its pipe"
        try:
            content, classes = begin_worker(self._graph_file)
            _, self._root, init = cast("tuple[object, Node, Init | None]", content)
            self._packer = Packer(classes, self._root.call_site)
            if init is not None:
                doing = f"`init={value_code(init)}`"
                init(number)
        except BaseException as error:
            packed = self._pack_error(error)
            self._line.send(("broken", doing, packed.sizes), packed.body())
            return
        self._line.send(("ready",))
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
                self._outbox.discard()
            except GoneError:
                raise
            except BaseException as error:
                self._send_failure(cast("RunRequest | FetchRequest", request).run, error)

    def _run(self, request: RunRequest) -> None:
        plan = self._plan_of(request)
        seed_process(request.arguments.worker_seed(request.epoch, request.assignment.worker))
        self._outbox.times = times = times_of_run(request.run, self._outbox.times)
        self._clock = Clock(thread_of_worker(times, self._settings.number))
        mode = DEFAULT._replace(before_block=self._before_block, times=self._clock.times)
        if request.careful:
            note = CrashNote(lambda text: self._line.send(("note", text)), self._end_without_owner)
            mode = mode._replace(block_sizes=OneRow, threads=False, tracer=note)
        if self._dispatch is not None:
            mode = mode._replace(dispatched=partial(self._dispatch.rows, request.run))
        if plan.has_remote:
            self._serve(request.run, RowServer(plan, _parts(plan, request), request.epoch, mode))
            return
        resources = ProcessResources()
        in_spans = request.assignment.span is not None
        self._limit.begin(in_spans=in_spans)
        items: Generator[Item | NextSpan, None, object]
        if in_spans:
            self._outbox.steps_left = None
            items = run_spans(plan, request.assignment, request.epoch, mode, resources, self._wait_for_start)
        else:
            parts = _parts(plan, request)
            self._outbox.steps_left = step_count(plan, parts)
            items = run_shards(plan, parts, request.epoch, mode, resources)
        try:
            while True:
                if self._limit.is_full() or not self._outbox:
                    self._listen_all()
                item = next(items, None)
                if item is None:
                    self._outbox.flush()
                    return
                if isinstance(item, NextSpan):
                    self._send_start(request.run, item)
                else:
                    self._add(request.run, item)
                del item  # its memory serves the next one
        finally:
            items.close()
            resources.close()
            resources.join()
            self._clock.end()

    def _wait_for_start(self, span: int) -> SpanStart:
        """Where a span begins, which the worker of the span before it finds out."""
        while span not in self._starts:
            self._outbox.flush()
            with self._clock.waiting("consumer"):
                self._listen(wait=True)
        *_, body = self._starts.pop(span)
        return cast("SpanStart", unpack_body(*body))

    def _send_start(self, run: int, item: NextSpan) -> None:
        packed = self._packer.pack(item.start)
        self._line.send(("start", run, item.span, packed.sizes), packed.body())

    def _serve(self, run: int, server: RowServer) -> None:
        """Make rows for the training process, which runs the rest of the graph."""
        self._server, self._outbox.steps_left = server, None
        try:
            while True:
                while not server.allowed:
                    with self._clock.waiting("consumer"):
                        self._listen(wait=True)
                while self._listen(wait=False):
                    pass
                number = server.allowed.popleft()
                try:
                    self._add(run, server.next(number))
                    self._outbox.flush()
                except (_StopError, GoneError):
                    raise
                except BaseException as error:
                    self._send_failure(run, error, number)
        finally:
            self._server = None
            server.close()
            self._clock.end()

    def _fetch(self, request: FetchRequest) -> None:
        fetcher: Fetcher | None = None
        self._clock, self._outbox.times = Clock(), None
        while True:
            self._outbox.flush()
            self._listen_all()
            while not self._keys:
                self._listen(wait=True)
            _, run, number, key = self._keys.popleft()
            try:
                if fetcher is None:
                    fetcher = self._begin_fetching(request)
                self._add(run, fetched(fetcher, number, key, request.worker))
            except (_StopError, GoneError):
                raise
            except Exception as error:
                self._send_failure(run, error)

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
        """Receive what the owner has sent, and wait while enough elements are ready."""
        while self._limit.is_full():
            self._outbox.flush()
            with self._clock.waiting("consumer"):
                self._listen(wait=True)
        while self._listen(wait=False):
            pass

    def _before_block(self) -> None:
        """Nothing that is finished waits while a shard makes its next rows, which may take long."""
        self._outbox.flush()
        self._listen_all()

    def _listen(self, *, wait: bool) -> bool:
        """Receive one message from the owner, if there is one."""
        message = self._channel.receive(wait=wait)
        if message is None:
            return False
        head = message.head
        if isinstance(head, (RunRequest, FetchRequest)):
            self._keys.clear()
            self._starts.clear()
            self._request, self._limit.waiting = head, head.waiting
            raise _StopError
        if head[0] == "stop":
            raise _StopError
        if head[0] == "start":
            self._starts[cast("StartHead", head)[2]] = cast("StartHead", head)
            return True
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

    def _end_without_owner(self) -> None:
        """End at once if an operator has closed the connection: this process could tell nobody of its end."""
        if not _is_socket(self._channel.fileno()):
            os._exit(1)

    def _await_memory(self) -> bool:
        """Wait for one message of the owner, which may free memory; False if waiting might never end.

        While the consumer has elements to take, memory will become free. Once it has taken all of them, it keeps the
        memory. It may also wait for another stream of rows.
        """
        if not self._limit.waiting or self._server is not None:
            return False
        with self._clock.waiting("memory"):
            self._listen(wait=True)
        return True

    def _add(self, run: int, item: Item) -> None:
        if isinstance(item, SpanEnd):
            self._outbox.add(run, "span", item.span, None)
        elif isinstance(item, Step):
            self._outbox.add(run, "step", item.shard, item.cursor, self._packer.pack(item.element))
        else:
            rows = None if item.rows is None else self._packer.pack(item.rows)
            self._outbox.add(run, "ended", item.shard, item.leftover, rows)

    def _pack_error(self, error: BaseException) -> PackedElement:
        return pack_error(error, f"worker {self._settings.number}, {self._place}", self._packer)

    def _send_failure(self, run: int, error: BaseException, stream: int = 0) -> None:
        self._outbox.add(run, "failed", stream, None, self._pack_error(error))
        self._outbox.flush()


def _parts(plan: Plan, request: RunRequest) -> list[ShardRun]:
    leftovers = {shard: cast("BlockRows", unpack_body(*packed)) for shard, packed in request.leftovers.items()}
    return request.assignment.parts(plan, leftovers)


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


# Rows of what comes before `remote`, for the training process.


_Running: TypeAlias = tuple[Iterator[Block], Context]


class RowServer:
    """Runs streams of rows, one block of one of them at a time.

    Its items are those of a run: an element is a block's rows and origins, the shard is the number of the stream, and
    the cursor is a list of the cursors before and after the block.

    Attributes:
        allowed: the stream of each block that may be made, in turn.
    """

    def __init__(self, plan: Plan, parts: Sequence[ShardRun], epoch: int, mode: Mode) -> None:
        self.allowed: deque[int] = deque()
        self._tail_name = plan.tail_name
        self._times = mode.times
        self._resources = ProcessResources()
        # Those before `remote`, which itself runs in the training process.
        self._stages = {part.shard: [stage.input for stage in remote_stages(part.stage)] for part in parts}
        shards = tuple(self._stages)
        self._contexts = {part.shard: shard_context(plan, part, shards, epoch, mode, self._resources) for part in parts}
        self._streams: dict[int, StreamRequest | _Running] = {}

    def receive(self, head: tuple[object, ...]) -> None:
        """Take a message: ("open", number, request), ("allow", number) or ("close", number)."""
        kind, number, *arguments = cast("tuple[str, int, StreamRequest]", head)
        if kind == "open":
            (self._streams[number],) = arguments  # it makes nothing before it is allowed to
        elif kind == "close":
            self._close_stream(number)
        elif number in self._streams:
            self.allowed.append(number)

    def next(self, number: int) -> Step | ShardEnd:
        """The next block of a stream, or its end. After an end or an error the stream is closed.

        Raises:
            Exception: an operator of the stream has failed.
        """
        try:
            stream = self._streams[number]
            if isinstance(stream, StreamRequest):
                stream = self._streams[number] = self._run(stream)
            blocks, context = stream
            block = context.pacing.clock.next(blocks)
        except BaseException:
            self._close_stream(number)
            raise
        if block is not None:
            return Step((block.rows, block.origins), number, [block.at.plain, block.end.plain])
        self._close_stream(number)
        leftover = context.leftovers.get(self._tail_name or "")
        return ShardEnd(number) if leftover is None else ShardEnd(number, leftover.at.plain, leftover.rows)

    def close(self) -> None:
        """End all streams, and wait for their threads."""
        for number in list(self._streams):
            self._close_stream(number)
        self._resources.close()
        self._resources.join()

    def _close_stream(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None and not isinstance(stream, StreamRequest):
            close(stream[0])
        self.allowed = deque(other for other in self.allowed if other != number)

    def _run(self, request: StreamRequest) -> _Running:
        base = self._contexts[request.part]
        context = replace(
            base,
            seed=request.seed,
            epoch=request.epoch,
            rounds=request.rounds,
            shard=request.shard,
            leftovers={},
            pacing=Pacing(OneRow if request.origins else base.pacing.block_sizes, Clock(self._times)),
            tracing=base.tracing._replace(origins=base.tracing.origins or request.origins),
        )
        return self._stages[request.part][request.place].blocks(Cursor.of(request.at), context), context


# What a careful run makes.


class CrashNote:
    """Notes the operator that runs, and its row, by `write`.

    `after_row` is called when an operator has made a row, while the note still names that operator.
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


# Bursts.


MAX_BURST_ITEMS = 32
MAX_BURST_BYTES = 1 << 18
MAX_BURST_SECONDS = 0.001
"""A burst is sent with the first item that reaches one of these."""


class Outbox:
    """Sends items in bursts, because a message costs about as much as a small element.

    The caller of `add` calls `flush` before anything that may take long, so that no finished element waits for it. An
    item is copied at once, so the next one may use the same memory.

    `wait` waits for memory that the owner frees, and returns False if that may never come. `steps_left` counts the
    steps to come, if that is known: the last ones take along what was measured.
    """

    def __init__(self, line: WorkerLine, arena: Arena | None, limit: PrefetchLimit, wait: Callable[[], bool]) -> None:
        self._line = line
        self._arena = arena
        self._limit = limit
        self._wait = wait
        self.times: RunTimes | None = None
        self.steps_left: int | None = None
        self._clear()

    def __bool__(self) -> bool:
        return bool(self._heads)

    def _clear(self) -> None:
        self._run = -1
        self._heads: list[ItemHead] = []
        self._parts: list[bytes | memoryview] = []  # of all items, to be sent with them
        self._nbytes = 0  # of all items, also of those parts that are in the arena
        self._since = 0.0

    def add(self, run: int, kind: ItemKind, shard: int, cursor: Json, packed: PackedElement | None = None) -> None:
        """Add an item of a run, and send the burst if it is large enough."""
        places: list[ArenaPlace] = []
        parts: list[bytes | memoryview] = []
        if packed is not None:
            sizes = packed.sizes
            nbytes = sum(sizes)
            if kind == "step":
                if self.steps_left is not None:
                    self.steps_left -= 1
                places = self._write_regions(packed, sizes[1:])
                self._limit.add(nbytes)
            parts = [packed.stream] if places else packed.body()
            self._nbytes += nbytes
        if not self._heads:
            self._run = run
            self._since = perf_counter()
        self._heads.append((kind, shard, cursor, places, tuple(map(len, parts))))
        self._parts += parts
        if (
            len(self._heads) >= MAX_BURST_ITEMS
            or self._nbytes >= MAX_BURST_BYTES
            or perf_counter() - self._since >= MAX_BURST_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Send the burst, if there is one."""
        if not self._heads:
            return
        place, parts = None, self._parts
        size = sum(map(len, parts))
        if self._arena is not None and size >= PAGE_BYTES and (offsets := self._arena.reserve([size])) is not None:
            place = offsets[0], size
            self._arena.region(*place)[:] = b"".join(parts)
            parts = []
        run, heads = self._run, self._heads
        tables = [] if self.times is None else self.times.due(last=heads[-1][0] != "step" or self.steps_left == 0)
        self._clear()
        self._line.send(("items", run, place, heads, tables), parts)

    def discard(self) -> None:
        """Drop the burst: its run has ended."""
        for _, _, _, places, _ in self._heads:
            for offset, _ in places:
                self._free(offset)
        self._clear()

    def _free(self, offset: int) -> None:
        assert self._arena is not None, "only an arena has places"
        self._arena.free(offset)

    def _write_regions(self, packed: PackedElement, sizes: Sequence[int]) -> list[ArenaPlace]:
        """Write the regions of an element to the arena; return their places, or none if they go with the burst.

        Raises:
            LimitError: the element is larger than the arena.
        """
        size = sum(sizes)
        if self._arena is None or size <= MAX_COPIED_BYTES:
            return []
        if size > self._arena.capacity:
            raise LimitError(
                f"an element of {size / 2**20:.1f} MiB does not fit into the {self._arena.capacity / 2**20:.1f} MiB "
                "that `memory` leaves each worker; allow more, use fewer workers, or make smaller batches"
            )
        while (offsets := self._arena.reserve(sizes)) is None:
            self.flush()
            if not self._wait():
                return []
        places = list(zip(offsets, sizes, strict=True))
        for region, place in zip(packed.regions, places, strict=True):
            region.write(self._arena.region(*place))
        return places
