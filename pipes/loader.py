"""`Loader`: feeds one rank of a training job from a pipe, epoch by epoch, and saves where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from .core.checks import check_choice, check_int
from .core.code import constructor_code
from .core.graph import Node
from .core.unknown_arguments import methods_explain_unknown_arguments
from .engine.run import length_of
from .engine.stage import resolve
from .errors import ArgumentError, ArgumentTypeError, LoaderError, PlanWarning, warn, with_call_site
from .loading.epoch import Epoch, Info
from .loading.rank import rank_of
from .loading.schedule import Even, Schedule
from .loading.state import Progress, State, compare, restore, resumed_shards
from .loading.state_schema import validated
from .pipe import Pipe
from .plan.plan import Plan
from .services.base import ReadingService
from .services.inprocess import InProcess
from .services.multiprocess import MultiProcess

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .loading.rank import Group

T_co = TypeVar("T_co", covariant=True)


@methods_explain_unknown_arguments
class Loader(Generic[T_co]):
    """Feeds one rank of a training job from a pipe.

    Each `iter(loader)` begins the next epoch; `break` abandons the rest of it. `state_dict()` returns, in plain JSON,
    where the consumer stands: after the last element it took. A loader that loads the state goes on from there.

    Args:
        pipe: what to load.
        service: where the pipe runs; by default `MultiProcess(workers)`, or `InProcess()` without workers.
        workers: processes to read with; 0 runs the pipe in this process.
        seed: the key of all randomness.
        rank, world_size: the number of this rank, and of all ranks; by default those of `group`, else of the
            initialised process group, else `RANK` and `WORLD_SIZE`, else 0 of 1.
        group: a process group, or a one-dimensional device mesh.
        shards: virtual shards of a streamed pipe, over all ranks; the order of its elements depends on their number. If
            the pipe shuffles, the default is 8 for each rank, or as many as there are workers, if that is more; else it
            is one for each worker.
        even: how all ranks come to take the same number of steps: "drop" leaves out what goes beyond the shortest rank,
            "pad" repeats elements (`info.valid` tells which are padding), "error" raises, None does nothing. "auto" is
            "drop" if lengths are known; if they are not, several ranks need None or `steps`.
        steps: the number of elements of an epoch, on every rank; the next epoch goes on where the last one stopped.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is out of its range or of the wrong type.
        PlanError: the ranks cannot be made even as `even` says.

    Example:
        >>> import feedpipe as fp
        >>> loader = fp.Loader(fp.from_sequence(range(6)).shuffle().batch(2), seed=7)
        >>> first = next(iter(loader))
        >>> state = loader.state_dict()
        >>> resumed = fp.Loader(fp.from_sequence(range(6)).shuffle().batch(2), seed=7)
        >>> resumed.load_state_dict(state)
        >>> sorted(first + [row for batch in resumed for row in batch])
        [0, 1, 2, 3, 4, 5]
    """

    def __init__(
        self,
        pipe: Pipe[T_co],
        service: ReadingService | None = None,
        *,
        workers: int = 0,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        group: Group | None = None,
        shards: int | None = None,
        even: Even = "auto",
        steps: int | None = None,
    ) -> None:
        if not isinstance(pipe, Pipe):
            raise ArgumentTypeError(with_call_site(f"`pipe` must be a Pipe but got: {pipe!r}"))
        check_int("workers", workers, least=0)
        if service is not None and workers:
            raise ArgumentError(
                with_call_site(
                    f"`workers` and `service` must not be given together; give `workers` to {type(service).__name__}"
                )
            )
        check_choice("even", even, ("drop", "pad", "error", "auto", None))
        self._pipe = pipe
        self._service = service or (MultiProcess(workers) if workers else InProcess())
        self._seed = check_int("seed", seed, least=0)
        self._rank, self._world_size = rank_of(rank, world_size, group)
        self._shards = None if shards is None else check_int("shards", shards, least=1)
        self._steps = None if steps is None else check_int("steps", steps, least=1)
        self._even: Even = even
        self._resolved: Node | None = None
        self._planned: Schedule | None = None
        self._progress = Progress()  # where the next epoch to open begins
        self._current: Epoch[T_co] | None = None
        self._requested_epoch: int | None = None  # by `set_epoch`
        self._closed = False
        # Last, because it may start processes: nothing after it can fail.
        self._executor = self._service.start()

    def __iter__(self) -> Iterator[T_co]:
        return self._begin()

    def with_info(self) -> Iterator[tuple[T_co, Info]]:
        """Iterate as `iter(loader)` does, with an `Info` for each element: its state, epoch, step, and padding.

        Example:
            >>> import feedpipe as fp
            >>> loader = fp.Loader(fp.from_sequence(range(4)).batch(2))
            >>> [(batch, info.step) for batch, info in loader.with_info()]
            [([0, 1], 1), ([2, 3], 2)]
        """
        return self._begin().with_info()

    def peek(self) -> T_co:
        """Return the next element without taking it.

        Raises:
            LoaderError: the epoch has no more elements.
        """
        if self._current is not None and self._current.over:
            self._progress = self._current.abandoned()
            self._current = None
        if self._current is None:
            self._current = self._open()
        return self._current.peek()

    def __len__(self) -> int:
        """Return how many elements a whole epoch has on this rank, also after a resume.

        If epochs differ in that, it is the length of the epoch in which the loader stands.
        """
        if self._steps is not None:
            return self._steps
        plan = self._schedule.plan
        if plan.length(self._rank) is None:
            return length_of(plan.unsharded)
        return self._schedule.goal(Progress(data_epoch=self._position.data_epoch if plan.varies else 0)) or 0

    @property
    def dataset(self) -> Pipe[T_co]:
        """The pipe that it loads."""
        return self._pipe

    @property
    def epoch(self) -> int:
        """The epoch in which the loader stands; after its last element, the next one."""
        return self._position.epoch

    @property
    def step(self) -> int:
        """How many elements of the epoch this rank has taken."""
        return self._position.step

    @property
    def valid(self) -> npt.NDArray[np.bool_] | None:
        """A bool for each row of the element handed out last, False if the row is padding.

        One bool for an element without rows; None before the first element of an epoch and after the end.
        """
        return None if self._current is None else self._current.valid

    def set_epoch(self, epoch: int) -> None:
        """Make the next `iter(loader)` begin epoch `epoch`; if a state of that epoch is loaded, nothing changes."""
        self._requested_epoch = check_int("epoch", epoch, least=0)

    def state_dict(self) -> State:
        """Return where the consumer stands: after the last element it took. Plain JSON; it reads no rows.

        Raises:
            LoaderError: the service hands out elements in no order.
        """
        return self._schedule.state(self._position)

    def load_state_dict(self, state: Mapping[str, object], *, strict: bool = True) -> None:
        """Make the next `iter(loader)` continue where `state` was taken.

        It runs nothing: `epoch`, `step` and `state_dict()` say what the state says. A state that was taken right after
        the last element of an epoch, before the loop saw the end, means the start of the next epoch. If the length of
        the pipe is not known, the properties say so only after the first look for an element.

        Args:
            state: what `state_dict()` returned; it may have gone through JSON.
            strict: False continues with another graph, seed or length if that is possible, and warns of each
                difference.

        Raises:
            StateError: the state is damaged, or of another pipe, seed or version; the message names what differs.
        """
        self._check_open()
        saved = validated(state)
        schedule = self._schedule
        compare(saved, schedule.signature, strict=strict)
        if (shards := resumed_shards(saved, schedule.plan)) != schedule.plan.shards:
            schedule = self._make_schedule(shards)
        progress = schedule.after_end(restore(saved, schedule.plan))
        # Nothing has changed up to here: a state that is refused ends no epoch.
        self._end_current("a state was loaded")
        self._planned, self._progress = schedule, progress
        self._requested_epoch = None

    def close(self) -> None:
        """End the current epoch and all threads and processes of the loader. A closed loader stays closed."""
        self._end_current("the loader was closed")
        self._executor.close()
        self._closed = True

    def __enter__(self) -> Loader[T_co]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """Show the chain, the service and the position, as far as they are known without running or reading."""
        position = self._position
        goal = self._steps or (None if self._current is None else self._current.goal)
        parts = [_one_line(repr(self._pipe)), _service_code(self._service)]
        if self._world_size > 1:
            parts.append(f"rank {self._rank} of {self._world_size}")
        parts.append(f"epoch {position.epoch}")
        parts.append(f"step {position.step}" + (f" of {goal}" if goal is not None else ""))
        return f"Loader({', '.join(parts)}{', closed' if self._closed else ''})"

    @property
    def _schedule(self) -> Schedule:
        if self._planned is None:
            self._planned = self._make_schedule(self._shards)
        return self._planned

    def _make_schedule(self, shards: int | None) -> Schedule:
        if self._resolved is None:  # listings and types are fixed once for the loader
            self._resolved = resolve(self._pipe)
        plan = Plan(
            self._resolved,
            seed=self._seed,
            rank=self._rank,
            world_size=self._world_size,
            workers=self._service.workers,
            shards=shards,
        )
        for read in plan.shared_reads() if self._rank == 0 else ():
            processes = read.readers(self._world_size, self._service.workers)
            if read.repeated(self._world_size, self._service.workers) > 0.1:
                warn(f"{processes} processes read the same data: {read.reason}", PlanWarning)
        return Schedule(plan, self._steps, self._even, ordered=self._service.ordered)

    @property
    def _position(self) -> Progress:
        """The progress; after the last element of an epoch, the beginning of the next one."""
        return self._progress if self._current is None else self._current.position()

    def _begin(self) -> Epoch[T_co]:
        self._check_open()
        epoch, self._requested_epoch = self._requested_epoch, None
        current, self._current = self._current, None
        if current is not None:
            if current.unstarted and epoch in (None, current.progress.epoch):
                current.unstarted = False
                self._current = current
                return current
            current.end("a newer `iter(loader)` has ended this one; a loader has one epoch at a time")
            self._progress = current.abandoned()
        if epoch is not None and epoch != self._progress.epoch:
            self._progress = Progress(epoch, 0, epoch)
        self._current = self._open()
        self._current.unstarted = False
        return self._current

    def _open(self) -> Epoch[T_co]:
        self._check_open()
        epoch: Epoch[T_co] = Epoch(self._schedule, self._executor, self._progress)
        if self._progress.begun and epoch.exhausted():
            self._progress = self._schedule.next_epoch(self._progress)
            epoch = Epoch(self._schedule, self._executor, self._progress)
        return epoch

    def _end_current(self, reason: str) -> None:
        if self._current is not None:
            self._current.end(reason)
            self._progress = self._current.position()
            self._current = None

    def _check_open(self) -> None:
        if self._closed:
            raise LoaderError("this loader was closed; make a new one")


def _service_code(service: object) -> str:
    return constructor_code(service) if is_dataclass(service) else repr(service)


def _one_line(code: str) -> str:
    """The code of a chain in one line: of a long one, the source and the last call."""
    calls = [line.strip() for line in code.splitlines() if line.startswith(("    fp.", "    ."))] or [code]
    first, last = (call if len(call) <= 60 else f"{call[:56]}...)" for call in (calls[0], calls[-1]))
    return first if len(calls) == 1 else f"{first} ... {last}"
