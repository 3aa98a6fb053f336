"""`parse_arrow`: Arrow files and streams, in order and by position."""

from __future__ import annotations

import datetime
import gzip
import io
import itertools
import os
import pickle
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import cloudpickle
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.engine.stage import bind, resolve
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, SourceError
from feedpipe.formats.arrow.file import ArrowFile
from feedpipe.ops.parsing import _arrow_rows
from feedpipe.storage.remote import RemoteFile
from feedpipe.storage.retry import Cancellation
from feedpipe.testing import check_operator, same

from ...storage.remote_store import RemoteStore

FILE, STREAM = pa.ipc.new_file, pa.ipc.new_stream
WAYS = pytest.mark.parametrize("indexed", [False, True])


def encoded(table: Any, size: int | None = None, *, form: Any = FILE, compression: str | None = None) -> bytes:
    table = table if isinstance(table, pa.Table) else pa.table(table)
    sink = io.BytesIO()
    with form(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=size)
    return sink.getvalue()


def write(path: Path, table: Any, size: int | None = None, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(table, size, **options))
    return path


def parsed(files: list[Path], **options: Any) -> Any:
    return fp.from_sequence([str(file) for file in files]).open_files().parse_arrow(**options)


def counted(folder: Path, counts: list[int], size: int, **options: Any) -> list[Path]:
    """Files with these numbers of rows; ids continue from file to file."""
    files, first = [], 0
    for k, count in enumerate(counts):
        ids = range(first, first + count)
        table = pa.table({"id": pa.array(ids, pa.int64()), "t": pa.array([str(i) for i in ids], pa.string())})
        files.append(write(folder / f"{k}.arrow", table, size, **options))
        first += count
    return files


def listed(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "t": str(i)} for i in range(count)]


# The law


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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
def test_law_of_random_files(tmp_path: Path, numbers: list[Any], size: int, compression: Any, indexed: bool) -> None:
    tables = [pa.table({"n": pa.array(n, pa.int64()), "m": pa.array(range(len(n)), pa.int8())}) for n in numbers]
    files = [write(tmp_path / f"{k}.arrow", t, size, compression=compression) for k, t in enumerate(tables)]
    got = check_operator(parsed(files, indexed=indexed), samples=4)
    assert got == pa.concat_tables(tables).to_pylist()


# Types

DAY = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
TYPES: dict[str, pa.Array] = {
    "int8": pa.array(range(12), pa.int8()),
    "float16": pa.array(np.arange(12, dtype="float16")),
    "nulls": pa.array([None if i % 5 == 0 else i for i in range(12)]),
    "null": pa.nulls(12),
    "bool": pa.array([i % 2 == 0 for i in range(12)]),
    "string": pa.array(["é" * i for i in range(12)]),
    "large_binary": pa.array([b"x" * i for i in range(12)], pa.large_binary()),
    "string_view": pa.array(["a string of more than twelve bytes " * i for i in range(12)], pa.string_view()),
    "binary_view": pa.array([None, *[b"v" * i for i in range(11)]], pa.binary_view()),
    "timestamp": pa.array([DAY + datetime.timedelta(i) for i in range(12)], pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal(i) / 4 for i in range(12)], pa.decimal128(9, 2)),
    "dictionary": pa.array(list("abcabcabcabc")).dictionary_encode(),
    "dictionary of ints": pa.array([5, None, 7] * 4).dictionary_encode(),
    "run ends": pa.RunEndEncodedArray.from_arrays([3, 7, 12], ["a", None, "c"]),
    "list": pa.array([list(range(i % 4)) for i in range(12)]),
    "fixed list": pa.array([[i, i + 1] for i in range(12)], pa.list_(pa.float32(), 2)),
    "large list": pa.array([[str(i)] * (i % 3) for i in range(12)], pa.large_list(pa.string())),
    "struct": pa.array([{"a": i, "b": {"c": str(i)}} if i % 4 else None for i in range(12)]),
    "views in a struct": pa.array(
        [{"v": ["view " * i]} for i in range(12)], pa.struct([("v", pa.list_(pa.string_view()))])
    ),
    "map": pa.array([[(str(i), i)] for i in range(12)], pa.map_(pa.string(), pa.int64())),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(48.0).reshape(12, 2, 2)),
}


