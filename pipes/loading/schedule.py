"""`Schedule`: the plan and the length of all epochs of a loader."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from ..engine.run import position_count, unknown_length_reason, unknown_length_stage
from ..engine.stage import Stage
from ..errors import LoaderError, PlanError, PlanWarning, warn, with_call_site
from ..plan.items import Cut
from ..plan.plan import Plan
from .job import Standing
from .rank import Rank
from .state import Progress, Signature, State, save

Even: TypeAlias = Literal["drop", "pad", "error", "auto"] | None

MAX_DROPPED = 0.2
"""The share of elements that may be left out of an epoch to make ranks even."""

log = logging.getLogger("feedpipe")


class End(NamedTuple):
    """The steps at which an epoch ends, as far as they are known.

    Attributes:
        of_rank: this rank has no further element.
        of_all: no rank has a further element.
    """

    of_rank: int | None
    of_all: int | None


class Schedule:
    """A plan, how many steps its epochs have, and what their states have in common.

    Attributes:
        plan: what this rank runs.
        rank: the rank that it is for.
        steps: how many steps make an epoch, if the user set it.
        even: how all ranks come to take the same number of steps.
        ordered: whether elements come in the order of the plan; else there is no position to save.
        communicates: whether ranks can agree on what is not known beforehand.
        signature: the entries that all states of the plan have in common.
    """

    def __init__(self, plan: Plan, steps: int | None, even: Even, *, ordered: bool, communicates: bool = False) -> None:
        if steps is not None and plan.indexed and not ordered:
            raise PlanError(
                "with `steps` an epoch goes on where the last one stopped, and `ordered=False` leaves no such place in "
                "an indexed pipe; leave out one of them"
            )
        self.plan = plan
        self.rank = Rank(plan.rank, plan.world_size)
        self.steps = steps
        self.even: Even = even
        self.ordered = ordered
        self.communicates = communicates
        self.signature = Signature(plan)
        self._has_warned = False  # that elements are left out

    def state(self, progress: Progress) -> State:
        """The state of `progress`.

        Raises:
            LoaderError: elements come in no order.
        """
        if not self.ordered:
            raise LoaderError(
                "`ordered=False` hands out elements as they come, so a state cannot name those that were taken; leave "
                "out `ordered=False` to save states"
            )
        if self.steps is not None and self.plan.indexed:
            progress = self._at(progress, rank=0)
        return save(progress, self.plan, self.signature)

    def next_epoch(self, progress: Progress) -> Progress:
        """The beginning of the epoch after that of `progress`."""
        return progress.next_epoch(by_steps=self.steps is not None)

    def next_pass(self, progress: Progress) -> Progress:
        """Where this rank goes on, in the same epoch, when its part of a pass over the data is used up."""
        if self.plan.indexed:
            return self._at(progress, rank=self.plan.rank)
        return progress.next_data_epoch(self.plan.rank_shards)

    def end(self, progress: Progress, *, warns: bool = False) -> End:
        """Where the epoch of `progress` ends; `warns` says once if many elements are left out for that.

        Raises:
            PlanError: the ranks cannot be made even as `even` says.
        """
        if self.steps is not None:
            return End(self.steps, self.steps)
        if progress.goal is not None:
            return self._end(progress, [])
        if progress.cut is not None:
            self.check_cut(progress.cut)
            return self._end(progress, [])
        lengths = self._lengths(progress)
        if len(lengths) > 1:
            known = [length for length in lengths if length is not None]
            if len(known) < len(lengths) and not self.communicates:
                raise unknown_length_error(self.plan.unsharded, len(lengths))
            if (
                len(known) == len(lengths) and progress.start == 0
            ):  # else other ranks began the epoch: its rest need not be even
                self._check_even(known, warns=warns)
        return self._end(progress, lengths)

    def goal(self, step: int, left: Sequence[int] | None) -> int | None:
        """The step at which the epoch ends for this rank, if the ranks have so many elements left; None if unknown.

        For an epoch in which the number of ranks has changed: its plan does not say it.
        """
        if left is None or self.steps is not None:
            return None
        if self.even is None:
            return step + left[self.plan.rank]
        least, most = min(left), max(left)
        dropped = sum(left) - least * len(left)
        if self.even != "pad" and most - least > 1 and dropped > MAX_DROPPED * sum(left):
            warn(
                f"{dropped} of the {sum(left)} elements that are left of this epoch are left out, to make {len(left)} "
                "ranks even after their number has changed",
                PlanWarning,
            )
        return step + (most if self.even == "pad" else least)

    def after_end(self, progress: Progress) -> Progress:
        """`progress`, or the beginning of the next epoch if lengths show that no rank has an element of this one left.

        It runs nothing: if the length is not known, only a look for the next element can show the end.
        """
        if self.steps is not None:
            end = End(self.steps, self.steps)
        elif progress.goal is not None or progress.cut is not None:
            end = self._end(progress, [])
        else:
            end = self._end(progress, self._lengths(progress))
        over = progress.begun and end.of_all is not None and progress.step >= end.of_all
        return self.next_epoch(progress) if over else progress

    def agrees(self, end: End) -> bool:
        """Whether the ranks must agree, while they run, on where an epoch ends."""
        return end.of_rank is None and self.communicates and self.even is not None

    def standing(self, progress: Progress) -> Standing:
        """Where this rank begins an epoch, for a comparison with other ranks."""
        facts: dict[str, object] = {
            "`seed`": self.plan.seed,
            "`even`": self.even,
            "`steps`": self.steps,
            "the number of shards": self.plan.shards,
            "the epoch": progress.epoch,
        }
        if self.even is not None:
            facts["the step"] = progress.step
        if progress.cut is not None and self.steps is None:  # else ranks may be in different passes
            facts["the states from which it goes on"] = progress.cut.digest
        if self.plan.indexed:
            common = progress if self.steps is None else self._at(progress, rank=0)
            facts["the pass over the data"] = common.data_epoch
            facts["the elements that all ranks have taken"] = common.position(self.plan).start
        return Standing(str(self.signature.entries["pipe"]), facts)

    def check_cut(self, cut: Cut) -> None:
        """Checks that ranks can be made even whose shards were divided anew, if their lengths are not known.

        Raises:
            PlanError: they cannot.
        """
        if self.steps is None and self.even is not None and self.plan.world_size > 1 and not self.communicates:
            raise PlanError(
                f"the rest of this epoch was divided anew among {self.plan.world_size} ranks, so no rank knows how "
                "many elements the others have, and without a process group they cannot agree; give `even=None` or "
                f"`steps=`, or as many ranks as divide {cut.first}, or go on from the end of an epoch"
            )

    @property
    def ends_differ(self) -> bool:
        """Whether one rank may come to its end while others have elements left."""
        return self.steps is None and self.even is None and self.plan.world_size > 1

    def _lengths(self, progress: Progress) -> list[int | None]:
        """The lengths, from `progress.start` on, of all ranks that must be even; else that of this rank."""
        plan = self.plan
        ranks = [plan.rank] if plan.world_size == 1 or self.even is None else range(plan.world_size)
        return [plan.length(rank, progress.start, progress.data_epoch) for rank in ranks]

    def _end(self, progress: Progress, lengths: Sequence[int | None]) -> End:
        if progress.goal is not None:
            return End(progress.goal, None if self.ends_differ else progress.goal)
        if progress.cut is not None:
            return End(None, None)
        known = [length for length in lengths if length is not None]
        if len(known) < len(lengths):
            return End(None, None)
        before = progress.step - progress.taken if self.plan.indexed else 0
        of_rank = before + (max(known) if self.even == "pad" else min(known))
        if not self.ends_differ:
            return End(of_rank, of_rank)
        # The state of an indexed pipe serves all ranks, and the first rank has the most elements. That of a streamed
        # pipe belongs to its rank, and says nothing about others.
        first = self.plan.length(0, progress.start, progress.data_epoch) if self.plan.indexed else None
        return End(of_rank, None if first is None else before + first)

    def _at(self, progress: Progress, rank: int) -> Progress:
        """`progress` counted from the pass over the data in which `rank` takes its next element.

        If `steps` sets the length of an epoch, an indexed pipe is one sequence of all passes, and the ranks take its
        elements in turn. So ranks at the same step stand at the same place, also if a pass does not divide evenly.
        """
        length = position_count(self.plan.unsharded)
        if not length:
            return progress
        taken = progress.data_epoch * length + progress.position(self.plan).start
        data_epoch, index = divmod(taken + rank, length)
        return replace(progress, data_epoch=data_epoch, start=index - rank, taken=0)

    def _check_even(self, lengths: list[int], *, warns: bool) -> None:
        least, most, total = min(lengths), max(lengths), sum(lengths)
        if least == most:
            return
        dropped = total - least * len(lengths)
        message = f"{dropped} of {total} elements are left out of an epoch, to make {len(lengths)} ranks even"
        if self.even == "error":
            raise PlanError(
                f"the ranks have between {least} and {most} elements, and `even` is 'error'; choose a size of batches "
                'that gives the same number to all, or "drop" or "pad"'
            )
        if least == 0 and self.even == "pad":
            raise PlanError("a rank has no element at all that it could repeat as padding; use fewer ranks")
        if least == 0:
            raise PlanError(f"a rank has no element at all, so {message}; use fewer ranks")
        if self.even == "pad":
            return
        if most - least > 1 and dropped > MAX_DROPPED * total:  # else it is the remainder that every division has
            raise PlanError(
                f"{message}, because they have between {least} and {most}: the data is cut too unevenly; give files or "
                'row groups of similar size, or `even="pad"`, or `steps=`, or `even=None` if your training loop '
                "accepts ranks of different length"
            )
        if self._has_warned or not warns:
            return
        self._has_warned = True
        if dropped > 0.01 * total:
            warn(message, PlanWarning)
        else:
            log.info(message)


def unknown_length_error(stage: Stage, ranks: int) -> PlanError:
    """The error of ranks that cannot be made even; it names the operator whose length is not known."""
    unknown = unknown_length_stage(stage)
    message = (
        f"the length of this pipe is not known before a run{unknown_length_reason(stage)}, so its {ranks} ranks cannot "
        "be made even without a process group; call `init_process_group` before the first element, or "
        "give `steps=`, or `even=None` if your training loop accepts ranks of different length"
    )
    return PlanError(message if unknown is None else with_call_site(message, unknown.call_site))
