"""Random chains and jobs of several ranks in one process, for tests of resumes on another number of ranks."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

import feedpipe as fp
from feedpipe.loading.state import State

Chain = fp.Pipe[Any]


class Sources:
    """Sources of rows that are all different, over files of random sizes."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._files = 0

    def any(self) -> Chain:
        makers = [self.filtered, self.expanded, self.generators, self.row_groups, self.lines, self.iterable]
        return self._chance.choice([*makers, self.taken, self.zipped, self.enumerated, self.dispatched])()

    def filtered(self) -> Chain:
        return fp.from_sequence(range(self._rows())).filter(lambda row: row % 3 != 1)

    def expanded(self) -> Chain:
        return fp.from_sequence(range(self._rows())).flat_map(lambda row: [(row, copy) for copy in range(row % 4)])

    def generators(self) -> Chain:
        files = self._chance.choice([1, 2, 3, 7, 11])
        return fp.from_sequence(range(files)).flat_map(lambda file: ((file, row) for row in range(5 + 7 * (file % 3))))

    def row_groups(self) -> Chain:
        paths, first = [], 0
        for _ in range(self._chance.randint(1, 4)):
            count, path = self._chance.randint(1, 57), self._path("parquet")
            pq.write_table(
                pa.table({"x": range(first, first + count)}), path, row_group_size=self._chance.randint(1, 9)
            )
            first += count
            paths.append(path)
        return fp.read_parquet(paths).map(lambda row: ("row group", row["x"]))

    def lines(self) -> Chain:
        paths, first = [], 0
        for _ in range(self._chance.randint(1, 9)):
            count, path = self._chance.randint(1, 12), self._path("jsonl")
            path.write_text("".join(json.dumps({"x": first + row}) + "\n" for row in range(count)))
            first += count
            paths.append(path)
        return fp.read_jsonl(paths).map(lambda row: ("line", row["x"]))

    def iterable(self) -> Chain:
        return fp.from_iterable(range(self._rows())).map(lambda row: ("item", row))

    def taken(self) -> Chain:
        rows = self._rows()
        return fp.from_sequence(range(rows)).filter(lambda row: row % 5 != 2).take(max(1, rows // 2))

    def zipped(self) -> Chain:
        numbers = fp.from_sequence(range(self._rows()))
        return numbers.filter(lambda row: row % 2).zip(numbers.filter(lambda row: row % 3))

    def enumerated(self) -> Chain:
        return fp.from_sequence(range(self._rows())).filter(lambda row: row % 2).enumerate()

    def dispatched(self) -> Chain:
        return fp.from_sequence(range(self._rows())).filter(lambda row: row % 2).dispatch()

    def _rows(self) -> int:
        return self._chance.choice([0, 1, 2, 5, 17, 40, 100, 333])

    def _path(self, suffix: str) -> Path:
        self._files += 1
        return self._folder / f"{self._files}.{suffix}"


class FailingSources(Sources):
    """Sources some rows of which cannot be made, always the same."""

    def __init__(self, folder: Path, chance: random.Random, on_error: Any) -> None:
        super().__init__(folder, chance)
        self._on_error = on_error

    def any(self) -> Chain:
        return super().any().map(refuse_some, on_error=self._on_error)


def refuse_some(row: Any) -> Any:
    if crc32(repr(row).encode()) % 5 == 0:
        raise ValueError(f"{row!r} cannot be made")
    return row


def random_chain(sources: Sources, chance: random.Random) -> Chain:
    pipe = sources.any()
    if chance.random() < 0.3:
        pipe = pipe.map(lambda row: ("first", row)).concat(sources.any().map(lambda row: ("second", row)))
    if chance.random() < 0.5:
        pipe = pipe.shuffle(window=chance.choice([2, 6, 20]))
    if chance.random() < 0.2:
        pipe = pipe.flat_map(lambda row: [(row, 0), (row, 1)])
    if chance.random() < 0.15:
        pipe = pipe.prefetch(chance.choice([1, 3]))
    if chance.random() < 0.2:
        pipe = pipe.repeat(chance.choice([1, 2, 3]))
    if chance.random() < 0.5:
        pipe = pipe.batch(chance.choice([1, 2, 3, 7]))
        if chance.random() < 0.3:
            pipe = pipe.map(list)
        if chance.random() < 0.2:
            pipe = pipe.shuffle(window=4)
    return pipe


def count(elements: list[Any]) -> Counter[str]:
    """The rows of all elements."""
    return Counter(repr(row) for element in elements for row in (element if isinstance(element, list) else [element]))


class Job:
    """The loaders of all ranks of a job, in this process."""

    def __init__(self, pipe: Chain, ranks: int, state: Any = None, **options: Any) -> None:
        options = {"even": None, **options}
        self.loaders = [fp.Loader(pipe, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
        self.skipped: Counter[str] | None = None  # how many rows all ranks have skipped in the epoch, after `rest`
        for rank, loader in enumerate(self.loaders):
            if state is not None:
                loader.load_state_dict(state(rank) if callable(state) else state)

    def take(self, steps: list[int]) -> tuple[list[Any], list[State]]:
        """The elements that each rank takes, and its state after them; none looks beyond the end of the epoch."""
        taken: list[Any] = []
        states: list[State] = []
        for loader, count in zip(self.loaders, steps, strict=True):
            states.append(loader.state_dict())
            for element, info in islice(loader.with_info(), count):
                if info.epoch:
                    break
                taken.append(element)
                states[-1] = info.state_dict()
        return taken, json.loads(json.dumps(states))

    def rest(self) -> list[Any]:
        """What is left of the epoch; a single rank that has nothing left begins the next one."""
        elements: list[Any] = []
        skipped: Counter[str] = Counter()
        for loader in self.loaders:
            for element, info in loader.with_info():
                if info.epoch:
                    return elements
                elements.append(element)
            skipped.update(loader.skipped)
        self.skipped = skipped
        return elements
