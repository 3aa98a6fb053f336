"""`skipped`: where a rank stands after elements that nobody reads."""

from __future__ import annotations

from dataclasses import replace

from ..core.cursor import Cursor
from ..errors import LoaderError
from ..plan.plan import Plan
from ..services.round_robin import turn_order
from .schedule import Schedule
from .state import Progress


def skipped(progress: Progress, count: int, schedule: Schedule) -> Progress:
    """Where a rank stands after `count` further elements, or after as many as lengths alone can tell.

    Of a streamed pipe these are the elements until the first of its shards ends.

    Raises:
        LoaderError: the epoch has fewer elements.
    """
    last = schedule.end(progress).of_rank
    if last is not None and progress.step + count > last:
        raise too_many(count, last - progress.step)
    if not schedule.ordered:
        return progress
    plan = schedule.plan
    if not plan.indexed:
        return _streamed(progress, count, plan)
    if schedule.steps is not None:
        return schedule.next_pass(_moved(progress, count))
    left = (plan.length(plan.rank, progress.start, progress.data_epoch) or 0) - progress.taken
    return _moved(progress, max(0, min(count, left)))  # what is not left is padding


def too_many(count: int, left: int) -> LoaderError:
    return LoaderError(f"`skip({count})` goes beyond the end of the epoch, which has {left} elements left")


def _moved(progress: Progress, count: int) -> Progress:
    return replace(progress.copy(), step=progress.step + count, taken=progress.taken + count)


def _streamed(progress: Progress, count: int, plan: Plan) -> Progress:
    cursors = {n: Cursor.of(progress.cursors.get(n)) for n in plan.rank_shards if n not in progress.ended}
    lengths = {} if plan.varies else {shard: plan.shard_stage(shard).length for shard in cursors}
    left = [length - cursors[shard].position for shard, length in lengths.items() if length is not None]
    if not left or len(left) < len(cursors):
        return progress
    count = min(count, min(left) * len(cursors))
    rounds, more = divmod(count, len(cursors))
    moved = _moved(progress, count)
    for turn, shard in enumerate(turn_order(cursors)):
        if steps := rounds + (turn < more):
            moved.cursors[shard] = cursors[shard].advance(steps).plain
    return moved
