"""`History`: the last steps of an epoch, so that a framework that looks ahead can save an earlier one."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias

from ..core.cursor import Json
from ..engine.skip_log import SkipCounts
from ..errors import ArgumentError, with_call_site
from .state import Progress

KEPT_STEPS = 64
"""The number of steps before the current one that a loader can still save."""


class Passed(NamedTuple):
    """A skipped row: its shard, with the cursor before it, and how many rows had been skipped."""

    shard: int
    cursor: Json
    skipped: SkipCounts


class Before(NamedTuple):
    """What a step changes of an epoch that may skip rows.

    Attributes:
        taken: the elements and skipped rows of the pass before the step.
        skipped: how many rows had been skipped before it.
        passed: the rows skipped since the last step.
    """

    taken: int
    skipped: SkipCounts
    passed: tuple[Passed, ...]


Change: TypeAlias = tuple[Progress, int, Json, int, Before | None]
"""What a step changes: the progress, the shard of the element, the cursor of that shard before, how many shards had
ended before, and what was skipped."""


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
            with_call_site(
                f"`step` must be {steps} but got: {step}; a loader keeps the last {KEPT_STEPS} steps that it has given "
                "in an epoch"
            )
        )
