"""Small pipes of every kind, and their runs by a service and in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, cast

import numpy as np

from feedpipe.core.lazy import pa
from feedpipe.errors import RowError
from feedpipe.loader import Loader
from feedpipe.loading.replay import Info
from feedpipe.loading.schedule import Even
from feedpipe.loading.state import State
from feedpipe.pipe import Pipe
from feedpipe.services.base import ReadingService
from feedpipe.services.inprocess import InProcess
from feedpipe.sources.from_arrays import from_arrays
from feedpipe.sources.from_sequence import from_iterable, from_sequence
from feedpipe.sources.from_table import from_table
from feedpipe.sources.list_files import list_files
from feedpipe.sources.read_files import read_csv, read_jsonl
from feedpipe.testing import same

Group: TypeAlias = Literal["indexed", "streamed", "files"]


@dataclass(frozen=True)
class Sample:
    """A pipe, and how to run it.

    Attributes:
        pipe: no two of its rows are equal.
        ranks: the number of ranks to run it on, besides a single one.
        shards: the number of shards to run it with; None for the default.
    """

    pipe: Pipe[object]
    ranks: int = 1
    shards: int | None = None

    @property
    def name(self) -> str:
        return " ".join(repr(self.pipe).split())


class SampleError(Exception):
    """The error that functions of failing samples raise."""


def samples(folder: Path) -> dict[Group, list[Sample]]:
    """Pipes that succeed. Their files are written into `folder`."""
    good = folder / "good"
    good.mkdir()
    return {"indexed": _indexed(), "streamed": _streamed(), "files": _of_files(good)}


def _indexed() -> list[Sample]:
    arrays = {"x": np.arange(21), "y": np.arange(42.0).reshape(21, 2)}
    table = pa.table({"a": list(range(14)), "b": [f"text {k}" for k in range(14)]})
    joined = from_sequence(range(7)).concat(from_sequence(range(100, 106)))
    return [
        Sample(from_sequence(range(32)).shuffle().batch(3), ranks=2),
        Sample(from_arrays(arrays).shuffle().batch(4, drop_last=True).collate()),
        Sample(from_table(table).shuffle().batch(3).prefetch(2)),
        Sample(joined.map(drawn, rng=True).zip(from_sequence("abcdefghijklm")).enumerate().repeat(2)[1:25:2].batch(2)),
        Sample(from_sequence(range(0))),
    ]


def _streamed() -> list[Sample]:
    return [
        Sample(from_sequence(range(40)).filter(most).shuffle(window=6).batch(3), ranks=3),
        Sample(from_sequence(range(24)).flat_map(few).shuffle(window=5).batch(4, drop_last=True)),
        Sample(from_iterable(numbers).filter(odd).batch(2), shards=4),
        Sample(from_iterable(numbers).dispatch().shuffle(window=4).prefetch(2).batch(4)),
        Sample(from_sequence(range(30)).filter(most).enumerate().take(17).batch(3).prefetch(1)),
        Sample(from_sequence(range(20)).shuffle().shard_by_rank().batch(3).unbatch().map(drawn, rng=True)),
    ]


def _of_files(folder: Path) -> list[Sample]:
    for k, count in enumerate([3, 0, 9, 5, 1]):
        lines = [f"{k},{k + n / 16}" for n in range(count)]
        (folder / f"{k}.csv").write_text("\n".join(["a,b", *lines, ""]), encoding="utf-8")
        (folder / f"{k}.txt").write_text("".join(f"line {n} of file {k}\n" for n in range(count)), encoding="utf-8")
    texts, tables = folder / "*.txt", folder / "*.csv"
    return [
        Sample(list_files(texts).shuffle().shard_by_rank().open_files().parse_lines().batch(2)),
        Sample(list_files(tables).open_files().parse_csv().shuffle(window=4).batch(3)),
        Sample(read_csv(tables).batch(4)),
        Sample(list_files(texts).open_files().parse_lines().load().shuffle().batch(2)),
    ]


def uneven() -> list[Sample]:
    """Pipes of known length that two ranks cannot divide evenly."""
    return [
        Sample(from_sequence(range(13)).shuffle()),
        Sample(from_sequence(range(26)).shuffle(window=4).batch(2)),
    ]


def failing(folder: Path) -> list[Sample]:
    """Pipes that fail on a row. Their files are written into `folder`."""
    folder = folder / "bad"
    folder.mkdir()
    records = [json.dumps({"a": k, "b": str(k)}) for k in range(12)]
    (folder / "bad.jsonl").write_text("\n".join([*records[:9], '{"a": 9, "b": 9}', *records[9:], ""]), encoding="utf-8")
    (folder / "there.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    paths = [str(folder / "there.txt"), str(folder / "missing.txt")]
    rows = from_sequence(range(24))
    ragged = from_sequence([np.zeros(2), np.ones(2), np.zeros(2), np.zeros(3), np.ones(2), np.ones(2)])
    return [
        Sample(rows.map(picky).batch(2)),
        Sample(rows.filter(pickier).batch(2)),
        Sample(from_iterable(numbers).map(picky).batch(3), shards=4),
        Sample(from_iterable(broken).dispatch().shuffle(window=2).batch(2)),
        Sample(rows.flat_map(lambda row: [picky(row)] * 2).shuffle(window=4).batch(2)),
        Sample(ragged.batch(2).collate()),
        Sample(read_jsonl(folder / "bad.jsonl", schema={"a": "int64", "b": "string"}).batch(2)),
        Sample(from_sequence(paths).open_files().parse_lines().shuffle(window=4)),
    ]


# Functions and rows of the samples


def every(row: int) -> bool:
    return True


def odd(row: int) -> bool:
    return row % 2 == 1


def most(row: int) -> bool:
    return row % 5 != 0


def few(row: int) -> list[int]:
    return [row * 10 + k for k in range(row % 4)]


def drawn(row: int, rng: np.random.Generator) -> tuple[int, int]:
    return row, int(rng.integers(1000))


def numbers() -> Iterator[int]:
    yield from range(31)


def broken() -> Iterator[int]:
    yield from range(13)
    raise SampleError("the source", 13)


def picky(row: int) -> int:
    if row == 13:
        raise SampleError("thirteen", row)
    return row


def pickier(row: int) -> int:
    if row == 13:
        try:
            picky(row)
        except SampleError as error:
            raise KeyError("no", row) from error
    return row


# Runs by a service, and in this process


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
        return self.on(self.service)

    def here(self) -> Loader[object]:
        """A loader in this process, which gives the same elements."""
        return self.on(InProcess())

    def on(self, service: ReadingService) -> Loader[object]:
        """A loader with another service that gives the same elements."""
        return Loader(
            self.sample.pipe,
            service,
            rank=self.rank,
            world_size=self.ranks,
            shards=self.sample.shards,
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
    """Takes all remaining elements, and adds them to `into`, for a run that may fail."""
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
    """The elements before an error, and the error."""
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
    """The rows of all elements, as text; an element that is not a list is one row."""
    groups = (taken.element if isinstance(taken.element, list) else [taken.element] for taken in elements)
    return [repr(row) for group in groups for row in group]
