"""What a worker and its owner say to each other: the heads of messages.

    owner to worker                          worker to owner
    Begin(...)                 once          ("ready",) or ("broken", doing, sizes)         begun, or not
    Order(...)                 a run         ("step", run, shard, cursor, places, sizes)    an element
    ("took", count, offsets)   go on         ("ended", run, shard, leftover, (), sizes)     a shard's end
    ("stop",)                  end the run   ("failed", run, sizes)                         the end, by an error

A body is what `bundled` makes, of parts that have the `sizes` at the end of its head. Where there are `places`, the
first part alone is sent: the others, which are memory for `unpack`, lie at those places of the arena.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from ...core.graph import Node
from ...plan.plan import Plan, Position
from ..transport.bundle import unbundled
from ..transport.channel import Message
from ..transport.remote_error import Failure

Place = tuple[int, int]
"""A region of the arena: offset and bytes."""
Sizes = tuple[int, ...]
"""Of the parts of a body: bytes."""
Bundle = tuple[bytes, Sizes]
"""A body and its sizes: what one worker has packed and another is to unpack."""


class Begin(NamedTuple):
    """What a worker has to know at its beginning.

    Attributes:
        number: of the worker.
        prefetch: how many finished elements may wait for the consumer; None for as many as are of use.
        arena: bytes of the arena; 0 where there is none.
        held: regions that the consumer has from a process before this one.
        stacks: whether it is to write stacks when asked for them.
        dispatched: whether another process runs what stands before `dispatch`.
    """

    number: int
    prefetch: int | None
    arena: int
    held: list[Place]
    stacks: bool
    dispatched: bool = False


class Terms(NamedTuple):
    """What makes a plan of the graph."""

    seed: int
    rank: int
    world_size: int
    shards: int


class Program(NamedTuple):
    """What a dispatcher runs."""

    run: int
    terms: Terms
    epoch: int


class Order(NamedTuple):
    """What to run, and from where on.

    Attributes:
        run: its number, which comes back with each answer.
        terms: of the plan.
        epoch: the pass over the data.
        position: where this worker's part begins.
        worker, workers: which share of the rank's part.
        given: of an indexed pipe, how many elements of this share have come.
        waiting: elements that have come from a process before this one and are not taken.
        leftovers: None for the shards themselves; for the tail, the rows of those shards that had theirs at hand.
        careful: note each row before it is run, to learn which one ends the process.
    """

    run: int
    terms: Terms
    epoch: int
    position: Position
    worker: int
    workers: int
    given: int = 0
    waiting: int = 0
    leftovers: dict[int, Bundle] | None = None
    careful: bool = False


def plan_of(root: Node, terms: Terms) -> Plan:
    seed, rank, world_size, shards = terms
    return Plan(root, seed=seed, rank=rank, world_size=world_size, workers=0, shards=shards or None)


def content(message: Message) -> object:
    """What the body of a message holds that came without the arena."""
    return unbundled(message.body, cast("Sizes", message.head[-1]))


def failure(message: Message) -> BaseException:
    """The error that a message brings."""
    return cast("Failure", content(message)).error()
