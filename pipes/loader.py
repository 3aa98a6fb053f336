"""`Loader`: feeds one rank of a training job from a pipe, epoch by epoch, and saves its place."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, NoReturn, TypeVar, cast, overload

import numpy as np

from .core.checks import check_choice, check_int, check_torch, methods_explain_wrong_arguments
from .core.code import constructor_code
from .core.graph import walk
from .core.skips import Skipped
from .core.times import here
from .engine.run import length_of
from .engine.skips import NONE_LOST
from .errors import ArgumentError, ArgumentTypeError, LoaderError, StateWarning, warn
from .loading.epoch import Epoch, InfoIterator, LoaderIterator
from .loading.epochs import Epochs, Starter
from .loading.history import check_kept
from .loading.job_state import (
    gather,
    group_of_job,
    ledger_of_states,
    read_states,
    restore_job,
    run_alike,
    shards_of_job,
)
from .loading.ledger import Ledger, Numbers
from .loading.ranks import RankSource
from .loading.replay import Info
from .loading.resume import EDITS, Edits, Resume, edited, has_changed
from .loading.schedule import Even, Schedule
from .loading.state import Progress, SavedState, State, compare, restore
from .pipe import Pipe, check_pipe, warn_in_torch_worker
from .plan.edits import EditError
from .plan.plan import Plan, Position
from .services.base import Executor, ReadingService, Session, ShardEnd, Step
from .services.inprocess import InProcess
from .services.multiprocess import MultiProcess

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    from .core.times import Times
    from .seeing.report import Report
    from .seeing.verdict import RankTimes
    from .torch.device import Backend, Move
    from .torch.ranks import Group
T_co = TypeVar("T_co", covariant=True)


@methods_explain_wrong_arguments
class Loader(Generic[T_co]):
    """Feeds one rank of a training job from a pipe.

    Each `iter(loader)` begins the next epoch; `break` abandons the rest of it. `state_dict()` returns, in plain JSON,
    the place of the consumer: after the last element it took. A loader that loads the state goes on from there.

    Args:
        pipe: what to load.
        service: where the pipe runs; by default `MultiProcess(workers)`, or `InProcess()` without workers.
        workers: processes to read with; 0 runs the pipe in this process.
        seed: the key of all randomness.
        rank, world_size: this rank, and how many there are; by default those of `group`, else of the initialised
            process group, else `RANK` and `WORLD_SIZE`, else 0 of 1.
        group: a process group, or a one-dimensional device mesh.
        replicas: a group of ranks that need the same elements, as those of tensor parallelism; `group` is then that of
            data parallelism. The first of them reads, and the others get its elements: on one machine through shared
            memory, else by the process group. All have the same states. If the reader fails or dies, all stop; on one
            machine at the same step.
        shards: virtual shards of a streamed pipe, over all ranks; the order of its elements depends on their number. By
            default each rank has 8 if the pipe shuffles; else it has one, whose rows keep the order of the source, and
            which all workers read.
        even: what to do if ranks have different numbers of steps: "drop" leaves out what goes beyond the shortest rank,
            "pad" repeats elements (`info.valid` tells which are padding), "error" raises, None does nothing. "auto" is
            "drop". If lengths are not known, the ranks must have a process group, or None or `steps` is needed.
        steps: the number of elements of an epoch, on every rank; the next epoch continues where the last one stopped.
        device: where the tensors of elements are copied to, one element ahead and on a stream of its own.
        pin_memory: pin the tensors; those on their way to a CUDA device always are.

    Attributes:
        resumed: what had changed in the pipe since the state that was loaded last; None if nothing had.

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

    _is_users: ClassVar[bool] = True

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
        replicas: Group | None = None,
        shards: int | None = None,
        even: Even = "auto",
        steps: int | None = None,
        device: torch.device | str | int | None = None,
        pin_memory: bool = False,
    ) -> None:
        check_pipe(pipe)
        check_choice("even", even, ("drop", "pad", "error", "auto", None))
        self._pipe = pipe
        check_choice("pin_memory", pin_memory, (True, False))
        chosen = reading_service(service, workers)
        source = RankSource(rank, world_size, group)
        shared = None
        if replicas is not None:
            from .loading.replicas import Replicas

            shared = Replicas(chosen, replicas, source)
        starter = shared or chosen
        self._epochs = Epochs(
            pipe,
            chosen,
            starter if device is None and not pin_memory else OnDevice(starter, device, pin_memory),
            source,
            seed=check_int("seed", seed, least=0),
            shards=None if shards is None else check_int("shards", shards, least=1),
            steps=None if steps is None else check_int("steps", steps, least=1),
            even=even,
        )
        self._epochs.check_service()
        self._epochs.check_ranks()
        if isinstance(chosen, MultiProcess) and (shared is None or shared.reads):
            operators = [node.op for node in walk(pipe)]
            functions = (value for op in operators for value in vars(op).values() if callable(value))
            chosen.prepare([*operators, *functions])
        self._progress, self._skipped = Progress(), NONE_LOST  # where the next epoch begins; of the last one
        self._current: Epoch[T_co] | None = None
        self._requested_epoch: int | None = None  # by `set_epoch`
        self.resumed: Resume | None = None
        self._closed = False

    def __iter__(self) -> Iterator[T_co]:
        if "torch._dynamo" in sys.modules:
            from .torch.compiling import exclude_from_compilation

            exclude_from_compilation()
        return LoaderIterator(self._iterated())

    __iter__._torchdynamo_disable = True  # type: ignore[attr-defined]  # `torch.compile` runs it as it is

    def with_info(self) -> Iterator[tuple[T_co, Info]]:
        """Iterate as `iter(loader)` does, with an `Info` for each element: its state, epoch, step, and padding.

        Example:
            >>> import feedpipe as fp
            >>> loader = fp.Loader(fp.from_sequence(range(4)).batch(2))
            >>> [(batch, info.step) for batch, info in loader.with_info()]
            [([0, 1], 1), ([2, 3], 2)]
        """
        return cast("Iterator[tuple[T_co, Info]]", InfoIterator(self._iterated()))

    def peek(self) -> T_co:
        """Return the next element without taking it.

        Raises:
            LoaderError: the epoch has no more elements.
        """
        self._check_open()
        epoch = self._current
        return (self._begin() if epoch is None or epoch.over else epoch).peek()

    def skip(self, count: int) -> None:
        """Move on as if `count` elements of the epoch had been taken, in the running loop or before it begins.

        An indexed pipe reads nothing for that; a stream takes the elements and drops them.

        Raises:
            LoaderError: the epoch has fewer elements left.

        Example:
            >>> import feedpipe as fp
            >>> loader = fp.Loader(fp.from_sequence(range(6)))
            >>> loader.skip(4)
            >>> list(loader)
            [4, 5]
        """
        check_int("count", count, least=0)
        self._check_open()
        epoch, requested = self._current, self._requested_epoch
        if (
            epoch is None
            or epoch.over
            or (requested is not None and (epoch.iterated or requested != epoch.run.position().epoch))
        ):
            epoch = self._begin()
        epoch.skip(count)

    def __len__(self) -> int:
        """Return how many elements a whole epoch has on this rank, also after a resume.

        If epochs differ in that, it is the length of the loader's current epoch, or of the one that `set_epoch` chose:
        with the steps before it if the number of ranks has changed in that epoch.
        """
        if self._epochs.steps is not None:
            return self._epochs.steps
        position, schedule = self._place, self._schedule
        if (chosen := self._requested_epoch) is not None and chosen != position.epoch:
            position = Progress(chosen, 0, chosen)
        if position.goal is not None:
            return position.goal
        if schedule.plan.length(schedule.plan.rank) is None:
            return length_of(schedule.plan.unsharded)
        whole = Progress(data_pass=position.data_pass if schedule.plan.varies else 0)
        return schedule.end(whole).of_rank or 0

    def __getitem__(self, index: object) -> NoReturn:
        raise ArgumentTypeError(
            "a loader has no elements by number, so it is no dataset for torch's DataLoader or a trainer that makes "
            "one; give it `pipe.as_iterable_dataset()` or `feedpipe.transformers.dataset(pipe)`"
        )

    @property
    def dataset(self) -> Pipe[T_co]:
        """The pipe that it loads."""
        return self._pipe

    @property
    def epoch(self) -> int:
        """The epoch of the element taken last; once the loop has seen the end of an epoch, the next one."""
        return self._place.epoch

    @property
    def step(self) -> int:
        """How many elements of `epoch` this rank has taken."""
        return self._place.step

    @property
    def progress(self) -> float | None:
        """The share of the epoch that this rank has taken, from 0 to 1; None if nobody knows where the epoch ends.

        It counts elements, if the length of the epoch is known; else the rows or bytes of what is read, such as row
        groups and files, without what waits in the window of a shuffle. It reads nothing and never falls in an epoch.
        It is 1 at the end until the next epoch begins, and is the same in a loader that loads the state.

        Example:
            >>> import feedpipe as fp
            >>> loader = fp.Loader(fp.from_sequence(range(8)).batch(2))
            >>> [loader.progress for batch in loader]
            [0.25, 0.5, 0.75, 1.0]
        """
        current = self._current
        if current is not None and current.run.finished:
            return 1.0
        schedule, place = self._schedule, self._place
        has_begun = current is not None and current.run.schedule is not None
        return schedule.fraction(place, current.run.end if has_begun and current is not None else schedule.end(place))

    @property
    def valid(self) -> npt.NDArray[np.bool_] | None:
        """A bool for each row of the element taken last, False if the row is padding.

        One bool for an element without rows; None before the first element of an epoch and after the end.
        """
        return None if self._current is None else self._current.run.valid

    @property
    def skipped(self) -> dict[str, int]:
        """How many rows of the epoch were skipped on this rank because they failed, by operator; see `on_error`."""
        return dict((self._skipped if self._current is None else self._current.run.progress.skipped).skipped)

    def ledger(self) -> Ledger:
        """Return the rows of each named source in the elements that were taken, in this pass and in all passes.

        A source is an input of `fp.mix({"web": web, ...})`. The numbers stand in each state, so that a checkpoint says
        what its model has seen; they stay right after a resume on other ranks, after edits and for skipped rows. Of a
        streamed pipe they are those of this rank; of an indexed pipe, whose place is that of all ranks, those of all.
        `fp.gather_ledger` gives those of all ranks.

        A row that an operator divides among several elements, such as `pack` or `flat_map`, counts in the first. A
        `sliding` row counts in each window. A mixture before `load` or `cache` has no ledger.

        Example:
            >>> import feedpipe as fp
            >>> pipe = fp.mix({"web": fp.from_sequence(range(90)), "code": fp.from_sequence("abc" * 10)})
            >>> loader = fp.Loader(pipe.batch(4))
            >>> first = next(iter(loader))
            >>> loader.ledger()
            Ledger of 1 rank
              source  rows  of this pass
              code       2             2
              web        2             2
            >>> loader.ledger()["web"].rows
            2
        """
        schedule = self._schedule
        return schedule.numbers(self._place).ledger(schedule.plan.world_size if schedule.plan.indexed else 1)

    def report(self) -> Report:
        """Return what the threads of this loader have done so far: who worked, who waited, who holds the loop back.

        It covers all epochs, on this rank; `fp.gather_report(loader)` covers all ranks. Counting is always on.

        Example:
            >>> import feedpipe as fp
            >>> loader = fp.Loader(fp.from_sequence(range(6)).map(abs).batch(2))
            >>> for batch in loader:
            ...     pass
            >>> report = loader.report()
            >>> [operator.rows for operator in report.operators]
            [6, 6, 3]
            >>> print(report.verdict)
            Too short to say: 2 steps in 0.0 s.
        """
        from .seeing.report import Report

        return Report([self._rank_times])

    def _repr_html_(self) -> str:
        return self._pipe._repr_html_()  # pyright: ignore[reportPrivateUsage]

    def set_epoch(self, epoch: int) -> None:
        """Make the next `iter(loader)` begin epoch `epoch`; if the loader is in the middle of it, it goes on there.

        Raises:
            LoaderError: a loaded state is in the middle of another epoch, and would be lost.
        """
        check_int("epoch", epoch, least=0)
        if epoch != self._following.epoch and self._following.step:
            epoch_now = self._current if self._current is not None and not self._current.over else self._begin()
            epoch_now.look()  # if the length is not known, only a look shows whether anything is left
            if (loaded := self._following).step and epoch != loaded.epoch:
                raise LoaderError(
                    f"`set_epoch({epoch})` would leave out the rest of epoch {loaded.epoch}, because the loaded state "
                    f"is after step {loaded.step} of that; finish the epoch first, or load no state"
                )
        self._requested_epoch = epoch

    def state_dict(self, *, step: int | None = None) -> State:
        """Return the place of the consumer, after the last element it took, as plain JSON. It reads no rows.

        Args:
            step: stand after this many elements of the epoch instead: one of its last 64 steps. Frameworks that take
                elements ahead of training save the step that training has come to. After the end of an epoch, its
                steps are kept until the next one begins.

        Raises:
            ArgumentError: the loader does not keep `step`, or has not come to it.
            LoaderError: the service gives elements in no order.

        Example:
            >>> import feedpipe as fp
            >>> loader = fp.Loader(fp.from_sequence(range(6)))
            >>> ahead = [element for element, _ in zip(loader, range(4))]
            >>> loader.load_state_dict(loader.state_dict(step=2))
            >>> list(loader)
            [2, 3, 4, 5]
        """
        if step is not None or self._current is None:
            return self._schedule.state(self._chosen(self._progress) if step is None else self._position_at(step))
        run = self._current.run
        return (run.schedule or self._schedule).state(self._chosen(run.position()))

    def load_state_dict(
        self,
        state: Mapping[str, object] | Sequence[Mapping[str, object]],
        *,
        strict: bool = True,
        edits: Edits = "groups",
    ) -> None:
        """Make the next `iter(loader)` continue where `state` was taken.

        It runs nothing: `epoch`, `step` and `state_dict()` say what the state says. A state that was taken right after
        the last element of an epoch, before the loop saw the end, means the start of the next epoch. If the length of
        the pipe is not known, the properties say so only after the first look for an element.

        Args:
            state: what `state_dict()` returned, or `gather_state(loader)`, or a list of the states of all ranks, in
                the order of the ranks; it may have gone through JSON. The latter two serve any number of ranks.
            strict: False continues with another graph, seed or length if that is possible, and warns of each
                difference.
            edits: what may have changed in the pipe since the state was taken: "groups" allows other batches, packs and
                functions from row to row, whose rows come in the same order; "order" also other mixtures, orders and
                new inputs; "drop" also that an input is gone. Each input goes on where it was, and no row of the pass
                is lost or comes twice. A `StateWarning` says what has changed, and `resumed` has it as values.

        Raises:
            StateError: the state is damaged, or of another pipe, seed or version; the message names what differs. The
                loader stays as it is.

        Example:
            >>> import feedpipe as fp, warnings
            >>> warnings.simplefilter("ignore", fp.errors.StateWarning)
            >>> loader = fp.Loader(fp.from_sequence(range(7)).batch(2))
            >>> first = next(iter(loader))
            >>> changed = fp.Loader(fp.from_sequence(range(7)).batch(3))
            >>> changed.load_state_dict(loader.state_dict())
            >>> list(changed)
            [[2, 3, 4], [5, 6]]
            >>> print(changed.resumed)
            `batch(2)` is now `batch(3)`: 2 rows were taken, the pass goes on at row 2
        """
        check_choice("edits", edits, EDITS)
        self._check_open()
        states = read_states(state)
        schedule = self._epochs.restore(states[0].pipe, lambda: self._schedule)
        reason, resumed = None, None
        if strict and has_changed(states[0], schedule.signature):
            try:
                states, resumed = edited(states, schedule.plan, schedule.signature, edits)
            except EditError as error:
                reason = str(error)
        compare(states[0], schedule.signature, strict=strict, advises=self._is_users, reason=reason)
        states = run_alike(states, schedule.plan)
        schedule = self._epochs.resume(schedule, shards_of_job(states, schedule.plan))
        progress = schedule.after_end(restore_job(states, schedule))
        # Nothing has changed up to here: a state that is refused ends no epoch.
        self._end_current("a state was loaded")
        self._epochs.use(schedule)
        self._progress, self._skipped = progress, progress.skipped
        self._requested_epoch, self.resumed = None, resumed
        if resumed is not None:
            warn(str(resumed), StateWarning)

    def close(self) -> None:
        """End the current epoch and all threads and processes of the loader. A closed loader stays closed."""
        self._end_current("the loader was closed")
        self._epochs.close()
        self._closed = True

    def __enter__(self) -> Loader[T_co]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """Show the chain, the service and the position that are known without running or reading."""
        position = self._place
        goal = self._epochs.steps or (None if self._current is None else self._current.run.end.of_rank)
        parts = [chain_in_one_line(self._pipe), service_code(self._epochs.service), *self._epochs.rank_code()]
        parts += [f"epoch {position.epoch}", f"step {position.step}" + (f" of {goal}" if goal is not None else "")]
        return f"Loader({', '.join(parts)}{', closed' if self._closed else ''})"

    def __getstate__(self) -> dict[str, object]:
        progress = self._following
        if progress.begun or ((epoch := self._current) is not None and epoch.run.started and not epoch.over):
            raise LoaderError(
                "a loader in the middle of an epoch cannot be copied or pickled; copy it before its first "
                "element, or make a new one and give it `state_dict()`"
            )
        return {**self.__dict__, "_current": None, "_progress": progress}

    @property
    def _rank_times(self) -> RankTimes:
        if self._current is not None:
            self._current.run.note_step()
        return self._epochs.rank_times(self.skipped)

    @property
    def _schedule(self) -> Schedule:
        schedule = None if self._current is None else self._current.run.schedule
        return self._epochs.schedule(self._progress) if schedule is None else schedule

    @property
    def _place(self) -> Progress:
        """The place of the consumer: while it has the element that it took last, the step of that."""
        return self._progress if self._current is None else self._current.run.place()

    def _chosen(self, progress: Progress) -> Progress:
        """The beginning of the epoch that `set_epoch` has chosen, unless a loop is under way; else `progress`."""
        epoch, requested = self._current, self._requested_epoch
        is_under_way = epoch is not None and epoch.iterated and not epoch.over
        if requested is None or requested == progress.epoch or is_under_way:
            return progress
        return self._schedule.at_epoch(requested, progress)

    def _position_at(self, step: int) -> Progress:
        """The place of the consumer after `step` elements of the epoch."""
        check_int("step", step, least=0)
        epoch = self._current
        check_kept(step, range(self._progress.step, self._progress.step + 1) if epoch is None else epoch.run.kept_steps)
        return self._progress if epoch is None else epoch.run.position_before(epoch.run.progress.step - step)

    @property
    def _following(self) -> Progress:
        """The place at which the next `iter` begins, unless `set_epoch` chooses another."""
        return self._progress if self._current is None else self._current.run.following()

    def _iterated(self) -> Epoch[T_co]:
        """The epoch for a new consumer: the next one, at whose first element `peek` may have looked."""
        self._check_open()
        if not self._epochs.ranks.is_explicit:
            warn_in_torch_worker(self._pipe, "loader", "give `rank=info.id` and `world_size=info.num_workers`")
        epoch, requested = self._current, self._requested_epoch
        if epoch is None or epoch.iterated or epoch.over or requested not in (None, epoch.run.position().epoch):
            epoch = self._begin()
        self._requested_epoch = None
        epoch.iterated = True
        return epoch

    def _begin(self) -> Epoch[T_co]:
        """Begins the next epoch. An epoch that has given no element begins again, at the same place."""
        progress, requested = self._following, self._requested_epoch
        if self._current is not None:
            self._current.end("a newer `iter(loader)` has ended this one; a loader has one epoch at a time")
        if requested is not None and requested != progress.epoch:
            progress = self._schedule.at_epoch(requested, progress)
        self._requested_epoch, self._progress = None, progress
        self._current = Epoch(self._epochs, progress, self._current)
        return self._current

    def _end_current(self, reason: str) -> None:
        if (epoch := self._current) is not None:
            epoch.end(reason)
            self._progress, self._skipped, self._current = epoch.run.position(), epoch.run.progress.skipped, None

    def _check_open(self) -> None:
        if self._closed:
            raise LoaderError("this loader was closed; make a new one")