@pytest.mark.parametrize("form", [FILE, STREAM])
@pytest.mark.parametrize("column", TYPES.values(), ids=TYPES.keys())
@WAYS
def test_types(tmp_path: Path, column: pa.Array, form: Any, indexed: bool) -> None:
    if form is STREAM and indexed:
        return
    table = pa.table({"x": column, "i": range(12)})
    path = write(tmp_path / "a.arrow", table, 5, form=form)
    expected = list(fp.from_table(table))
    pipe = parsed([path], indexed=indexed)
    assert all(map(same, check_operator(pipe), expected))
    shuffled = pipe.shuffle() if indexed else pipe.shuffle(window=12)
    (batch,) = shuffled.batch(12)
    assert same(list(batch), [expected[row["i"]] for row in shuffled])


def test_dictionaries_that_grow_and_change_in_a_stream(tmp_path: Path) -> None:
    sink = io.BytesIO()
    parts = [pa.table({"c": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["a", "b", "c"], ["z"])]
    with STREAM(sink, parts[0].schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for part in parts:
            writer.write_table(part)
    (tmp_path / "a.arrows").write_bytes(sink.getvalue())
    assert [row["c"] for row in check_operator(parsed([tmp_path / "a.arrows"]))] == ["a", "b", "a", "b", "c", "z"]


@WAYS
def test_dictionaries_that_differ_between_files(tmp_path: Path, indexed: bool) -> None:
    files = [
        write(tmp_path / f"{k}.arrow", {"c": pa.array(words).dictionary_encode()})
        for k, words in enumerate((["a", "b"], ["b", "c"], ["a"]))
    ]
    pipe = parsed(files, indexed=indexed)
    assert [row["c"] for row in check_operator(pipe)] == ["a", "b", "b", "c", "a"]
    (batch,) = pipe.batch(5).to_arrow()
    assert batch.schema.field("c").type == pa.string()


@WAYS
def test_types_that_become_those_of_the_first_file(tmp_path: Path, indexed: bool) -> None:
    files = [
        write(tmp_path / "a.arrow", {"n": pa.array([1, 2]), "f": pa.array([0.5, None]), "t": ["a", "b"]}),
        write(
            tmp_path / "b.arrow", {"t": pa.array(["c"], pa.string_view()), "n": pa.array([3], pa.int16()), "f": [2.5]}
        ),
        write(
            tmp_path / "c.arrow", {"t": pa.nulls(1), "f": pa.array([1], pa.float32()), "n": pa.array([4], pa.uint32())}
        ),
    ]
    pipe = parsed(files, indexed=indexed)
    rows = check_operator(pipe)
    assert [row["n"] for row in rows] == [1, 2, 3, 4]
    assert [row["f"] for row in rows] == [0.5, None, 2.5, 1.0]
    assert [row["t"] for row in rows] == ["a", "b", "c", None]
    (batch,) = pipe.batch(4).to_arrow()
    assert batch.schema.types == [pa.int64(), pa.float64(), pa.string()]


def test_a_column_of_nothing_but_nulls_has_the_type_of_a_later_file(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.arrow", {"n": pa.nulls(2)}), write(tmp_path / "b.arrow", {"n": [1.5]})]
    assert [row["n"] for row in parsed(files, indexed=True)] == [None, None, 1.5]


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "a column less": ({"n": [1]}, r"b.arrow has no column 't', and .*a.arrow has one; it has 'n'"),
    "a column more": ({"n": [1], "t": ["x"], "u": [1]}, r"b.arrow has a column 'u', and .*a.arrow has none"),
    "a wider type": ({"n": [1.5], "t": ["x"]}, r"b.arrow, column 'n': its type is double, and int64 in .*a.arrow"),
}


@pytest.mark.parametrize("form", [FILE, STREAM])
@pytest.mark.parametrize(("second", "message"), MISFITS.values(), ids=MISFITS.keys())
def test_files_that_do_not_fit_are_named(tmp_path: Path, second: dict[str, Any], message: str, form: Any) -> None:
    files = [
        write(tmp_path / "a.arrow", {"n": [1], "t": ["x"]}, form=form),
        write(tmp_path / "b.arrow", second, form=form),
    ]
    with pytest.raises(DataError, match=message) as caught:
        list(parsed(files))
    assert __file__ in str(caught.value)


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
    with pytest.raises(ArgumentError, match=r"`indexed` must be left out here: .* put the `shuffle` behind"):
        files.shuffle().open_files().parse_arrow(indexed=True)
    with pytest.raises(ArgumentError, match="`indexed` must be left out here"):
        files.filter(bool).open_files().parse_arrow(indexed=True)
    with pytest.raises(ArgumentTypeError, match="`columns` must be a list of names"):
        files.open_files().parse_arrow(columns="x")
    with pytest.raises(ArgumentTypeError, match=r"`parse_arrow` reads files but got: .*; put `.open_files\(\)` before"):
        list(files.parse_arrow())  # type: ignore[misc]
    pipe = parsed([Path("a")], columns=["x"], row_column="r", indexed=True)
    assert ".parse_arrow(columns=['x'], indexed=True, row_column='r')" in repr(pipe)


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


# By position


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
    monkeypatch.setattr(_arrow_rows, "MAX_KEPT_BYTES", 600)  # about three batches
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
    assert len(os.listdir("/proc/self/fd")) <= before
    if form is FILE:
        pipe = parsed(files, indexed=True)
        assert len(list(pipe.shuffle())) == 600
        assert len(os.listdir("/proc/self/fd")) <= before


@WAYS
def test_a_remote_file(tmp_path: Path, indexed: bool) -> None:
    memory = fsspec.filesystem("memory")
    for file in counted(tmp_path, [30, 20], 7):
        memory.pipe(f"/parse_arrow/{file.name}", file.read_bytes())
    pipe = fp.list_files("memory://parse_arrow/*.arrow").open_files().parse_arrow(indexed=indexed)
    assert check_operator(pipe) == listed(50)
    if indexed:
        assert sorted(row["id"] for row in pipe.shuffle()) == [*range(50)]
    memory.rm("/parse_arrow", recursive=True)


class Far(LocalFileSystem):
    """Local files read as if they were remote: by ranges, not mapped."""

    protocol = "far"


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("form", [FILE, STREAM])
def test_remote_files_are_read_by_ranges(tmp_path: Path, form: Any, compression: str | None) -> None:
    files = [str(file) for file in counted(tmp_path, [30, 0, 20], 7, form=form, compression=compression)]
    opened = fp.list_files(files, filesystem=Far()).open_files(filesystem=Far())
    assert check_operator(opened.parse_arrow()) == listed(50)
    if form is FILE:
        pipe = opened.parse_arrow(columns=["t"], indexed=True)
        assert [row["t"] for row in check_operator(pipe)] == [str(i) for i in range(50)]


def test_below_a_subtree(tmp_path: Path) -> None:
    counted(tmp_path, [30], 7)
    below = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    pipe = fp.list_files("0.arrow", filesystem=below).open_files(filesystem=below).parse_arrow(indexed=True)
    assert list(pipe) == listed(30)


@WAYS
def test_a_pickle_holds_paths_and_numbers(tmp_path: Path, indexed: bool) -> None:
    pipe = parsed(counted(tmp_path, [2000, 2000], 100), indexed=indexed)
    list(pipe.take(3))
    graph = resolve(pipe)
    sent = cloudpickle.dumps(graph)
    assert len(sent) < 9_000
    assert bind(pickle.loads(sent)).length == 4000


@pytest.mark.slow
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


# Bad files

WHOLE = encoded({"x": range(20), "t": [f"row {i}" for i in range(20)]}, 6)

BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "a.arrow is empty, but Arrow's formats begin with a head"),
    "another format": (
        b"PAR1 and so on",
        r"a.arrow is neither an Arrow file nor an Arrow stream: .* b'PAR1",
    ),
    "text": (b"x", r"neither an Arrow file nor an Arrow stream: it begins with b'x'"),
    "magic alone": (b"ARROW1", "a.arrow is damaged: its footer would have"),
    "cut": (WHOLE[:-1], "a.arrow is cut short: it does not end with 'ARROW1'"),
    "cut in the middle": (WHOLE[:700], "a.arrow is cut short"),
    "a footer too long": (WHOLE[:-10] + b"\xff\xff\xff\x7fARROW1", "its footer would have 2147483647 bytes"),
    "a footer of less than nothing": (WHOLE[:-10] + b"\xff\xff\xff\xffARROW1", "its footer would have -1 bytes"),
    "a footer of zeros": (WHOLE[:-110] + bytes(100) + WHOLE[-10:], "a.arrow is damaged"),
    "batches that are not there": (WHOLE[:8] + WHOLE[-500:], "a.arrow: the head of a record batch is damaged"),
}


@pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD.keys())
@WAYS
def test_files_that_are_damaged_or_not_arrow(tmp_path: Path, data: bytes, message: str, indexed: bool) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        list(parsed([path], indexed=indexed))
    assert __file__ in str(caught.value)


def test_a_stream_has_no_positions(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrows", {"x": [1]}, form=STREAM)
    with pytest.raises(DataError, match=r"a.arrows is a stream .*`list_files\(...\).open_files\(\).parse_arrow\(\)`"):
        len(parsed([path], indexed=True))


def test_a_stream_that_is_cut_short(tmp_path: Path) -> None:
    data = encoded({"x": range(20)}, 6, form=STREAM)
    path = tmp_path / "a.arrows"
    path.write_bytes(data[:-60])
    pipe = iter(parsed([path]))
    assert [next(pipe)["x"] for _ in range(18)] == [*range(18)]
    with pytest.raises(DataError, match=r"a.arrows, record batch 3, is damaged"):
        next(pipe)


@WAYS
def test_a_file_that_changed(tmp_path: Path, indexed: bool) -> None:
    path = write(tmp_path / "a.arrow", {"x": range(20)}, 6)
    pipe = parsed([path], indexed=indexed)
    assert len(pipe) == 20
    write(path, {"x": range(19)}, 6)
    with pytest.raises(SourceError, match="a.arrow has changed since its footer was read"):
        list(pipe)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="none.arrow is not there"):
        list(parsed([tmp_path / "none.arrow"]))


