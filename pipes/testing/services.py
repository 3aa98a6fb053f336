"""`check_service`: proves that a reading service gives what the plan promises."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from ..errors import PlanWarning, UnknownLengthError
from ..loader import Loader
from ..loading.state import State
from ..services.base import ReadingService
from .footprint import nothing_left
from .rules import check_closing, check_epochs
from .runs import Case, Taken, agree, agree_errors, cases, failed, rows, saved, taken, through_json, with_states
from .samples import Sample, failing, samples, uneven
from .unordered import check_unordered


def check_service(service: ReadingService, *, others: Sequence[ReadingService] = ()) -> None:
    """Checks that `service` keeps what a loader promises.

    Runs small pipes of every kind, indexed and streamed, of rows and of files, on 1, 2 and 3 ranks, and compares with
    `InProcess`: the same elements in the same order, with the same `info`; the same errors with the same words and
    causes, after the same elements. From the state after each element, and before the first, through JSON, it goes on:
    in the same service, here, in each of `others`, from a state taken here, and once more from the resumed run; each
    time the elements must be exactly those that follow. Then come the rules of epochs, `steps`, `even` and `peek`, two
    loaders of one service, and that after a close, an error or a `del` no thread, process or open file is left.

    A service whose `ordered` is False has to give the same elements, each worker's own in their order, and no state.

    Args:
        service: what to check. It must be able to import `feedpipe`, and read local files.
        others: ordered services that must go on from its states, such as the same with more workers.

    Raises:
        AssertionError: with the pipe, the options of the loader, and the first element that differs.

    Example:
        >>> import feedpipe as fp
        >>> from feedpipe.testing import check_service
        >>> check_service(fp.InProcess(debug=True))
    """
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", PlanWarning)
        good, bad = samples(Path(folder)), failing(Path(folder))
        for sample in good:  # does here all that leaves something for good, such as to import torch
            with Case(service, sample).here() as loader:
                list(loader)
        with nothing_left(repr(service)):
            for sample in good:
                if service.ordered:
                    _check_ranks(service, sample, lambda case: _check_runs(case, others))
                else:
                    _check_ranks(service, sample, check_unordered)
            for case in (Case(service, bad[0], ranks=2), *(Case(service, one) for one in bad[1:])):
                _check_failure(case)
            if service.ordered:
                for case in _uneven(service):
                    _check_runs(case, others)
            check_epochs(service)
            check_closing(service)


def _check_ranks(service: ReadingService, sample: Sample, check: Callable[[Case], list[Taken]]) -> None:
    """Checks each case of a sample, and that several ranks have the rows of one."""
    found: dict[int, Counter[str]] = {}
    for case in cases(service, sample):
        found.setdefault(case.ranks, Counter()).update(rows(check(case)))
    for ranks, got in found.items():
        assert got == found[1], f"{ranks} ranks together do not have the rows of {sample.name}"


def _uneven(service: ReadingService) -> Iterator[Case]:
    """Runs of pipes of known length that no two ranks can share evenly."""
    indexed, streamed = uneven()
    yield Case(service, indexed, rank=0, ranks=2, even="drop")
    for sample in (indexed, streamed):
        yield Case(service, sample, rank=1, ranks=2, even="pad")
        yield Case(service, sample, steps=4)


def _check_runs(case: Case, others: Sequence[ReadingService]) -> list[Taken]:
    """Whole epochs, and what follows each state; gives the first epoch."""
    with ExitStack() as stack:
        here, loader, *more = (
            stack.enter_context(one) for one in (case.here(), case.loader(), *(case.on(other) for other in others))
        )
        assert _length(loader) == _length(here), f"{case}: `len` is {_length(loader)} and should be {_length(here)}"
        epochs: list[list[Taken]] = []
        states: list[tuple[int, int, State, State]] = []
        for epoch in range(2):
            before = saved(loader), saved(here)
            expected, known = with_states(here)
            found, own = with_states(loader)
            agree(f"{case}: epoch {epoch}", found, expected)
            epochs.append(expected)
            states += [(epoch, 0, *before)]
            states += [(epoch, place, one, two) for place, (one, two) in enumerate(zip(own, known, strict=True), 1)]
        epochs.append(taken(here.with_info()))
        for epoch, place, own_state, known_state in states:
            for target in (loader, here, *more):
                _check_rest(case, target, own_state, epochs, epoch, place)
            _check_rest(case, loader, known_state, epochs, epoch, place)
            if place < len(epochs[epoch]):
                loader.load_state_dict(own_state)
                _, info = next(loader.with_info())
                _check_rest(case, here, through_json(info.state_dict()), epochs, epoch, place + 1)
        return epochs[0]


def _check_rest(
    case: Case, loader: Loader[object], state: State, epochs: list[list[Taken]], epoch: int, place: int
) -> None:
    """Checks that a loader goes on behind element `place` of an epoch, or with the next one after the last."""
    if epochs[epoch] and place == len(epochs[epoch]):
        epoch, place = epoch + 1, 0
    loader.load_state_dict(state)
    stands = loader.epoch, loader.step
    assert stands == (epoch, place) or not epochs[epoch], (
        f"{case}: a loaded state stands at {stands} and should at {(epoch, place)}"
    )
    agree(f"{case}: what follows element {place} of epoch {epoch}", taken(loader.with_info()), epochs[epoch][place:])


def _check_failure(case: Case) -> None:
    with case.here() as here, case.loader() as loader:
        for epoch in range(2):
            expected, wanted = failed(here)
            found, error = failed(loader)
            what = f"{case}: epoch {epoch}"
            agree_errors(what, error, wanted)
            if not case.service.ordered:
                continue
            agree(what, found, expected)
            if epoch:
                continue
            state = saved(loader)
            for target in (here, loader):
                target.load_state_dict(state)
                found, error = failed(target)
                agree(f"{case}: what follows the elements before an error", found, [])
                agree_errors(f"{case}: after a resume", error, wanted)


def _length(loader: Loader[object]) -> int | str:
    try:
        return len(loader)
    except UnknownLengthError as error:
        return str(error)
