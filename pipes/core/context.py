"""`Context`: the run that an operator is part of, and its keyed randomness."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import CallSite, Origin
from .block import AdaptiveBlockSize, Block, BlockSize, OneRow
from .cursor import Cursor, Json
from .ending import ProcessResources, Running
from .rows import Indices, index_list
from .times import Clock


@dataclass(frozen=True, slots=True)
class Pacing:
    """The lengths of blocks.

    Attributes:
        block_sizes: makes the `BlockSize` of one producer, from a clock.
        clock: counts the seconds of producing in this thread.
        cut: gives the lengths of the blocks that a finished block is divided into; for tests.
    """

    block_sizes: Callable[[Clock], BlockSize] = AdaptiveBlockSize
    clock: Clock = field(default_factory=Clock)
    cut: Callable[[int], list[int]] | None = None


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """The process that the run is in.

    Attributes:
        shards: the shards that this process runs.
        resources: the threads of these shards, and the resources that they share.
        dispatched: gives rows that another process reads; None if this process reads them.
        remote: gives the rows of a stage up to which workers run the graph, from a cursor on; None if this process runs
            all of it.
        threads: False if everything must run in the calling thread.
        rank_shards: the number of shards of each rank, when the pass over the data began.
        running: the generators of this thread.
        rank_rests: the shards of which this rank has rests, if the number of ranks has changed in the pass.
        given: gives the rows of some stages from a cursor on, in place of their operators.
    """

    shards: tuple[int, ...] = ()
    resources: ProcessResources = field(default_factory=ProcessResources)
    dispatched: Callable[[RowsRequest], Iterator[Block]] | None = None
    threads: bool = True
    rank_shards: int = 1
    remote: Callable[[object, Cursor, Context], Iterator[Block]] | None = None
    running: Running = field(default_factory=Running)
    rank_rests: tuple[int, ...] | None = None
    given: Mapping[object, Callable[[Cursor, Context], Iterator[Block]]] = field(default_factory=dict)


class Tracing(NamedTuple):
    """The records of a run beside its rows.

    Attributes:
        origins: whether blocks carry the origin of each row.
        counts: whether blocks carry the rows of named sources that each row is made of.
        tracer: follows which operator makes which row, in a run that may end the process.
        raises: a row whose error is raised, whatever the policy: the name of the operator, and the position of the row.
    """

    origins: bool = False
    counts: bool = False
    tracer: Tracer | None = None
    raises: tuple[str, int] | None = None


_NO_TRACING = Tracing()


@dataclass(frozen=True, slots=True)
class Context:
    """The run that an operator is part of.

    Attributes:
        seed: the loader's.
        epoch: the number of the pass over the data.
        rounds: the rounds of the `repeat`s around the operator, outermost first.
        shard: the virtual shard that the run belongs to; None if all shards see the same rows.
        leftovers: takes the rows of an incomplete last group that an operator drops, by the operator's name.
        pacing: the lengths of blocks.
        process: the process that the run is in.
        tracing: the records of the run beside its rows.
        started: the work of the next rows that was begun before their turn; see `take_started`.
    """

    seed: int = 0
    epoch: int = 0
    rounds: tuple[int, ...] = ()
    shard: int | None = None
    leftovers: dict[str, Block] = field(default_factory=dict)
    pacing: Pacing = field(default_factory=Pacing)
    process: ProcessContext = field(default_factory=ProcessContext)
    tracing: Tracing = _NO_TRACING
    started: dict[StartedKey, Work] = field(default_factory=dict)

    @property
    def running(self) -> Running:
        return self.process.running

    def stop(self) -> None:
        """End the run without waiting for its threads."""
        try:
            self.running.close()
        finally:
            self.process.resources.close()

    def close(self) -> None:
        """End the run, and wait for its threads."""
        try:
            self.running.close()
        finally:
            self.process.resources.join()

    def block_size(self) -> BlockSize:
        """The size of the blocks of one producer."""
        return self.pacing.block_sizes(self.pacing.clock)

    def with_own_clock(self) -> tuple[Context, Clock]:
        """A context for one of several inputs, and the clock that its blocks are read by, with `clock.next(blocks)`.

        Else the length of its blocks would depend on the time that the other inputs take.
        """
        clock = Clock(thread=self.pacing.clock.thread)
        return replace(self, pacing=replace(self.pacing, clock=clock)), clock

    def key(self, name: str, *, seed: int | None = None) -> Key:
        """The key of operator `name` here: 128 bits that depend on nothing but seed, name, epoch, rounds and shard."""
        words = [self.seed if seed is None else seed, name, self.epoch, self.rounds, self.shard]
        digest = hashlib.blake2b(json.dumps(words).encode(), digest_size=16).digest()
        return np.frombuffer(digest, np.uint64)

    def started_key(self, name: str, index: int) -> StartedKey:
        """The key in `started` of row `index` of the stage of that name."""
        return name, index, self.rounds

    def take_started(self, name: str, indices: Indices) -> list[Work | None]:
        """The work that was begun for the rows at `indices` of the stage of that name. The caller uses the results."""
        if not self.started:
            return [None] * len(indices)
        return [self.started.pop((name, index, self.rounds), None) for index in index_list(indices)]

    def every_epoch(self) -> Context:
        """For draws that are the same in each epoch, and in each round of a `repeat`."""
        return replace(self, epoch=0, rounds=())

    def round(self, number: int) -> Context:
        """Within round `number` of a `repeat`."""
        return replace(self, rounds=(*self.rounds, number))

    def unsharded(self) -> Context:
        """Before rows are divided among shards, where every shard sees the same rows."""
        return replace(self, shard=None) if self.shard is not None else self

    def with_rows(self, given: Mapping[object, Callable[[Cursor, Context], Iterator[Block]]]) -> Context:
        """With the rows of some stages given, and those of no others."""
        return replace(self, process=replace(self.process, given=given))

    def part(self) -> Context:
        """For inputs that an operator may leave before their end: it closes `running` while it still has them."""
        return replace(self, process=replace(self.process, running=self.running.part()))

    def with_clock(self, clock: Clock) -> Context:
        """In another thread, or at another consumer's pace."""
        return replace(self.part(), pacing=replace(self.pacing, clock=clock))

    def for_request(self, request: RowsRequest) -> Context:
        """For another process, which asks for these rows."""
        return replace(self, rounds=request.rounds, tracing=Tracing(request.origins, self.tracing.counts)).with_clock(
            Clock()
        )

    def replay(self) -> Context:
        """For one look at a failing row, to find its origin."""
        return replace(
            self,
            leftovers={},
            pacing=replace(self.pacing, block_sizes=OneRow),
            process=replace(self.process, threads=False, resources=ProcessResources(), running=Running(), given={}),
            tracing=self.tracing._replace(origins=True),
        )

    def epoch_independent(self) -> Context:
        """For an operator that reads its input once, whatever the epoch."""
        return replace(self, seed=0, epoch=0, rounds=(), shard=None)


