"""The messages between a worker and its owner.

    owner to worker                          worker to owner
    WorkerSettings(...)        once          ("ready",) or ("broken", doing, sizes)         the worker can run, or not
    RunRequest(...)            each run      ("step", run, shard, cursor, places, sizes)    an element
    FetchRequest(...)          each run      as for a RunRequest, but an error does not end the run
    ("fetch", run, number, key)  an element  ("step", run, worker, position, places, sizes) or "ended" or "failed"
    ("took", count, offsets)   go on         ("ended", run, shard, leftover, (), sizes)     the end of a shard
    ("stop",)                  end the run   ("failed", run, sizes)                         an error ends the run

If the pipe has a `remote`, the owner opens streams of rows, and allows each to make a block more:

    ("open", stream, request)                ("step", run, stream, [at, end, marks], places, sizes)    rows and origins
    ("allow", stream)                        ("ended", run, stream, leftover, (), sizes)    the end of a stream
    ("close", stream)                        ("failed", run, stream, sizes)                 an error ends the stream

A body holds one packed element, whose parts have the `sizes` that stand last in the head. If a message has `places`,
its body is the stream alone, and the regions of the element lie at these places of the arena. Heads of elements stay
plain tuples: pickling a named tuple takes several times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

from ...core.cursor import Json
from ..merge import Assignment
from ..plan_arguments import PlanArguments
from ..transport.channel import Message
from ..transport.packing import unpack_body
from ..transport.remote_error import RemoteFailure

ArenaPlace: TypeAlias = tuple[int, int]
"""A region of the arena: offset and bytes."""
Sizes: TypeAlias = tuple[int, ...]
"""The bytes of each part of a body."""
PackedBody: TypeAlias = tuple[bytes, Sizes]
"""A body and its sizes, to be unpacked by another worker."""
ItemHead: TypeAlias = tuple[Literal["step", "ended"], int, int, Json, Sequence[ArenaPlace], Sizes]
"""An element or the end of a shard: kind, run, shard, cursor (or the leftover's), places, sizes."""
TakenHead: TypeAlias = tuple[Literal["took"], int, list[int]]
"""What the consumer has taken: kind, number of elements, offsets of regions that are free again."""


FetchHead: TypeAlias = tuple[Literal["fetch"], int, int, object]
"""A request for an element: kind, run, number of the element, its key."""


class WorkerSettings(NamedTuple):
    """What a worker needs to know before its first run.

    Attributes:
        number: of the worker.
        prefetch: how many finished elements may wait for the consumer; None to adapt it.
        arena_bytes: the size of the arena; 0 if there is none.
        leased: regions that the consumer still has from an earlier process.
        stacks: whether it writes its stacks on request.
        dispatched: whether another process runs the operators before `dispatch`.
    """

    number: int
    prefetch: int | None
    arena_bytes: int
    leased: list[ArenaPlace]
    stacks: bool
    dispatched: bool = False


class DispatchRequest(NamedTuple):
    """What the dispatcher runs."""

    run: int
    arguments: PlanArguments
    epoch: int


class RunRequest(NamedTuple):
    """What a worker runs.

    Attributes:
        run: its number, which each answer repeats.
        arguments: of the plan.
        epoch: the pass over the data.
        assignment: what of the plan to run, and where to start.
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


def unpack_message(message: Message) -> object:
    """The content of a message that came without the arena."""
    return unpack_body(message.body, cast("Sizes", message.head[-1]))


def unpack_error(message: Message) -> BaseException:
    """The error that a message brings."""
    return cast("RemoteFailure", unpack_message(message)).to_exception()
