"""The type of an element at each step of a chain. Checked, never run: see test_types.py."""

from collections.abc import Iterator, Sequence
from typing import Any, assert_type

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

import feedpipe as fp
from feedpipe import Pipe

numbers = fp.from_sequence(range(10))
words = fp.from_iterable(["a b", "c"])


def noisy(x: int, rng: np.random.Generator) -> float:
    return x + rng.random()


def half(x: int) -> float:
    return x / 2


def evens(pipe: Pipe[int], *, keep: bool) -> Pipe[str]:
    return pipe.filter(lambda x: keep or x % 2 == 0).map(str)


def lines() -> Iterator[bytes]:
    yield b""


# Sources
assert_type(numbers, Pipe[int])
assert_type(words, Pipe[str])
assert_type(fp.from_iterable(lines), Pipe[bytes])

# One row for one row, or for several
assert_type(numbers.map(half), Pipe[float])
assert_type(numbers.map(lambda x: {"x": x}), Pipe[dict[str, int]])
assert_type(numbers.map(noisy, rng=True), Pipe[float])
assert_type(numbers.map(half, rng="global"), Pipe[float])
assert_type(words.flat_map(str.split), Pipe[str])
assert_type(words.flat_map(lambda line: [len(word) for word in line.split()]), Pipe[int])
assert_type(words.enumerate(), Pipe[tuple[int, str]])

# Operators that keep the type
assert_type(numbers.filter(lambda x: x % 2), Pipe[int])
assert_type(numbers.filter(predicate=lambda x: x > 1), Pipe[int])
assert_type(numbers.shuffle(), Pipe[int])
assert_type(numbers.shuffle(window=100, seed=1), Pipe[int])
assert_type(numbers.take(3).skip(1).slice(0, 2), Pipe[int])
assert_type(numbers.repeat(2), Pipe[int])
assert_type(numbers.shard_by_rank(), Pipe[int])
assert_type(numbers.prefetch(2), Pipe[int])
assert_type(words.load(limit="1MiB"), Pipe[str])

assert_type(numbers.take_while(lambda x: x < 3), Pipe[int])
assert_type(words.distinct(last=10).distinct(len, last=10), Pipe[str])
assert_type(numbers.count(), int)

# Many rows for as many
assert_type(numbers.map_batches(lambda rows: [half(x) for x in rows], 8), Pipe[float])

# Groups
assert_type(numbers.batch(4), Pipe[Sequence[int]])
assert_type(numbers.batch({0: 4, 1000: 8}), Pipe[Sequence[int]])
assert_type(numbers.mix(words, weights={0: [1, 2]}), Pipe[int | str])
assert_type(words.mix(words, by=len), Pipe[str])
assert_type(fp.mix({"one": numbers, "other": numbers}, weights={"one": 1, "other": 2}), Pipe[int])
assert_type(numbers.batch(4, drop_last=True).batch(2), Pipe[Sequence[Sequence[int]]])
assert_type(numbers.batch(4).unbatch(), Pipe[int])

# Several pipes
assert_type(numbers.zip(words), Pipe[tuple[int, str]])
assert_type(numbers.zip(words, words.map(len)), Pipe[tuple[int, str, int]])
assert_type(numbers.concat(words), Pipe[int | str])

# A whole chain, and a function of the user in it
assert_type(words.flat_map(str.split).map(len).shuffle(window=10).batch(32).unbatch(), Pipe[int])
assert_type(numbers.pipe(evens, keep=True).map(len), Pipe[int])

# Leaving the pipe
assert_type(list(numbers.batch(4)), list[Sequence[int]])
assert_type(next(iter(words)), str)
assert_type(numbers[0], int)
assert_type(numbers[2:5], Pipe[int])
assert_type(words.head(2), list[str])

