"""Indexes of files: the rows, states and errors of a run with one, and how they grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError, MissingError, SourceError
from feedpipe.testing import check_operator

from ..support.core import walk
from ..support.engine import resolve
from ..support.examples import examples
from ..support.files import parquet
from ..support.sources import index as index_module
from ..support.storage import Index, versions
from ..support.storage import index as storage_index


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the folder `data`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path


def write(name: str, rows: int, first: int = 0, *, group: int = 7) -> None:
    os.makedirs(os.path.dirname(f"data/{name}"), exist_ok=True)
    table = pa.table({"x": pa.array(range(first, first + rows), pa.int64())})
    pq.write_table(table, f"data/{name}", row_group_size=group)


def write_some(counts: list[int]) -> None:
    for number, rows in enumerate(counts):
        write(f"day={number // 3}/part-{number:03}.parquet", rows, 1000 * number)


def read(manifest: str | None = None, **options: Any) -> fp.Pipe[Any]:
    return fp.read_parquet("data", recursive=True, manifest=manifest, **options)


def values(rows: Any) -> list[int]:
    return [row["x"] for row in rows]


def identities(pipe: fp.Pipe[Any]) -> list[Any]:
    return [node.op.identity() for node in walk(resolve(pipe))]


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(1, 3), st.integers(1, 5))
def test_order_and_states_do_not_depend_on_an_index(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], ranks: int, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("index"))
        patch.setattr(index_module, "BLOCK_FILES", block)
        write_some(counts)
        made = fp.index("data", "files.index", recursive=True)
        assert (made.files, made.rows, made.number) == (len(counts), sum(counts), 1)
        pipes = [read("files.index"), read()]
        assert identities(pipes[0]) == identities(pipes[1])
        assert list(pipes[0]) == list(pipes[1])
        for chain in (lambda p: p.shuffle(window=20).batch(4), lambda p: p.batch(3)):
            jobs = [
                [fp.Loader(chain(pipe), rank=rank, world_size=ranks, even=None, seed=3) for rank in range(ranks)]
                for pipe in pipes
            ]
            for one, other in zip(*jobs, strict=True):
                assert len(one) == len(other)
                taken = [list(rows) for rows in islice(iter(one), 2)]
                assert taken == [list(rows) for rows in islice(iter(other), 2)]
                if taken:
                    states = one.state_dict(), other.state_dict()
                    one.load_state_dict(states[1])
                    other.load_state_dict(states[0])
                    assert [list(rows) for rows in one] == [list(rows) for rows in other]


def test_arrow_files(here: Path) -> None:
    for number in range(5):
        table = pa.table({"x": pa.array(range(number * 3), pa.int64())})
        feather.write_feather(table, f"data/{number}.arrow", compression="uncompressed", chunksize=4)
    without, pipe = fp.read_arrow("data"), fp.read_arrow("data", manifest="f.index")
    assert list(pipe) == list(without)
    assert identities(pipe) == identities(without)
    assert fp.index("data", "f.index").units == 1 + 2 + 3 + 3


def test_no_file_is_opened_but_for_its_rows(here: Path) -> None:
    write_some([10] * 6)
    fp.index("data", "f.index", recursive=True)
    for path in here.glob("data/*/*-00[1-5].parquet"):
        path.unlink()
    pipe = read("f.index").shuffle(window=10)
    assert pipe.length == 60
    loader = fp.Loader(read("f.index"), shards=1)
    assert values(islice(iter(loader), 10)) == list(range(10))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": ["t", "year"]},
        {"unify_schemas": True},
        {"columns": ["x"], "path_column": "p", "row_column": "r"},
        {"filter": pc.field("x") >= 2},
    ],
)
def test_an_index_tells_what_footers_tell(here: Path, options: dict[str, Any]) -> None:
    x = pa.array([1, 2, None], pa.int64())
    for name, table in {
        "year=2024/a": pa.table({"x": x, "t": ["a", "b", "c"]}),
        "year=2024/b": pa.table({"t": ["d"] * 9, "x": pa.array(range(9), pa.int32())}),
        "year=2025/c": pa.table({"x": pa.array([], pa.int64()), "t": pa.array([], pa.string())}),
        "year=2026/d": pa.table({"x": x, "t": pa.array(["é", None, ""])}),
    }.items():
        os.makedirs(os.path.dirname(f"data/{name}"), exist_ok=True)
        pq.write_table(table, f"data/{name}.parquet", row_group_size=4)
    fp.index("data", "f.index", recursive=True)
    without = fp.read_parquet(here / "data", recursive=True, **options)
    kept = fp.read_parquet(here / "data", recursive=True, manifest="f.index", **options)
    assert identities(kept) == identities(without)
    assert list(kept) == list(without)


def test_a_changed_file_of_the_same_size_is_told_by_its_seal(here: Path) -> None:
    for name in "ab":
        pq.write_table(pa.table({"x": [1, 2]}), f"data/{name}.parquet")
    fp.index("data", "f.index")
    before = os.stat("data/b.parquet")
    pq.write_table(pa.table({"y": [1, 2]}), "data/b.parquet")
    os.utime("data/b.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(SourceError, match="b.parquet has changed since its footer was read"):
        list(fp.read_parquet("data", manifest="f.index"))


# Dealing in granules


def test_above_a_number_of_units_they_are_dealt_in_granules(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "BLOCK_FILES", 8)
    monkeypatch.setattr(storage_index, "MAX_EXACT_UNITS", 16)
    write_some([0, 3, 50, 9, 21, 7] * 8)
    made = fp.index("data", "f.index", recursive=True)
    weights = made.weights()
    assert weights.granule == 16 and made.units == 8 * 15
    assert len(weights.values) == 8 and weights.values.sum() == made.rows == 8 * 90
    for pipe in (read("f.index").shuffle(window=10), read("f.index")):
        loaders = [fp.Loader(pipe, rank=rank, world_size=3, even=None, seed=1) for rank in range(3)]
        lengths = [len(loader) for loader in loaders]
        parts = [list(loader) for loader in loaders]
        assert list(map(len, parts)) == lengths
        assert Counter(values(sum(parts, []))) == Counter(values(read()))
        assert max(lengths) - min(lengths) <= 8
    files = fp.list_files("data", recursive=True, manifest="f.index")
    whole = fp.Loader(files.open_files().map(lambda file: file.path).filter(bool).shuffle(window=4), shards=4)
    assert sorted(whole) == list(fp.list_files("data", recursive=True, manifest="f.index"))


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_writers_make_an_index(here: Path, name: str) -> None:
    write_rows: Any = getattr(fp, f"write_{name}")
    read_rows: Any = getattr(fp, f"read_{name}")

    def written(rows: int, **others: Any) -> list[int]:
        pipe = fp.from_sequence([{"x": k} for k in range(rows)])
        assert write_rows(pipe, "out", rows_per_file=3, **others) == "out/_manifest.jsonl"
        (here / "out" / "_manifest.jsonl").rename(here / "manifest")  # the index is all that is needed
        indexed = read_rows("out", manifest="out/_files.index")
        (here / "manifest").rename(here / "out" / "_manifest.jsonl")
        return sorted(values(indexed))

    fp.verify(write_rows(fp.from_sequence([{"x": k} for k in range(10)]), "out", rows_per_file=3))
    assert not (here / "out" / "_files.index").exists()
    assert written(10, index=True) == list(range(10))  # of files that were there
    digest = Index.open("out/_files.index").digest
    assert written(10, index=True) == list(range(10))
    assert Index.open("out/_files.index").digest == digest and versions("out/_files.index") == [1]
    assert written(13, index=True, overwrite=True) == list(range(13))
    assert versions("out/_files.index") == [1]
    fp.verify("out/_manifest.jsonl")


# Filters


FILTERS: list[Any] = [
    pc.field("x") > 30,
    (pc.field("x") == 3) | (pc.field("k") == 1),
    pc.field("x").is_null(),
    pc.field("k") == 2,
    ~(pc.field("k") == 2),
    pc.field("k").isin([1, 3]),
    (pc.field("k") != 1) & (pc.field("x") > 8),
    pc.field("k").is_null(),
    pc.field("c") == "b c",
    (pc.field("c") > "a") | (pc.field("x") == 0),
]


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.none() | st.integers(0, 9) | st.integers(0, 60), max_size=5), min_size=1, max_size=8),
    st.sampled_from(FILTERS),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(["1", "2", "__HIVE_DEFAULT_PARTITION__"]), st.sampled_from(["a", "b%20c"]))),
)
def test_filters_leave_out_no_row_by_folders(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[int | None]],
    expression: Any,
    later: bool,
    folders: list[tuple[str, str]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("index"))
        patch.setattr(index_module, "BLOCK_FILES", 2)
        os.mkdir("data")
        for number, column in enumerate(files):
            k, c = folders[number] if number < len(folders) else ("2", "a")
            os.makedirs(f"data/k={k}/c={c}", exist_ok=True)
            table = pa.table({"x": pa.array(column, pa.int64())})
            pq.write_table(table, f"data/k={k}/c={c}/{number}.parquet", row_group_size=2)
        fp.index("data", "f.index", recursive=True).check()

        def filtered(manifest: str | None) -> fp.Pipe[Any]:
            if later:
                return read(manifest).filter(expression)
            return read(manifest, filter=expression)

        pipes = [filtered("f.index"), filtered(None)]
        assert list(pipes[0]) == list(pipes[1])
        assert identities(pipes[0]) == identities(pipes[1])


def test_folders_leave_out_files(here: Path) -> None:
    write_some([10] * 12)
    fp.index("data", "f.index", recursive=True)
    for path in here.glob("data/day=[013]/*.parquet"):
        path.unlink()
    assert values(read("f.index", filter=pc.field("day") == 2)) == [1000 * k + j for k in (6, 7, 8) for j in range(10)]
    assert list(read("f.index", filter=pc.field("day") > 7)) == []


# Versions and growth


def test_an_index_grows(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "BLOCK_FILES", 4)
    write_some([3] * 10)
    first = fp.index("data", "f.index", recursive=True)
    assert repr(fp.index("data", "f.index", recursive=True)) == repr(first)  # nothing has changed
    read_footers: list[str] = []
    footer = parquet.Parquet.footer

    def counted(units: Any, file: fp.File) -> Any:
        read_footers.append(os.path.basename(file.path))
        return footer(units, file)

    monkeypatch.setattr(parquet.Parquet, "footer", counted)
    write("day=0/part-000a.parquet", 4, 77)  # new, between others
    write("day=1/part-004.parquet", 9, 4000)  # changed
    (here / "data/day=2/part-008.parquet").unlink()
    second = fp.index("data", "f.index", recursive=True)
    assert (second.number, second.files, second.rows) == (2, 10, 8 * 3 + 4 + 9)
    assert sorted(read_footers) == ["part-000a.parquet", "part-004.parquet"]
    assert Counter(values(read("f.index"))) == Counter(values(read()))
    assert values(read("f.index"))[-4:] == [77, 78, 79, 80]  # new files are after
    # The first version stays as it was.
    old = fp.list_files("data", recursive=True, manifest="f.index", version=1)
    assert [Path(path).name for path in old] == [f"part-{number:03}.parquet" for number in range(10)]
    assert sorted(os.listdir("f.index")) == ["v1.parquet", "v2.parquet"]
    assert pq.read_table("f.index/v2.parquet")["path"].to_pylist() == list(
        fp.list_files("data", recursive=True, manifest="f.index")
    )


def test_a_state_goes_on_with_its_version(here: Path) -> None:
    write_some([8] * 4)
    fp.index("data", "f.index", recursive=True)

    def make() -> fp.Pipe[Any]:
        return read("f.index").shuffle(window=10).batch(4)

    loader = fp.Loader(make(), seed=1)
    epoch = iter(loader)
    before = list(islice(epoch, 3))
    state = json.loads(json.dumps(loader.state_dict()))
    write("day=9/new.parquet", 5, 9000)
    assert fp.index("data", "f.index", recursive=True).number == 2  # while the job runs
    rest = list(epoch)
    resumed = fp.Loader(make(), seed=1)
    resumed.load_state_dict(state)
    assert list(map(values, resumed)) == list(map(values, rest))
    assert sorted(sum(map(values, before + rest), [])) == [1000 * n + k for n in range(4) for k in range(8)]
    assert 9000 in sum(map(values, fp.Loader(make(), seed=1)), [])


def test_a_version_that_was_removed(here: Path) -> None:
    write_some([8] * 4)
    fp.index("data", "f.index", recursive=True)
    loader = fp.Loader(read("f.index").batch(4))
    next(iter(loader))
    state = loader.state_dict()
    write("day=9/new.parquet", 5, 9000)
    fp.index("data", "f.index", recursive=True)
    (here / "f.index/v1.parquet").unlink()
    with pytest.raises(MissingError, match="has no version 1; the versions there are: 2"):
        fp.Loader(read("f.index").batch(4)).load_state_dict(state)


def test_two_writers_at_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_some([3] * 4)
    fp.index("data", "f.index", recursive=True)
    write("day=8/one.parquet", 5, 8000)
    whole = index_module.write_version
    others: list[Index] = []

    def late(*arguments: Any) -> Any:
        if not others:  # another writer has finished just before
            others.append(None)  # type: ignore[arg-type]
            others[0] = fp.index("data", "f.index", recursive=True)
            write("day=9/two.parquet", 5, 9000)
        return whole(*arguments)

    monkeypatch.setattr(index_module, "write_version", late)
    last = fp.index("data", "f.index", recursive=True)
    assert (others[0].number, others[0].files, last.number, last.files) == (2, 5, 3, 6)
    assert Counter(values(read("f.index"))) == Counter(values(read()))
    last.check()
    others[0].check()
    # What the slower writer had written is gone.
    assert sorted(os.listdir("f.index")) == ["v1.parquet", "v2.parquet", "v3.parquet"]
    monkeypatch.setattr(index_module, "write_version", lambda *arguments: None)
    write("day=9/three.parquet", 5, 9000)
    with pytest.raises(SourceError, match="cannot be written: other writers were faster, 8 times"):
        fp.index("data", "f.index", recursive=True)


# What is refused


def test_arguments(here: Path) -> None:
    write_some([3, 4])
    with pytest.raises(ArgumentError, match=r"`manifest` must be the path of an index, .* but got: 'm\.jsonl'"):
        fp.list_files("data", manifest="m.jsonl")
    with pytest.raises(
        ArgumentError, match=r"`into` must be the path of a folder that ends with '\.index' but got: 'x'"
    ):
        fp.index("data", "x", recursive=True)
    with pytest.raises(ArgumentError, match="`version` is that of an index, and needs its path, `manifest`"):
        fp.list_files("data", version=1)
    fp.index("data", "f.index", recursive=True)
    with pytest.raises(ArgumentError, match=r"f\.index was made by `list_files\('data', recursive=True\)`, and this"):
        len(fp.list_files("data/*", manifest="f.index"))
    with pytest.raises(ArgumentError, match=r"f\.index was made by"):
        fp.index("data/day=0", "f.index")
    with pytest.raises(MissingError, match=r"f\.index has no version 7; the versions there are: 1"):
        len(fp.list_files("data", recursive=True, manifest="f.index", version=7))
    with pytest.raises(ArgumentError, match="`manifest` would keep the password in `paths`"):
        fp.index("http://user:secret@host/x", "g.index")
    (here / "data" / "readme.txt").write_text("")
    with pytest.raises(ArgumentError, match="`footers=True` needs files that all end with .parquet"):
        fp.index("data", "h.index", recursive=True, footers=True)
    assert fp.index("data", "h.index", recursive=True).rows is None
    assert fp.index("data", "i.index", recursive=True, pattern="*.parquet", footers=True).rows == 7
    assert fp.index("data", "j.index", recursive=True, pattern="*.parquet", footers=False).rows is None


def test_damage_is_an_error_or_changes_no_row(here: Path) -> None:
    write_some([3] * 6)
    fp.index("data", "f.index", recursive=True)
    whole, rows = (here / "f.index/v1.parquet").read_bytes(), values(read())
    damaged = [bytearray(whole[:size]) for size in range(0, len(whole), len(whole) // 20)]
    for at in range(0, len(whole), max(1, len(whole) // 300)):
        damaged.append(bytearray(whole))
        damaged[-1][at] ^= 255
    refused = 0
    for content in damaged:
        (here / "f.index/v1.parquet").write_bytes(content)
        try:
            Index.open("f.index").check()
            assert values(read("f.index")) == rows
        except DataError as error:
            assert "f.index" in str(error)
            refused += 1
    assert refused > len(damaged) // 2


def test_a_file_that_has_changed(here: Path) -> None:
    write_some([30] * 3)
    fp.index("data", "f.index", recursive=True)
    write("day=0/part-001.parquet", 31)
    with pytest.raises(SourceError, match=r"part-001\.parquet is not the file that was listed"):
        list(read("f.index"))


def test_schemas_of_all_files(here: Path) -> None:
    for number in range(4):
        table = pa.table({"x": pa.array([number], pa.int16() if number else pa.int8()), f"only{number % 2}": [1.5]})
        pq.write_table(table, f"data/{number}.parquet")
    fp.index("data", "f.index")
    without = fp.read_parquet("data", unify_schemas=True)
    assert list(fp.read_parquet("data", unify_schemas=True, manifest="f.index")) == list(without)
    with pytest.raises(DataError, match="only1"):
        list(fp.read_parquet("data", manifest="f.index"))
    (here / "data/0.parquet").unlink()  # the first file has another schema now
    fp.index("data", "f.index")
    pipe = fp.read_parquet("data", columns=["x"], manifest="f.index")
    assert list(pipe) == [{"x": number} for number in (1, 2, 3)]
    assert pipe.schema == fp.read_parquet("data", columns=["x"]).schema


def test_the_law_of_cursors(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "BLOCK_FILES", 2)
    write_some([3, 9, 0, 20, 1])
    assert values(check_operator(read("f.index"))) == values(read())


@pytest.mark.slow
def test_processes_make_one_index_at_once(here: Path) -> None:
    write_some([3] * 9)
    program = "import feedpipe as fp; print(len(fp.read_parquet('data', recursive=True, manifest='f.index')))"
    processes = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in processes] == ["27\n"] * 3
    assert versions("f.index") == [1]
    Index.open("f.index").check()
