"""`AgreedItems`: the items of a rank up to a step at which all ranks end, if lengths are not known beforehand."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeGuard

from ..core.rank_texts import ranks_in_words
from ..core.row_bytes import nbytes
from ..core.signals import raised_by_signal_handler
from ..core.skipped import Skipped
from ..errors import PlanError, PlanWarning, warn
from ..services.base import ShardEnd, Step
from .job import Job
from .schedule import MAX_DROPPED, Even

if TYPE_CHECKING:
    from .job import Exchange

MAX_SEGMENT = 4096
"""The most steps that the ranks agree on at once."""
SEGMENT_SECONDS, SEGMENT_SECONDS_OF_RANK = 0.1, 0.001
"""Segments grow until they take so long, and so much longer for each rank: an exchange takes a hundredth of that."""

PARTS = 16
"""A segment is handed out in so many parts, and a part of the next one is made before each. Parts depend on the agreed
segment alone, so ranks that leave an epoch at one step have made the same exchanges."""

PADDING: Final = "padding"
"""Stands for a step of a rank that has no further element and repeats one."""

log = logging.getLogger("feedpipe")


class Supply(NamedTuple):
    """What a rank says of itself.

    Attributes:
        steps: the elements that it holds.
        ended: it has no further ones of its own.
        failed: to make the next one has failed.
    """

    steps: int
    ended: bool
    failed: bool

    @property
    def is_empty(self) -> bool:
        return self.ended and not self.steps


class _Other(NamedTuple):
    """An item that is no step: the end of a shard, or a row that was skipped.

    Attributes:
        steps: how many of this rank come before it.
    """

    steps: int
    item: Step | ShardEnd


class AgreedItems:
    """The items of a session, as many as all ranks have; with `even="pad"`, `PADDING` in place of those that lack.

    The ranks agree on *segments* of steps, each before its first step is handed out. So each rank holds a segment of
    elements that exist for certain; it makes the next segment while it hands out this one, and the ranks exchange the
    number of its elements while the training loop has control. Segments double while they take little time.

    Nothing that it does depends on time but the length of segments, and that changes neither elements nor their end.

    Args:
        items: those of this rank.
        job: the ranks.
        even: how they come to take the same number of steps.
        step: the step at which this rank stands.
        memory: bytes of elements to hold.
        segment: the steps of the first segment: as many as the last one of the epoch before had.

    Attributes:
        segment: the steps of the next segment, as far as this rank decides it.
    """

    def __init__(
        self, items: Iterator[Step | ShardEnd], job: Job, even: Even, step: int, memory: int, segment: int = 1
    ) -> None:
        self.segment = segment
        self._items = items
        self._job = job
        self._even = even
        self._step = step
        self._memory = memory
        self._fresh = step == 0  # a rank may have no element at all
        self._ready: deque[Step] = deque()
        self._others: deque[_Other] = deque()
        self._taken = 0  # elements of this rank that were handed out
        self._largest = 1  # bytes of an element
        self._began = time.monotonic()
        self._ended = False
        self._error: Exception | None = None
        self._exchange: Exchange | None = None

    def __iter__(self) -> Generator[Step | ShardEnd | Literal["padding"]]:
        ready, others = self._ready, self._others
        while agreed := self._agree():
            size = -(-agreed // PARTS)
            while agreed:
                part = min(agreed, size)
                missing = self.segment + agreed - len(ready)
                self._fill(-(-missing * part // agreed))
                agreed -= part
                self._step += part
                own = min(part, len(ready))
                if not agreed:
                    self._exchange = self._post(len(ready) - own)
                padding = part - own
                while own or (others and others[0].steps == self._taken):
                    run = min(own, others[0].steps - self._taken) if others else own
                    for _ in range(run):
                        yield ready.popleft()
                    own -= run
                    self._taken += run
                    if others and others[0].steps == self._taken:
                        yield others.popleft().item
                for _ in range(padding):
                    yield PADDING

    def _agree(self) -> int:
        """Agrees on the steps of the next segment; 0 if the epoch has no further one.

        Raises:
            PlanError: a rank has no element at all, or has fewer than another and must not.
            RankError: another rank has failed.
        """
        if self._exchange is None:
            self._fill(self.segment - len(self._ready))
            self._exchange = self._post(len(self._ready))
        supplies = [Supply(n, bool(ended), bool(failed)) for n, ended, failed in self._job.result(self._exchange)]
        self._exchange = None
        if self._fresh:
            self._check_first(supplies)
        agreed = agreed_steps(supplies, pad=self._even == "pad")
        if not agreed:
            self._stop(supplies)
        self._set_segment(len(supplies))
        self._fresh = False
        return agreed

    def _post(self, count: int) -> Exchange:
        """Tells the others that it holds so many elements behind the segment."""
        name = f"elements after step {self._step}"
        return self._job.exchange(name, count, self._ended, self._error is not None)

    def _fill(self, count: int) -> None:
        """Makes so many elements, as long as there are any."""
        if count <= 0 or self._ended or self._error is not None:
            return
        ready = self._ready
        try:
            for item in self._items:
                if not _is_step(item):
                    self._others.append(_Other(self._taken + len(ready), item))
                    continue
                ready.append(item)
                count -= 1
                if not count:
                    return
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            self._error = error
            return
        self._ended = True

    def _set_segment(self, ranks: int) -> None:
        """Doubles the segment while it takes little time, within the memory."""
        now = time.monotonic()
        seconds, self._began = now - self._began, now
        if self._ready:
            self._largest = max(self._largest, nbytes([self._ready[-1].element]))
        most = self._memory // self._largest // 2  # this segment and the next one are held
        limit = SEGMENT_SECONDS + ranks * SEGMENT_SECONDS_OF_RANK
        if seconds < limit:
            self.segment = min(2 * self.segment, MAX_SEGMENT)
        elif seconds > 4 * limit:
            self.segment //= 2
        self.segment = max(1, min(self.segment, most))

    def _check_first(self, supplies: Sequence[Supply]) -> None:
        empty = [rank for rank, supply in enumerate(supplies) if supply.is_empty]
        if empty and any(supply.steps for supply in supplies):
            raise PlanError(
                f"{ranks_in_words(empty)} of {len(supplies)} has no element at all, and others have some; use fewer "
                "ranks, or divide the data more finely"
            )

    def _stop(self, supplies: Sequence[Supply]) -> None:
        """Ends the epoch: some rank has nothing left."""
        for rank, supply in enumerate(supplies):
            if supply.failed and not supply.steps and rank != self._job.rank:
                self._job.hear_from(rank)
        if self._error is not None and not self._ready:
            raise self._error
        empty = [rank for rank, supply in enumerate(supplies) if supply.is_empty]
        others = max(supply.steps for supply in supplies)
        if others and self._even == "error":
            raise PlanError(
                f"the ranks have different numbers of elements, and `even` is 'error': {ranks_in_words(empty)} has "
                f'{self._step}, and another rank has more; use "drop" or "pad"'
            )
        if others:
            self._check_dropped(empty, [supply.steps for supply in supplies])

    def _check_dropped(self, empty: list[int], held: Sequence[int]) -> None:
        """Says how many elements are left out, at least: those that ranks hold.

        Raises:
            PlanError: they are too many.
        """
        end = f"the epoch ends after step {self._step}, where {ranks_in_words(empty)} has no more elements"
        dropped, total = sum(held), sum(held) + self._step * len(held)
        if max(held) > 1 and dropped > MAX_DROPPED * total:
            raise PlanError(
                f"{end}; at least {dropped} of {total} elements are left out, because the data is cut too unevenly; "
                'give files or row groups of similar size, or `even="pad"`, or `steps=`, or `even=None` if your '
                "training loop accepts ranks of different length"
            )
        message = f"{end}; at least {max(held)} of another rank are left out"
        if max(held) > 0.01 * self._step:
            warn(message, PlanWarning)
        else:
            log.info(message)


def _is_step(item: Step | ShardEnd) -> TypeGuard[Step]:
    """Whether the consumer gets an element; a row that was skipped is none."""
    return isinstance(item, Step) and not (isinstance(item.element, Skipped) and item.element.is_row)


def agreed_steps(supplies: Sequence[Supply], *, pad: bool) -> int:
    """The steps that all ranks can take; with `pad`, those whose elements have ended repeat some."""
    limits = [supply.steps for supply in supplies if not pad or supply.failed or not supply.ended]
    return min(limits) if limits else max(supply.steps for supply in supplies)
