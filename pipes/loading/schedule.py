"""`Schedule`: the plan, the lengths and the ends of the epochs of a loader, on which ranks may agree as they run."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from ..core.block import nbytes
from ..core.context import Context
from ..core.findings import Finding
from ..core.process import ranks_in_words
from ..core.skips import Skipped
from ..core.taken import Taken
from ..engine.run import position_count, unknown_length_reason, unknown_length_stage
from ..engine.stage import Stage
from ..errors import PlanError, PlanWarning, raised_by_signal_handler, warn
from ..plan.plan import Plan
from ..plan.rests import Redivision
from ..services.base import ShardEnd, Step
from .ledger import NO_NUMBERS, Numbers, RowsOfElements
from .ranks import Job, Rank, RankStart
from .state import Counted, Progress, Signature, State, save

if TYPE_CHECKING:
    from .ranks import Exchange

Even: TypeAlias = Literal["drop", "pad", "error", "auto"] | None

MAX_DROPPED = 0.2
"""The share of elements that may be left out of an epoch to make ranks even."""

log = logging.getLogger("feedpipe")


class Schedule:
    """A plan, the number of steps of its epochs, and the entries that their states have in common.

    Attributes:
        plan: the plan of this rank.
        rank: this rank.
        steps: the number of steps of an epoch, if the user set it.
        even: the way in which all ranks come to take the same number of steps.
        communicates: ranks can agree on the end of an epoch whose length is not known.
        signature: the entries that all states of the plan have in common.
    """

    def __init__(self, plan: Plan, steps: int | None, even: Even, *, communicates: bool = False) -> None:
        self.plan = plan
        self.rank = Rank(plan.rank, plan.world_size)
        self.steps = steps
        self.even: Even = even
        self.communicates = communicates
        self.signature = Signature(plan)
        self._rows_of_elements: dict[tuple[int, str | None], RowsOfElements] = {}
        # A later place than that of a progress at which the numbers of the ledger are known.
        self._counted: tuple[tuple[object, ...], Counted] = (), Counted(0, Taken(), None, 0, 0)
        self._has_warned = False  # that elements are left out

    def state(self, progress: Progress) -> State:
        """The state of `progress`."""
        numbers = self.numbers(progress)
        if self.steps is not None and self.plan.indexed:
            progress = self._at(progress, rank=0)
        return save(progress, self.plan, self.signature, numbers)

    def next_epoch(self, progress: Progress) -> Progress:
        """The beginning of the epoch after that of `progress`."""
        if self.steps is not None:
            return progress.next_epoch(by_steps=True)
        return self._with_all(progress.next_epoch(by_steps=False), progress)

    def at_epoch(self, epoch: int, progress: Progress) -> Progress:
        """The beginning of an epoch that the user has chosen, for a loader that leaves `progress`."""
        return self._with_all(Progress(epoch, 0, epoch), progress)

    def _with_all(self, following: Progress, progress: Progress) -> Progress:
        """A place in another pass, with the numbers of the ledger at `progress`."""
        numbers = self.numbers(progress)
        following.rows_before, following.accounts = numbers.of_pass + numbers.before, progress.accounts
        return following

    def numbers(self, progress: Progress) -> Numbers:
        """The numbers of the ledger; of an indexed pipe, those of all ranks."""
        plan = self.plan
        accounts = progress.accounts or plan.accounts
        if not accounts:
            return NO_NUMBERS
        if not (plan.indexed and plan.accounts):
            return Numbers(accounts, progress.rows, progress.rows_before)
        here, data_pass = progress.elements(plan), progress.data_pass
        place = progress.data_pass, progress.start, progress.beyond, progress.redivision, progress.counted
        begin = *place, progress.rows, progress.rows_before
        known, last = self._counted
        if known != begin:
            last = progress.counted or _anchor(progress)
        if self.steps is not None:  # the ranks take elements of a sequence of all passes in turn
            first = progress.counted or _anchor(progress)
            data_pass, here = self._in_pass(data_pass, here, progress.redivision, (first.data_pass, first.redivision))
            last = last if last.data_pass <= data_pass else first
        number, taken, redivision, rows, before = last
        while number < data_pass:
            elements = self._elements(number, redivision)
            before += rows + elements.between(taken, Taken(elements.length))
            number, taken, redivision, rows = number + 1, Taken(), None, 0
        rows += self._elements(number, redivision).between(taken, here)
        if data_pass == progress.data_pass:
            self._counted = begin, Counted(data_pass, here, redivision, rows, before)
        return Numbers(accounts, rows, before)

    def _in_pass(
        self, data_pass: int, here: Taken, redivision: Redivision | None, counted: tuple[int, Redivision | None]
    ) -> tuple[int, Taken]:
        """The place of a job at which the ranks may be in two passes: the pass of the first rank."""
        if here.total < 0:
            before = counted[1] if counted[0] == data_pass - 1 else None
            return data_pass - 1, Taken(here.total + self._elements(data_pass - 1, before).length)
        while 0 < (length := self._elements(data_pass, redivision).length) <= here.total:
            data_pass, here, redivision = data_pass + 1, Taken(here.total - length), None
        return data_pass, here

    def _elements(self, data_pass: int, redivision: Redivision | None) -> RowsOfElements:
        """The rows of the elements of a pass."""
        key = data_pass, None if redivision is None else redivision.digest
        if key not in self._rows_of_elements:
            while len(self._rows_of_elements) > 1:
                del self._rows_of_elements[next(iter(self._rows_of_elements))]
            stage, context = self.plan.indexed_pass(redivision), Context(seed=self.plan.seed, epoch=data_pass)
            self._rows_of_elements[key] = RowsOfElements(stage, self.plan.accounts, context)
        return self._rows_of_elements[key]

    def next_pass(self, progress: Progress) -> Progress:
        """The place of this rank in the same epoch after its part of a pass over the data."""
        if self.plan.indexed:
            return self._at(progress, rank=self.plan.rank)
        return progress.next_data_pass()

    def end(self, progress: Progress, *, warns: bool = False) -> End:
        """The end of the epoch of `progress`; with `warns`, a warning says once that many elements are left out."""
        lengths = self._lengths(progress)
        if len(lengths) > 1:
            numbers = [length for length in lengths if length is not None]
            if len(numbers) < len(lengths) and not self.communicates:
                raise unknown_length_error(self.plan.unsharded, len(lengths))
            # The rest of an epoch that another number of ranks began need not be even.
            if len(numbers) == len(lengths) and progress.start == 0 and progress.redivision is None:
                self._check_even(numbers, warns=warns)
        return self._end(progress, lengths)

    def goal(self, step: int, left: Sequence[int] | None) -> int | None:
        """The step at which the epoch ends for this rank if the ranks have `left` elements; None if it is not known.

        An epoch needs it if the number of ranks has changed, because its plan does not say it.
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

    def fraction(self, progress: Progress, end: End) -> float | None:
        """The fraction of the epoch before `progress`, from 0 to 1; None if the epoch has no known end."""
        if end.of_rank is not None:
            return min(1.0, progress.step / end.of_rank) if end.of_rank else 1.0
        return self.plan.fraction_before(progress.position(self.plan), progress.data_pass)

    def after_end(self, progress: Progress) -> Progress:
        """`progress`, or the beginning of the next epoch if lengths show that no rank has an element of this one left.

        It runs nothing: if the length is not known, only a look for the next element can show the end.
        """
        end = self._end(progress, self._lengths(progress))
        over = progress.begun and end.of_all is not None and progress.step >= end.of_all
        return self.next_epoch(progress) if over else progress

    def agrees(self, end: End) -> bool:
        """Whether the ranks must agree on the end of an epoch as they run."""
        return end.of_rank is None and self.communicates and self.even is not None

    def epoch_start(self, progress: Progress) -> RankStart:
        """The place at which this rank begins an epoch, for a comparison with other ranks."""
        facts: dict[str, object] = {
            "`seed`": self.plan.seed,
            "`even`": self.even,
            "`steps`": self.steps,
            "the number of shards": self.plan.shards,
            "the epoch": progress.epoch,
        }
        if self.even is not None:
            facts["the step"] = progress.step
        if progress.redivision is not None and self.steps is None:  # else ranks may be in different passes
            facts["the states from which it goes on"] = progress.redivision.digest
        if self.plan.indexed:
            common = progress if self.steps is None else self._at(progress, rank=0)
            facts["the pass over the data"] = common.data_pass
            facts["the elements that all ranks have taken"] = common.taken_by_all(self.plan)
        return RankStart(str(self.signature.entries["pipe"]), facts)

    @property
    def ends_differ(self) -> bool:
        """Whether one rank may come to its end while others have elements left."""
        return self.steps is None and self.even is None and self.plan.world_size > 1

    def _lengths(self, progress: Progress) -> list[int | None]:
        """The lengths, from `progress.start` on, of all ranks that must be even; else that of this rank.

        There are none if they say nothing of the end of the epoch.
        """
        plan = self.plan
        is_cut = progress.redivision is not None and not plan.indexed
        if self.steps is not None or progress.goal is not None or is_cut:
            return []
        ranks = [plan.rank] if plan.world_size == 1 or self.even is None else range(plan.world_size)
        return [plan.length(rank, progress.start, progress.data_pass, progress.redivision) for rank in ranks]

    def _end(self, progress: Progress, lengths: Sequence[int | None]) -> End:
        if self.steps is not None:
            return End(self.steps, self.steps)
        if progress.goal is not None:
            return End(progress.goal, None if self.ends_differ else progress.goal)
        numbers = [length for length in lengths if length is not None]
        if not numbers or len(numbers) < len(lengths):
            return End(None, None)
        before = progress.step - progress.taken if self.plan.indexed else 0
        of_rank = before + (max(numbers) if self.even == "pad" else min(numbers))
        if not self.ends_differ:
            return End(of_rank, of_rank)
        # The state of an indexed pipe serves all ranks, and the first rank has the most elements. That of a streamed
        # pipe belongs to its rank, and says nothing about others.
        first = None
        if self.plan.indexed:
            first = self.plan.length(0, progress.start, progress.data_pass, progress.redivision)
        return End(of_rank, None if first is None else before + first)

    def _at(self, progress: Progress, rank: int) -> Progress:
        """`progress` counted from the pass over the data in which `rank` takes its next element.

        If `steps` sets the length of an epoch, an indexed pipe is one sequence of all passes, and the ranks take its
        elements in turn. So ranks at the same step are at the same place, even if a pass does not divide evenly.
        """
        plan, data_pass, taken = self.plan, progress.data_pass, progress.taken_by_all(self.plan)
        length = position_count(plan.unsharded)
        if not length:
            return progress
        redivision = progress.redivision
        progress = replace(progress, counted=progress.counted or _anchor(progress))
        if redivision is not None:
            left = position_count(plan.indexed_pass(redivision))
            if taken + rank < left:
                return replace(progress, start=taken, taken=0)
            data_pass, taken, redivision = data_pass + 1, taken - left, None
        data_pass, index = divmod(data_pass * length + taken + rank, length)
        return replace(progress, data_pass=data_pass, start=index - rank, taken=0, redivision=redivision)

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
            Finding("uneven-ranks", "warning", None, message, 'fp.Loader(pipe, even="pad")').warn()
        else:
            log.info(message)


