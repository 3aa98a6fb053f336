"""`Epoch`: one iteration of a loader."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from itertools import repeat
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..engine.one_thread import ONE_THREAD, is_executing
from ..errors import FeedpipeError, LoaderError, RowError, shown_traceback
from .epoch_run import EpochRun
from .info import Info as Info
from .request import INFO, PEEK, Request
from .runner import Runner
from .schedule import Schedule
from .skipping import too_many
from .state import Progress

T_co = TypeVar("T_co", covariant=True)


class EpochIterator(Generic[T_co]):
    """What `iter(loader)` returns: the elements of an epoch. If it is dropped, the loop has left the epoch."""

    def __init__(self, epoch: Epoch[T_co]) -> None:
        self._epoch = epoch
        self._elements = epoch.elements

    def __iter__(self) -> EpochIterator[T_co]:
        return self

    def __next__(self) -> T_co:
        try:
            element: T_co = next(self._elements)  # `cast` would take as long as all that is done here
            return element
        except (StopIteration, ValueError):
            pass  # `ask` raises what is right
        except RowError as error:
            raise error.with_traceback(shown_traceback(error)) from error.__cause__
        self._elements = self._epoch.elements  # others, if the loader has skipped some
        return cast("T_co", self._epoch.ask(None))

    def with_info(self) -> Iterator[tuple[T_co, Info]]:
        elements = map(self._ask, cast("Iterator[Request]", repeat(INFO)))  # a generator would raise an error only once
        return cast("Iterator[tuple[T_co, Info]]", elements)

    def __del__(self) -> None:
        self._epoch.leave()

    def _ask(self, request: Request) -> object:
        return self._epoch.ask(request)


class Epoch(Generic[T_co]):
    """One epoch of a loader.

    Nothing runs before the first element is asked for. After a failure, each `next` raises the same error.

    Attributes:
        elements: a generator of its elements.
        iterated: whether a consumer iterates it; before that, `peek` may have looked at its first element.
    """

    def __init__(self, runner: Runner, progress: Progress, before: Epoch[T_co] | None = None) -> None:
        self.iterated = False
        follows = before is not None and before._run.finished and before.following() == progress
        self._start(EpochRun(runner, progress, history=before._run.history if before and follows else None))

    def _start(self, run: EpochRun) -> None:
        self._run = run
        # A generator admits one thread at a time, so an element and its place in the state belong together. It refers
        # to the run and the run not to the generator: a dropped epoch is freed at once.
        self.elements: Generator[Any, Request] = run.elements()
        next(self.elements)

    def peek(self) -> T_co:
        """The next element, which stays the next."""
        try:
            return cast("T_co", self.ask(PEEK))
        except StopIteration:
            raise LoaderError("the epoch has no more elements to peek at") from None

    def skip(self, count: int) -> None:
        """Goes on as if the consumer had taken `count` elements.

        Raises:
            LoaderError: the epoch has fewer.
        """
        target = self._run.progress.step + count
        run = self._run.skipping(count)
        if run.progress.step > self._run.progress.step:
            self.end("it goes on behind skipped elements")
            self._start(run)
        try:
            while self._run.progress.step < target:
                self.ask(None)
        except StopIteration:
            raise too_many(count, count - target + self._run.progress.step) from None

    def look(self) -> None:
        """Looks whether there is a next element; what that raises, `next` will raise."""
        with contextlib.suppress(StopIteration, FeedpipeError):
            self.ask(PEEK)

    def ask(self, request: Request) -> object:
        """The next element, in the form that the consumer requests."""
        try:
            return self.elements.send(request)
        except StopIteration:  # the generator has ended
            if self._run.finished:
                raise  # the traceback of `stop` would refer to this frame, and so to `stop`
            stop = self._run.stop
        except RowError as error:
            raise error.with_traceback(shown_traceback(error)) from error.__cause__
        except ValueError as error:
            if is_executing(error):
                raise LoaderError(ONE_THREAD) from None
            raise
        assert stop is not None, "a run that has ended knows why"
        raise stop.with_traceback(self._run.trace)  # without it, each `raise` would make the traceback longer

    def end(self, reason: str) -> None:
        """Ends the epoch early: each later `next` raises a `LoaderError` with this reason.

        Raises:
            LoaderError: another thread waits for an element.
        """
        try:
            self.elements.close()
        except ValueError as error:
            if is_executing(error):
                raise LoaderError(ONE_THREAD) from None
            raise
        self._run.finish(LoaderError(reason))

    def leave(self) -> None:
        """Nobody iterates it any more. If other ranks wait for its next element, it ends, and they learn of that."""
        if self._run.is_awaited:
            with contextlib.suppress(LoaderError):  # another thread looks for an element
                self.end("its iterator was dropped, so the other ranks do not wait for it")

    def at_end(self) -> bool:
        """Whether the element that was taken last is the last one. If lengths do not tell, it looks for another."""
        if self.goal is not None:
            return self._run.progress.step >= self.goal
        self.look()
        return self._run.finished

    @property
    def over(self) -> bool:
        return self._run.stop is not None

    @property
    def progress(self) -> Progress:
        """The progress in this epoch, also after its last element."""
        return self._run.progress

    @property
    def started(self) -> bool:
        """Whether it has given an element; else the loader has not left its place."""
        return self._run.progress.step > self._run.start_step

    @property
    def goal(self) -> int | None:
        """The step at which this rank ends, as far as that is known."""
        return self._run.end.of_rank

    @property
    def valid(self) -> npt.NDArray[np.bool_] | None:
        """The mask of the element that the consumer took last; None before the first and after the last one."""
        return self._run.mask() if self._run.has_element else None

    @property
    def schedule(self) -> Schedule | None:
        """The schedule that it runs by; None before it begins."""
        return self._run.schedule

    def position(self) -> Progress:
        """The progress; after the last element of all ranks, the beginning of the next epoch."""
        return self._run.position()

    @property
    def kept_steps(self) -> range:
        """The steps whose positions it still has."""
        return self._run.kept_steps

    def position_at(self, step: int) -> Progress:
        """The position after the first elements of the epoch, one of `kept_steps`."""
        return self.position_before(self._run.progress.step - step)

    def position_before(self, count: int) -> Progress:
        """The position before the last `count` elements, which may reach into the epoch before."""
        return self._run.position_before(count)

    def following(self) -> Progress:
        """Where a loader goes on that leaves this epoch: in this one if it has given no element, else in the next."""
        return self._run.next_epoch() if self.started else self._run.position()
