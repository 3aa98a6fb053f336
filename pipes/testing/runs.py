"""Runs of a sample by a service, and by this process to compare with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from ..errors import RowError
from ..loader import Loader
from ..loading.info import Info
from ..loading.schedule import Even
from ..loading.state import State
from ..services.base import ReadingService
from ..services.inprocess import InProcess
from .elements import same
from .samples import Sample


@dataclass(frozen=True)
class Case:
    """The run of a sample on one rank, with the options of its loader."""

    service: ReadingService
    sample: Sample
    rank: int = 0
    ranks: int = 1
    even: Even = None
    steps: int | None = None

    def loader(self) -> Loader[object]:
        """A loader with the service."""
        return self._make(self.service, self.sample.shards)

    def here(self) -> Loader[object]:
        """A loader in this process, which gives the same elements."""
        return self.on(InProcess())

    def on(self, service: ReadingService) -> Loader[object]:
        """A loader with another service that gives the same elements; it sets `shards` if defaults would differ."""
        sample, workers = self.sample, self.service.workers
        one_order = sample.shuffled and max(workers, service.workers) <= 8
        default = None if one_order else self.ranks * max(8 if sample.shuffled else 1, workers)
        return self._make(service, sample.shards or default)

    def _make(self, service: ReadingService, shards: int | None) -> Loader[object]:
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
        parts = [self.sample.name, repr(self.service)]
        parts += [f"rank {self.rank} of {self.ranks}"] if self.ranks > 1 else []
        options = {"shards": self.sample.shards, "even": self.even, "steps": self.steps}
        return ", ".join(parts + [f"{name}={value!r}" for name, value in options.items() if value is not None])


def cases(service: ReadingService, sample: Sample) -> Iterator[Case]:
    """The sample on one rank, and on each of several."""
    yield Case(service, sample)
    if sample.ranks > 1:
        yield from (Case(service, sample, rank, sample.ranks) for rank in range(sample.ranks))


class Taken(NamedTuple):
    """An element, and the attributes of its `Info`."""

    element: object
    epoch: int
    step: int
    valid: object


def taken(iterator: Iterable[tuple[object, Info]], into: list[Taken] | None = None) -> list[Taken]:
    """Takes all elements that are left; also adds them to `into`, for a run that may fail."""
    elements: list[Taken] = [] if into is None else into
    elements.extend(Taken(x, info.epoch, info.step, info.valid.tolist()) for x, info in iterator)
    return elements


def with_states(loader: Loader[object]) -> tuple[list[Taken], list[State]]:
    """The elements of an epoch, and the state after each, which must be the same from the loader and the `Info`."""
    elements: list[Taken] = []
    states: list[State] = []
    for x, info in loader.with_info():
        elements.append(Taken(x, info.epoch, info.step, info.valid.tolist()))
        states.append(through_json(info.state_dict()))
        assert saved(loader) == states[-1], "`loader.state_dict()` and `info.state_dict()` differ after one element"
    return elements, states


def saved(loader: Loader[object]) -> State:
    return through_json(loader.state_dict())


def through_json(state: State) -> State:
    return cast("State", json.loads(json.dumps(state)))


def failed(loader: Loader[object]) -> tuple[list[Taken], Exception]:
    """The elements that come before an error, and the error."""
    elements: list[Taken] = []
    iterator = loader.with_info()
    error = raised(lambda: taken(iterator, elements))
    assert error is not None, f"a pipe that must fail gave all of its {len(elements)} elements"
    again = raised(lambda: next(iterator))
    assert again is error, f"an iterator that failed with {error!r} must raise it again but raised {again!r}"
    return elements, error


def raised(call: Callable[[], object]) -> Exception | None:
    """The error that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


def check_raises(call: Callable[[], object], kind: type[Exception], words: str, rule: str) -> None:
    """Checks that the call raises an error of this kind whose message contains `words`."""
    error = raised(call)
    assert isinstance(error, kind) and words in str(error), (
        f"{rule}, so it must raise a {kind.__name__} but raised: {error!r}"
    )


def agree(what: object, got: Sequence[Taken], expected: Sequence[Taken]) -> None:
    """Checks that two runs are equal; the message names the first element that differs."""
    for place, (one, other) in enumerate(zip(got, expected, strict=False)):
        assert type(one.element) is type(other.element) and same(one.element, other.element), (
            f"{what}: element {place} is {one.element!r} and should be {other.element!r}"
        )
        assert one[1:] == other[1:], f"{what}: `info` of element {place} says {one[1:]} and should say {other[1:]}"
    assert len(got) == len(expected), f"{what} gave {len(got)} elements and should give {len(expected)}"


def agree_errors(what: object, got: BaseException, expected: BaseException) -> None:
    """Checks that two errors have the same type, message, attributes and causes."""
    one: BaseException | None = got
    other: BaseException | None = expected
    compared: set[int] = set()  # a cause may be an error before it
    while other is not None and id(other) not in compared:
        compared.add(id(other))
        assert one is not None, f"{what}: {got!r} should have the cause {other!r}"
        assert type(one) is type(other) and str(one) == str(other) and one.args == other.args, (
            f"{what}: the error is {one!r} and should be {other!r}"
        )
        if isinstance(one, RowError) and isinstance(other, RowError):
            attributes, right = ((e.operator, e.where, e.origin) for e in (one, other))
            assert attributes == right, f"{what}: the error has the attributes {attributes} and should have {right}"
        one, other = one.__cause__, other.__cause__


def rows(elements: Iterable[Taken]) -> list[str]:
    """The rows of all elements, as text; an element that is no list is one row."""
    groups = (taken.element if isinstance(taken.element, list) else [taken.element] for taken in elements)
    return [repr(row) for group in groups for row in group]
