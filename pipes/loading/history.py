"""`History`: the last steps of an epoch, so that a framework that looks ahead can save an earlier one."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from ..core.cursor import Json
from ..errors import ArgumentError, with_call_site
from .state import Progress

KEPT_STEPS = 64
"""The number of steps before the current one that a loader can still save."""

Change: TypeAlias = tuple[Progress, int, Json, int]
"""What a step changes: the progress, the shard of the element, the cursor of that shard before, and how many shards had
ended before."""


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
        _, shard, cursor, _ = self._changes[-1]
        return shard, cursor

    def back(self, progress: Progress, steps: int) -> Progress:
        """`progress` as it was `steps` steps ago."""
        changed = progress
        earlier = progress.copy()
        for _, change in zip(range(steps), reversed(self._changes), strict=False):
            owner, shard, cursor, ended = change
            if owner is not changed:  # a later pass over the data began with a progress of its own
                changed = owner
                earlier = owner.copy()
            earlier.step -= 1
            earlier.taken -= 1
            if cursor is None:
                earlier.cursors.pop(shard, None)
            else:
                earlier.cursors[shard] = cursor
            while len(earlier.ended) > ended:
                earlier.ended.popitem()
        return earlier


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
