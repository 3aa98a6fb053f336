"""One sample run by a service, and the same run here to compare with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from ..errors import RowError
from ..loader import Loader
from ..loading.epoch import Info
from ..loading.schedule import Even
from ..loading.state import State
from ..services.base import ReadingService
from ..services.inprocess import InProcess
from .elements import same
from .samples import Sample


@dataclass(frozen=True)
class Case:
    """One rank's run of a sample, with the options of its loader."""

    service: ReadingService
    sample: Sample
    rank: int = 0
    ranks: int = 1
    even: Even = None
    steps: int | None = None

    def loader(self) -> Loader[object]:
        """A loader of the service."""
        return self._made(self.service, self.sample.shards)

    def here(self) -> Loader[object]:
        """A loader in this process, which gives the same elements."""
        return self.on(InProcess())

    def on(self, service: ReadingService) -> Loader[object]:
        """A loader of another service that gives the same elements: by itself, or with as many shards."""
        sample, workers = self.sample, self.service.workers
        one_order = sample.shuffled and max(workers, service.workers) <= 8
        by_default = None if one_order else self.ranks * max(8 if sample.shuffled else 1, workers)
        return self._made(service, sample.shards or by_default)

    def _made(self, service: ReadingService, shards: int | None) -> Loader[object]:
        return Loader(
            self.sample.pipe,
            service,
            rank=self.rank,
            world_size=self.ranks,
            shards=shards,
            even=self.even,
            steps=self.steps,
        )

    def __str__(self) -> str:
        said = [self.sample.name, repr(self.service)]
        said += [f"rank {self.rank} of {self.ranks}"] if self.ranks > 1 else []
        options = {"shards": self.sample.shards, "even": self.even, "steps": self.steps}
        return ", ".join(said + [f"{name}={value!r}" for name, value in options.items() if value is not None])


def cases(service: ReadingService, sample: Sample) -> Iterator[Case]:
    """The sample on one rank, and on each of several."""
    yield Case(service, sample)
    if sample.ranks > 1:
        yield from (Case(service, sample, rank, sample.ranks) for rank in range(sample.ranks))


class Taken(NamedTuple):
    """An element, and what its `info` says."""

    element: object
    epoch: int
    step: int
    valid: object


def taken(iterator: Iterable[tuple[object, Info]], into: list[Taken] | None = None) -> list[Taken]:
    """All that is left; also in `into`, for a run that may fail."""
    found: list[Taken] = [] if into is None else into
    found.extend(Taken(x, info.epoch, info.step, info.valid.tolist()) for x, info in iterator)
    return found


def with_states(loader: Loader[object]) -> tuple[list[Taken], list[State]]:
    """An epoch, and the states after each element; that of the loader is the same as that of the element."""
    found: list[Taken] = []
    states: list[State] = []
    for x, info in loader.with_info():
        found.append(Taken(x, info.epoch, info.step, info.valid.tolist()))
        states.append(through_json(info.state_dict()))
        assert saved(loader) == states[-1], "`loader.state_dict()` and `info.state_dict()` differ after one element"
    return found, states


def saved(loader: Loader[object]) -> State:
    return through_json(loader.state_dict())


def through_json(state: State) -> State:
    return cast("State", json.loads(json.dumps(state)))


def failed(loader: Loader[object]) -> tuple[list[Taken], Exception]:
    """The elements that come before an error, and the error."""
    found: list[Taken] = []
    iterator = loader.with_info()
    error = raised(lambda: taken(iterator, found))
    assert error is not None, f"a pipe that fails has given all of {len(found)} elements"
    again = raised(lambda: next(iterator))
    assert again is error, f"an iterator that has failed with {error!r} raises that again, and not {again!r}"
    return found, error


def raised(call: Callable[[], object]) -> Exception | None:
    """The error that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


def check_raises(call: Callable[[], object], kind: type[Exception], words: str, rule: str) -> None:
    """Raises an `AssertionError` unless the call raises an error of this kind that says these words."""
    error = raised(call)
    assert isinstance(error, kind) and words in str(error), f"{rule}, which should be a {kind.__name__}: {error!r}"


def agree(what: object, got: Sequence[Taken], expected: Sequence[Taken]) -> None:
    """Raises an `AssertionError` that names the first element that differs."""
    for place, (one, other) in enumerate(zip(got, expected, strict=False)):
        assert type(one.element) is type(other.element) and same(one.element, other.element), (
            f"{what}: element {place} is {one.element!r} and should be {other.element!r}"
        )
        assert one[1:] == other[1:], f"{what}: `info` of element {place} says {one[1:]} and should say {other[1:]}"
    assert len(got) == len(expected), f"{what} gave {len(got)} elements and should give {len(expected)}"


def agree_errors(what: object, got: BaseException, expected: BaseException) -> None:
    """Raises an `AssertionError` where type, words, what else it says, or a cause differs."""
    one: BaseException | None = got
    other: BaseException | None = expected
    while other is not None:
        assert one is not None, f"{what}: {got!r} should have the cause {other!r}"
        assert type(one) is type(other) and str(one) == str(other) and one.args == other.args, (
            f"{what}: the error is {one!r} and should be {other!r}"
        )
        if isinstance(one, RowError) and isinstance(other, RowError):
            said, wanted = ((e.operator, e.where, e.origin) for e in (one, other))
            assert said == wanted, f"{what}: the error says {said} and should say {wanted}"
        one, other = one.__cause__, other.__cause__


def rows(found: Iterable[Taken]) -> list[str]:
    """The rows of lists, as text."""
    return [repr(row) for one in found for row in (one.element if isinstance(one.element, list) else [one.element])]
