"""`check_part`: a reading service gives what the plan promises."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from time import monotonic, sleep
from typing import Literal, NamedTuple, TypeAlias, get_args

from feedpipe.core.ending import ends_are_due
from feedpipe.errors import LoaderError, PlanWarning, UnknownLengthError
from feedpipe.loader import Loader
from feedpipe.loading.state import State
from feedpipe.services.base import ReadingService
from feedpipe.services.processes.start import kept_server
from feedpipe.sources.from_sequence import from_sequence

from .runs import (
    Case,
    Group,
    Sample,
    Taken,
    agree,
    agree_errors,
    cases,
    check_raises,
    every,
    failed,
    failing,
    rows,
    samples,
    saved,
    taken,
    through_json,
    uneven,
    with_states,
)

Part: TypeAlias = Group | Literal["failing", "epochs"]
PARTS: tuple[Part, ...] = (*get_args(Group), "failing", "epochs")


def check_part(part: Part, service: ReadingService, others: Sequence[ReadingService] = ()) -> None:
    """Checks one part of what a reading service promises; all parts together would be longer than a test may take."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", PlanWarning)
        groups, bad = samples(Path(folder)), failing(Path(folder))
        for sample in chain(*groups.values()):  # whatever leaves something behind for good happens here
            with Case(service, sample).here() as loader:
                list(loader)
        with nothing_left(f"{service!r}, in its part {part!r},"):
            if part == "failing":
                _check_failures(service, bad)
            elif part == "epochs":
                _check_uneven(service, others)
                check_epochs(service)
                check_closing(service)
            else:
                for sample in groups[part]:
                    _check_sample(service, sample, others)


def _check_sample(service: ReadingService, sample: Sample, others: Sequence[ReadingService]) -> None:
    """Checks each case of a sample, and that several ranks together have the rows of a single one."""
    rows_by_ranks: dict[int, Counter[str]] = {}
    for case in cases(service, sample):
        rows_by_ranks.setdefault(case.ranks, Counter()).update(rows(_check_runs(case, others)))
    for ranks, union in rows_by_ranks.items():
        assert union == rows_by_ranks[1], f"{ranks} ranks together do not have the rows of {sample.name}"


def _check_failures(service: ReadingService, bad: Sequence[Sample]) -> None:
    for case in (Case(service, bad[0], ranks=2), *(Case(service, sample) for sample in bad[1:])):
        _check_failure(case)


def _check_uneven(service: ReadingService, others: Sequence[ReadingService]) -> None:
    for case in _uneven(service):
        _check_runs(case, others)


def _uneven(service: ReadingService) -> Iterator[Case]:
    """Cases whose length is known, and which ranks cannot share evenly."""
    indexed, streamed = uneven()
    yield Case(service, indexed, rank=0, ranks=2, even="drop")
    for sample in (indexed, streamed):
        yield Case(service, sample, rank=1, ranks=2, even="pad")
        yield Case(service, sample, steps=4)


def _check_runs(case: Case, others: Sequence[ReadingService]) -> list[Taken]:
    """Checks whole epochs, and what follows each state; returns the first epoch."""
    with ExitStack() as stack:
        here, loader, *more = (
            stack.enter_context(loader)
            for loader in (case.here(), case.loader(), *(case.on(other) for other in others))
        )
        assert _length(loader) == _length(here), f"{case}: `len` is {_length(loader)} and should be {_length(here)}"
        epochs: list[list[Taken]] = []
        states: list[tuple[int, int, State, State]] = []
        for epoch in range(2):
            before = saved(loader), saved(here)
            expected, expected_states = with_states(here)
            elements, own_states = with_states(loader)
            agree(f"{case}: epoch {epoch}", elements, expected)
            epochs.append(expected)
            states += [(epoch, 0, *before)]
            pairs = zip(own_states, expected_states, strict=True)
            states += [(epoch, place, own, other) for place, (own, other) in enumerate(pairs, 1)]
        epochs.append(taken(here.with_info()))
        undisturbed = {(epoch, place): own_state for epoch, place, own_state, _ in states}
        for epoch, place, own_state, state_here in states:
            # What follows a place depends on the epoch in few cases, so each place is looked at in one of the two.
            if 0 < place < len(epochs[epoch]) and place % 2 != epoch:
                continue
            resumed_state = _check_rest(case, loader, own_state, epochs, epoch, place)
            for other in more:
                _check_rest(case, other, own_state, epochs, epoch, place)
            # Equal states lead to equal elements, so each text is loaded once.
            if state_here != own_state:
                _check_rest(case, here, own_state, epochs, epoch, place)
                _check_rest(case, loader, state_here, epochs, epoch, place)
            if place < len(epochs[epoch]) and resumed_state != undisturbed[epoch, place + 1]:
                assert resumed_state is not None, "there is an element left, which the loader gave"
                _check_rest(case, here, resumed_state, epochs, epoch, place + 1)
        return epochs[0]


