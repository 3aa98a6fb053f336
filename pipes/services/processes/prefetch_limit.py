"""How many finished elements a worker keeps ready."""

from __future__ import annotations


class Backlog:
    """The elements that the consumer has not taken.

    Two are enough while elements are made as evenly as they are taken. Where many come at once, of a shuffled window,
    say, and then none for long, a worker that waits for its consumer will be waited for soon. So whenever the consumer
    has taken all, though the worker had stood still before, twice as many may wait from then on.

    Args:
        prefetch: how many may wait, if the user has said so.

    Attributes:
        waiting: how many there are.
    """

    FIRST, MOST = 2, 64
    BYTES = 2**25
    """Beyond which more elements are not for the better: to have them ready, memory leaves the cache."""

    def __init__(self, prefetch: int | None) -> None:
        self.waiting = 0
        self._limit = prefetch or self.FIRST
        self._grows = prefetch is None
        self._stood = False
        self._bytes = 0  # of the largest

    def is_full(self) -> bool:
        """Whether no more is to be made now."""
        return self.waiting >= self._limit

    def made(self, nbytes: int) -> None:
        """One more waits."""
        self.waiting += 1
        self._bytes = max(self._bytes, nbytes)
        self._stood |= self.is_full()

    def took(self, count: int) -> None:
        """The consumer has taken so many."""
        self.waiting -= count
        if self._grows and self._stood and not self.waiting:
            more = min(2 * self._limit, self.MOST)
            if more * self._bytes <= self.BYTES:
                self._limit = more
            self._stood = False