def _anchor(progress: Progress) -> Counted:
    """The place at which the numbers of the ledger are known without a count."""
    taken = Taken(progress.start, progress.beyond)
    return Counted(progress.data_pass, taken, progress.redivision, progress.rows, progress.rows_before)


class End(NamedTuple):
    """The steps at which an epoch ends; None if they are not known.

    Attributes:
        of_rank: this rank has no further element.
        of_all: no rank has a further element.
    """

    of_rank: int | None
    of_all: int | None


def unknown_length_error(stage: Stage, ranks: int) -> PlanError:
    """The error of ranks that cannot be made even; it names the operator whose length is not known."""
    unknown = unknown_length_stage(stage)
    message = (
        f"the length of this pipe is not known before a run{unknown_length_reason(stage)}, so its {ranks} ranks cannot "
        "be made even without a process group; call `init_process_group` before the first element, or "
        "give `steps=`, or `even=None` if your training loop accepts ranks of different length"
    )
    return PlanError(message, at=None if unknown is None else unknown.call_site)


# The agreement of ranks on the end of an epoch of unknown length


MAX_SEGMENT = 4096
"""The most steps that the ranks agree on at once."""
SEGMENT_SECONDS, SEGMENT_SECONDS_OF_RANK = 0.1, 0.001
"""Segments grow until they take this long, with an addition for each rank: an exchange takes a hundredth of that."""

