"""`History`: the last steps of an epoch. A framework that looks ahead saves an earlier one."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias, cast

from ..core.cursor import Json
from ..engine.skips import LostCounts
from ..errors import ArgumentError
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
    """The changes of the last steps. A step costs one small tuple; only a state of an earlier step takes work.

    Attributes:
        add: keeps the change of one more step.
    """

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
