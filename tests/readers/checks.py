"""Checks for every reader on every storage: its rows are those that it promises, and it resumes exactly."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import PlanWarning
from feedpipe.testing import same

from ..support.engine import ahead as readahead
from ..support.files import ranges as _byte_ranges
from ..support.storage import remote
from .cases import CASES

READERS = pytest.mark.parametrize("name", CASES)
HDFS_READERS = [name for name, case in CASES.items() if "hdfs" in case.storages]


@dataclass(frozen=True)
class Place:
    """A place with the files of all cases, each case in a folder of its own.

    Attributes:
        root: a path or URL.
        options: of each source, such as `filesystem=`.
        url: of the same place, for readers without such options.
    """

    root: str
    options: dict[str, object] = field(default_factory=dict)
    url: str = ""

    @staticmethod
    def local(root: Path) -> Place:
        """Writes the files to the local disk."""
        for name, data in all_files().items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return Place(str(root))

    def read(self, name: str) -> fp.Pipe[Any]:
        return CASES[name].read(self._folder(name), **(self.options if CASES[name].filesystem else {}))

    def below(self, name: str, rows: Iterable[Any]) -> list[Any]:
        """The rows, with paths as they are below the folder of the case."""
        begin = self._folder(name) + "/"
        return [
            {**row, "path": row["path"].removeprefix(begin)} if isinstance(row, dict) and "path" in row else row
            for row in rows
        ]

    def _folder(self, name: str) -> str:
        return f"{self.root if CASES[name].filesystem else self.url or self.root}/{name}"


@lru_cache
def all_files() -> dict[str, bytes]:
    return {f"{name}/{path}": data for name, case in CASES.items() for path, data in case.files().items()}


def check_rows(name: str, place: Place) -> None:
    """Checks the rows, the length if it is known, and rows by position if the pipe is indexed."""
    expected = CASES[name].rows()
    with small_units():
        pipe = place.read(name)
        alike(place.below(name, pipe), expected)
        with suppress(TypeError):  # it has no length
            assert len(pipe) == len(expected)
        if pipe.indexed:
            positions = [0, len(expected) // 2, -1]
            alike(place.below(name, [pipe[k] for k in positions]), [expected[k] for k in positions])


def check_resume(name: str, here: Place, there: Place) -> None:
    """Checks that a state continues with the next row, on its own storage and on another one.

    It does so at each place of the case on local files, and at three of them elsewhere: cursors are the same there.
    """
    places = CASES[name].places()
    step = 1 if there == here else max(1, len(places) // 3)
    with small_units():
        rows = CASES[name].rows()
        _check_resume(name, here, there, rows, places[::step], 1)
        if here.read(name).indexed:
            return  # its order does not depend on shards
        loader = fp.Loader(here.read(name), shards=3)
        sharded = here.below(name, loader)
        alike(sorted(sharded, key=repr), sorted(rows, key=repr))
        _check_resume(name, here, there, sharded, places[1 :: 2 * step], 3)


def _check_resume(name: str, here: Place, there: Place, rows: list[Any], places: list[int], shards: int) -> None:
    states = [_states(place.read(name), places, shards) for place in (there, here)]
    for number, taken in enumerate(places):
        resumed = fp.Loader(there.read(name), shards=shards)
        resumed.load_state_dict(json.loads(states[number % 2][taken]))
        # After the last row, the next epoch begins.
        alike(there.below(name, resumed), rows[taken:] or rows)


def _states(pipe: fp.Pipe[Any], places: list[int], shards: int) -> dict[int, str]:
    """The states at these rows, as JSON."""
    loader = fp.Loader(pipe, shards=shards)
    states = {0: json.dumps(loader.state_dict())}
    for _, info in loader.with_info():
        if info.step in places:
            states[info.step] = json.dumps(info.state_dict())
    return states


def check_shuffled(name: str, here: Place, there: Place) -> None:
    """Checks that the order of a shuffle does not depend on the storage, and resumes in the middle of it."""
    rows = CASES[name].rows()
    for window in (20, None) if here.read(name).indexed else (20,):
        with small_units():
            loaders = [fp.Loader(place.read(name).shuffle(window=window), seed=5, shards=3) for place in (here, there)]
            shuffled = here.below(name, loaders[0])
            alike(sorted(shuffled, key=repr), sorted(rows, key=repr))
            assert len(rows) < 20 or repr(shuffled) != repr(rows)
            taken = len(rows) // 2
            first_rows = there.below(name, itertools.islice(loaders[1], taken))
            resumed = fp.Loader(there.read(name).shuffle(window=window), seed=5, shards=3)
            resumed.load_state_dict(json.loads(json.dumps(loaders[1].state_dict())))
            alike(first_rows + there.below(name, resumed), shuffled)


def check_workers(name: str, here: Place, there: Place) -> None:
    """Checks that two worker processes, each with a file system of its own, give the same rows, and resume."""
    with small_units(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanWarning)  # both workers read a file that is left over
        rows = here.below(name, fp.Loader(here.read(name), shards=2))
        taken = len(rows) // 3
        with fp.Loader(there.read(name), workers=2, shards=2) as loader:
            first_rows = there.below(name, itertools.islice(loader, taken))
            state = json.loads(json.dumps(loader.state_dict()))
            loader.load_state_dict(state)
            alike(first_rows + there.below(name, loader), rows)


def alike(rows: list[Any], expected: list[Any]) -> None:
    """Raises an `AssertionError` if rows differ in a value or a type."""
    for number, (row, right) in enumerate(zip(rows, expected, strict=False)):
        assert same(row, right), f"row {number} is {row!r} and should be {right!r}"
        assert types(row) == types(right), f"row {number} is {types(row)} and should be {types(right)}"
    assert len(rows) == len(expected)


def types(value: object) -> object:
    """The type of a value, and of the values in it."""
    if isinstance(value, dict):
        return {key: types(inner) for key, inner in value.items()}
    return [*map(types, value)] if isinstance(value, list) else type(value)


@contextmanager
def small_units() -> Iterator[None]:
    """Cuts files of some KiB into byte ranges; workers get the ranges that this process cuts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_byte_ranges, "MAX_RANGE_BYTES", 2**12)
        yield


@contextmanager
def small_requests() -> Iterator[None]:
    """Also makes files of some KiB take many requests, and reads at most one file ahead."""
    with small_units(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "FIRST_REQUEST_BYTES", 2**9)
        patch.setattr(remote, "MAX_REQUEST_BYTES", 2**11)
        patch.setattr(remote, "MAX_GAP_BYTES", 2**8)
        patch.setattr(readahead, "ITEMS_AHEAD", 1)
        yield
