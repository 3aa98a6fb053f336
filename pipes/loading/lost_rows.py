"""`LostCounter`: the skipped rows of an epoch, counted when the consumer comes to them."""

from __future__ import annotations

from ..core.block import row_count
from ..core.skips import Skipped
from ..engine.skips import LostCounts, LostLog
from ..plan.plan import Plan
from ..services.base import Step
from .history import Before, Passed
from .replay import ElementCursor, cursor_of_indexed, cursor_of_streamed
from .state import Progress


class LostCounter:
    """Counts the skipped rows of an epoch, when the consumer comes to them.

    A skipped row moves the progress as an element does, but it is no step. Rows that were skipped before an element
    count when that is taken.

    Args:
        log: of the policies; it counts and records.
    """

    def __init__(self, log: LostLog) -> None:
        self._log = log
        self._counts: LostCounts | None = None  # when the next element is taken
        self._passed: list[Passed] = []  # the rows skipped before the next element

    def take_apart(self, step: Step, progress: Progress, plan: Plan, fingerprint: str) -> Step | None:
        """The step of a plan without the rows that were skipped before it; None if it is such a row alone."""
        skipped = step.element
        if not isinstance(skipped, Skipped):
            return step

        def cursor() -> ElementCursor:
            if plan.indexed:
                return cursor_of_indexed(plan, fingerprint, progress)
            return cursor_of_streamed(plan, fingerprint, progress, step.shard, progress.cursors.get(step.shard))

        counts = self._log.add(skipped.skips, self._counts or progress.skipped, cursor)
        if not skipped.is_row:
            self._counts = counts
            return step._replace(element=skipped.value)
        self._passed.append(Passed(step.shard, progress.cursors.get(step.shard), progress.skipped))
        progress.taken += 1
        progress.skipped = counts
        if not plan.indexed:
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
