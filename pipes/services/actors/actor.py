"""`RunActor` and `DispatchActor`: what runs in an actor."""

from __future__ import annotations

import itertools
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ...core.block import Block, OneRow, close
from ...core.code import value_code
from ...core.context import Context, RowsRequest
from ...core.cursor import Cursor, Json
from ...core.ending import ProcessResources
from ...core.graph import Node, sent
from ...core.rows import BlockRows
from ...core.times import DISPATCHER, Clock, RunTimes, Table, add_tables, thread_of_worker, times_of_run, waiting
from ...engine.seeds import seed_process
from ...errors import Origin
from ...plan.plan import Plan, ShardRun
from ...plan.shards import requested_rows, share_of
from ..base import ShardEnd, Step
from ..remote import RowServer, StreamRequest
from ..transport.channel import pack_error
from ..transport.packing import PackedElement, Packer
from ..turns import DEFAULT, Mode, run_shards, step_count
from ..workers import CrashNote, Fetcher, FetchRequest, FetchSource, PlanArguments, fetched
from .burst import MAX_BURST_SECONDS, Burst, BurstWriter, Kind
from .protocol import (
    LOST,
    ActorFailure,
    ActorPlace,
    ActorRequest,
    pack_failure,
    place_here,
    read_graph,
    unpack_parts,
    write_stacks_on_signal,
)

PackedItem: TypeAlias = tuple[Kind, int, Json, PackedElement | None]
"""An item of a run, as `BurstWriter.add` takes it."""

NOTED_ANSWERS = 100
"""The calls of a run that note each row, which takes milliseconds. The first answers may be lost if the actor dies soon
after them. By now the owner has some, so the row that ended the actors before was not the next."""


