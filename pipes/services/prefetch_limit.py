"""`PrefetchLimit`: how many finished elements a worker keeps ready."""

from __future__ import annotations


class PrefetchLimit:
    """Counts the elements that the consumer has not taken yet, and limits them.

    Two are enough if elements are produced as evenly as they are consumed. A windowed shuffle, however, produces many
    at once and then none for a while: if its worker waits for the consumer, the consumer soon waits for the worker. So
    the limit doubles whenever the consumer has taken all elements although the worker had reached the limit.

    Args:
        prefetch: a fixed limit, or None to adapt it.

    Attributes:
        waiting: elements that the consumer has not taken yet.
    """

    MIN_ELEMENTS, MAX_ELEMENTS = 2, 64
    MAX_BYTES = 2**25
    """More bytes do not pay: the elements would no longer fit into the processor's cache."""

    def __init__(self, prefetch: int | None) -> None:
        self.waiting = 0
        self._limit = prefetch or self.MIN_ELEMENTS
        self._adapts = prefetch is None
        self._was_full = False
        self._largest_bytes = 0

    def is_full(self) -> bool:
        """Whether the worker has to wait for the consumer."""
        return self.waiting >= self._limit

    def add(self, nbytes: int) -> None:
        """Counts one finished element."""
        self.waiting += 1
        self._largest_bytes = max(self._largest_bytes, nbytes)
        self._was_full |= self.is_full()

    def remove(self, count: int) -> None:
        """Counts elements that the consumer has taken."""
        self.waiting -= count
        if self._adapts and self._was_full and not self.waiting:
            doubled = min(2 * self._limit, self.MAX_ELEMENTS)
            if doubled * self._largest_bytes <= self.MAX_BYTES:
                self._limit = doubled
            self._was_full = False
