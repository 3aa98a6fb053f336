"""`Loader`: feeds one rank of a training job from a pipe, epoch by epoch, and knows where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from .core.checks import check_choice, check_int
from .core.cursor import Json
from .core.graph import Node
from .engine.run import length_of
from .engine.stage import resolve
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    LoaderError,
    PlanWarning,
    StateError,
    StateWarning,
    warn,
    with_call_site,
)
from .loading.epoch import Epoch, Info
from .loading.rank import rank_of
from .loading.schedule import Course, Even
from .loading.state import Progress, State, checked, restore
from .pipe import Pipe
from .plan.fingerprint import differences
from .plan.plan import Plan
from .services.base import ReadingService
from .services.inprocess import InProcess
from .services.multiprocess import MultiProcess

if TYPE_CHECKING:
    from .loading.rank import Group

T_co = TypeVar("T_co", covariant=True)


class Loader(Generic[T_co]):
    """Feeds one rank from a pipe.

    Each `iter(loader)` begins the next epoch; `break` gives up the rest. `state_dict()` says at any time, in plain
    JSON, where the consumer stands: after the last element it took. A loader with that state loaded goes on from there.

    Args:
        pipe: what to load.
        service: where it runs; by default `MultiProcess(workers)`, or `InProcess()` without workers.
        workers: processes to read with; 0 runs the pipe in this one.
        seed: the key of all randomness.
        rank, world_size: which rank of how many; by default those of `group`, else of the initialised process group,
            else `RANK` and `WORLD_SIZE`, else 0 of 1.
        group: a process group, or a one-dimensional device mesh.
        shards: virtual shards of a streamed pipe, over all ranks; the order of its elements depends on their number. By
            default 8 for each rank (or as many as there are workers, if more) where the pipe shuffles, else one for
            each worker.
        even: what makes all ranks take the same number of steps: "drop" leaves out what goes beyond the shortest rank,
            "pad" repeats elements (`info.valid` says which are padding), "error" raises; None promises nothing. "auto"
            is "drop" where lengths are known; where they are not and there are several ranks, choose None or give
            `steps`.
        steps: makes an epoch this many elements on every rank; the next one goes on where it stopped.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is out of its range or of the wrong type.
        PlanError: the ranks cannot be made even in the way asked for.

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
                with_call_site(f"`workers` is part of a service, so give it to {type(service).__name__}")
            )
        check_choice("even", even, ("drop", "pad", "error", "auto", None))
        self._pipe = pipe
        self._service = service or (MultiProcess(workers) if workers else InProcess())
        self._seed = check_int("seed", seed, least=0)
        self._rank, self._world_size = rank_of(rank, world_size, group)
        self._shards = None if shards is None else check_int("shards", shards, least=1)
        self._lazy_root: Node | None = None
        self._steps = None if steps is None else check_int("steps", steps, least=1)
        self._even: Even = even
        self._lazy_course: Course | None = None
        self._progress = Progress()
        self._resumed = False  # the next `iter` continues `_progress`
        self._wanted: int | None = None  # what `set_epoch` said
        self._current: Epoch[T_co] | None = None
        self._closed = False
        # Last, when nothing can fail any more: it may start processes.
        self._executor = self._service.start()

    def __iter__(self) -> Iterator[T_co]:
        return self._begin()

    def with_info(self) -> Iterator[tuple[T_co, Info]]:
        """As `iter(loader)`, with what belongs to each element: its state, epoch, step, and which rows are no padding.

        Example:
            >>> import feedpipe as fp
            >>> loader = fp.Loader(fp.from_sequence(range(4)).batch(2))
            >>> [(batch, info.step) for batch, info in loader.with_info()]
            [([0, 1], 1), ([2, 3], 2)]
        """
        return self._begin().with_info()

    def peek(self) -> T_co:
        """The element that comes next; moves nothing.

        Raises:
            LoaderError: the epoch has no more elements.
        """
        self._settle()
        if self._current is None:
            self._current = self._opened()
        return self._current.peek()

    def __len__(self) -> int:
        """Elements of a whole epoch on this rank, also after a resume; of this epoch, where epochs differ in that."""
        if self._steps is not None:
            return self._steps
        plan = self._course.plan
        if plan.length(self._rank) is None:
            return length_of(plan.undealt)
        return self._course.goal(Progress(lap=self._standing().lap if plan.varies else 0)) or 0

    @property
    def epoch(self) -> int:
        """The epoch in which the loader stands; after its last element, the next."""
        return self._standing().epoch

    @property
    def step(self) -> int:
        """How many elements of the epoch this rank has taken."""
        return self._standing().step

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter(loader)` begin epoch `epoch`; changes nothing if that is the one just loaded."""
        self._wanted = check_int("epoch", epoch, least=0)

    def state_dict(self) -> State:
        """Where the consumer stands: after the last element it took. Plain JSON, small, costs no reading.

        Raises:
            LoaderError: the service hands out elements in no order.
        """
        return self._course.state(self._standing())

    def load_state_dict(self, state: Mapping[str, object], *, strict: bool = True) -> None:
        """Makes the next `iter(loader)` continue where `state` was taken.

        Args:
            state: what `state_dict()` gave, also through JSON.
            strict: False continues with another graph, seed or length where that is possible, and warns of each
                difference.

        Raises:
            StateError: the state is damaged, or of another pipe, seed or version; it names what differs.
        """
        self._not_closed()
        saved = checked(state)
        self._compare(saved, strict=strict)
        course = self._course_for(saved)
        progress = restore(saved, course.plan)
        # Nothing has changed up to here: a state that is refused ends no epoch.
        self._end_current("a state was loaded")
        self._lazy_course, self._progress = course, progress
        self._resumed = True
        self._wanted = None

    def close(self) -> None:
        """Ends the current epoch and all that runs for it. A closed loader stays closed."""
        self._end_current("the loader was closed")
        self._executor.close()
        self._closed = True

    def __enter__(self) -> Loader[T_co]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _course(self) -> Course:
        if self._lazy_course is None:
            self._lazy_course = self._made_course(self._shards)
        return self._lazy_course

    @property
    def _root(self) -> Node:
        """The pipe, listings and types fixed once for the loader."""
        if self._lazy_root is None:
            self._lazy_root = resolve(self._pipe)
        return self._lazy_root

    def _made_course(self, shards: int | None) -> Course:
        plan = Plan(
            self._root,
            seed=self._seed,
            rank=self._rank,
            world_size=self._world_size,
            workers=self._service.workers,
            shards=shards,
        )
        for common in plan.common() if self._rank == 0 else ():
            processes = common.readers(self._world_size, self._service.workers)
            if processes > 1 and common.share > 0.1:
                warn(f"{processes} processes read the same data: {common.reason}", PlanWarning)
        return Course(plan, self._steps, self._even, ordered=self._service.ordered)

    def _compare(self, saved: State, *, strict: bool) -> None:
        """Says how a state's pipe and seed differ from those of this loader."""
        marks = self._course.marks
        found = differences(cast("list[Json]", saved["fingerprint"]), cast("list[Json]", marks["fingerprint"]))
        if saved["seed"] != self._seed:
            found.append(f"`seed` was {saved['seed']} and is now {self._seed}")
        if found and strict:
            raise StateError(
                "this state is of another loader: " + "; ".join(found) + "; `strict=False` goes on all the same"
            )
        for line in found:
            warn(f"loading a state all the same: {line}", StateWarning)
        if saved.get("code") != marks["code"] and not found:
            warn("the code of a function in the pipe has changed since the state was taken", StateWarning)

    def _course_for(self, saved: State) -> Course:
        """The course on which a state goes on."""
        plan = self._course.plan
        if saved["position"] is None:
            return self._course
        if plan.indexed != (saved["shards"] == 0):
            raise StateError(
                "only one of the state's pipe and this one is indexed, so no position means the same in both"
            )
        if plan.indexed:
            return self._course
        if (saved["world_size"], saved["rank"]) != (self._world_size, self._rank):
            raise StateError(
                f"this state is of rank {saved['rank']} of {saved['world_size']} in the middle of an epoch, and this "
                f"is rank {self._rank} of {self._world_size}; a streamed pipe goes on with as many ranks, each from "
                "its own state; at the end of an epoch any number will do"
            )
        if saved["shards"] != plan.shards:
            # The number of shards is part of the order; the state's goes on.
            return self._made_course(cast("int", saved["shards"]))
        return self._course

    def _standing(self) -> Progress:
        """The progress; at the end of an epoch, the beginning of the next."""
        if self._resumed and self._current is None and not self._closed:
            # Whether a loaded epoch has more elements may be known only by a look.
            self._current = self._opened()
        return self._progress if self._current is None else self._current.standing()

    def _begin(self) -> Epoch[T_co]:
        self._not_closed()
        wanted, self._wanted = self._wanted, None
        current = self._current
        self._current, self._resumed = None, False
        if current is not None:
            if current.untouched and wanted in (None, current.progress.epoch):
                current.untouched = False
                self._current = current
                return current
            current.end("a newer `iter(loader)` has ended this one; a loader has one epoch at a time")
            self._progress = current.given_up()
        if wanted is not None and wanted != self._progress.epoch:
            self._progress = Progress(wanted, 0, wanted)
        self._current = self._opened()
        self._current.untouched = False
        return self._current

    def _opened(self) -> Epoch[T_co]:
        self._not_closed()
        opened: Epoch[T_co] = Epoch(self._course, self._executor, self._progress)
        if self._progress.begun and opened.exhausted():
            self._progress = self._course.next_epoch(self._progress)
            opened = Epoch(self._course, self._executor, self._progress)
        return opened

    def _settle(self) -> None:
        """Lets go of an epoch that is over."""
        if self._current is not None and self._current.over:
            self._progress = self._current.given_up()
            self._current = None

    def _end_current(self, reason: str) -> None:
        if self._current is not None:
            self._current.end(reason)
            self._progress = self._current.standing()
            self._current = None

    def _not_closed(self) -> None:
        if self._closed:
            raise LoaderError("this loader was closed; make a new one")
