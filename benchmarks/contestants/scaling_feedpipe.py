"""What one kind of work costs at several sizes, and the exponents with which the costs grow.

A cost of `c * n ** e` has the exponent e. It is measured between the two largest sizes, where the parts of the cost
that are constant count least.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

import feedpipe as fp

REPEATS = 3

#: Does the work, whose size and files are fixed. What it returns replaces costs that were counted.
Work = Callable[[], dict[str, int] | None]


class CountedFile:
    """An open file that counts the reads."""

    def __init__(self, file: Any, counts: dict[str, int]) -> None:
        self.file = file
        self.counts = counts

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.file.read(size)
        self.counts["requests"] += 1
        self.counts["bytes"] += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> CountedFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()


class CountingFileSystem(LocalFileSystem):
    """The local files as remote ones: each read is a request."""

    protocol = "counting"
    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.counts = {"requests": 0, "bytes": 0}

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super().open(path, mode, **options)
        return CountedFile(file, self.counts) if mode == "rb" else file


class Scene:
    """A folder for the files of one size, and a file system that counts what is read of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.filesystem = CountingFileSystem()

    def lines(self, files: int) -> fp.Pipe[str]:
        for number in range(files):
            (self.folder / f"{number:06}.txt").write_text("a\nb\nc\nd\n")
        return fp.read_lines(str(self.folder / "*.txt"), filesystem=self.filesystem)

    def parquet(self, groups: int, columns: int = 10, rows: int = 100, **options: Any) -> fp.Pipe[Any]:
        values = np.random.default_rng(0).random(groups * rows)
        table = pa.table({f"column_{number}": values for number in range(columns)})
        pq.write_table(table, self.folder / "table.parquet", row_group_size=rows)
        return fp.read_parquet(str(self.folder / "table.parquet"), filesystem=self.filesystem, **options)


def exhaust(rows: Iterable[object]) -> None:
    for _ in rows:
        pass


def files(scene: Scene, size: int) -> Work:
    pipe = scene.lines(size)
    return lambda: exhaust(fp.Loader(pipe))


def row_groups(scene: Scene, size: int) -> Work:
    pipe = scene.parquet(size).batch(100)
    return lambda: exhaust(fp.Loader(pipe))


def shuffled_row_groups(scene: Scene, size: int) -> Work:
    pipe = scene.parquet(size).shuffle(window=1_000).batch(100)
    return lambda: exhaust(fp.Loader(pipe))


def rows(scene: Scene, size: int) -> Work:
    pipe = fp.from_sequence(range(size)).map(abs).filter(bool).shuffle(window=100).batch(100)
    return lambda: exhaust(fp.Loader(pipe))


def ranks(scene: Scene, size: int) -> Work:
    """The plan, the length and the first element of one rank of a streamed pipe with a known length."""
    pipe = scene.parquet(5_000, columns=1, rows=1).shuffle(window=10)

    def work() -> None:
        loader = fp.Loader(pipe, rank=0, world_size=size)
        next(iter(loader))
        len(loader)

    return work


def shards(scene: Scene, size: int) -> Work:
    pipe = fp.from_sequence(range(50_000)).shuffle(window=10)
    return lambda: exhaust(itertools.islice(fp.Loader(pipe, shards=size), 1))


def columns(scene: Scene, size: int) -> Work:
    pipe = scene.parquet(4, columns=size, rows=64).batch(64)
    return lambda: exhaust(fp.Loader(pipe))


def shuffled_columns(scene: Scene, size: int) -> Work:
    pipe = scene.parquet(4, columns=size, rows=64).shuffle(window=128).batch(64)
    return lambda: exhaust(fp.Loader(pipe))


def operators(scene: Scene, size: int) -> Work:
    def work() -> None:
        pipe: fp.Pipe[Any] = fp.from_sequence(range(2_000))
        for _ in range(size):
            pipe = pipe.map(abs).filter(lambda row: True)
        exhaust(fp.Loader(pipe))

    return work


def concat(scene: Scene, size: int) -> Work:
    def work() -> None:
        inputs = [fp.from_sequence(range(10)).filter(lambda row: True) for _ in range(size)]
        exhaust(fp.Loader(inputs[0].concat(*inputs[1:])))

    return work


def zipped(scene: Scene, size: int) -> Work:
    def work() -> None:
        inputs = [fp.from_sequence(range(500)) for _ in range(size)]
        exhaust(fp.Loader(inputs[0].zip(*inputs[1:])))

    return work


