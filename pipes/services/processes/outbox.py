"""`Outbox`: what a worker has made and not sent yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from ...core.cursor import Json
from ...errors import LimitError
from ..prefetch_limit import PrefetchLimit
from ..transport.arena import PAGE_BYTES, Arena
from ..transport.channel import Channel
from ..transport.packing import PackedElement
from .protocol import MAX_COPIED_BYTES, ArenaPlace, ItemHead, ItemKind

MAX_BURST_ITEMS = 32
MAX_BURST_BYTES = 1 << 18
MAX_BURST_SECONDS = 0.001
"""A burst is sent with the first item that reaches one of these."""


class Outbox:
    """Sends items in bursts, because a message costs about as much as a small element.

    The caller of `add` calls `flush` before anything that may take long, so that no finished element waits for it. An
    item is copied at once, so the next one may use the same memory.

    Args:
        channel: to the owner.
        arena: memory that is shared with the owner, if there is any.
        limit: counts the elements.
        wait: waits for memory that the owner frees; it returns False if that may never come.
    """

    def __init__(self, channel: Channel, arena: Arena | None, limit: PrefetchLimit, wait: Callable[[], bool]) -> None:
        self._channel = channel
        self._arena = arena
        self._limit = limit
        self._wait = wait
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
        """Adds an item of a run, and sends the burst if it is large enough."""
        places: list[ArenaPlace] = []
        parts: list[bytes | memoryview] = []
        if packed is not None:
            sizes = packed.sizes
            nbytes = sum(sizes)
            if kind == "step":
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
        """Sends the burst, if there is one."""
        if not self._heads:
            return
        place, parts = None, self._parts
        size = sum(map(len, parts))
        if self._arena is not None and size >= PAGE_BYTES and (offsets := self._arena.reserve([size])) is not None:
            place = offsets[0], size
            self._arena.region(*place)[:] = b"".join(parts)
            parts = []
        run, heads = self._run, self._heads
        self._clear()
        self._channel.send(("items", run, place, heads), parts)

    def discard(self) -> None:
        """Drops the burst: its run has ended."""
        for _, _, _, places, _ in self._heads:
            for offset, _ in places:
                self._free(offset)
        self._clear()

    def _free(self, offset: int) -> None:
        assert self._arena is not None, "only an arena has places"
        self._arena.free(offset)

    def _write_regions(self, packed: PackedElement, sizes: Sequence[int]) -> list[ArenaPlace]:
        """Writes the regions of an element to the arena; returns their places, or none if they go with the burst.

        Args:
            packed: the element.
            sizes: the bytes of its regions.

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
