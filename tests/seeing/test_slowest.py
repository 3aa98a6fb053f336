"""The slowest rows and files of a run, in each service, and the memory and the queues over its time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe import Pipe

from ..support.core import times
from .bottlenecks import slow_at_seven, slow_later

CHAINS: dict[str, Callable[[Pipe[Any]], Pipe[Any]]] = {
    "map": lambda rows: rows.map(slow_at_seven).batch(2),
    "calls": lambda rows: rows.map(slow_at_seven, concurrency=2).batch(2),
    "coroutines": lambda rows: rows.map(slow_later, concurrency=2).batch(2),
    "prefetch": lambda rows: rows.map(slow_at_seven).prefetch(4).batch(2),
}


@pytest.mark.parametrize("service", [None, fp.Threads(1), pytest.param(fp.MultiProcess(1), marks=pytest.mark.slow)])
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("chain", CHAINS)
def test_a_slow_row_is_named(service: Any, indexed: bool, chain: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {number}}}\n' for number in range(40)))
    rows = fp.read_jsonl(tmp_path / "a.jsonl")
    rows = rows.load().shuffle() if indexed else rows
    with fp.Loader(CHAINS[chain](rows), service) as loader:
        list(loader)
        report = loader.report()
    found = [work for table in report.ranks[0].tables for work in table.slow if work.ns >= 29_000_000]
    in_file = f"{tmp_path / 'a.jsonl'}, line 8"
    place = in_file if indexed or chain in ("map", "prefetch") else "row 8 of shard 0"
    assert ("row", "map-1", place, 1) in [(work.kind, work.of, work.where, work.rows) for work in found]


def test_a_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "LONG_NS", 0)
    for name, rows in (("a.csv", 3), ("b.csv", 2000)):
        (tmp_path / name).write_text("x\n" + "".join(f"{number}\n" for number in range(rows)))
    with fp.Loader(fp.read_csv([tmp_path / "a.csv", tmp_path / "b.csv"]).batch(2)) as loader:
        list(loader)
        report = loader.report()
    (table,) = report.ranks[0].tables
    found = {work.where: work.rows for work in table.slow if work.kind == "file"}
    assert found == {f"{tmp_path / 'a.csv'}, byte 0": 3, f"{tmp_path / 'b.csv'}, byte 0": 2000}


@pytest.mark.parametrize("service", [None, fp.Threads(2), pytest.param(fp.MultiProcess(2), marks=pytest.mark.slow)])
def test_memory_and_queues_are_sampled(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "SAMPLE_NS", 0)
    monkeypatch.setattr(times, "STAMP_NS", 0)
    pipe = fp.from_sequence(range(2000)).prefetch(8).batch(5) if service is None else fp.from_sequence(range(2000))
    with fp.Loader(pipe, service) as loader:
        list(loader)
        tables = {table.thread: table for table in loader.report().ranks[0].tables}
    assert all(sample.resident > 2**20 for table in tables.values() for sample in table.samples)
    assert {sample.ready for sample in tables["consumer"].samples} == {-1}
    queues = {name for name, table in tables.items() if any(sample.ready >= 0 for sample in table.samples)}
    if isinstance(service, fp.MultiProcess):  # a worker samples when it sends its table, after 0.25 s at the earliest
        assert queues <= {"worker 0", "worker 1"}
    else:
        assert queues == tables.keys() - {"consumer"} != set()


def test_fast_rows_are_hardly_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[object] = []
    watching = times.Times.watching

    def counting(thread: Any, results: Any) -> Any:
        for result in watching(thread, results):
            watched.append(result)
            yield result

    monkeypatch.setattr(times.Times, "watching", counting)
    with fp.Loader(fp.from_sequence(range(50_000)).shuffle().map(abs).batch(100)) as loader:
        for epoch in range(3):
            before = len(watched)
            assert sum(map(len, loader)) == 50_000
            assert len(watched) - before <= 4 * times.WATCHED_ROWS, epoch  # of each run of the first block
    assert watched


def test_a_stop_iteration_ends_no_watch_early() -> None:
    def stops_at(row: int) -> int:
        if row == 7:
            raise StopIteration
        return row

    with (
        fp.Loader(fp.from_sequence(range(100)).map(stops_at).batch(1)) as loader,
        pytest.raises(RuntimeError, match="raised StopIteration") as caught,
    ):
        list(loader)
    assert any("row 8" in note for note in (str(caught.value), *getattr(caught.value, "__notes__", ())))


def test_rows_of_readers_are_told_as_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "LONG_NS", 0)
    pq.write_table(pa.table({"x": range(20_000)}), tmp_path / "a.parquet", row_group_size=5000)
    with fp.Loader(fp.read_parquet(tmp_path).shuffle(window=1000).batch(100).collate()) as loader:
        list(loader)
        tables = loader.report().ranks[0].tables
    slow = {(work.kind, work.of) for table in tables for work in table.slow}
    assert ("file", "parse_parquet-1") in slow and {of for kind, of in slow if kind == "row"} <= {"collate-1"}
