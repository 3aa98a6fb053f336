"""`parse_arrow`: Arrow files and streams, in order and by position."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError
from feedpipe.testing import check_operator

from ...support.core import end_dropped
from ...support.engine import bind, resolve
from ...support.examples import examples
from ...support.files import ArrowFile
from ...support.files import arrow_file as _arrow_file
from .arrow_files import FILE, STREAM, WAYS, counted, encoded, listed, parsed, write


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@WAYS
def test_law(tmp_path: Path, compression: str | None, indexed: bool) -> None:
    files = counted(tmp_path, [3, 0, 40, 1], 7, compression=compression)
    pipe = parsed(files, indexed=indexed)
    assert check_operator(pipe) == listed(44)
    assert len(pipe) == 44
    assert sorted(row["id"] for row in check_operator(pipe.shuffle() if indexed else pipe.shuffle(window=9))) == [
        *range(44)
    ]


def test_law_of_streams(tmp_path: Path) -> None:
    files = counted(tmp_path, [3, 0, 40, 1], 7, form=STREAM)
    pipe = parsed(files)
    assert check_operator(pipe) == listed(44)
    with pytest.raises(TypeError):
        len(pipe)


def test_law_of_files_and_streams_compressed_as_a_whole(tmp_path: Path) -> None:
    first, second, third = counted(tmp_path, [9, 20, 8], 4)
    second.with_suffix(".arrow.gz").write_bytes(gzip.compress(second.read_bytes()))
    stream = encoded(pa.ipc.open_file(third).read_all(), 3, form=STREAM)
    third.with_suffix(".zst").write_bytes(pa.Codec("zstd").compress(stream, asbytes=True))
    files = [first, second.with_suffix(".arrow.gz"), third.with_suffix(".zst")]
    got = check_operator(parsed(files, row_column="row"))
    assert [row["id"] for row in got] == [*range(37)]
    assert [row["row"] for row in got] == [*range(9), *range(20), *range(8)]


@WAYS
def test_law_with_lineage_and_folders(tmp_path: Path, indexed: bool) -> None:
    paths = [
        write(tmp_path / f"year={year}" / "kind=a" / "x.arrow", {"n": range(9), "t": list("abcdefghi")}, 4)
        for year in (2023, 2024)
    ]
    pipe = parsed(paths, columns=["year", "t"], path_column="path", row_column="row", indexed=indexed)
    got = check_operator(pipe)
    expected = [
        {"year": 2023 + i // 9, "t": "abcdefghi"[i % 9], "path": str(paths[i // 9]), "row": i % 9} for i in range(18)
    ]
    assert got == expected
    assert [list(row) for row in got] == [["year", "t", "path", "row"]] * 18
    assert [list(row) for row in parsed(paths, indexed=indexed)] == [["n", "t", "year", "kind"]] * 18
    assert list(parsed(paths, columns=["kind", "year"], indexed=indexed)) == [
        {"kind": "a", "year": 2023 + i // 9} for i in range(18)
    ]
    if indexed:
        assert [pipe[i] for i in (17, 0, 9)] == [expected[i] for i in (17, 0, 9)]
        check_operator(pipe.shuffle().batch(5))


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize(
    "files",
    [
        lambda paths: fp.from_sequence(paths).shuffle(seed=3),
        lambda paths: fp.from_sequence(paths).filter(lambda path: True),
        lambda paths: fp.from_sequence(paths).shard_by_rank(),
    ],
)
def test_law_if_files_have_no_fixed_order(tmp_path: Path, files: Any) -> None:
    paths = [str(path) for path in counted(tmp_path, [8, 0, 20, 5], 6)]
    Path(paths[2]).write_bytes(encoded(pa.ipc.open_file(paths[2]).read_all(), 6, form=STREAM))
    pipe = files(paths).open_files().parse_arrow()
    got = check_operator(pipe)
    assert sorted(row["id"] for row in got) == [*range(33)]
    ids = [row["id"] for rank in range(2) for row in fp.Loader(pipe, rank=rank, world_size=2, even=None)]
    assert sorted(ids) == [*range(33)]


@pytest.mark.parametrize("ranks", [1, 3])
@WAYS
def test_one_file_serves_many_shards(tmp_path: Path, ranks: int, indexed: bool) -> None:
    pipe = parsed(counted(tmp_path, [120], 10), indexed=indexed)
    parts = [[row["id"] for row in fp.Loader(pipe, rank=rank, world_size=ranks)] for rank in range(ranks)]
    assert sorted(sum(parts, [])) == [*range(120)]
    if not indexed:
        assert {part[0] for part in parts} == {10 * rank for rank in range(ranks)}


@given(
    st.lists(st.lists(st.none() | st.integers(0, 9), max_size=12), min_size=1, max_size=3),
    st.integers(1, 5),
    st.sampled_from([None, "lz4"]),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25), deadline=None)
def test_law_of_random_files(tmp_path: Path, numbers: list[Any], size: int, compression: Any, indexed: bool) -> None:
    tables = [pa.table({"n": pa.array(n, pa.int64()), "m": pa.array(range(len(n)), pa.int8())}) for n in numbers]
    files = [write(tmp_path / f"{k}.arrow", t, size, compression=compression) for k, t in enumerate(tables)]
    got = check_operator(parsed(files, indexed=indexed), samples=4)
    assert got == pa.concat_tables(tables).to_pylist()


@WAYS
def test_missing_columns_and_names_in_use(tmp_path: Path, indexed: bool) -> None:
    path = write(tmp_path / "a.arrow", {"number": [1], "text": ["x"]})
    for options, message in (
        ({"columns": ["numbre"]}, r"a.arrow has no column 'numbre', .* did you mean 'number'\?"),
        ({"row_column": "text"}, r"a.arrow has a column 'text' already; `row_column` needs another name"),
    ):
        with pytest.raises(DataError, match=message):
            list(parsed([path], indexed=indexed, **options))
    double = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    with pytest.raises(DataError, match="two columns have the name 'x'"):
        list(parsed([write(tmp_path / "b.arrow", double)], indexed=indexed))


def test_arguments() -> None:
    files = fp.from_sequence(["a", "b"])
    with pytest.raises(ArgumentError, match=r"`indexed` must be left out here: .* put the `shuffle` after"):
        files.shuffle().open_files().parse_arrow(indexed=True)
    with pytest.raises(ArgumentError, match="`indexed` must be left out here"):
        files.filter(bool).open_files().parse_arrow(indexed=True)
    with pytest.raises(ArgumentTypeError, match="`columns` must be a list of names"):
        files.open_files().parse_arrow(columns="x")
    with pytest.raises(ArgumentTypeError, match=r"`parse_arrow` reads files but got: .*; put `.open_files\(\)` before"):
        list(files.parse_arrow())  # type: ignore[misc]
    pipe = parsed([Path("a")], columns=["x"], row_column="r", indexed=True)
    assert ".parse_arrow(columns=['x'], row_column='r', indexed=True)" in repr(pipe)


@WAYS
def test_no_file(indexed: bool) -> None:
    assert check_operator(parsed([], indexed=indexed)) == []


@WAYS
def test_files_without_batches(tmp_path: Path, indexed: bool) -> None:
    empty = pa.table({"x": pa.array([], pa.int64()), "t": pa.array([], pa.string())})
    files = [write(tmp_path / "a.arrow", empty), write(tmp_path / "b.arrow", empty, form=FILE if indexed else STREAM)]
    pipe = parsed(files, indexed=indexed)
    assert check_operator(pipe) == []
    assert list(pipe.batch(2).collate()) == []


def test_feather(tmp_path: Path) -> None:
    pyarrow.feather.write_feather(pa.table({"x": range(9)}), tmp_path / "a.feather", chunksize=2)
    assert [row["x"] for row in check_operator(parsed([tmp_path / "a.feather"], indexed=True))] == [*range(9)]


def test_numbers_of_mapped_files_are_read_in_place(tmp_path: Path) -> None:
    numbers = np.arange(60_000)
    files = [write(tmp_path / f"{k}.arrow", {"x": part}, 6_000) for k, part in enumerate(np.split(numbers, 3))]
    pipe = parsed(files, indexed=True)
    before = pa.total_allocated_bytes()
    column = pipe.batch(6_000)[1].columns["x"]
    assert isinstance(column, np.ndarray)
    assert pa.total_allocated_bytes() - before < 20_000
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1
    assert sorted(pipe.shuffle().batch(60_000)[0].columns["x"].tolist()) == numbers.tolist()


def test_batches_are_decompressed_once_while_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = counted(tmp_path, [40, 40], 10, compression="zstd")
    asked: list[int] = []
    of_file = ArrowFile.read_batch

    def batch(self: ArrowFile, number: int, *others: Any) -> pa.RecordBatch:
        asked.append(number)
        return of_file(self, number, *others)

    monkeypatch.setattr(ArrowFile, "read_batch", batch)
    pipe = parsed(files, indexed=True)
    for _ in range(2):
        assert [pipe[i]["id"] for i in (70, *range(80))] == [70, *range(80)]
    assert sorted(asked) == sorted([0, 1, 2, 3] * 2)
    monkeypatch.setattr(_arrow_file, "MAX_KEPT_BYTES", 600)  # about three batches
    pipe = parsed(files, indexed=True)
    asked.clear()
    assert [pipe[i]["id"] for i in (0, 79, 1, 78)] == [0, 79, 1, 78]
    assert len(asked) == 2
    assert [row["id"] for row in pipe] == [*range(80)]
    assert pipe[0]["id"] == 0
    assert len(asked) > 8


def test_more_files_than_are_kept_open(tmp_path: Path) -> None:
    files = counted(tmp_path, [5] * 20, 2)
    pipe = parsed(files, indexed=True)
    assert sorted(row["t"] for row in pipe.shuffle()) == sorted(str(i) for i in range(100))


@pytest.mark.parametrize("form", [FILE, STREAM])
def test_files_are_closed(tmp_path: Path, form: Any) -> None:
    files = counted(tmp_path, [30] * 20, 10, form=form)
    before = len(os.listdir("/proc/self/fd"))
    rows = iter(parsed(files))
    for _ in range(500):
        next(rows)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    del rows
    end_dropped()
    assert len(os.listdir("/proc/self/fd")) <= before
    if form is FILE:
        pipe = parsed(files, indexed=True)
        assert len(list(pipe.shuffle())) == 600
        assert len(os.listdir("/proc/self/fd")) <= before


@WAYS
def test_a_pickle_holds_paths_and_numbers(tmp_path: Path, indexed: bool) -> None:
    pipe = parsed(counted(tmp_path, [2000, 2000], 100), indexed=indexed)
    list(pipe.take(3))
    graph = resolve(pipe)
    sent = cloudpickle.dumps(graph)
    assert len(sent) < 9_000
    assert bind(pickle.loads(sent)).length == 4000


@WAYS
def test_in_workers(tmp_path: Path, indexed: bool) -> None:
    files = counted(tmp_path, [40, 0, 33], 7, compression="lz4")
    pipe = parsed(files, row_column="row", indexed=indexed).batch(4)
    with fp.Loader(pipe, workers=2) as loader:
        assert sorted(row["id"] for batch in loader for row in batch) == [*range(73)]


def test_an_error_names_file_and_row(tmp_path: Path) -> None:
    files = counted(tmp_path, [9, 9], 4)
    for indexed in (False, True):
        with pytest.raises(fp.RowError, match=r"1.arrow, row 6\n"):
            list(parsed(files, indexed=indexed).map(lambda row: 1 // (row["id"] - 14)))
    files[1].write_bytes(encoded(pa.ipc.open_file(files[1]).read_all(), 4, form=STREAM))
    with pytest.raises(fp.RowError, match=r"1.arrow, row 6\n"):
        list(parsed(files).map(lambda row: 1 // (row["id"] - 14)))


def test_a_state_is_refused_if_the_batches_changed(tmp_path: Path) -> None:
    (path,) = counted(tmp_path, [20], 5)
    states = []
    for size in (5, 4):
        write(path, pa.ipc.open_file(path.read_bytes()).read_all(), size)
        loader = fp.Loader(parsed([path]))
        next(iter(loader))
        states.append(loader.state_dict())
    with pytest.raises(fp.FeedpipeError, match="record_batches"):
        fp.Loader(parsed([path])).load_state_dict(states[0])


def test_a_stream_has_no_positions(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrows", {"x": [1]}, form=STREAM)
    with pytest.raises(DataError, match=r"a.arrows is a stream .*`list_files\(...\).open_files\(\).parse_arrow\(\)`"):
        len(parsed([path], indexed=True))