StartedKey: TypeAlias = tuple[str, int, tuple[int, ...]]
"""A row: the name of its stage, its position there, and the rounds of the `repeat`s around."""


class Work(Protocol):
    """Work that can begin before its result is needed: a call of a function, or requests to storage."""

    def start(self) -> bool:
        """Start the work; return False if a part of it waits for memory, and is to be started again."""
        ...

    def is_done(self) -> bool:
        """Whether nobody who asks for the result has to wait."""
        ...

    def cancel(self) -> None:
        """Drop the work: nobody needs its result."""
        ...


class NoWork:
    """Nothing to do before the result is needed."""

    def start(self) -> bool:
        return True

    def is_done(self) -> bool:
        return True

    def cancel(self) -> None:
        return


class Tracer(Protocol):
    """Follows which operator makes a row."""

    def enter(self, operator: str, call_site: CallSite | None, origin: Origin | None = None) -> None:
        """Note that an operator, shown as its call, starts to make a row."""
        ...

    def leave(self, origin: Origin | None) -> None:
        """Note that it has made the row."""
        ...


class RowsRequest(NamedTuple):
    """Asks for a shard's part of the rows of a shared input.

    Attributes:
        source: the name of the input.
        at: the plain cursor of the first of these rows, in the input.
        share: the shard's part of the rows.
        rounds: the rounds of the `repeat`s around.
        origins: whether the origin of each row is needed.
        others: the shards that read the input too, if they are not those of the rank.
    """

    source: str
    at: Json
    share: RowShare
    rounds: tuple[int, ...]
    origins: bool = False
    others: tuple[int, ...] | None = None


N = TypeVar("N", int, npt.NDArray[np.int64])


class RowShare(NamedTuple):
    """A part of rows that several shards divide: row j is in slot (j * step) % slots, and these are [first, stop)."""

    first: int
    stop: int
    slots: int
    step: int = 1

    def position(self, index: int) -> int:
        """The position among all rows of row `index` of the share."""
        turns, place = divmod(index, self.stop - self.first)
        return turns * self.slots + int(self._turn()[place])

    def count(self, rows: int) -> int:
        """The number of rows of the share among the first `rows` rows."""
        turns, rest = divmod(rows, self.slots)
        if self._has_one_slot:
            return turns + (rest > self._row_of(self.first))
        return turns * (self.stop - self.first) + int(np.searchsorted(self._turn(), rest))

    def places(self, start: int, count: int) -> Indices:
        """The places of the share among `count` rows from row `start` on."""
        if self._has_one_slot:
            return range((self._row_of(self.first) - start) % self.slots, count, self.slots)
        slots = np.arange(start, start + count) % self.slots * self.step % self.slots
        return np.flatnonzero((slots >= self.first) & (slots < self.stop))

    def _turn(self) -> npt.NDArray[np.int64]:
        """The places of the share among each `slots` rows, in order."""
        return np.sort(self._row_of(np.arange(self.first, self.stop)))

    def _row_of(self, slot: N) -> N:
        """The place of a slot among each `slots` rows."""
        return slot * pow(self.step, -1, self.slots) % self.slots

    @property
    def _has_one_slot(self) -> bool:
        # Most shares have one; their rows are evenly spaced, and counted for each block.
        return self.stop - self.first == 1


# Randomness


Key = npt.NDArray[np.uint64]


def generator(key: Key, position: int = 0) -> np.random.Generator:
    """The generator at `position` of the stream of `key` (Philox, a counter-based generator; Salmon et al., SC'11).

    Streams of two positions do not overlap before 2**128 draws.
    """
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, position, 0]))


class Generators:
    """The generators of one key at many positions. Resetting one object takes 3.5 microseconds, a new one takes 25."""

    def __init__(self, key: Key) -> None:
        self._generator = generator(key)
        self._bits = self._generator.bit_generator
        self._state = self._bits.state

    def at(self, position: int) -> np.random.Generator:
        self._state["state"]["counter"][2] = position
        self._bits.state = self._state
        return self._generator


def uniforms(key: Key, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each position of the stream of `key`, in 20 ns; not those that `generator` draws."""
    first, second = key
    bits = mixed(mixed(positions.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + first) + second)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA'14): a bijection that spreads each bit over all."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