class PassLoader(Loader[T_co]):
    """A loader that the library makes for one pass, as of a write: no warning and no advice is about it."""

    _is_users = False


@overload
def gather_state(loader: Loader[object], group: Group | None = None, *, rank: None = None) -> State: ...
@overload
def gather_state(loader: Loader[object], group: Group | None = None, *, rank: int) -> State | None: ...
def gather_state(loader: Loader[object], group: Group | None = None, *, rank: int | None = None) -> State | None:
    """Return one state of all ranks, the same dict on every rank. It loads on any number of ranks.

    All ranks call it together; they communicate over a gloo group of their own. They need not have taken equally many
    elements. The ranks exchange their places, and only digests of what they have in common. Save the state on one rank:
    it has the fingerprint of the pipe once, and for a streamed pipe some 250 bytes of each rank.

    Args:
        loader: the loader of this rank.
        group: the ranks that share the data; by default those of the loader's `group=`, else all ranks of the job.
        rank: the one rank that gets the state, and the others get None; by default all get it.

    Raises:
        ArgumentError: `rank` is no rank of the job.
        LoaderError: there is no process group, or its ranks are not those of the loader.
        StateError: the ranks do not run the same loader, or are in different epochs.
        RankError: a rank does not answer.

    Example:
        >>> import feedpipe as fp
        >>> loader = fp.Loader(fp.from_sequence(range(6)).filter(lambda n: n % 2).batch(2))
        >>> first = next(iter(loader))
        >>> fp.gather_state(loader) == loader.state_dict()  # of one rank
        True
    """
    if rank is not None:
        check_int("rank", rank, least=0)
    return _gather(loader, loader.state_dict(), group, rank)


