"""Checks of the rules of epochs, and of what a closed loader frees, for any reading service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..errors import LoaderError
from ..loader import Loader
from ..loading.state import State
from ..services.base import ReadingService
from ..sources.from_sequence import from_sequence
from .footprint import Footprint, Process, nothing_left
from .runs import Case, check_raises, saved
from .samples import Sample, every

PIPES = [
    Sample(from_sequence(range(12)).shuffle().batch(5)),
    Sample(from_sequence(range(12)).filter(every).shuffle(window=4).batch(5), shuffled=True),
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
            equal = (
                list(got) == epochs[0] if service.ordered else Counter(map(str, got)) == Counter(map(str, epochs[0]))
            )
            assert equal, f"{case}: beside another loader, it gives {got} and not {epochs[0]}"
        for case, loader, epochs in zip(cases, (a, b), expected, strict=True):
            if service.ordered:
                _check_iteration(str(case), loader, epochs)
                _check_loaded(str(case), loader, epochs)


def _check_iteration(name: str, loader: Loader[object], epochs: list[list[object]]) -> None:
    def stands(epoch: int, step: int, when: str) -> None:
        at = loader.epoch, loader.step
        assert at == (epoch, step), f"{name}: {when} the loader stands at {at} and should at {(epoch, step)}"

    def gives(epoch: int, rule: str) -> None:
        got = list(loader)
        assert got == epochs[epoch], f"{name}: {rule}: got {got} and not epoch {epoch}: {epochs[epoch]}"

    stands(1, 0, "after an epoch")
    first = loader.peek()
    stands(1, 0, "after `peek`")
    assert first == loader.peek() == epochs[1][0], f"{name}: `peek` gives the next element"
    for _ in loader:
        break
    stands(1, 1, "after a `break`")
    gives(2, "`break` abandons the rest")
    loader.set_epoch(0)
    stands(3, 0, "after `set_epoch`, before the next `iter`,")
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
    state = saved(loader) if case.service.ordered else None
    loader.close()
    loader.close()
    assert state is None or saved(loader) == state, f"{case}: a closed loader keeps its state"
    for use in (lambda: next(iterator), lambda: iter(loader), loader.peek):
        check_raises(use, LoaderError, "closed", f"{case}: a closed loader refuses to be used")
