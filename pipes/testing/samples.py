"""Small pipes of every kind, which a reading service must run: some succeed, and some fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from ..pipe import Pipe
from ..sources.from_arrays import from_arrays
from ..sources.from_iterable import from_iterable
from ..sources.from_sequence import from_sequence
from ..sources.from_table import from_table
from ..sources.list_files import list_files
from ..sources.read_csv import read_csv
from ..sources.read_jsonl import read_jsonl

Group: TypeAlias = Literal["indexed", "streamed", "files"]


@dataclass(frozen=True)
class Sample:
    """A pipe, and how to run it.

    Attributes:
        pipe: no two of its rows are equal.
        shuffled: whether it shuffles; the default number of shards depends on that.
        ranks: the number of ranks to run it on, besides a single one.
        shards: the number of shards to run it with; None for the default.
    """

    pipe: Pipe[object]
    shuffled: bool = False
    ranks: int = 1
    shards: int | None = None

    @property
    def name(self) -> str:
        return " ".join(repr(self.pipe).split())


class SampleError(Exception):
    """The error that functions of failing samples raise."""


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


def samples(folder: Path) -> dict[Group, list[Sample]]:
    """Pipes that succeed. Their files are written into `folder`."""
    good = folder / "good"
    good.mkdir()
    return {"indexed": _indexed(), "streamed": _streamed(), "files": _of_files(good)}


def _indexed() -> list[Sample]:
    import pyarrow as pa

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
        Sample(from_sequence(range(40)).filter(most).shuffle(window=6).batch(3), shuffled=True, ranks=3),
        Sample(from_sequence(range(24)).flat_map(few).shuffle(window=5).batch(4, drop_last=True), shuffled=True),
        Sample(from_iterable(numbers).filter(odd).batch(2), shards=4),
        Sample(from_iterable(numbers).dispatch().shuffle(window=4).prefetch(2).batch(4), shuffled=True),
        Sample(from_sequence(range(30)).filter(most).enumerate().take(17).batch(3).prefetch(1)),
        Sample(
            from_sequence(range(20)).shuffle().shard_by_rank().batch(3).unbatch().map(drawn, rng=True), shuffled=True
        ),
    ]


def _of_files(folder: Path) -> list[Sample]:
    for k, count in enumerate([3, 0, 9, 5, 1]):
        lines = [f"{k},{k + n / 16}" for n in range(count)]
        (folder / f"{k}.csv").write_text("\n".join(["a,b", *lines, ""]), encoding="utf-8")
        (folder / f"{k}.txt").write_text("".join(f"line {n} of file {k}\n" for n in range(count)), encoding="utf-8")
    texts, tables = folder / "*.txt", folder / "*.csv"
    return [
        Sample(list_files(texts).shuffle().shard_by_rank().open_files().parse_lines().batch(2), shuffled=True),
        Sample(list_files(tables).open_files().parse_csv().shuffle(window=4).batch(3), shuffled=True),
        Sample(read_csv(tables).batch(4)),
        Sample(list_files(texts).open_files().parse_lines().load().shuffle().batch(2)),
    ]


def uneven() -> list[Sample]:
    """Pipes of known length that two ranks cannot divide evenly."""
    return [
        Sample(from_sequence(range(13)).shuffle()),
        Sample(from_sequence(range(26)).shuffle(window=4).batch(2), shuffled=True),
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
        Sample(from_iterable(broken).dispatch().shuffle(window=2).batch(2), shuffled=True),
        Sample(rows.flat_map(lambda row: [picky(row)] * 2).shuffle(window=4).batch(2), shuffled=True),
        Sample(ragged.batch(2).collate()),
        Sample(read_jsonl(folder / "bad.jsonl", schema={"a": "int64", "b": "string"}).batch(2)),
        Sample(from_sequence(paths).open_files().parse_lines().shuffle(window=4), shuffled=True),
    ]