def gather_ledger(
    loader: Loader[object] | Mapping[str, object] | Sequence[Mapping[str, object]], group: Group | None = None
) -> Ledger:
    """Return one ledger of all ranks, the same on every rank. All ranks call it together.

    Args:
        loader: the loader of this rank. Or a state of `gather_state`, or a list of the states of all ranks: these are
            read without a process group or a pipe, so a checkpoint says what its model has seen.
        group: the ranks that share the data; by default those of the loader's `group=`, else all ranks of the job.

    Raises:
        LoaderError: there is no process group, or its ranks are not those of the loader.
        StateError: the states are not those of all ranks of one job.
        RankError: a rank does not answer.

    Example:
        >>> import feedpipe as fp
        >>> web, code = fp.from_sequence(range(90)), fp.from_sequence("abc" * 10)
        >>> loader = fp.Loader(fp.mix({"web": web, "code": code}).batch(4))
        >>> first = next(iter(loader))
        >>> fp.gather_ledger(loader.state_dict()) == fp.gather_ledger(loader)  # of one rank
        True
    """
    return ledger_of_states(gather_state(loader, group) if isinstance(loader, Loader) else loader)


def gather_report(loader: Loader[object], group: Group | None = None) -> Report:
    """Return one report of all ranks, the same on every rank. All ranks call it together.

    It alone tells whether one rank holds the others back: where ranks wait for each other in each step, the report of
    one rank shows only that its own loop is slow.

    Args:
        loader: the loader of this rank.
        group: the ranks that share the data; by default those of the loader's `group=`, else all ranks of the job.

    Raises:
        LoaderError: there is no process group, or its ranks are not those of the loader.
        RankError: a rank does not answer.

    Example:
        >>> import feedpipe as fp
        >>> loader = fp.Loader(fp.from_sequence(range(6)).batch(2))
        >>> batches = list(loader)
        >>> fp.gather_report(loader).steps  # of one rank
        2
    """
    from .seeing.report import Report, packed_rank, unpacked_rank

    own = loader._rank_times  # pyright: ignore[reportPrivateUsage]
    if own.world_size == 1:
        return Report([own])
    ranks = loader._epochs.ranks  # pyright: ignore[reportPrivateUsage]
    side = group_of_job(ranks, group, "gather_report", "look at `loader.report()` of each rank")
    return Report(list(map(unpacked_rank, side.gather("gather_report", packed_rank(own)))))