class RunActor:
    """A worker of a loader, in an actor.

    Args:
        number: of the worker.
        max_elements: the most elements of a burst.
        dispatcher: the actor that runs the operators before `dispatch`; None if there are none.
    """

    def __init__(self, number: int, max_elements: int, dispatcher: Any) -> None:
        self._number = number
        self._max_elements = max_elements
        self._dispatch = None if dispatcher is None else DispatchReader(dispatcher, number)
        self._packer = Packer()
        self._writer = BurstWriter()
        self._plan: tuple[PlanArguments, Plan] | None = None
        self._run = -1
        self._times: RunTimes | None = None
        self._clock = Clock()
        self._steps_left: int | None = None  # of the run; None if only the run can tell
        self._notes: Any = None  # keeps notes of what runs
        self._answers = 0  # of the run
        self._items: Iterator[PackedItem] = iter(())
        self._waiting: PackedItem | None = None  # had no room in the last burst
        self._serve_request: ActorRequest | None = None  # of a run with streams
        self._server: RowServer | None = None
        self._opened: dict[int, StreamRequest] = {}  # streams that are still to begin
        self._fetcher: Fetcher | None = None
        self._fetch_request: FetchRequest | None = None  # of a run that is still to begin

    def hello(self) -> ActorPlace:
        return place_here()._replace(stacks=write_stacks_on_signal())

    def start(self, graph: npt.NDArray[np.uint8]) -> ActorFailure | None:
        """Read the graph, and call `init`."""
        doing = "reading its pipe"
        try:
            content, classes = read_graph(graph)
            self._root, init = cast("tuple[Node, Callable[[int], object] | None]", content)
            self._packer = Packer(classes, self._root.call_site)
            if init is not None:
                doing = f"`init={value_code(init)}`"
                init(self._number)
        except BaseException as error:
            return pack_failure(doing, error, self._packer)
        return None

    def begin(self, request: ActorRequest) -> None:
        """Begin a run, and end the one before."""
        self.stop(self._run)
        self._run = request.run
        self._items = self._packed_items(request)

    def next_burst(self, run: int) -> Burst:
        """The next items of a run; none after its end."""
        self._writer.begin()
        with self._clock.waiting("send"):
            self._fill_burst(run)
        return self._burst()

    def _fill_burst(self, run: int) -> None:
        deadline = time.monotonic() + MAX_BURST_SECONDS
        while run == self._run and len(self._writer.heads) < self._max_elements:
            item = self._waiting or next(self._items, None)
            self._waiting = None
            if item is None:
                break
            if not self._writer.add(*item):
                self._waiting = item
                break
            if self._steps_left is not None:
                self._steps_left -= item[0] == "step"
            del item  # its memory serves the next one
            if time.monotonic() > deadline:
                break

    def stop(self, run: int) -> None:
        """End a run."""
        if run == self._run:
            self._run = -1
            self._waiting = None
            self._opened.clear()
            self._serve_request = None
            if self._server is not None:
                self._server.close()
                self._server = None
            close = getattr(self._items, "close", None)
            self._items = iter(())
            if close is not None:
                close()

    def serve(self, request: ActorRequest) -> None:
        """Begin a run in which the owner opens streams of rows."""
        self.stop(self._run)
        self._run = request.run
        self._serve_request = request

    def open_stream(self, run: int, number: int, request: StreamRequest) -> None:
        """Begin a stream of rows."""
        if run == self._run:
            self._opened[number] = request

    def next_block(self, run: int, number: int, closed: list[int]) -> Burst:
        """The next block of a stream, after the streams that are `closed` have ended."""
        self._writer.begin()
        for other in closed:
            self._opened.pop(other, None)
            if self._server is not None:
                self._server.close_stream(other)
        if run == self._run:
            with self._clock.waiting("send"):
                self._writer.add(*self._packed_block(number))
        return self._burst()

    def begin_fetching(self, request: FetchRequest) -> None:
        """Begin a run in which the owner sends a key for each element."""
        self.stop(self._run)
        self._clock, self._times = Clock(), None
        self._fetch_request = request

    def fetch(self, number: int, key: object) -> Burst:
        """The element of a key, the `number`-th of the run over all workers."""
        self._writer.begin()
        self._writer.add(*self._fetched(number, key))
        return self._burst()

    def _fetched(self, number: int, key: object) -> PackedItem:
        try:
            item = fetched(self._begun_fetcher(), number, key, self._number)
            if isinstance(item, ShardEnd):
                return "ended", self._number, item.leftover, None
            return "step", self._number, item.cursor, self._packer.pack(item.element)
        except BaseException as error:
            return self._failed(error)

    def _begun_fetcher(self) -> Fetcher:
        request = self._fetch_request
        if self._fetcher is None:
            assert request is not None, "a run begins before its first key"
            self._fetcher = cast("FetchSource", self._root.op).fetcher(request)
        if request is not None:
            self._fetcher.begin(request)
            self._fetch_request = None
        return self._fetcher

    def _burst(self) -> Burst:
        self._answers += 1
        if self._answers == NOTED_ANSWERS:
            self._notes = None
        heads = self._writer.heads
        is_last = bool(heads) and (heads[-1][0] != "step" or self._steps_left == 0)
        return self._writer.burst([] if self._times is None else self._times.due(last=is_last))

    def _write_note(self, note: str) -> None:
        if self._notes is not None:
            ray.get(self._notes.write.remote(self._number, note))

    def _failed(self, error: BaseException) -> PackedItem:
        return "failed", 0, None, pack_error(error, f"worker {self._number}, {place_here()}", self._packer)

    def _packed_items(self, request: ActorRequest) -> Iterator[PackedItem]:
        """The items of a run; an error is the last one."""
        try:
            for item in self._run_items(request):
                if isinstance(item, Step):
                    yield "step", item.shard, item.cursor, self._packer.pack(item.element)
                else:
                    rows = None if item.rows is None else self._packer.pack(item.rows)
                    yield "ended", item.shard, item.leftover, rows
                del item
        except GeneratorExit:
            raise
        except DispatcherGoneError:
            yield "orphaned", 0, None, None
        except BaseException as error:
            yield self._failed(error)

    def _packed_block(self, number: int) -> PackedItem:
        try:
            item = self._begun_server().next(number)
            if isinstance(item, Step):
                return "step", number, item.cursor, self._packer.pack(item.element)
            return "ended", number, item.leftover, None if item.rows is None else self._packer.pack(item.rows)
        except DispatcherGoneError:
            return "orphaned", 0, None, None
        except BaseException as error:
            return self._failed(error)

    def _begun_server(self) -> RowServer:
        """The server of the run. It is made by the first call for a block, which can bring its error."""
        if self._server is None:
            assert self._serve_request is not None, "a run begins before its first block"
            self._server = RowServer(*self._prepare(self._serve_request))
        for number in list(self._opened):
            self._server.open(number, self._opened.pop(number))
        return self._server

    def _run_items(self, request: ActorRequest) -> Iterator[Step | ShardEnd]:
        plan, parts, epoch, mode = self._prepare(request)
        resources = ProcessResources()
        try:
            yield from run_shards(plan, parts, epoch, mode, resources)
        finally:
            resources.close()
            resources.join()

    def _prepare(self, request: ActorRequest) -> tuple[Plan, list[ShardRun], int, Mode]:
        """What to run, and how."""
        plan = self._plan_of(request.arguments)
        seed_process(request.arguments.worker_seed(request.epoch, request.assignment.worker))
        self._clock.end()
        self._times = times_of_run(request.run, self._times)
        self._clock = Clock(thread_of_worker(self._times, self._number, "consumer"))
        mode = DEFAULT._replace(times=self._clock.times)
        self._notes, self._answers = request.notes, 0
        if self._notes is not None:
            note = CrashNote(self._write_note)
            mode = mode._replace(block_sizes=OneRow, threads=False, tracer=note)
        if self._dispatch is not None:
            run = DispatchRun(request.run, request.arguments, request.epoch)
            mode = mode._replace(dispatched=partial(self._dispatch.rows, run))
        leftovers = {shard: cast("BlockRows", unpack_parts(parts)) for shard, parts in request.leftovers.items()}
        parts = request.assignment.parts(plan, leftovers)
        self._steps_left = None if plan.has_remote else step_count(plan, parts)
        return plan, parts, request.epoch, mode

    def _plan_of(self, arguments: PlanArguments) -> Plan:
        if self._plan is None or self._plan[0] != arguments:
            self._plan = arguments, arguments.plan(sent(self._root))
        return self._plan[1]


