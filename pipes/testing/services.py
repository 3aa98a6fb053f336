"""`check_service`: checks that a reading service gives what the plan promises."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ..errors import PlanWarning, UnknownLengthError
from ..loader import Loader
from ..loading.state import State
from ..services.base import ReadingService
from .footprint import nothing_left
from .rules import check_closing, check_epochs
from .runs import Case, Taken, agree, agree_errors, cases, failed, rows, saved, taken, through_json, with_states
from .samples import Group, Sample, failing, samples, uneven
from .unordered import check_unordered

Part: TypeAlias = Group | Literal["failing", "epochs"]
PARTS: tuple[Part, ...] = (*get_args(Group), "failing", "epochs")


def check_service(service: ReadingService, *, others: Sequence[ReadingService] = ()) -> None:
    """Checks that `service` does all that a loader promises.

    It runs small pipes of every kind, indexed and streamed, of rows and of files, on 1, 2 and 3 ranks, and compares
    them with `InProcess`:

    - elements, their order and their `info` are the same, and so are errors, their text and their causes;
    - the state before each element and after the last one, of one of the first two epochs, saved as JSON, leads to
      exactly the elements that follow: in the same service, in this process, in each of `others`, and again from the
      state of a resumed run;
    - epochs, `steps`, `even` and `peek` follow their rules, also with two loaders of one service;
    - after a close, an error or a `del`, no thread, process or open file is left.

    A service whose `ordered` is False must give the same elements, those of each worker in their order, and no state.

    Args:
        service: what to check. It must be able to import `feedpipe` and to read local files.
        others: ordered services that must continue from its states, such as the same one with more workers.

    Raises:
        AssertionError: names the pipe, the options of the loader, and the first element that differs.

    Example:
        >>> import feedpipe as fp
        >>> from feedpipe.testing import check_service
        >>> check_service(fp.InProcess(debug=True))
    """
    for part in PARTS:
        check_part(part, service, others)


def check_part(part: Part, service: ReadingService, others: Sequence[ReadingService] = ()) -> None:
    """Runs one part of `check_service`, for tests that a time limit ends."""
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
    if service.ordered:
        _check_ranks(service, sample, lambda case: _check_runs(case, others))
    else:
        _check_ranks(service, sample, check_unordered)


def _check_failures(service: ReadingService, bad: Sequence[Sample]) -> None:
    for case in (Case(service, bad[0], ranks=2), *(Case(service, sample) for sample in bad[1:])):
        _check_failure(case)


def _check_uneven(service: ReadingService, others: Sequence[ReadingService]) -> None:
    for case in _uneven(service) if service.ordered else ():
        _check_runs(case, others)


def _check_ranks(service: ReadingService, sample: Sample, check: Callable[[Case], list[Taken]]) -> None:
    """Checks each case of a sample, and that several ranks together have the rows of a single one."""
    rows_by_ranks: dict[int, Counter[str]] = {}
    for case in cases(service, sample):
        rows_by_ranks.setdefault(case.ranks, Counter()).update(rows(check(case)))
    for ranks, union in rows_by_ranks.items():
        assert union == rows_by_ranks[1], f"{ranks} ranks together do not have the rows of {sample.name}"


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
        f"{case}: a loaded state stands at {position} and should at {expected[-1]}"
    )
    iterator = loader.with_info()
    first = next(iterator, None)
    state_after = None if first is None else through_json(first[1].state_dict())
    rest = [] if first is None else taken(chain((first,), iterator))
    if (
        case.ranks > 1 and case.even is None and not rest
    ):  # other ranks may have elements of the epoch left, so it has an empty rest here
        rest = taken(loader.with_info())
    agree(f"{case}: what follows element {place} of epoch {epoch}", rest, epochs[epoch][place:])
    return state_after


def _check_failure(case: Case) -> None:
    """Checks the elements before an error, the error, and that a state after it leads to the same error."""
    with case.here() as here, case.loader() as loader:
        for epoch in range(2):
            expected, expected_error = failed(here)
            elements, error = failed(loader)
            agree_errors(f"{case}: epoch {epoch}", error, expected_error)
            if not case.service.ordered:
                continue
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