def state_before(loader: Loader[object], count: int) -> State:
    """The state before the last `count` elements, which a framework has taken ahead of training."""
    if (epoch := loader._current) is None:  # pyright: ignore[reportPrivateUsage]
        return loader.state_dict()
    return loader._schedule.state(epoch.run.position_before(count))  # pyright: ignore[reportPrivateUsage]


def at_end(loader: Loader[object]) -> bool:
    """Whether the element that was taken last is the last of its epoch. If lengths do not tell, it looks ahead."""
    return (epoch := loader._current) is not None and epoch.at_end()  # pyright: ignore[reportPrivateUsage]


def valid_on_all_ranks(loader: Loader[object]) -> npt.NDArray[np.bool_] | None:
    """The masks of the element that each rank took last, in order of rank. All ranks call it together.

    None if the ranks do not communicate; nothing is asked of the others if no element is padded.
    """
    valid, epochs = loader.valid, loader._epochs  # pyright: ignore[reportPrivateUsage]
    own = np.ones(0, np.bool_) if valid is None else np.atleast_1d(valid)
    if not epochs.pads or epochs.ranks.ask().world_size == 1:
        return own
    group = epochs.ranks.side_group()
    return None if group is None else np.frombuffer(b"".join(group.gather("valid rows", own.tobytes())), np.bool_)


