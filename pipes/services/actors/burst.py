"""A burst: several packed elements that travel to the consumer as one object of Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...core.cursor import Json
from ...core.times import Table
from ..transport.memory import ALIGNMENT
from ..transport.packing import PackedElement

MAX_BURST_BYTES = 1 << 20
MAX_BURST_ELEMENTS = 1024
MAX_BURST_SECONDS = 0.02

Kind: TypeAlias = Literal["step", "ended", "failed", "orphaned"]
"""An element, the end of a shard, an error that ends the run, or the end of the actor that dispatches."""
BurstHead: TypeAlias = tuple[Kind, int, Json, tuple[int, ...]]
"""Kind, shard, cursor (or the leftover's), and the bytes of each packed part. A tuple, because it is pickled often."""
Burst: TypeAlias = tuple[list[BurstHead], npt.NDArray[np.uint8], list[Table]]
"""The heads, the packed parts of all of them, each at a multiple of `ALIGNMENT`, and at times what was counted."""


class BurstItem(NamedTuple):
    """An item of a burst.

    Attributes:
        parts: the stream and the regions of what is packed; none if the item brings nothing.
    """

    kind: Kind
    shard: int
    cursor: Json
    parts: tuple[memoryview, ...]


class BurstWriter:
    """Collects the items of a burst. It copies an element at once, so that the next one may use the same memory."""

    def __init__(self) -> None:
        self._memory = np.empty(MAX_BURST_BYTES, np.uint8)  # serves all bursts: Ray copies a burst before the next one
        self.begin()

    def begin(self) -> None:
        """Begin the next burst."""
        self._target = self._memory
        self._end = 0
        self.heads: list[BurstHead] = []

    def add(self, kind: Kind, shard: int, cursor: Json, packed: PackedElement | None = None) -> bool:
        """Add an item; return whether it had room. An element larger than a burst is a burst of its own."""
        sizes = () if packed is None else packed.sizes
        places, end = _places(self._end, sizes)
        if end > len(self._target):
            if self.heads:
                return False
            self._target = np.empty(end, np.uint8)
        if packed is not None:
            memory = self._target.data
            memory[places[0] : places[0] + len(packed.stream)] = packed.stream
            for region, place in zip(packed.regions, places[1:], strict=True):
                region.write(memory[place : place + region.nbytes])
        self._end = end
        self.heads.append((kind, shard, cursor, sizes))
        return True

    def burst(self, tables: list[Table]) -> Burst:
        """The burst. It is valid until the next one begins."""
        return self.heads, self._target[: self._end], tables


def burst_items(burst: Burst) -> Iterator[BurstItem]:
    """The items of a burst; their parts are views of it."""
    heads, data, _ = burst
    memory = data.data
    end = 0
    for kind, shard, cursor, sizes in heads:
        places, end = _places(end, sizes)
        parts = tuple(memory[place : place + size] for place, size in zip(places, sizes, strict=True))
        yield BurstItem(kind, shard, cursor, parts)


def _places(end: int, sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where parts of these sizes begin, after `end`, and where the last one ends."""
    places: list[int] = []
    for size in sizes:
        places.append(-(-end // ALIGNMENT) * ALIGNMENT)
        end = places[-1] + size
    return places, end