def _check_rest(
    case: Case, loader: Loader[object], state: State, epochs: list[list[Taken]], epoch: int, place: int
) -> State | None:
    """Checks that a loader continues after element `place` of an epoch; after the last one, with the next epoch.

    Returns:
        The state after the first of these elements; None if there is none.
    """
    expected = [(epoch, place)]
    if epochs[epoch] and place == len(epochs[epoch]):
        epoch, place = epoch + 1, 0
        expected.append((epoch, place))  # if the length is not known, only a look for an element shows the end
    loader.load_state_dict(state)
    position = loader.epoch, loader.step
    assert position in expected or not epochs[epoch], (
        f"{case}: a loaded state is at {position} and should be at {expected[-1]}"
    )
    iterator = loader.with_info()
    first = next(iterator, None)
    state_after = None if first is None else through_json(first[1].state_dict())
    rest = [] if first is None else taken(chain((first,), iterator))
    if case.ranks > 1 and case.even is None and not rest:
        rest = taken(loader.with_info())  # other ranks have elements of the epoch left, and this one has none
    agree(f"{case}: what follows element {place} of epoch {epoch}", rest, epochs[epoch][place:])
    return state_after


def _check_failure(case: Case) -> None:
    """Checks the elements before an error, the error, and that a state after it leads to the same error."""
    with case.here() as here, case.loader() as loader:
        for epoch in range(2):
            expected, expected_error = failed(here)
            elements, error = failed(loader)
            agree_errors(f"{case}: epoch {epoch}", error, expected_error)
            agree(f"{case}: epoch {epoch}", elements, expected)
            if epoch:
                continue
            state = saved(loader)
            for target in (here, loader):
                target.load_state_dict(state)
                elements, error = failed(target)
                agree(f"{case}: what follows the elements before an error", elements, [])
                agree_errors(f"{case}: after a resume", error, expected_error)


def _length(loader: Loader[object]) -> int | str:
    try:
        return len(loader)
    except UnknownLengthError as error:
        return str(error)


# Epochs and closing


PIPES = [
    Sample(from_sequence(range(12)).shuffle().batch(5)),
    Sample(from_sequence(range(12)).filter(every).shuffle(window=4).batch(5)),
]
"""Pipes of three elements each."""


def check_epochs(service: ReadingService) -> None:
    """Checks two loaders of one service at once, and the rules of epochs, `set_epoch`, loaded states and `peek`."""
    cases = [Case(service, sample) for sample in PIPES]
    with cases[0].here() as a, cases[1].here() as b:
        expected = [[list(here) for _ in range(4)] for here in (a, b)]
    with cases[0].loader() as a, cases[1].loader() as b:
        pairs = list(zip(a, b, strict=True))
        for case, got, epochs in zip(cases, zip(*pairs, strict=True), expected, strict=True):
            assert list(got) == epochs[0], f"{case}: beside another loader, it gives {got} and not {epochs[0]}"
        for case, loader, epochs in zip(cases, (a, b), expected, strict=True):
            _check_iteration(str(case), loader, epochs)
            _check_loaded(str(case), loader, epochs)