def _gather(loader: Loader[object], state: State, group: Group | None, receiver: int | None = None) -> State | None:
    schedule = loader._schedule  # pyright: ignore[reportPrivateUsage]

    def numbers_of(one: SavedState) -> Numbers:
        return schedule.numbers(restore(one, schedule.plan))

    return gather(state, loader._epochs.ranks, group, numbers_of, receiver)  # pyright: ignore[reportPrivateUsage]


def gathered(loader: Loader[object], state: State) -> State:
    """One state of all ranks, as `gather_state`, of a state of each that may be an earlier one."""
    state_of_all = _gather(loader, state, None)
    assert state_of_all is not None, "without a receiver, all ranks get it"
    return state_of_all


def chain_in_one_line(pipe: Pipe[object]) -> str:
    """The code of a chain in one line: of a long one, the source and the last call."""
    code = repr(pipe)
    calls = [line.strip() for line in code.splitlines() if line.startswith(("    fp.", "    ."))] or [code]
    first, last = (call if len(call) <= 60 else f"{call[:56]}...)" for call in (calls[0], calls[-1]))
    return first if len(calls) == 1 else f"{first} ... {last}"


# The service of a loader.


def service_code(service: object) -> str:
    """A service as code, for `repr`."""
    return constructor_code(service) if is_dataclass(service) else repr(service)


