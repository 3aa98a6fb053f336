"""`skipped`: where a rank stands after elements that nobody reads."""

from __future__ import annotations

from dataclasses import replace

from ..errors import LoaderError
from .schedule import Schedule
from .state import Progress


def skipped(progress: Progress, count: int, schedule: Schedule) -> Progress:
    """Where a rank stands after `count` further elements, or after as many as lengths alone can tell.

    If rows may be skipped, or of a stream, these are none. The cursors of a stream also say which of its parts have
    been opened, so the elements must be read.

    Raises:
        LoaderError: the epoch has fewer elements.
    """
    last = schedule.end(progress).of_rank
    if last is not None and progress.step + count > last:
        raise too_many(count, last - progress.step)
    plan = schedule.plan
    if not schedule.ordered or not plan.indexed or progress.beyond or plan.unsharded.loses_elements:
        return progress
    if schedule.steps is not None:
        return schedule.next_pass(_moved(progress, count))
    left = (plan.length(plan.rank, progress.start, progress.data_epoch) or 0) - progress.taken
    return _moved(progress, max(0, min(count, left)))  # what is not left is padding


def too_many(count: int, left: int) -> LoaderError:
    return LoaderError(f"`skip({count})` goes beyond the end of the epoch, which has {left} elements left")


def _moved(progress: Progress, count: int) -> Progress:
    return replace(progress.copy(), step=progress.step + count, taken=progress.taken + count)