def mixed(scene: Scene, size: int) -> Work:
    """200 rows of each input, of the endless mixture of these."""

    def work() -> None:
        inputs = [fp.from_arrays({"x": np.arange(100)}).shuffle().repeat() for _ in range(size)]
        exhaust(itertools.islice(inputs[0].mix(*inputs[1:]).batch(100), 2 * size))

    return work


def interleaved(scene: Scene, size: int) -> Work:
    """Files of 100 rows that are all open."""
    for number in range(size):
        (scene.folder / f"{number:06}.jsonl").write_text("".join(f'{{"x": {row}}}\n' for row in range(100)))
    pipe = fp.list_files(str(scene.folder)).interleave(fp.read_jsonl, cycle=size)
    return lambda: exhaust(fp.Loader(pipe, shards=1))


def rounds(scene: Scene, size: int) -> Work:
    """Rounds of shuffled rows, shuffled again as a whole, so that each batch has rows of many rounds."""
    pipe = fp.from_arrays({"x": np.arange(1_000)}).shuffle().repeat(size).shuffle().batch(100)
    return lambda: exhaust(fp.Loader(pipe))


def window(scene: Scene, size: int) -> Work:
    pipe = fp.from_sequence(range(100_000)).filter(lambda row: True).shuffle(window=size).batch(100)
    return lambda: exhaust(fp.Loader(pipe, shards=1))


def batch(scene: Scene, size: int) -> Work:
    pipe = fp.from_arrays({"x": np.zeros((100_000, 4))}).shuffle().batch(size)
    return lambda: exhaust(fp.Loader(pipe))


def resume(scene: Scene, size: int) -> Work:
    """Loading a state `size` rows into the epoch of a shuffled stream, and the first element after it."""
    pipe = fp.from_sequence(range(300_000)).map(abs).shuffle(window=100)
    loader = fp.Loader(pipe)
    elements = iter(loader)
    for _ in range(size):
        next(elements)
    state = loader.state_dict()

    def work() -> None:
        resumed = fp.Loader(pipe)
        resumed.load_state_dict(state)
        next(iter(resumed))

    return work


def state(scene: Scene, size: int) -> Work:
    """A state of a stream with `size` shards, each of which has begun."""
    pipe = fp.from_sequence(range(20 * size)).filter(lambda row: True).batch(2)
    loader = fp.Loader(pipe, shards=size)
    elements = iter(loader)
    for _ in range(size):
        next(elements)

    def work() -> dict[str, int]:
        next(elements)
        return {"bytes": len(json.dumps(loader.state_dict()))}

    return work


WORKS: dict[str, Callable[[Scene, int], Work]] = {
    "rows": rows,
    "files": files,
    "row_groups": row_groups,
    "shuffled_row_groups": shuffled_row_groups,
    "columns": columns,
    "shuffled_columns": shuffled_columns,
    "operators": operators,
    "concat": concat,
    "zip": zipped,
    "mix": mixed,
    "interleave": interleaved,
    "rounds": rounds,
    "window": window,
    "batch": batch,
    "ranks": ranks,
    "shards": shards,
    "resume": resume,
    "state": state,
}


def check(work: str, sizes: Sequence[int]) -> dict[str, Any]:
    """Does the work at its smallest size, once before all measurements."""
    return costs(WORKS[work], sizes[0])


def measure(work: str, sizes: Sequence[int]) -> dict[str, Any]:
    """The exponents between the two largest sizes, and the CPU time of one at the largest."""
    costs(WORKS[work], sizes[0])  # imports what is imported when it is needed
    before, after = (costs(WORKS[work], size) for size in sizes[-2:])
    growth = math.log(sizes[-1] / sizes[-2])
    figures: dict[str, Any] = {"from": sizes[-2], "to": sizes[-1]}
    for name, cost in after.items():
        figures[name] = cost
        figures[f"{name}_exponent"] = math.log(max(cost, 1e-9) / max(before[name], 1e-9)) / growth if cost else 0.0
    figures["each"] = after["cpu"] / sizes[-1]
    return figures


def costs(make: Callable[[Scene, int], Work], size: int) -> dict[str, float]:
    """CPU seconds (the least of several runs), bytes and requests of one run, and the peak of memory in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        work = make(scene, size)
        counts = scene.filesystem.counts
        seconds = []
        for _ in range(REPEATS):
            counts.update(requests=0, bytes=0)
            gc.collect()
            start = time.process_time()
            result = work()
            seconds.append(time.process_time() - start)
        found = {"cpu": min(seconds), **counts, **(result or {})}
        tracemalloc.start()
        work()
        found["memory"] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found
