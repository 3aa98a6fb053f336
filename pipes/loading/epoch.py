"""`Epoch`: one iteration of a loader."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import row_shape
from ..core.ending import Ending
from ..core.times import EpochTimes, opening
from ..engine.run import ONE_THREAD, interrupted, is_executing
from ..errors import (
    DataError,
    FeedpipeError,
    LoaderError,
    PlanError,
    RowError,
    StateError,
    raise_interrupt,
    raised_by_signal_handler,
    shown_traceback,
)
from ..plan.plan import Position
from ..services.base import Session, ShardEnd, Step
from .epochs import Epochs
from .history import History, LostCounter, element_of
from .ranks import Job, on_rank
from .replay import Info, note_cursor
from .schedule import PADDING, AgreedItems, End, Schedule
from .state import Progress

if TYPE_CHECKING:
    from ..seeing.verdict import RankTimes

Request: TypeAlias = Literal["info", "peek"] | None
"""The next element (None), the same with its `Info`, or only a look at it."""
INFO: Final = "info"
PEEK: Final = "peek"
T_co = TypeVar("T_co", covariant=True)


class Epoch(Generic[T_co]):
    """One epoch of a loader.

    Nothing runs before the first element is asked for. After a failure, each `next` raises the same error.

    Attributes:
        run: its run; another one after `skip`.
        elements: a generator of its elements.
        iterated: a consumer iterates it; before that, `peek` may have looked at its first element.
    """

    def __init__(self, epochs: Epochs, progress: Progress, before: Epoch[T_co] | None = None) -> None:
        self.iterated = False
        follows = before is not None and before.run.finished and before.run.following() == progress
        self._start(LoaderRun(epochs, progress, history=before.run.history if before and follows else None))

    def _start(self, run: LoaderRun) -> None:
        self.run = run
        # A generator admits one thread at a time, so an element and its place in the state belong together.
        self.elements: Generator[Any, Request] = run.elements()
        next(self.elements)
        # The error that ends a run may lead to the loader, so only a generator that still runs refers to its run.
        self._ending = Ending(self, partial(_end, self.elements, weakref.ref(run)))

    def peek(self) -> T_co:
        """The next element, which stays the next."""
        try:
            return cast("T_co", self.ask(PEEK))
        except StopIteration:
            raise LoaderError("the epoch has no more elements to peek at") from None

    def skip(self, count: int) -> None:
        """Moves on as if the consumer had taken `count` elements."""
        target = self.run.progress.step + count
        run = self.run.skipping(count)
        if run.progress.step > self.run.progress.step:
            self.end("it goes on after skipped elements")
            self._start(run)
        try:
            while self.run.progress.step < target:
                self.ask(None)
        except StopIteration:
            raise too_many(count, count - target + self.run.progress.step) from None

    def look(self) -> None:
        """Looks for a next element; `next` will raise the error that this meets."""
        with contextlib.suppress(StopIteration, FeedpipeError):
            self.ask(PEEK)

    def ask(self, request: Request) -> object:
        """The next element, in the form that the consumer requests."""
        try:
            return self.elements.send(request)
        except StopIteration:  # the generator has ended
            self._ending()
            if request is not PEEK:
                self.run.element = _NOTHING
            if self.run.finished:
                raise  # the traceback of `stop` would refer to this frame, and so to `stop`
            stop = self.run.stop
        except (RowError, KeyboardInterrupt) as error:
            raise error.with_traceback(shown_traceback(error)) from error.__cause__
        except ValueError as error:
            if is_executing(error):
                raise LoaderError(ONE_THREAD) from None
            raise
        assert stop is not None, "a run that has ended knows why"
        raise stop.with_traceback(self.run.trace)  # without it, each `raise` would make the traceback longer

    def end(self, reason: str) -> None:
        """Ends the epoch early: each later `next` raises a `LoaderError` with this reason."""
        self.run.reason = reason
        self._ending()

    def leave(self) -> None:
        """Nobody iterates the epoch any more. If other ranks wait for it, it ends, and they learn of that."""
        self.run.end_times()
        if self.run.is_awaited:
            with contextlib.suppress(LoaderError):  # another thread looks for an element
                self.end("its iterator was dropped, so the other ranks do not wait for it")

    @property
    def over(self) -> bool:
        return self.run.stop is not None

    def at_end(self) -> bool:
        """Whether the element that was taken last is the last one. If lengths do not tell, it looks for another."""
        if self.run.end.of_rank is not None:
            return self.run.progress.step >= self.run.end.of_rank
        self.look()
        return self.run.finished


class LoaderIterator(Generic[T_co]):
    """The iterator of a loader: the elements of an epoch. If it is dropped, the loop has left the epoch."""

    def __init__(self, epoch: Epoch[T_co]) -> None:
        self._epoch = epoch
        self._elements = epoch.elements
        # The error of an epoch may lead to this iterator, so its ending does not hold the epoch.
        self._ending = Ending(self, partial(_leave, weakref.ref(epoch)))

    def __iter__(self) -> LoaderIterator[T_co]:
        return self

    def __next__(self) -> T_co:
        try:
            element: T_co = next(self._elements)  # `cast` would take as long as all that is done here
            return element
        except (StopIteration, ValueError):
            pass  # `ask` raises the right error
        except (RowError, KeyboardInterrupt) as error:
            raise error.with_traceback(shown_traceback(error)) from error.__cause__
        self._elements = self._epoch.elements  # others, if the loader has skipped some
        return cast("T_co", self._ask(None))

    def _ask(self, request: Request) -> object:
        try:
            return self._epoch.ask(request)
        except StopIteration:
            self._ending()  # there is nothing left to leave
            raise


class InfoIterator(LoaderIterator[T_co]):
    """The same with an `Info` for each element."""

    def __next__(self) -> Any:
        return self._ask(INFO)


def _leave(left: weakref.ref[Epoch[Any]]) -> None:
    if (epoch := left()) is not None:  # else its own ending tells the other ranks
        epoch.leave()


def _end(elements: Generator[Any, Request], run_of_epoch: weakref.ref[LoaderRun]) -> None:
    run = run_of_epoch()
    try:
        elements.close()
    except ValueError as error:
        if is_executing(error):
            raise LoaderError(ONE_THREAD) from None
        raise
    if run is not None:
        run.finish(LoaderError(run.reason))


# What an epoch has while it runs.
_NOTHING = object()


class LoaderRun:
    """A run of an epoch, from `progress` on.

    Attributes:
        progress: after the last element that the consumer took.
        history: the steps that led there, also those of earlier epochs.
        start_step: the step at which it began.
        end: the steps at which it ends.
        schedule: the schedule that it runs by.
        element: the one that the consumer took last.
        stop: the exception that ended it, which each later `next` raises; `trace` is its first traceback.
        reason: why it ends, if it ends early.
    """

    def __init__(
        self, epochs: Epochs, progress: Progress, start_step: int | None = None, history: History | None = None
    ) -> None:
        self.progress = progress.copy()
        self.history = History() if history is None else history
        self.start_step = progress.step if start_step is None else start_step
        self.end = End(None, None)
        self.schedule: Schedule | None = None
        self.element: object = _NOTHING
        self.stop: Exception | None = None
        self.trace: TracebackType | None = None
        self.reason = "this epoch was dropped"
        self._epochs = epochs
        self._job: Job | None = None  # the other ranks, if they communicate
        self._agreement: AgreedItems | None = None  # if the ranks agree on the end while they run
        self._padding = False
        self._padding_items: Iterator[Step | ShardEnd] = iter(())
        self._has_cursors = False  # an indexed pipe and padding need only the number of elements
        self._skips = None if epochs.lost_log is None else LostCounter(epochs.lost_log)
        self._session: Session | None = None
        self._items: Iterator[Step | ShardEnd | Literal["padding"]] = iter(())
        self._times: EpochTimes | None = None

    def elements(self) -> Generator[object, Request]:
        """The elements, each in the form that is requested, after a None.

        All of it runs in the generator, from the first look at the rank to the count of an element.
        """
        request: Request = yield None
        try:
            times = self._times = self._epochs.times.begin()
            step = self._first()
            in_range = _profiler_range()
            stamp = sys.maxsize if times is None or step is None else times.begin(self.progress.step + 1)
            while step is not None:
                while request is PEEK:
                    request = yield step.element
                progress = self.progress
                shard = step.shard
                before = None if self._skips is None else self._skips.before(progress)
                self.history.add((progress, shard, progress.cursors.get(shard), len(progress.ended), before))
                progress.step += 1
                progress.taken += 1
                if self._has_cursors:
                    if progress.lent:
                        progress.own_cursors()
                    progress.cursors[shard] = cursor = step.cursor
                    if len(cast("list[int]", cursor)) > 3:  # with its numbers of the ledger
                        progress.rows += cast("list[int]", cursor)[3]
                self.element = step.element
                if self._skips is not None and not self._padding:
                    self._skips.count(step.element, progress)
                if progress.step >= stamp:
                    stamp = cast("EpochTimes", times).stamp(progress.step)
                    in_range = _profiler_range()
                del step
                request = yield self.element if request is None else (self.element, self._info())
                if request is not PEEK:
                    self.element = _NOTHING  # the last reference here, before the next element is made
                step = self._next() if in_range is None else in_range(self._next)
            if self._job is not None:
                self._job.hear()  # the end of an epoch hides no failure
            if self._skips is not None:
                self._skips.report(self.progress)
        except GeneratorExit:
            if self._job is not None and self._agreement is not None:
                self._job.leave(self.progress.step)
            raise
        except BaseException as error:
            if isinstance(error, (DataError, RowError)) and self.schedule is not None:
                note_cursor(error, self.schedule, self.progress)
            if self._job is not None:
                self._job.fail(error)
            stop = error if isinstance(error, Exception) else interrupted(error)
            self.finish(stop if self.schedule is None else on_rank(stop, self.schedule.rank))
            raise_interrupt(error)
            raise
        self.finish(StopIteration())

    def finish(self, stop: Exception) -> None:
        if self.stop is None:
            self.stop, self.trace = stop, shown_traceback(stop)
            self.end_times()
            if self._agreement is not None:
                self._epochs.segment = self._agreement.segment
            if self.finished and self.schedule is not None:
                self._epochs.ended(self.schedule, self.progress)
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._times is not None:
            self._times.end()  # now no thread of the run is left

    def _rank_times(self) -> RankTimes:
        return self._epochs.rank_times(dict(self.progress.skipped.skipped))

    def note_step(self) -> None:
        """Notes the step for a report; most elements leave no note."""
        if self._times is not None:
            self._times.step = self.progress.step

    def end_times(self) -> None:
        """Nobody takes another element, or waits for one."""
        if self._times is not None:
            self.note_step()
            self._times.consumer.end()

    def position(self) -> Progress:
        """The progress; after the last element of all ranks, the beginning of the next epoch."""
        last = self.end.of_all
        over = (last is not None and self.progress.step >= last) or (self.stop is not None and self.finished)
        return self.next_epoch() if over else self.progress

    @property
    def finished(self) -> bool:
        """Whether the consumer, or a look ahead, has come to the end."""
        return isinstance(self.stop, StopIteration)

    @property
    def is_awaited(self) -> bool:
        """Whether other ranks may wait for its next element."""
        return self.stop is None and self._agreement is not None and self._job is not None and self._job.is_here

    def place(self) -> Progress:
        """The progress while the consumer has the element that it took last; else the position."""
        return self.progress if self.element is not _NOTHING else self.position()

    def following(self) -> Progress:
        """The place of a loader that leaves this epoch: in this one if it has given no element, else in the next."""
        return self.next_epoch() if self.started else self.position()

    @property
    def started(self) -> bool:
        """Whether it has given an element; else the loader has not left its place."""
        return self.progress.step > self.start_step

    @property
    def kept_steps(self) -> range:
        """The steps of the epoch whose positions it still has."""
        step = self.progress.step
        return range(max(self.start_step, step - len(self.history)), step + 1)

    def position_before(self, count: int) -> Progress:
        """The position before the last `count` elements, which may reach into the epoch before."""
        return self.history.back(self.progress, count) if count else self.position()

    def skipping(self, count: int) -> LoaderRun:
        """A run that begins after up to `count` further elements: as many as can be skipped by lengths alone."""
        schedule = self._epochs.schedule(self.progress)
        run = LoaderRun(self._epochs, skipped(self.progress, count, schedule), self.start_step)
        run.schedule, run.end = schedule, schedule.end(run.progress)
        return run

    def next_epoch(self) -> Progress:
        return self._schedule.next_epoch(self.progress)

    @property
    def valid(self) -> npt.NDArray[np.bool_] | None:
        """A bool for each row of the element that the consumer took last; None before the first and after the last."""
        return None if self.element is _NOTHING else np.full(row_shape(self.element), not self._padding)

    def _info(self) -> Info:
        assert self.schedule is not None, "an epoch that has begun has a schedule"
        progress, last = self.progress, self.end.of_all
        is_last = last is not None and progress.step >= last
        place = None if self._padding else self.history.last_place
        return Info(self.schedule, progress.snapshot(), is_last, row_shape(self.element), place)

    def _first(self) -> Step | None:
        self._begin()
        resumed = self.progress.begun and self.progress.step == self.start_step  # else elements were skipped
        try:
            step = self._next()
        except FeedpipeError:
            raise
        except Exception as error:
            if not resumed or raised_by_signal_handler(error):
                raise
            # A function of the user fails with a `FeedpipeError`, so this is a cursor that does not fit the pipe.
            raise StateError(f"`position` of the state does not fit this pipe: {error!r}") from error
        if step is not None or not resumed or (self._schedule.plan.world_size > 1 and self._agreement is None):
            return step
        # A state after the last element means the next epoch. Several ranks begin it together, so they must agree.
        self.progress = self.next_epoch()
        self.start_step = 0
        self._begin()
        return self._next()

    def _next(self) -> Step | None:
        """The next element, or None after the last one."""
        if self._job is not None and self._agreement is None:
            self._job.look()
        restarted = False
        while (last := self.end.of_rank) is None or self.progress.step < last:
            item = next(self._items, None)
            if isinstance(item, Step):
                skips = self._skips
                if skips is None or (item := skips.take_apart(item, self.progress, self._schedule)):
                    return item
                continue
            if item == PADDING:
                return self._padding_step()
            if isinstance(item, ShardEnd):
                if self._has_cursors:
                    self.progress.ended = {**self.progress.ended, item.shard: item.leftover}
            elif self._schedule.steps is not None:
                if restarted:
                    raise PlanError("this pipe has no elements for this rank, so an epoch of `steps` cannot be filled")
                restarted = self.progress.redivision is None  # this rank may have nothing in the rest of a pass
                self.progress = self._schedule.next_pass(self.progress)
                self._items = self._open(self.progress.position(self._schedule.plan))
            elif self._schedule.even == "pad" and last is not None:
                self._items = iter(())
                return self._padding_step()
            else:
                break
        return None

    @property
    def _schedule(self) -> Schedule:
        assert self.schedule is not None, "an epoch that has begun has a schedule"
        return self.schedule

    def _begin(self) -> None:
        self._job = job = self._epochs.job()
        self.schedule, self.end = self._epochs.begin(self.progress, job)
        self._has_cursors = not self._schedule.plan.indexed
        items = self._open(self.progress.position(self._schedule.plan))
        if job is None or not self._schedule.agrees(self.end):
            self._items, self._agreement = items, None
        else:
            step, epochs = self.progress.step, self._epochs
            self._agreement = AgreedItems(items, job, self._schedule.even, step, epochs.memory, epochs.segment)
            self._items = iter(self._agreement)

    def _padding_step(self) -> Step:
        """An element of this rank as padding: its elements from the beginning, and again when they are used up."""
        if not self._padding:
            self._padding = True
            self._has_cursors = False
            for _ in range(self.progress.begin_padding()):  # before the state that was loaded
                self._padding_step()
        for _ in range(2):
            while (item := next(self._padding_items, None)) is not None:
                if isinstance(item, Step) and (step := element_of(item)) is not None:
                    return step
            self._padding_items = self._open(Position())
        raise PlanError("this rank has no element that could be repeated as padding")

    def _open(self, position: Position) -> Iterator[Step | ShardEnd]:
        """Runs the plan from here on."""
        if self._session is not None:
            self._session.close()
            self._session = None
        with opening(self._times):
            self._session = self._epochs.open(self._schedule.plan, position, self.progress.data_pass)
        items = iter(self._session)
        return items if self._times is None else self._times.waiting_for(items)


def _profiler_range() -> Callable[[Callable[[], Step | None]], Step | None] | None:
    """Calls a function within a range of a profiler of torch; None if none is on. It does not import torch.

    It asks Python's part of torch: to ask the other one takes 20 us if its code is not in the cache.
    """
    if not getattr(sys.modules.get("torch.autograd.profiler"), "_is_profiler_enabled", False):
        return None
    from ..torch.profiling import in_range

    return in_range


def skipped(progress: Progress, count: int, schedule: Schedule) -> Progress:
    """The progress after `count` further elements, or after as many as lengths alone can tell.

    Those are none if the pipe is a stream: its cursors have the marks of what was opened, so the elements must be read.
    """
    last = schedule.end(progress).of_rank
    if last is not None and progress.step + count > last:
        raise too_many(count, last - progress.step)
    plan = schedule.plan
    if not plan.indexed or progress.beyond:
        return progress
    if schedule.steps is not None:
        return schedule.next_pass(_moved(progress, count))
    left = (plan.length(plan.rank, progress.start, progress.data_pass, progress.redivision) or 0) - progress.taken
    return _moved(progress, max(0, min(count, left)))  # what is not left is padding


def too_many(count: int, left: int) -> LoaderError:
    return LoaderError(f"`skip({count})` goes beyond the end of the epoch, which has {left} elements left")


def _moved(progress: Progress, count: int) -> Progress:
    return replace(progress.copy(), step=progress.step + count, taken=progress.taken + count)
