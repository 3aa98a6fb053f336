"""Random chains and jobs of several ranks in one process, for tests of resumes on another number of ranks."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import feedpipe as fp

from ..support.loading import State

Chain = fp.Pipe[Any]


class Sources:
    """Sources of rows that are all different, over files of random sizes."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._files = 0

    def any(self) -> Chain:
        makers = [
            self.indexed,
            self.filtered,
            self.expanded,
            self.generators,
            self.row_groups,
            self.lines,
            self.iterable,
        ]
        makers += [self.taken, self.zipped, self.enumerated, self.dispatched, self.table, self.record_batches]
        makers += [
            self.interleaved,
            self.in_proportion,
            self.by_schedule,
            self.by_size,
            self.in_turn,
            self.joined,
            self.part,
            self.cached,
            self.concurrent,
        ]
        return self._chance.choice(makers)()

    def indexed(self) -> Chain:
        pipe = fp.from_sequence(range(self._rows()))
        return self._chance.choice([pipe, pipe.shuffle(), pipe.repeat(2)]).map(lambda row: ("indexed", row))

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

    def table(self) -> Chain:
        path, rows = self._path("db"), self._rows()
        path.unlink(missing_ok=True)  # another example may have made it
        with closing(sqlite3.connect(path)) as database:
            database.execute("create table numbers (id integer primary key)")
            gaps = self._chance.choice([1, 7])
            database.executemany("insert into numbers values (?)", [(gaps * row,) for row in range(rows)])
            database.commit()
        ranges: dict[str, Any] = {"partition_on": "id", "partitions": self._chance.choice([None, 1, 5])}
        options = self._chance.choice([ranges, {}])
        pipe = fp.read_sql("select id from numbers", lambda: sqlite3.connect(path), snapshot=None, **options)
        return pipe.map(lambda row: ("key", row["id"]))

    def record_batches(self) -> Chain:
        path, numbers = self._path("arrow"), pa.table({"x": pa.array(range(self._rows()), pa.int64())})
        with pa.ipc.new_file(path, numbers.schema) as writer:
            writer.write_table(numbers, self._chance.randint(1, 20))
        pipe = fp.read_arrow(path)
        return (
            self._chance.choice([pipe, pipe.shuffle()]).filter(pc.field("x") != 4).map(lambda row: ("batch", row["x"]))
        )

    def interleaved(self) -> Chain:
        files = fp.from_sequence(range(self._chance.choice([1, 2, 5, 9])))
        return files.interleave(
            lambda file: fp.from_sequence([(file, row) for row in range(3 + 5 * (file % 3))]),
            cycle=self._chance.randint(1, 4),
            block=self._chance.randint(1, 3),
        )

    def in_proportion(self) -> Chain:
        return self.filtered().map(str).mix(self._other(), weights=[2, 1], random=self._chance.random() < 0.5)

    def by_schedule(self) -> Chain:
        return self.filtered().map(str).mix(self._other(), weights={0: [2, 1], self._chance.choice([3, 40]): [1, 3]})

    def by_size(self) -> Chain:
        pipes = {"text": self.filtered().map(str), "other": self._other()}
        weights = self._chance.choice(
            [{"text": 2, "other": 1}, {0: {"text": 1, "other": 0}, 30: {"text": 1, "other": 3}}]
        )
        return fp.mix(pipes, weights=weights, by=lambda row: len(str(row)))

    def in_turn(self) -> Chain:
        return self.filtered().map(str).round_robin(self._other())

    def joined(self) -> Chain:
        pairs = pa.table({"x": [1, 2, 2, 5, 8, 11, 90], "y": range(7)})
        rows = fp.from_table(pa.table({"x": pa.array(range(self._rows()), pa.int64())}))
        pipe = self._chance.choice([rows, rows.filter(pc.field("x") != 8)])
        how = self._chance.choice(["left", "inner"])
        return pipe.join(pairs, on="x", multiple="all", how=how).map(lambda row: ("pair", row["x"], row["y"]))

    def part(self) -> Chain:
        pipe = self._chance.choice([self.filtered, self.expanded, self.iterable])()
        return pipe.split({"some": 0.6, "others": 0.4}, seed=3)[self._chance.choice(["some", "others"])]

    def cached(self) -> Chain:
        return Sources.any(self).cache(tempfile.mkdtemp(dir=self._folder), freeze=True)

    def concurrent(self) -> Chain:
        return Sources.any(self).map(lambda row: row, concurrency=self._chance.randint(1, 4))

    def _other(self) -> Chain:
        return Sources.any(self).map(lambda row: ("other", row))  # so that no two rows of a pipe are equal

    def _rows(self) -> int:
        return self._chance.choice([0, 1, 2, 5, 17, 40, 100, 333])

    def _path(self, suffix: str) -> Path:
        self._files += 1
        return self._folder / f"{self._files}.{suffix}"


class FailingSources(Sources):
    """Sources with some rows that always fail."""

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
        pipe = pipe.batch(chance.choice([1, 2, 3, 7, {0: 3, 40: 2, 90: 5}]))
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

    def __init__(self, pipe: Chain, ranks: int, state: Any = None, edits: Any = "groups", **options: Any) -> None:
        options = {"even": None, **options}
        self.loaders = [fp.Loader(pipe, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
        self.skipped: Counter[str] | None = None  # how many rows all ranks have skipped in the epoch, after `rest`
        self.load(state, edits)

    def load(self, state: Any, edits: Any, first: int = 0) -> None:
        """Loads a state that all ranks share, a list of those of all, or what gives that of a rank."""
        for rank, loader in enumerate(self.loaders if state is not None else (), first):
            loader.load_state_dict(state(rank) if callable(state) else state, edits=edits)

    def take(self, steps: list[int]) -> tuple[list[Any], list[State]]:
        """The elements that each rank takes of the first epoch, without padding, and its state after them."""
        taken: list[Any] = []
        states: list[State] = []
        for loader, count in zip(self.loaders, steps, strict=True):
            states.append(loader.state_dict())
            if loader.epoch:
                continue
            for element, info in islice(loader.with_info(), count):
                if info.epoch:  # the only rank has come to the end before
                    break
                taken += [element] if np.all(info.valid) else []
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

    def close(self) -> None:
        for loader in self.loaders:
            loader.close()
