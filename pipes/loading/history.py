"""What an epoch has passed: `History` keeps its last steps, `LostCounter` counts the rows that were skipped."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias, cast

from ..core.block import row_count
from ..core.cursor import Json
from ..core.skips import Skipped
from ..engine.skips import LostCounts, LostLog
from ..errors import ArgumentError
from ..services.base import Step
from .replay import ElementCursor, cursor_of
from .schedule import Schedule
from .state import Progress

KEPT_STEPS = 64
"""The number of steps before the current one that a loader can still save."""


class Passed(NamedTuple):
    """A skipped row: its shard, with the cursor before it, and the numbers of rows skipped before."""

    shard: int
    cursor: Json
    skipped: LostCounts


class Before(NamedTuple):
    """The place before a step of an epoch that may skip rows.

    Attributes:
        taken: the elements and skipped rows of the pass before the step.
        skipped: the numbers of rows that had been skipped before it.
        passed: the rows skipped since the last step.
    """

    taken: int
    skipped: LostCounts
    passed: tuple[Passed, ...]


Change: TypeAlias = tuple[Progress, int, Json, int, Before | None]
"""A step: the progress that it changes; the shard of the element, and its cursor before; the number of shards that had
ended before; and the rows that were skipped."""


class History:
    """The changes of the last steps. A step costs one small tuple; only a state of an earlier step takes work."""

    def __init__(self) -> None:
        self._changes: deque[Change] = deque(maxlen=KEPT_STEPS)
        self.add = self._changes.append

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def last_place(self) -> tuple[int, Json]:
        """The shard of the last element, and the plain cursor of that shard before it."""
        _, shard, cursor, _, _ = self._changes[-1]
        return shard, cursor

    def back(self, progress: Progress, steps: int) -> Progress:
        """`progress` as it was `steps` steps ago."""
        changed = progress
        earlier = progress.copy()
        for _, change in zip(range(steps), reversed(self._changes), strict=False):
            owner, shard, cursor, ended, before = change
            if owner is not changed:  # a later pass over the data began with a progress of its own
                changed = owner
                earlier = owner.copy()
            earlier.step -= 1
            earlier.taken -= 1
            after = earlier.cursors.get(shard)
            if after is not cursor and len(cast("list[Json]", after)) > 3:  # padding has moved no shard
                earlier.rows -= cast("list[int]", after)[3]
            _set(earlier, shard, cursor)
            if before is not None:
                earlier.taken, earlier.skipped = before.taken, before.skipped
                for passed in reversed(before.passed):
                    _set(earlier, passed.shard, passed.cursor)
                    earlier.taken, earlier.skipped = earlier.taken - 1, passed.skipped
            while len(earlier.ended) > ended:
                earlier.ended.popitem()
        return earlier


def _set(progress: Progress, shard: int, cursor: Json) -> None:
    if cursor is None:
        progress.cursors.pop(shard, None)
    else:
        progress.cursors[shard] = cursor


def check_kept(step: int, kept: range) -> None:
    """Raises an `ArgumentError` if `step` is none of the steps whose positions are `kept`."""
    if step not in kept:
        steps = f"from {kept[0]} to {kept[-1]}" if len(kept) > 1 else f"{kept[0]}"
        raise ArgumentError(
            f"`step` must be {steps} but got: {step}; a loader keeps the last {KEPT_STEPS} steps that it has given "
            "in an epoch"
        )


class LostCounter:
    """Counts the skipped rows of an epoch, when the consumer comes to them.

    A skipped row moves the progress as an element does, but it is no step. Rows that were skipped before an element
    count when that is taken.
    """

    def __init__(self, log: LostLog) -> None:
        self._log = log
        self._counts: LostCounts | None = None  # when the next element is taken
        self._passed: list[Passed] = []  # the rows skipped before the next element

    def take_apart(self, step: Step, progress: Progress, schedule: Schedule) -> Step | None:
        """The step of a plan without the rows that were skipped before it; None if it is such a row alone."""
        skipped = step.element
        if not isinstance(skipped, Skipped):
            return step

        def cursor() -> ElementCursor:
            return cursor_of(schedule, progress, step.shard, progress.cursors.get(step.shard))

        counts = self._log.add(skipped.skips, self._counts or progress.skipped, cursor)
        if not skipped.is_row:
            self._counts = counts
            return step._replace(element=skipped.value)
        self._passed.append(Passed(step.shard, progress.cursors.get(step.shard), progress.skipped))
        progress.taken += 1
        progress.skipped = counts
        if not schedule.plan.indexed:
            progress.own_cursors()[step.shard] = step.cursor
        return None

    def before(self, progress: Progress) -> Before:
        """The place before the next step."""
        passed, self._passed = tuple(self._passed), []
        return Before(progress.taken, progress.skipped, passed)

    def count(self, element: object, progress: Progress) -> None:
        """Counts an element that was taken, and the rows skipped before it."""
        counts, self._counts = self._counts or progress.skipped, None
        if self._log.counts_rows:
            counts = counts._replace(rows=counts.rows + row_count(element))
        progress.skipped = counts

    def report(self, progress: Progress) -> None:
        """Logs the numbers of skipped rows at the end of an epoch."""
        self._log.report(progress.skipped, f"epoch {progress.epoch}")


def element_of(step: Step) -> Step | None:
    """The step without the rows that were skipped before it, if nobody counts them."""
    if not isinstance(step.element, Skipped):
        return step
    return None if step.element.is_row else step._replace(element=step.element.value)