PARTS = 16
"""The parts of a segment; before each, a part of the next segment is made. Parts depend on the agreed segment alone, so
ranks that leave an epoch at one step have made the same exchanges."""

PADDING: Final = "padding"
"""A step of a rank that has no further element and repeats one."""


class AgreedItems:
    """The items of a run, as many as all ranks have; with `even="pad"`, `PADDING` for those that are missing.

    The ranks agree on *segments* of steps, each before its first step is given. So each rank holds a segment of
    elements that exist for certain. It makes the next segment as it gives this one, and the ranks exchange the number
    of its elements while the training loop has control. Segments double while they take little time.

    Only the length of segments depends on time, and it changes neither the elements nor their end.

    Args:
        items: those of this rank.
        job: the ranks.
        even: the way in which they come to take the same number of steps.
        step: the number of steps that this rank has taken.
        memory: bytes of elements to hold.
        segment: the steps of the first segment: those of the last one of the epoch before.

    Attributes:
        segment: the steps of the next segment that this rank proposes.
    """

    def __init__(
        self, items: Iterator[Step | ShardEnd], job: Job, even: Even, step: int, memory: int, segment: int = 1
    ) -> None:
        self.segment = segment
        self._items = items
        self._job = job
        self._even = even
        self._step = step
        self._memory = memory
        self._fresh = step == 0  # a rank may have no element at all
        self._ready: deque[Step] = deque()
        self._others: deque[tuple[int, Step | ShardEnd]] = deque()  # each with the steps of this rank before it
        self._taken = 0  # elements of this rank that the consumer has
        self._largest = 1  # bytes of an element
        self._began = time.monotonic()
        self._ended = False
        self._error: Exception | None = None
        self._exchange: Exchange | None = None

    def __iter__(self) -> Generator[Step | ShardEnd | Literal["padding"]]:
        ready, others = self._ready, self._others
        while agreed := self._agree():
            size = -(-agreed // PARTS)
            while agreed:
                part = min(agreed, size)
                missing = self.segment + agreed - len(ready)
                self._fill(-(-missing * part // agreed))
                agreed -= part
                self._step += part
                own = min(part, len(ready))
                if not agreed:
                    self._exchange = self._post(len(ready) - own)
                padding = part - own
                while own or (others and others[0][0] == self._taken):
                    run = min(own, others[0][0] - self._taken) if others else own
                    for _ in range(run):
                        yield ready.popleft()
                    own -= run
                    self._taken += run
                    if others and others[0][0] == self._taken:
                        yield others.popleft()[1]
                for _ in range(padding):
                    yield PADDING

    def _agree(self) -> int:
        """Agrees on the steps of the next segment; 0 if the epoch has no further one."""
        if self._exchange is None:
            self._fill(self.segment - len(self._ready))
            self._exchange = self._post(len(self._ready))
        supplies = [Supply(n, bool(ended), bool(failed)) for n, ended, failed in self._job.result(self._exchange)]
        self._exchange = None
        if self._fresh:
            self._check_first(supplies)
        agreed = agreed_steps(supplies, pad=self._even == "pad")
        if not agreed:
            self._stop(supplies)
        self._set_segment(len(supplies))
        self._fresh = False
        return agreed

    def _post(self, count: int) -> Exchange:
        """Tells the others that it holds `count` elements after the segment."""
        name = f"elements after step {self._step}"
        return self._job.exchange(name, count, self._ended, self._error is not None)

    def _fill(self, count: int) -> None:
        """Makes `count` further elements, if there are as many."""
        if count <= 0 or self._ended or self._error is not None:
            return
        ready = self._ready
        try:
            for item in self._items:
                if not _is_step(item):
                    self._others.append((self._taken + len(ready), item))
                    continue
                ready.append(item)
                count -= 1
                if not count:
                    return
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            self._error = error
            return
        self._ended = True

    def _set_segment(self, ranks: int) -> None:
        """Doubles the segment while it takes little time, within the memory."""
        now = time.monotonic()
        seconds, self._began = now - self._began, now
        if self._ready:
            self._largest = max(self._largest, nbytes([self._ready[-1].element]))
        most = self._memory // self._largest // 2  # this segment and the next one are held
        limit = SEGMENT_SECONDS + ranks * SEGMENT_SECONDS_OF_RANK
        if seconds < limit:
            self.segment = min(2 * self.segment, MAX_SEGMENT)
        elif seconds > 4 * limit:
            self.segment //= 2
        self.segment = max(1, min(self.segment, most))

    def _check_first(self, supplies: Sequence[Supply]) -> None:
        empty = [rank for rank, supply in enumerate(supplies) if supply.is_empty]
        if empty and any(supply.steps for supply in supplies):
            raise PlanError(
                f"{ranks_in_words(empty)} of {len(supplies)} has no element at all, and others have some; use fewer "
                "ranks, or divide the data more finely"
            )

    def _stop(self, supplies: Sequence[Supply]) -> None:
        """Ends the epoch: some rank has nothing left."""
        for rank, supply in enumerate(supplies):
            if supply.failed and not supply.steps and rank != self._job.rank:
                self._job.hear_from(rank)
        if self._error is not None and not self._ready:
            raise self._error
        empty = [rank for rank, supply in enumerate(supplies) if supply.is_empty]
        others = max(supply.steps for supply in supplies)
        if others and self._even == "error":
            raise PlanError(
                f"the ranks have different numbers of elements, and `even` is 'error': {ranks_in_words(empty)} has "
                f'{self._step}, and another rank has more; use "drop" or "pad"'
            )
        if others:
            self._check_dropped(empty, [supply.steps for supply in supplies])

    def _check_dropped(self, empty: list[int], counts: Sequence[int]) -> None:
        """Reports the elements that are left out: at least those that ranks hold."""
        end = f"the epoch ends after step {self._step}, where {ranks_in_words(empty)} has no more elements"
        dropped, total = sum(counts), sum(counts) + self._step * len(counts)
        if max(counts) > 1 and dropped > MAX_DROPPED * total:
            raise PlanError(
                f"{end}; at least {dropped} of {total} elements are left out, because the data is cut too unevenly; "
                'give files or row groups of similar size, or `even="pad"`, or `steps=`, or `even=None` if your '
                "training loop accepts ranks of different length"
            )
        message = f"{end}; at least {max(counts)} of another rank are left out"
        if max(counts) > 0.01 * self._step:
            warn(message, PlanWarning)
        else:
            log.info(message)


class Supply(NamedTuple):
    """The message of a rank to the others.

    Attributes:
        steps: the number of elements that it holds.
        ended: it has no further ones of its own.
        failed: its next one has failed.
    """

    steps: int
    ended: bool
    failed: bool

    @property
    def is_empty(self) -> bool:
        return self.ended and not self.steps


def _is_step(item: Step | ShardEnd) -> TypeGuard[Step]:
    """Whether the consumer gets an element; a row that was skipped is none."""
    return isinstance(item, Step) and not (isinstance(item.element, Skipped) and item.element.is_row)


def agreed_steps(supplies: Sequence[Supply], *, pad: bool) -> int:
    """The steps that all ranks can take; with `pad`, those whose elements have ended repeat some."""
    limits = [supply.steps for supply in supplies if not pad or supply.failed or not supply.ended]
    return min(limits) if limits else max(supply.steps for supply in supplies)