def reading_service(service: ReadingService | None, workers: int) -> ReadingService:
    """The service of a loader with these arguments."""
    check_int("workers", workers, least=0)
    if service is not None and (isinstance(service, type) or not hasattr(service, "start")):
        name = service.__name__ if isinstance(service, type) else repr(service)
        message = f"`service` must be a reading service, such as `fp.Threads(2)`, but got: {name}"
        hint = f"; `workers={service}` reads in processes" if isinstance(service, int) and service > 0 else ""
        raise ArgumentTypeError(f"{message}{hint}")
    if service is not None and workers:
        raise ArgumentError(
            f"`workers` and `service` must not be given together; give `workers` to {type(service).__name__}"
        )
    return service or (MultiProcess(workers) if workers else InProcess())


@dataclass(frozen=True)
class OnDevice:
    """Starts a service whose elements are moved to a device.

    Args:
        service: where plans run.
        device: the device to which elements are copied; None if they are only pinned.
        pin_memory: pin the elements; those on the way to a CUDA device always are.
    """

    service: Starter
    device: torch.device | str | int | None
    pin_memory: bool

    def __post_init__(self) -> None:
        check_torch(f"`{'pin_memory' if self.device is None else 'device'}` moves tensors")
        if self.device is not None:
            from .torch.device import checked_device

            checked_device(self.device)

    def start(self) -> Executor:
        from .torch.device import backend_for

        backend = backend_for(self.device, pin_memory=self.pin_memory)
        return _DeviceService(self.service.start(), backend)


