"""`Course`: what the epochs of a loader have in common."""

from __future__ import annotations

import logging
from typing import Literal, TypeAlias

from ..errors import LoaderError, PlanError, PlanWarning, warn
from ..plan.plan import Plan
from .state import Progress, State, marks, save

Even: TypeAlias = Literal["drop", "pad", "error", "auto"] | None

log = logging.getLogger("feedpipe")


class Course:
    """A plan, how many steps its epochs have, and what their states say.

    Attributes:
        plan: what this rank runs.
        steps: how many steps make an epoch, where the user has said so.
        even: what makes all ranks take as many steps.
        ordered: whether the elements come in the order of the plan, so that there is a position to save.
    """

    def __init__(self, plan: Plan, steps: int | None, even: Even, *, ordered: bool) -> None:
        if steps is not None and plan.indexed and not ordered:
            raise PlanError(
                "with `steps` an epoch goes on where the last one stopped, and `ordered=False` leaves no such place in "
                "an indexed pipe; leave out one of them"
            )
        self.plan = plan
        self.steps = steps
        self.even = even
        self.ordered = ordered
        self.marks = marks(plan)
        self._told = False  # that elements are left out

    def state(self, progress: Progress) -> State:
        """The state that means `progress`.

        Raises:
            LoaderError: elements come in no order.
        """
        if not self.ordered:
            raise LoaderError(
                "`ordered=False` hands out elements as they come, so those that were taken are no position that a "
                "state could name; leave it out to save states"
            )
        return save(progress, self.plan, self.marks)

    def next_epoch(self, progress: Progress) -> Progress:
        """The beginning of the epoch after that of `progress`."""
        return progress.next_epoch(by_steps=self.steps is not None)

    def goal(self, progress: Progress) -> int | None:
        """The step at which the epoch of `progress` ends, where that is known.

        Raises:
            PlanError: the ranks cannot be made even in the way asked for.
        """
        if self.steps is not None:
            return self.steps
        plan = self.plan
        before = progress.step - progress.taken if plan.indexed else 0
        if plan.world_size == 1 or self.even is None:
            own = plan.length(plan.rank, progress.start, progress.lap)
            return None if own is None else before + own
        lengths = [plan.length(rank, progress.start, progress.lap) for rank in range(plan.world_size)]
        known = [length for length in lengths if length is not None]
        if len(known) < len(lengths):
            raise PlanError(
                f"the length of this pipe is not known, so its {plan.world_size} ranks cannot be made even; give "
                "`steps=`, or `even=None` if your training loop can stand ranks of different length"
            )
        if progress.start == 0:  # else the epoch was begun by other ranks: what is left of it is as it is
            self._check(known)
        return before + (max(known) if self.even == "pad" else min(known))

    def _check(self, lengths: list[int]) -> None:
        least, most = min(lengths), max(lengths)
        if least == most:
            return
        dropped = sum(lengths) - least * len(lengths)
        said = f"{dropped} of {sum(lengths)} elements are left out of an epoch, to make {len(lengths)} ranks even"
        if self.even == "error":
            raise PlanError(
                f"the ranks have between {least} and {most} elements, and `even` is 'error'; choose a size of batches "
                'that gives all as many, or "drop" or "pad"'
            )
        if least == 0 and self.even == "pad":
            raise PlanError("a rank has no element at all that it could repeat as padding; use fewer ranks")
        if least == 0:
            raise PlanError(f"a rank has no element at all, so {said}; use fewer ranks")
        if self.even == "pad" or self._told:
            return
        self._told = True
        if dropped > 0.01 * sum(lengths):
            warn(said, PlanWarning)
        else:
            log.info(said)
