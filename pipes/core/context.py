"""What a run tells its operators: keys of randomness, the size of blocks, and where in the plan they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from threading import Lock, Thread
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from ..errors import Origin
from .block import Block
from .block_size import AdaptiveBlockSize, BlockSize, Clock, OneRow
from .cursor import Json
from .randomness import Key


class Tracer(Protocol):
    """Is told which operator makes a row, and when it has made it."""

    def enter(self, stage: Stage, origin: Origin | None = None) -> None: ...
    def leave(self, origin: Origin | None) -> None: ...


class Closing(Protocol):
    def close(self) -> None: ...


if TYPE_CHECKING:
    from ..engine.readahead import Work
    from ..engine.stage import Stage

C = TypeVar("C", bound=Closing)


class ProcessResources:
    """What the shards of one process make once and use together, by key; `close` ends all of it."""

    def __init__(self) -> None:
        self.threads: list[Thread] = []
        self._made: dict[Hashable, Closing] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], C]) -> C:
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            return cast("C", self._made[key])

    def close(self) -> None:
        with self._lock:
            made, self._made = self._made, {}
        for one in made.values():
            one.close()

    def join(self) -> None:
        """Waits for the threads of a run that was closed."""
        for thread in self.threads:
            thread.join()


class RowsRequest(NamedTuple):
    """Which rows of a shared input a shard wants.

    Attributes:
        source: the name of the input.
        at: the plain cursor of the first of them, in the input.
        shard, shards: those whose position is `shard` modulo `shards`.
        rounds: the rounds of the `repeat`s around.
        origins: whether the source of each row is wanted.
    """

    source: str
    at: Json
    shard: int
    shards: int
    rounds: tuple[int, ...]
    origins: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """The run that an operator is part of.

    Attributes:
        seed: of the loader.
        epoch: which pass over the data.
        rounds: the rounds of the `repeat`s around the operator, outermost first.
        shard: the virtual shard this run belongs to; None where all shards see the same rows.
        shards: the shards that this process runs.
        block_sizes: makes the block_size of one producer, from a clock.
        clock: counts the seconds of producing in this thread.
        threads: False where everything must run in the calling thread.
        origins: whether blocks carry the source of each row.
        leftovers: where operators that drop an incomplete last group put its rows, by operator's name.
        shared: what the shards of this process hold together.
        note: told what runs, on which row, in a run that may end the process.
        dispatched: gives a share of what another process reads; None where this one reads it.
        begun: what has been begun for the row that is made, by stage that waits for it and position there.
        begins: takes what is to be begun for a row to come, None for what is near; rows are then only traced to that.
        cut: for tests, cuts blocks anew.
    """

    seed: int = 0
    epoch: int = 0
    rounds: tuple[int, ...] = ()
    shard: int | None = None
    shards: tuple[int, ...] = ()
    block_sizes: Callable[[Clock], BlockSize] = AdaptiveBlockSize
    clock: Clock = field(default_factory=Clock)
    threads: bool = True
    origins: bool = False
    leftovers: dict[str, Block] = field(default_factory=dict)
    shared: ProcessResources = field(default_factory=ProcessResources)
    note: Tracer | None = None
    dispatched: Callable[[RowsRequest], Iterator[Block]] | None = None
    begun: dict[tuple[Stage, int], Work] = field(default_factory=dict)
    begins: dict[tuple[Stage, int], Work | None] | None = None
    cut: Callable[[int], list[int]] | None = None

    def block_size(self) -> BlockSize:
        """The block_size of one producer."""
        return self.block_sizes(self.clock)

    def round(self, number: int) -> Context:
        """Within round `number` of a `repeat`."""
        return replace(self, rounds=(*self.rounds, number))

    def whole(self) -> Context:
        """Upstream of the deal, where every shard sees the same rows."""
        return replace(self, shard=None, shards=()) if self.shard is not None else self

    def reading(self, share: RowsRequest) -> Context:
        """For another process, which wants that share."""
        return replace(self, rounds=share.rounds, origins=share.origins, clock=Clock())

    def replay(self) -> Context:
        """For one look at a failing row: where did it come from?"""
        return replace(self, block_sizes=OneRow, threads=False, origins=True, leftovers={}, shared=ProcessResources())

    def key(self, name: str, *, seed: int | None = None) -> Key:
        """The key of operator `name` here: 128 bits that depend on nothing but seed, name, epoch, rounds and shard."""
        words = [self.seed if seed is None else seed, name, self.epoch, self.rounds, self.shard]
        digest = hashlib.blake2b(json.dumps(words).encode(), digest_size=16).digest()
        return np.frombuffer(digest, np.uint64)