# The dispatcher.


Client: TypeAlias = tuple[int, int]
"""The number of a worker, and a number that is new for each actor in its place."""
PackedBlock: TypeAlias = tuple[Json, Json, tuple[bytes, ...], list[Table]]
"""The cursors of a block, its packed rows and origins, and at times what was counted."""


class DispatchRun(NamedTuple):
    """The run that a request for rows belongs to."""

    run: int
    arguments: PlanArguments
    epoch: int


class DispatcherGoneError(BaseException):
    """The actor that dispatches has died. No code of a user may catch this."""


class DispatchActor:
    """Runs the operators before `dispatch`, and gives each worker its rows."""

    def __init__(self) -> None:
        self._packer = Packer()
        self._run = -1
        self._context = Context()
        self._blocks: dict[Client, dict[int, Iterator[Block]]] = {}
        self._times: RunTimes | None = None
        self._clock = Clock()

    def hello(self) -> ActorPlace:
        return place_here()

    def start(self, graph: npt.NDArray[np.uint8]) -> ActorFailure | None:
        """Read the graph."""
        try:
            content, classes = read_graph(graph)
            self._root, _ = cast("tuple[Node, object]", content)
            self._packer = Packer(classes, self._root.call_site)
        except BaseException as error:
            return pack_failure("reading its pipe", error, self._packer)
        return None

    def open(
        self, client: Client, number: int, run: DispatchRun, request: RowsRequest, closed: list[int]
    ) -> PackedBlock | ActorFailure | None:
        """The first block of a request; None if there is none, or if the run has ended."""
        self._begin(run)
        if run.run < self._run:
            return None
        for other in list(self._blocks):
            if other[0] == client[0] and other != client:  # the actor before this one has died
                self._close(other, list(self._blocks.pop(other)))
        try:
            context = self._context.for_request(request)
            shards = self._plan.rank_shards if request.others is None else request.others
            others = [share_of(shard, request.share.slots) for shard in shards]
            rows = requested_rows(self._plan.stage_named(request.source), request, others, context)
        except Exception as error:
            return pack_failure("dispatching", error, self._packer)
        self._blocks.setdefault(client, {})[number] = rows
        return self.next_block(client, number, closed)

    def next_block(self, client: Client, number: int, closed: list[int]) -> PackedBlock | ActorFailure | None:
        """The next block of a request, after the requests that are `closed` have ended."""
        self._close(client, closed)
        try:
            block = self._clock.next(self._blocks.get(client, {}).get(number, iter(())))
            if block is None:
                return None
            packed = self._packer.pack((block.rows, block.origins))
            tables = [] if self._times is None else self._times.due()
            return block.at.plain, block.end.plain, tuple(map(bytes, packed.body())), tables
        except Exception as error:
            return pack_failure("dispatching", error, self._packer)

    def _begin(self, run: DispatchRun) -> None:
        """Begin a run when the first worker asks for its rows."""
        if run.run > self._run:
            for client in list(self._blocks):
                self._close(client, list(self._blocks[client]))
            self._context.process.resources.close()
            self._run = run.run
            self._plan: Plan = run.arguments.plan(self._root)
            self._context = Context(seed=run.arguments.seed, epoch=run.epoch)
            self._times = times_of_run(run.run, None)
            self._clock = Clock(None if self._times is None else self._times.thread(DISPATCHER, "consumer"))

    def _close(self, client: Client, numbers: list[int]) -> None:
        requests = self._blocks.get(client, {})
        for number in numbers:
            if number in requests:
                close(requests.pop(number))


