"""`SkipCounter`: counts the rows of an epoch that were skipped, when the consumer comes to them."""

from __future__ import annotations

from ..core.row_bytes import row_count
from ..core.skipped import Skipped
from ..engine.skip_log import SkipCounts, SkipLog
from ..plan.plan import Plan
from ..services.base import Step
from .history import Before, Passed
from .replay import ElementCursor, cursor_of_indexed, cursor_of_streamed
from .state import Progress


class SkipCounter:
    """What an epoch has that may skip rows.

    A row that was skipped moves the progress as an element does, but it is no step. Rows that stand before an element
    count when that is taken.

    Args:
        log: of the policies; it counts and records.
    """

    def __init__(self, log: SkipLog) -> None:
        self._log = log
        self._counts: SkipCounts | None = None  # when the next element is taken
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
            progress.cursors[step.shard] = step.cursor
        return None

    def before(self, progress: Progress) -> Before:
        """What the next step changes."""
        passed, self._passed = tuple(self._passed), []
        return Before(progress.taken, progress.skipped, passed)

    def count(self, element: object, progress: Progress) -> None:
        """Counts an element that was taken, and what was skipped before it."""
        counts, self._counts = self._counts or progress.skipped, None
        if self._log.counts_rows:
            counts = counts._replace(rows=counts.rows + row_count(element))
        progress.skipped = counts

    def report(self, progress: Progress) -> None:
        """Says how many rows an epoch has skipped, at its end."""
        self._log.report(progress.skipped, f"epoch {progress.epoch}")


def element_of(step: Step) -> Step | None:
    """The step without the rows that were skipped before it, if nobody counts them."""
    if not isinstance(step.element, Skipped):
        return step
    return None if step.element.is_row else step._replace(element=step.element.value)
