"""Rules that look at the plan alone."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.findings import Finding
from ...engine.run import unknown_length_reason
from ...errors import PlanError
from ...loading.schedule import Schedule
from ...loading.state import Progress
from ...ops.mix import fixed_weights
from ...plan import findings
from .checked_pipe import CheckedPipe


def read_again(view: CheckedPipe) -> Iterator[Finding]:
    """Inputs of which several processes read the same."""
    return findings.read_again(view.plan, view.workers)


def other_rows(view: CheckedPipe) -> Iterator[Finding]:
    """Slices of rows that are shuffled again in each epoch."""
    return findings.other_rows(view.plan)


def weights_of_epochs(view: CheckedPipe) -> Iterator[Finding]:
    """Weights that are a function of the epoch, over inputs that begin again in each."""
    return fixed_weights(view.root, by_steps=False)


def uneven_ranks(view: CheckedPipe) -> Iterator[Finding]:
    """Ranks whose numbers of elements are so different that a loader refuses them; it warns of less by itself."""
    schedule = Schedule(view.plan, None, "auto", ordered=True, communicates=True)
    try:
        schedule.end(Progress(), warns=True)
    except PlanError as error:
        yield Finding("uneven-ranks", "error", None, " ".join(str(error).split()), "fp.Loader(pipe, even=None)")


def no_length(view: CheckedPipe) -> Iterator[Finding]:
    """Ranks whose numbers of elements only a run can tell."""
    plan = view.plan
    if plan.world_size > 1 and plan.length(0) is None:
        reason = unknown_length_reason(plan.unsharded)
        text = (
            f"the {plan.world_size} ranks do not know their numbers of elements before a run{reason}, so they must ask "
            "each other before each step, and need a process group; `steps=` needs neither"
        )
        yield Finding("no-length", "hint", None, text, "fp.Loader(pipe, steps=1000)")
