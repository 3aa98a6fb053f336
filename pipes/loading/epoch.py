"""`Epoch`: one iteration of a loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from types import TracebackType
from typing import Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..engine.run import interrupted
from ..errors import FeedpipeError, LoaderError, PlanError, StateError
from ..plan.plan import Plan, Position
from ..services.base import Executor, Session, ShardEnd, Step
from .schedule import Course
from .state import Progress, State

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Info:
    """What belongs to one element, however far anybody has fetched ahead.

    Attributes:
        epoch: the epoch of the element.
        step: how many elements of the epoch this rank had taken with it.
        valid: a bool for each row of the element; False where it only pads. One bool for an element without rows.
    """

    def __init__(self, course: Course, progress: Progress, after: Progress, valid: npt.NDArray[np.bool_]) -> None:
        self._course = course
        self._after = after
        self.epoch = progress.epoch
        self.step = progress.step
        self.valid = valid

    def state_dict(self) -> State:
        """The loader's state right after this element."""
        return self._course.state(self._after)


class Epoch(Generic[T_co]):
    """The elements of one epoch. One that has failed raises the same error at each later `next`."""

    def __init__(self, course: Course, executor: Executor, progress: Progress) -> None:
        self.progress = progress.copy()
        self.untouched = True  # nobody iterates it yet: only looked at
        self._course = course
        self._plan = course.plan
        self._executor = executor
        self._goal = course.goal(self.progress)
        self._padding = False
        self._waiting: Step | None = None
        self._stop: Exception | None = None
        self._trace: TracebackType | None = None
        self._session = self._open(self.progress.position(self._plan))
        self._items = iter(self._session)

    def __iter__(self) -> Epoch[T_co]:
        return self

    def __next__(self) -> T_co:
        step = self._waiting or self._look()
        self._waiting = None
        progress = self.progress
        progress.step += 1
        progress.taken += 1
        if self._marks:
            progress.cursors[step.shard] = step.cursor
        return cast("T_co", step.element)

    def with_info(self) -> Iterator[tuple[T_co, Info]]:
        return map(self._informed, self)  # no generator: that would end in silence after an error

    def _informed(self, element: T) -> tuple[T, Info]:
        valid = np.full(_rows(element), not self._padding)
        return element, Info(self._course, self.progress.copy(), self.standing().copy(), valid)

    def peek(self) -> T_co:
        """The next element, which stays the next."""
        try:
            return cast("T_co", self._look().element)
        except StopIteration:
            raise LoaderError("the epoch has no more elements to peek at") from None

    @property
    def over(self) -> bool:
        return self._stop is not None

    def exhausted(self) -> bool:
        """Whether no element is left; looks one ahead."""
        try:
            self._look()
        except StopIteration:
            return True
        except FeedpipeError:
            return False  # it is told at the next `next`
        except Exception as error:
            # No user's function fails with such an error: it comes from a cursor that is none of this pipe's.
            raise StateError(f"`position` of the state does not fit this pipe: {error!r}") from error
        return False

    def end(self, reason: str) -> None:
        """Ends the epoch before its time: each later `next` says why."""
        self._finish(LoaderError(reason))

    def standing(self) -> Progress:
        """The progress; after the last element, the beginning of the next epoch."""
        done = self._goal is not None and self.progress.step >= self._goal
        if done or isinstance(self._stop, StopIteration):
            return self._course.next_epoch(self.progress)
        return self.progress

    def given_up(self) -> Progress:
        """The progress of a loader that leaves this epoch: the next one, if this one was begun."""
        return self.progress if self.untouched else self._course.next_epoch(self.progress)

    @property
    def _marks(self) -> bool:
        """Whether cursors say where it stands; of an indexed pipe, and of padding, numbers do."""
        return not (self._plan.indexed or self._padding)

    def _look(self) -> Step:
        if self._waiting is None:
            if self._stop is not None:
                raise self._stop.with_traceback(self._trace)  # as it was: each `raise` would add to it
            try:
                self._waiting = self._next()
            except BaseException as error:
                known = error if isinstance(error, Exception) else interrupted(error)
                self._finish(_on_rank(known, self._plan))
                raise
            if self._waiting is None:
                self._finish(StopIteration())
                raise StopIteration
        return self._waiting

    def _next(self) -> Step | None:
        fresh = False
        while self._goal is None or self.progress.step < self._goal:
            item = next(self._items, None)
            if isinstance(item, Step):
                return item
            if isinstance(item, ShardEnd):
                if self._marks:
                    self.progress.ended[item.shard] = item.leftover
            elif self._course.steps is not None:
                if fresh:
                    raise PlanError("this pipe has no elements for this rank, so an epoch of `steps` cannot be filled")
                fresh = True
                self.progress = self.progress.next_lap()
                self._reopen(Position())
            elif self._course.even == "pad" and self._goal is not None:
                if self._padding:
                    raise PlanError("this rank has no element that could be repeated as padding")
                self._pad()
            else:
                break
        return None

    def _pad(self) -> None:
        """Goes on with this rank's own elements from the beginning, past those that have served as padding before."""
        assert self._goal is not None
        own = self._plan.length(self._plan.rank, self.progress.start, self.progress.lap) or 0
        if self._plan.indexed:
            own += self.progress.step - self.progress.taken
        self._reopen(Position())
        used = self.progress.step - own
        while used > 0 and isinstance(item := next(self._items, None), (Step, ShardEnd)):
            used -= isinstance(item, Step)
        self._padding = True

    def _open(self, position: Position) -> Session:
        return self._executor.open(self._plan, position, self.progress.lap)

    def _reopen(self, position: Position) -> None:
        self._session.close()
        self._session = self._open(position)
        self._items = iter(self._session)

    def _finish(self, stop: Exception) -> None:
        if self._stop is None:
            self._stop, self._trace = stop, stop.__traceback__
            self._waiting = None
            self._session.close()


def _on_rank(error: Exception, plan: Plan) -> Exception:
    if plan.world_size > 1 and isinstance(error, FeedpipeError):
        error.args = (f"{error}\n  on rank {plan.rank} of {plan.world_size}",)
    return error


def _rows(element: object) -> int | tuple[()]:
    """How many rows an element has; () for one that is no group of rows."""
    if isinstance(element, Mapping):
        element = next(iter(element.values()), ())
    elif isinstance(element, (list, tuple)) and element and hasattr(element[0], "shape"):
        element = element[0]  # fields, such as collated pairs
    elif isinstance(element, tuple):
        return ()
    shape = getattr(element, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else ()
    return len(element) if isinstance(element, Sized) and not isinstance(element, (str, bytes)) else ()
