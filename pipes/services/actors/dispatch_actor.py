"""`DispatchActor`: runs the operators before `dispatch` for all workers, which read from it by a `DispatchReader`."""

from __future__ import annotations

import itertools
import secrets
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ...core.block import Block, close
from ...core.context import Context, RowsRequest
from ...core.cursor import Cursor, Json
from ...core.graph import Node
from ...core.rows import BlockRows
from ...errors import Origin
from ...plan.plan import Plan
from ...plan.shard_operators import share_of
from ...plan.shared_reading import requested_rows
from ..plan_arguments import PlanArguments
from ..transport.packing import Packer
from .protocol import LOST, ActorFailure, ActorPlace, pack_failure, place_here, read_graph, unpack_parts

Client: TypeAlias = tuple[int, int]
"""The number of a worker, and a number that is new for each actor in its place."""
PackedBlock: TypeAlias = tuple[Json, Json, tuple[bytes, ...]]
"""The cursors of a block, and its packed rows and origins."""


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

    def hello(self) -> ActorPlace:
        return place_here()

    def start(self, graph: npt.NDArray[np.uint8]) -> ActorFailure | None:
        """Reads the graph."""
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
            others = [share_of(shard, self._plan.shards) for shard in self._plan.rank_shards]
            rows = requested_rows(self._plan.stage_named(request.source), request, others, context)
        except Exception as error:
            return pack_failure("dispatching", error, self._packer)
        self._blocks.setdefault(client, {})[number] = rows
        return self.next_block(client, number, closed)

    def next_block(self, client: Client, number: int, closed: list[int]) -> PackedBlock | ActorFailure | None:
        """The next block of a request, after the requests that are `closed` have ended."""
        self._close(client, closed)
        try:
            block = next(self._blocks.get(client, {}).get(number, iter(())), None)
            if block is None:
                return None
            packed = self._packer.pack((block.rows, block.origins))
            return block.at.plain, block.end.plain, tuple(map(bytes, packed.body()))
        except Exception as error:
            return pack_failure("dispatching", error, self._packer)

    def _begin(self, run: DispatchRun) -> None:
        """Begins a run when the first worker asks for its rows."""
        if run.run > self._run:
            for client in list(self._blocks):
                self._close(client, list(self._blocks[client]))
            self._context.process.resources.close()
            self._run = run.run
            self._plan: Plan = run.arguments.plan(self._root)
            self._context = Context(seed=run.arguments.seed, epoch=run.epoch)

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
            answer = ray.get(reference)
        except LOST as error:
            raise DispatcherGoneError from error
        if isinstance(answer, ActorFailure):
            raise answer.to_exception()
        if answer is None:
            return None
        at, end, parts = cast("PackedBlock", answer)
        rows, origins = cast("tuple[BlockRows, list[Origin | None] | None]", unpack_parts(parts))
        return Block(rows, Cursor.of(at), Cursor.of(end), origins)

    def _take_closed(self) -> list[int]:
        return [self._closed.popleft() for _ in range(len(self._closed))]