def _check_iteration(name: str, loader: Loader[object], epochs: list[list[object]]) -> None:
    def check_at(epoch: int, step: int, when: str) -> None:
        at = loader.epoch, loader.step
        assert at == (epoch, step), f"{name}: {when} the loader is at {at} and should be at {(epoch, step)}"

    def gives(epoch: int, rule: str) -> None:
        got = list(loader)
        assert got == epochs[epoch], f"{name}: {rule}: got {got} and not epoch {epoch}: {epochs[epoch]}"

    check_at(1, 0, "after an epoch")
    first = loader.peek()
    check_at(1, 0, "after `peek`")
    assert first == loader.peek() == epochs[1][0], f"{name}: `peek` gives the next element"
    for _ in loader:
        break
    check_at(1, 1, "after a `break`")
    gives(2, "`break` abandons the rest")
    loader.set_epoch(0)
    check_at(3, 0, "after `set_epoch`, before the next `iter`,")
    older = iter(loader)
    next(older)
    newer = iter(loader)
    check_raises(lambda: next(older), LoaderError, "newer", f"{name}: a second `iter` ends the first")
    assert [next(newer), loader.peek()] == epochs[1][:2], (
        f"{name}: `peek` in the middle of an epoch gives the next element"
    )
    assert list(newer) == epochs[1][1:], f"{name}: a second `iter` begins the next epoch"
    loader.set_epoch(0)
    for _ in zip(range(3), loader, strict=False):
        pass
    check_raises(loader.peek, LoaderError, "no more elements", f"{name}: a `peek` after the last element")


def _check_loaded(name: str, loader: Loader[object], epochs: list[list[object]]) -> None:
    loader.set_epoch(0)
    whole = _known_length(loader)
    running = iter(loader)
    assert next(running) == epochs[0][0], f"{name}: an epoch begins with its first element"
    one = saved(loader)
    loader.peek()
    assert saved(loader) == one, f"{name}: `peek` changes the state"
    next(running)
    next(running)
    unseen = saved(loader)
    assert next(running, None) is None, f"{name}: an epoch ends"
    seen = saved(loader)

    def gives(state: State, expected: list[object], rule: str, epoch: int | None = None) -> None:
        loader.load_state_dict(state)
        if epoch is not None:
            loader.set_epoch(epoch)
        got = list(loader)
        assert got == expected, f"{name}: {rule}: got {got} and not {expected}"

    gives(one, epochs[0][1:], "a loaded state continues its epoch")
    assert list(loader) == epochs[1], f"{name}: after a loaded epoch comes the next one"
    gives(one, epochs[0][1:], "`set_epoch` of the loaded epoch changes nothing", 0)
    loader.load_state_dict(one)
    check_raises(
        lambda: loader.set_epoch(3),
        LoaderError,
        "rest of epoch 0",
        f"{name}: `set_epoch` leaves no loaded epoch in silence",
    )
    gives(seen, epochs[3], "`set_epoch` applies to a state at the beginning of an epoch", 3)
    gives(unseen, epochs[1], "a state after the last element is the start of the next epoch")
    gives(seen, epochs[1], "a state after the end is the start of the next epoch")
    loader.load_state_dict(one)
    assert _known_length(loader) == whole, f"{name}: `len` is that of a whole epoch, also after a resume"
    assert saved(loader) == one, f"{name}: loading and saving a state must not change it"
    ended = iter(loader)
    next(ended)
    loader.load_state_dict(one)
    check_raises(lambda: next(ended), LoaderError, "a state was loaded", f"{name}: loading a state ends the epoch")
    assert [loader.peek(), *loader] == [epochs[0][1], *epochs[0][1:]], f"{name}: `peek` after a resume moves nothing"


def _known_length(loader: Loader[object]) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None


