"""`Schedule`: the plan and the length of all epochs of a loader."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal, TypeAlias

from ..errors import LoaderError, PlanError, PlanWarning, warn
from ..plan.plan import Plan
from .state import Progress, Signature, State, save

Even: TypeAlias = Literal["drop", "pad", "error", "auto"] | None

log = logging.getLogger("feedpipe")


class Schedule:
    """A plan, how many steps its epochs have, and what their states have in common.

    Attributes:
        plan: what this rank runs.
        steps: how many steps make an epoch, if the user set it.
        even: how all ranks come to take the same number of steps.
        ordered: whether elements come in the order of the plan; else there is no position to save.
        signature: the entries that all states of the plan have in common.
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
        return save(progress, self.plan, self.signature)

    def next_epoch(self, progress: Progress) -> Progress:
        """The beginning of the epoch after that of `progress`."""
        return progress.next_epoch(by_steps=self.steps is not None)

    def goal(self, progress: Progress) -> int | None:
        """The step at which the epoch of `progress` ends, if that is known.

        Raises:
            PlanError: the ranks cannot be made even as `even` says.
        """
        if self.steps is not None:
            return self.steps
        lengths = self._lengths(progress)
        if len(lengths) > 1:
            known = [length for length in lengths if length is not None]
            if len(known) < len(lengths):
                raise PlanError(
                    f"the length of this pipe is not known, so its {len(lengths)} ranks cannot be made even; give "
                    "`steps=`, or `even=None` if your training loop accepts ranks of different length"
                )
            if progress.start == 0:  # else other ranks began the epoch: its rest need not be even
                self._check_even(known)
        return self._last_step(progress, lengths)

    def after_end(self, progress: Progress) -> Progress:
        """`progress`, or the beginning of the next epoch if lengths show that no element of this one is left.

        It runs nothing: if the length is not known, only a look for the next element can show the end.
        """
        goal = self.steps if self.steps is not None else self._last_step(progress, self._lengths(progress))
        return self.next_epoch(progress) if progress.begun and goal is not None and progress.step >= goal else progress

    def _lengths(self, progress: Progress) -> list[int | None]:
        """The lengths, from `progress.start` on, of all ranks that must be even; else that of this rank."""
        plan = self.plan
        ranks = [plan.rank] if plan.world_size == 1 or self.even is None else range(plan.world_size)
        return [plan.length(rank, progress.start, progress.data_epoch) for rank in ranks]

    def _last_step(self, progress: Progress, lengths: Sequence[int | None]) -> int | None:
        known = [length for length in lengths if length is not None]
        if len(known) < len(lengths):
            return None
        before = progress.step - progress.taken if self.plan.indexed else 0
        return before + (max(known) if self.even == "pad" else min(known))

    def _check_even(self, lengths: list[int]) -> None:
        least, most = min(lengths), max(lengths)
        if least == most:
            return
        dropped = sum(lengths) - least * len(lengths)
        message = f"{dropped} of {sum(lengths)} elements are left out of an epoch, to make {len(lengths)} ranks even"
        if self.even == "error":
            raise PlanError(
                f"the ranks have between {least} and {most} elements, and `even` is 'error'; choose a size of batches "
                'that gives the same number to all, or "drop" or "pad"'
            )
        if least == 0 and self.even == "pad":
            raise PlanError("a rank has no element at all that it could repeat as padding; use fewer ranks")
        if least == 0:
            raise PlanError(f"a rank has no element at all, so {message}; use fewer ranks")
        if self.even == "pad" or self._has_warned:
            return
        self._has_warned = True
        if dropped > 0.01 * sum(lengths):
            warn(message, PlanWarning)
        else:
            log.info(message)
