"""The messages between a worker and its owner.

    owner to worker                              worker to owner
    WorkerSettings(...)          once            ("ready",) or ("broken", doing, sizes)    the worker can run, or not
    RunRequest(...)              each run        ("items", run, place, heads, tables)      a burst of items
    FetchRequest(...)            each run        as for a RunRequest, but an error does not end the run
    ("fetch", run, number, key)  an element      ("note", text)     what a careful run makes next
    ("took", count, offsets)     go on           ("log", records)   what functions have logged
    ("stop",)                    end the run         ("start", run, span, sizes)    where a span begins
    ("start", run, span, body)   the same, for the worker that makes the span

If the pipe has a `remote`, the owner opens streams of rows, and allows each to make a block more. An item is then a
block with its origins, the end of a stream or an error that ends it. It has the number of its stream for a shard, and
[at, end] for a cursor:

    ("open", stream, request)
    ("allow", stream)
    ("close", stream)

An item is an element ("step"), the end of a span ("span") or of a shard ("ended"), or an error ("failed"), which ends
the run. A burst has one or several, and a packed value for most: their parts lie one after the other in the body, or at
a `place` of the arena. The first part of an element is its stream. The others are its regions, which the owner copies,
so that a small element that is kept keeps no others; or the regions lie at `places` of their own in the arena. Heads
stay plain tuples: pickling a named tuple takes several times as long.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

from ...core.cursor import Json
from ...core.graph import Node
from ...core.times import Table
from ...plan.plan import Plan
from ..base import ShardEnd, SpanEnd, Step
from ..transport.channel import Message, RemoteFailure
from ..transport.packing import unpack, unpack_body
from ..turns import Assignment, Item

ArenaPlace: TypeAlias = tuple[int, int]
"""A region of the arena: offset and bytes."""
Sizes: TypeAlias = tuple[int, ...]
"""The bytes of each part of a body."""
PackedBody: TypeAlias = tuple[bytes, Sizes]
"""A body and its sizes, to be unpacked by another worker."""
ItemKind: TypeAlias = Literal["step", "span", "ended", "failed"]
ItemHead: TypeAlias = tuple[ItemKind, int, Json, Sequence[ArenaPlace], Sizes]
"""Kind, shard, cursor (or the leftover's), places of regions, sizes of the parts in the burst."""
BurstMessage: TypeAlias = tuple[Literal["items"], int, ArenaPlace | None, list[ItemHead], list[Table]]
"""Items: kind, run, place of the parts if the body does not hold them, heads, what threads have counted (mostly none).
"""
TakenHead: TypeAlias = tuple[Literal["took"], int, list[int]]
"""What the consumer has taken: kind, number of elements, offsets of regions that are free again."""
StartHead: TypeAlias = tuple[Literal["start"], int, int, PackedBody]
"""Where a span begins: kind, run, span, and its packed `SpanStart`."""
FetchHead: TypeAlias = tuple[Literal["fetch"], int, int, object]
"""A request for an element: kind, run, number of the element, its key."""

MAX_COPIED_BYTES = 1 << 14
"""The owner copies the regions of elements up to this size. To watch a region until it is free takes longer."""


class ReceivedItem(NamedTuple):
    """An item that has arrived, with its places in the arena, and the parts that came with it.

    The shard is, for an element that has a key, its worker; for the end of a span, the span.
    """

    kind: ItemKind
    shard: int
    cursor: Json
    places: Sequence[ArenaPlace]
    parts: tuple[memoryview, ...]

    def value(self) -> object:
        """What it brings, if its regions came with it."""
        stream, *regions = self.parts
        return unpack(stream, map(bytearray, regions))

    def item(self, element: object = None) -> Item:
        """The item of the run, which is no error."""
        if self.kind == "step":
            return Step(element, self.shard, self.cursor)
        return SpanEnd(self.shard) if self.kind == "span" else ShardEnd(self.shard, self.cursor)

    def error(self) -> BaseException:
        """The error that it brings."""
        return cast("RemoteFailure", self.value()).to_exception()

    @property
    def without_memory(self) -> bool:
        """Whether its regions came with it because the arena had no room for them."""
        return sum(map(len, self.parts[1:])) > MAX_COPIED_BYTES


def received_items(heads: Sequence[ItemHead], body: memoryview) -> Iterator[ReceivedItem]:
    """The items of a burst; their parts are views of `body`."""
    start = 0
    for kind, shard, cursor, places, sizes in heads:
        parts: list[memoryview] = []
        for size in sizes:
            parts.append(body[start : start + size])
            start += size
        yield ReceivedItem(kind, shard, cursor, places, tuple(parts))


class WorkerSettings(NamedTuple):
    """What a worker needs to know before its first run.

    Attributes:
        prefetch: how many finished elements may wait for the consumer; None to adapt it.
        arena_bytes: the size of the arena; 0 if there is none.
        leased: regions that the consumer still has from an earlier process.
        most_bytes: the bytes that finished elements may hold.
    """

    number: int
    prefetch: int | None
    arena_bytes: int
    leased: list[ArenaPlace]
    spins: bool
    most_bytes: float
    dispatched: bool = False


class PlanArguments(NamedTuple):
    """What makes a plan of the graph."""

    seed: int
    rank: int
    world_size: int
    shards: int

    @staticmethod
    def of(plan: Plan) -> PlanArguments:
        return PlanArguments(plan.seed, plan.rank, plan.world_size, plan.shards)

    def plan(self, root: Node) -> Plan:
        seed, rank, world_size, shards = self
        return Plan(root, seed=seed, rank=rank, world_size=world_size, shards=shards or None)

    def worker_seed(self, epoch: int, worker: int) -> int:
        """The seed of the global generators in a worker in this epoch."""
        words = repr((self.seed, epoch, self.rank, worker)).encode()
        return int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "little")


class DispatchRequest(NamedTuple):
    """What the dispatcher runs."""

    run: int
    arguments: PlanArguments
    epoch: int


class RunRequest(NamedTuple):
    """What a worker runs.

    Attributes:
        waiting: elements that an earlier process has sent and the consumer has not taken.
        leftovers: for the tail, the packed rows of shards that had theirs at hand.
        careful: whether to note each row before it runs, to learn which one ends the process.
    """

    run: int
    arguments: PlanArguments
    epoch: int
    assignment: Assignment
    waiting: int
    leftovers: dict[int, PackedBody]
    careful: bool


class StreamRequest(NamedTuple):
    """Asks for the rows of the `place`-th `remote` in the graph of shard `part`, from a cursor on.

    Seed, epoch, rounds and shard are those of the run, for its draws; `origins` asks for single rows with theirs.
    """

    part: int
    place: int
    seed: int
    epoch: int
    rounds: tuple[int, ...]
    shard: int | None
    at: Json
    origins: bool


def unpack_message(message: Message) -> object:
    """The content of a message that came without the arena."""
    return unpack_body(message.body, cast("Sizes", message.head[-1]))


def unpack_error(message: Message) -> BaseException:
    """The error that a message brings."""
    return cast("RemoteFailure", unpack_message(message)).to_exception()