def check_closing(service: ReadingService) -> None:
    """Checks that a closed or dropped loader leaves nothing behind, and that a closed one raises errors."""
    case = Case(service, PIPES[1])
    with nothing_left(f"{case}, closed before its first use,"):
        case.loader().close()
    with nothing_left(f"{case}, closed in the middle of an epoch,") as seen:
        _close(case, seen)
    with nothing_left(f"{case}, dropped in the middle of an epoch,") as seen:
        _begun(case, seen)


def _begun(case: Case, seen: set[Process]) -> tuple[Loader[object], Iterator[object]]:
    loader = case.loader()
    iterator = iter(loader)
    next(iterator)
    seen |= Footprint.now().processes
    return loader, iterator


def _close(case: Case, seen: set[Process]) -> None:
    loader, iterator = _begun(case, seen)
    state = saved(loader)
    loader.close()
    loader.close()
    assert saved(loader) == state, f"{case}: a closed loader keeps its state"
    for use in (lambda: next(iterator), lambda: iter(loader), loader.peek):
        check_raises(use, LoaderError, "closed", f"{case}: a closed loader refuses to be used")


# Threads, files and processes


MAX_WAIT_SECONDS = 60.0
"""The most time that threads may take to end."""


class Process(NamedTuple):
    """A process, identified also by its start, because the system uses numbers again."""

    pid: int
    started: str


class Footprint(NamedTuple):
    """The threads of this process, how many files it has open, and its descendants (if there is `/proc`).

    The fork server belongs to the process and not to a loader. So it does not count, nor does the connection to it.
    Sockets do not count if Ray is there, which closes those to an actor some time after its end.
    """

    threads: frozenset[threading.Thread]
    files: int
    processes: frozenset[Process]

    @staticmethod
    def now() -> Footprint:
        server = kept_server()
        files = _open_files()
        processes = frozenset(process for process in _descendants() if server is None or process.pid != server.pid)
        return Footprint(frozenset(threading.enumerate()), files - (server is not None), processes)

    def beyond(self, before: Footprint, seen: Iterable[Process]) -> list[str]:
        """What was not there `before`; processes that were `seen` meanwhile count even without a parent."""
        left = [f"thread {thread.name}" for thread in self.threads - before.threads]
        orphans = {process for process in seen if _started(process.pid) == process.started}
        left += [f"process {process.pid}" for process in (self.processes | orphans) - before.processes]
        if self.files > before.files:
            left.append(f"{self.files - before.files} open files")
        return left


@contextmanager
def nothing_left(what: str) -> Generator[set[Process]]:
    """Raises an `AssertionError` if the block leaves threads, files or processes.

    The block may add processes that it has seen: these must end even if they have lost their parent.
    """
    before = Footprint.now()
    seen: set[Process] = set()
    yield seen
    left = Footprint.now().beyond(before, seen)
    if left:
        gc.collect()
        deadline = monotonic() + MAX_WAIT_SECONDS
        while (ends_are_due() or set(threading.enumerate()) - before.threads) and monotonic() < deadline:
            sleep(0.001)  # `join` refuses a thread that is about to start
        left = Footprint.now().beyond(before, seen)
    assert not left, f"{what} has left behind: {', '.join(left)}"


def _open_files() -> int:
    if not os.path.isdir("/dev/fd"):
        return 0
    if "ray" not in sys.modules:
        return len(os.listdir("/dev/fd"))
    targets: list[str] = []
    for fd in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # a thread has closed it meanwhile
            targets.append(os.readlink(f"/dev/fd/{fd}"))
    return sum(not target.startswith("socket:") for target in targets)


def _descendants() -> set[Process]:
    """All descendants of this process."""
    children: dict[int, list[Process]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _fields(int(folder.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(Process(int(folder.name), fields[19]))
    descendants: set[Process] = set()
    parents = [os.getpid()]
    while parents:
        processes = children.get(parents.pop(), [])
        descendants.update(processes)
        parents += [process.pid for process in processes]
    return descendants


def _started(pid: int) -> str | None:
    fields = _fields(pid)
    return fields[19] if fields else None


def _fields(pid: int) -> list[str]:
    """The fields of `/proc/<pid>/stat` from the state on; none if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