# Files and tables
paths = fp.list_files("data/*.csv")
assert_type(paths, Pipe[str])
assert_type(paths.open_files(), Pipe[fp.File])
assert_type(paths.open_files().parse_lines(), Pipe[str])
assert_type(paths.open_files().parse_csv(), Pipe[dict[str, object]])
assert_type(paths.shuffle().open_files().parse_jsonl().batch(4), Pipe[Sequence[dict[str, object]]])
assert_type(paths.open_files().parse_parquet(columns=["x"]), Pipe[dict[str, object]])
assert_type(fp.read_parquet("data").shuffle(window=9).batch(4).collate(), Pipe[dict[str, torch.Tensor]])
assert_type(fp.read_csv("data/*.csv").shuffle(window=9).batch(4).collate(), Pipe[dict[str, torch.Tensor]])
assert_type(paths.open_files().parse_arrow(), Pipe[dict[str, object]])
tables = fp.read_arrow("data/*.arrow").batch(4)
csv = fp.read_csv(
    ["a.csv"], delimiter=";", schema={"x": "int8"}, on_error="skip", cache=fp.FileCache("/tmp/x", limit="1GB")
)
assert_type(csv, Pipe[dict[str, object]])
assert_type(fp.read_lines("a.txt", pattern="*.txt", encoding="latin-1", compression=None), Pipe[str])
assert_type(fp.read_parquet("a", recursive=True, columns=["x"], filter=pc.field("x") > 3), Pipe[dict[str, object]])
assert_type(tables.to_arrow(), Pipe[pa.RecordBatch])
assert_type(tables.collate(nulls="nan"), Pipe[dict[str, torch.Tensor]])
assert_type(tables.collate(ragged={"x": "nested"}), Pipe[dict[str, torch.Tensor]])
assert_type(tables.collate(format="numpy"), Pipe[dict[str, np.ndarray[Any, Any]]])
assert_type(numbers.batch(2).collate(format="numpy"), Pipe[np.ndarray[Any, Any]])
assert_type(tables.collate(function=len), Pipe[int])
assert_type(tables.map_columns(lambda c: {"x": c["x"] + c["y"]}), Pipe[fp.Rows])
assert_type(tables.map_columns(lambda c: {"x": c["x"].half()}, format="torch"), Pipe[fp.Rows])
assert_type(tables.map_columns(lambda b: b.slice(1), format="arrow").collate(), Pipe[dict[str, torch.Tensor]])
assert_type(tables.map_columns(dict).unbatch(), Pipe[dict[str, object]])
rows = fp.read_parquet("data")
assert_type(rows.select("x", "y").drop(["y"]).rename({"x": "z"}), Pipe[dict[str, object]])
assert_type(rows.cast({"x": "float32"}).with_columns(y=pc.field("x"), z=lambda c: c["x"] * 2), Pipe[dict[str, object]])
assert_type(rows.filter(pc.field("x") > 3), Pipe[dict[str, object]])
assert_type(rows.join(lambda epoch: {1: {"y": epoch}}, on="x"), Pipe[dict[str, object]])
assert_type(rows.unnest().distinct("x", last=9), Pipe[dict[str, object]])
assert_type(numbers.enumerate().zip(words).unnest(), Pipe[tuple[object, ...]])
assert_type(rows.map_batches(lambda c: {"x": c["x"] + 1}, 64, format="numpy"), Pipe[dict[str, object]])
assert_type(rows.map_batches(lambda b: b.slice(0), 64, format="arrow"), Pipe[dict[str, object]])
assert_type(rows.to_table(), pa.Table)
assert_type(rows.schema, pa.Schema | None)
assert_type(paths.open_files().parse_bytes(), Pipe[dict[str, object]])
assert_type(paths.open_files().parse_tar().decode(images="pil"), Pipe[dict[str, object]])
assert_type(words.map(lambda line: {"txt": line.encode()}).decode(), Pipe[dict[str, object]])
assert_type(fp.read_images("train"), Pipe[dict[str, object]])
assert_type(fp.read_numpy({"x": "x.npy"}), Pipe[dict[str, object]])
assert_type(fp.from_arrays({"x": np.zeros(3)}), Pipe[dict[str, object]])
assert_type(fp.read_numpy({"x": "x.npy"}).batch(4).collate(len), Pipe[int])

# A loader
assert_type(next(iter(fp.Loader(numbers.batch(2)))), Sequence[int])
assert_type(fp.Loader(words).peek(), str)


# Operators made of generators
@fp.operator
def lengths(rows: Iterator[str], start: int = 0) -> Iterator[int]:
    yield from (start + len(row) for row in rows)


@fp.operator(lookback=1)
def pairs(rows: Iterator[str], *, join: bool) -> Iterator[tuple[str, str]]:
    yield from zip(rows, rows, strict=False)


assert_type(lengths(words, 3), Pipe[int])
assert_type(words.pipe(lengths, start=1), Pipe[int])
assert_type(pairs(words, join=True), Pipe[tuple[str, str]])

# Several pipes
assert_type(numbers.split({"train": 0.9, "val": 0.1})["val"], Pipe[int])
assert_type(numbers.route(abs, 2)[0], Pipe[int])
assert_type(words.fork()[1], Pipe[str])
assert_type(words.sample(3), Pipe[str])
