"""`Epoch`: one iteration of a loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from types import TracebackType
from typing import Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.signals import raised_by_signal_handler
from ..engine.run import interrupted
from ..errors import FeedpipeError, LoaderError, PlanError, StateError
from ..plan.plan import Plan, Position
from ..services.base import Executor, Session, ShardEnd, Step
from .schedule import Schedule
from .state import Progress, State

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


_NOTHING = object()


class Info:
    """What `with_info()` says of one element. It stays right if the consumer takes further elements.

    Attributes:
        epoch: the epoch of the element.
        step: how many elements of the epoch this rank had taken, this one included.
        valid: a bool for each row of the element, False if the row is padding; one bool for an element without rows.
    """

    def __init__(self, schedule: Schedule, progress: Progress, after: Progress, valid: npt.NDArray[np.bool_]) -> None:
        self._schedule = schedule
        self._after = after
        self.epoch = progress.epoch
        self.step = progress.step
        self.valid = valid

    def state_dict(self) -> State:
        """The state of the loader right after this element."""
        return self._schedule.state(self._after)


class Epoch(Generic[T_co]):
    """The elements of one epoch, for the consumer to iterate. After a failure, each `next` raises the same error.

    Attributes:
        progress: after the last element that the consumer took.
        unstarted: whether no consumer iterates it yet; `peek` may have looked at its first element.
        goal: the step at which it ends, if that is known.
    """

    def __init__(self, schedule: Schedule, executor: Executor, progress: Progress) -> None:
        self.progress = progress.copy()
        self.unstarted = True
        self.goal = schedule.goal(self.progress)
        self._schedule = schedule
        self._plan = schedule.plan
        self._executor = executor
        self._padding = False
        self._next_step: Step | None = None
        self._element: object = _NOTHING  # the one that the consumer took last
        self._stop: Exception | None = None
        self._trace: TracebackType | None = None
        self._session = self._open(self.progress.position(self._plan))
        self._items = iter(self._session)

    def __iter__(self) -> Epoch[T_co]:
        return self

    def __next__(self) -> T_co:
        self._element = _NOTHING  # the last reference here, before the next element is made
        step = self._next_step or self._look()
        self._next_step = None
        progress = self.progress
        progress.step += 1
        progress.taken += 1
        if self._has_cursors:
            progress.cursors[step.shard] = step.cursor
        self._element = step.element
        return cast("T_co", step.element)

    @property
    def valid(self) -> npt.NDArray[np.bool_] | None:
        """The mask of the element that the consumer took last; None before the first and after the last one."""
        return None if self._element is _NOTHING else self._mask(self._element)

    def with_info(self) -> Iterator[tuple[T_co, Info]]:
        return map(self._with_info, self)  # a generator would raise an error once and then end

    def _with_info(self, element: T) -> tuple[T, Info]:
        return element, Info(self._schedule, self.progress.copy(), self.position().copy(), self._mask(element))

    def _mask(self, element: object) -> npt.NDArray[np.bool_]:
        return np.full(_rows(element), not self._padding)

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
            return False  # `next` raises it
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            # A function of the user fails with a `FeedpipeError`, so this is a cursor that does not fit the pipe.
            raise StateError(f"`position` of the state does not fit this pipe: {error!r}") from error
        return False

    def end(self, reason: str) -> None:
        """Ends the epoch early: each later `next` raises a `LoaderError` with this reason."""
        self._finish(LoaderError(reason))

    def position(self) -> Progress:
        """The progress; after the last element, the beginning of the next epoch."""
        done = self.goal is not None and self.progress.step >= self.goal
        if done or isinstance(self._stop, StopIteration):
            return self._schedule.next_epoch(self.progress)
        return self.progress

    def abandoned(self) -> Progress:
        """The progress of a loader that leaves this epoch: the next epoch, if a consumer has started this one."""
        return self.progress if self.unstarted else self._schedule.next_epoch(self.progress)

    @property
    def _has_cursors(self) -> bool:
        """Whether cursors are the position; an indexed pipe and padding need only the number of elements."""
        return not (self._plan.indexed or self._padding)

    def _look(self) -> Step:
        if self._next_step is None:
            if self._stop is not None:
                raise self._stop.with_traceback(self._trace)  # without it, each `raise` would make the traceback longer
            try:
                self._next_step = self._next()
            except BaseException as error:
                self._finish(_on_rank(error if isinstance(error, Exception) else interrupted(error), self._plan))
                raise
            if self._next_step is None:
                self._finish(StopIteration())
                raise StopIteration
        return self._next_step

    def _next(self) -> Step | None:
        restarted = False
        while self.goal is None or self.progress.step < self.goal:
            item = next(self._items, None)
            if isinstance(item, Step):
                return item
            if isinstance(item, ShardEnd):
                if self._has_cursors:
                    self.progress.ended[item.shard] = item.leftover
            elif self._schedule.steps is not None:
                if restarted:
                    raise PlanError("this pipe has no elements for this rank, so an epoch of `steps` cannot be filled")
                restarted = True
                self.progress = self.progress.next_data_epoch()
                self._reopen(Position())
            elif self._schedule.even == "pad" and self.goal is not None:
                if self._padding:
                    raise PlanError("this rank has no element that could be repeated as padding")
                self._pad()
            else:
                break
        return None

    def _pad(self) -> None:
        """Goes on with the elements of this rank from the beginning, after those that are used as padding already."""
        assert self.goal is not None
        own = self._plan.length(self._plan.rank, self.progress.start, self.progress.data_epoch) or 0
        if self._plan.indexed:
            own += self.progress.step - self.progress.taken
        self._reopen(Position())
        used = self.progress.step - own
        while used > 0 and isinstance(item := next(self._items, None), (Step, ShardEnd)):
            used -= isinstance(item, Step)
        self._padding = True

    def _open(self, position: Position) -> Session:
        return self._executor.open(self._plan, position, self.progress.data_epoch)

    def _reopen(self, position: Position) -> None:
        self._session.close()
        self._session = self._open(position)
        self._items = iter(self._session)

    def _finish(self, stop: Exception) -> None:
        if self._stop is None:
            self._stop, self._trace = stop, stop.__traceback__
            self._next_step = None
            self._session.close()


def _on_rank(error: Exception, plan: Plan) -> Exception:
    if plan.world_size > 1 and isinstance(error, FeedpipeError):
        error.args = (f"{error}\n  on rank {plan.rank} of {plan.world_size}",)
    return error


def _rows(element: object) -> int | tuple[()]:
    """How many rows an element has; () if it is one row."""
    if isinstance(element, Mapping):
        element = next(iter(element.values()), ())
    elif isinstance(element, (list, tuple)) and element and hasattr(element[0], "shape"):
        element = element[0]  # the columns of collated pairs
    elif isinstance(element, tuple):
        return ()
    shape = getattr(element, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else ()
    return len(element) if isinstance(element, Sized) and not isinstance(element, (str, bytes)) else ()