class _DeviceService:
    def __init__(self, executor: Executor, backend: Backend) -> None:
        self._executor = executor
        self._backend = backend

    def open(self, plan: Plan, position: Position, epoch: int) -> Session:
        return _DeviceRun(self._executor.open(plan, position, epoch), self._backend)

    def close(self) -> None:
        self._executor.close()


class _DeviceRun:
    """One run. The step of an element travels with it, so looking ahead changes no state."""

    def __init__(self, session: Session, backend: Backend) -> None:
        from .torch.device import on_device

        self._session = session
        times = None if here.run is None else here.run.consumer
        count = None if times is None else times.count_data
        moved = _moved if times is None else partial(_moved_in, times)
        self._items = cast("Generator[Step | ShardEnd]", on_device(iter(session), backend, moved, count))

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._items

    def close(self) -> None:
        self._items.close()
        self._session.close()


def _moved_in(times: Times, item: Step | ShardEnd, move: Move) -> Step | ShardEnd:
    with times.waiting("device"):
        return _moved(item, move)


def _moved(item: Step | ShardEnd, move: Move) -> Step | ShardEnd:
    if not isinstance(item, Step):
        return item
    if isinstance(item.element, Skipped):
        skipped = item.element
        return item if skipped.is_row else item._replace(element=Skipped(skipped.skips, move(skipped.value), False))
    return item._replace(element=move(item.element))