def test_text_with_offsets_beyond_its_memory(tmp_path: Path) -> None:
    offsets = pa.py_buffer(np.array([0, 4, 2_000_000_000, 8], np.int32))
    damaged = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"somebyte")])
    path = write(tmp_path / "a.arrow", pa.table({"n": range(3), "x": damaged}))
    for indexed in (False, True):
        with pytest.raises(DataError, match=r"a.arrow, record batch 0, is damaged"):
            list(parsed([path], indexed=indexed))
        assert [row["n"] for row in parsed([path], columns=["n"], indexed=indexed)] == [0, 1, 2]


MUTABLE = pa.table(
    {
        "n": range(12),
        "f": pa.array([None if i % 3 == 0 else i / 2 for i in range(12)], pa.float32()),
        "t": [f"text {i}" for i in range(12)],
        "l": [[i] * (i % 3) for i in range(12)],
        "c": pa.array(list("abcd") * 3).dictionary_encode(),
        "v": pa.array(["a view of many bytes " * (i % 2) for i in range(12)], pa.string_view()),
        "s": [{"a": i, "b": str(i)} for i in range(12)],
    }
)


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("form", [FILE, STREAM])
@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_damaged_bytes_give_an_error_or_rows(tmp_path: Path, form: Any, compression: Any, data: st.DataObject) -> None:
    made = bytearray(encoded(MUTABLE, 5, form=form, compression=compression))
    for _ in range(data.draw(st.integers(1, 4))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.none() | st.integers(0, len(made)))
    path = tmp_path / "a.arrow"
    path.write_bytes(made[:cut])
    indexed = form is FILE and data.draw(st.booleans())
    try:
        rows = list(parsed([path], indexed=indexed).batch(3).map(lambda batch: batch.arrow))
    except FeedpipeError:
        return
    for batch in rows:
        batch.validate(full=True)
        batch.to_pylist()


def test_heads_of_remote_batches_are_read_several_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    place = RemoteStore({"a.arrow": encoded({"id": list(range(40)), "t": ["x" * 10_000] * 40}, 1)})
    together = threading.Barrier(16, timeout=60)
    heads: list[int] = []
    numbers = itertools.count()
    read = RemoteFile.read

    def wait(self: RemoteFile, start: int, size: int, cancellation: Cancellation) -> bytes:
        if size < 1_000:
            heads.append(start)
            if 10 <= next(numbers) < 26:
                together.wait()
        return read(self, start, size, cancellation)

    monkeypatch.setattr(RemoteFile, "read", wait)
    assert len(fp.read_arrow("a.arrow", filesystem=place.filesystem)) == 40
    assert len(heads) == len(set(heads)) == 40