class DispatchReader:
    """Reads rows from the actor that dispatches; several requests may run at a time, also in several threads."""

    def __init__(self, dispatcher: Any, worker: int) -> None:
        self._dispatcher = dispatcher
        self._client = worker, secrets.randbits(48)
        self._numbers = itertools.count()
        # A garbage collector may end a request at any moment, so its end makes no call: the next call reports it.
        self._closed: deque[int] = deque()

    def rows(self, run: DispatchRun, request: RowsRequest) -> Iterator[Block]:
        """The rows that `request` names. While one block is in use, the next one is on its way."""
        number = next(self._numbers)
        reference = self._dispatcher.open.remote(self._client, number, run, request, self._take_closed())
        try:
            while (block := self._block(reference)) is not None:
                reference = self._dispatcher.next_block.remote(self._client, number, self._take_closed())
                blocks = [block]
                del block  # the receiver of the block holds the only reference
                yield blocks.pop()
        finally:
            self._closed.append(number)

    def _block(self, reference: Any) -> Block | None:
        try:
            with waiting("input", DISPATCHER):
                answer = ray.get(reference)
        except LOST as error:
            raise DispatcherGoneError from error
        if isinstance(answer, ActorFailure):
            raise answer.to_exception()
        if answer is None:
            return None
        at, end, parts, tables = cast("PackedBlock", answer)
        add_tables(tables)
        rows, origins = cast("tuple[BlockRows, list[Origin | None] | None]", unpack_parts(parts))
        return Block(rows, Cursor.of(at), Cursor.of(end), origins)

    def _take_closed(self) -> list[int]:
        return [self._closed.popleft() for _ in range(len(self._closed))]
