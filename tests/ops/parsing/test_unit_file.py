"""Unit files: what footers say, kept beside a manifest, so that a later run does not read the footers again."""

from __future__ import annotations

import io
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
from feedpipe.extensions import Context

from ...storage.remote_store import RemoteStore
from ...support.core import walk
from ...support.engine import bind, resolve
from ...support.files import Parquet
from ...support.files import parquet_footer as _footers
from ...support.storage import FileContents, FileUnits, open_version

LOG = "feedpipe"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that are opened."""
    names: list[str] = []
    real = fp.File.stream

    def stream(file: fp.File, *rest: Any, **options: Any) -> Any:
        if "/data/" in file.path:
            names.append(file.path.rpartition("/data/")[2])
        return real(file, *rest, **options)

    monkeypatch.setattr(fp.File, "stream", stream)
    return names


def parquet(table: pa.Table, rows: int | None = None) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows)
    return sink.getvalue()


def arrow(table: pa.Table, rows: int | None = None, *, stream: bool = False) -> bytes:
    sink = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table, rows)
    return sink.getvalue()


def put(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_bytes(data)


def facts(pipe: fp.Pipe[Any]) -> list[object]:
    """What must not depend on whether footers were read."""
    nodes = [node.op for node in walk(resolve(pipe))]
    table: Any = nodes[2]
    return [[op.identity() for op in nodes], table.table.numbers.tolist(), list(pipe)]


@pytest.mark.parametrize("reader", ["read_parquet", "read_arrow"])
def test_a_restart_opens_no_file_that_it_reads_no_rows_of(here: Path, opened: list[str], reader: str) -> None:
    data = (parquet if reader == "read_parquet" else arrow)(pa.table({"x": np.arange(4)}))
    for number in range(1000):
        put(f"data/{number:04}", data)

    def pipe() -> fp.Pipe[Any]:
        result: fp.Pipe[Any] = getattr(fp, reader)("data", manifest="m.jsonl", columns=["x"])
        return result

    assert len(pipe()) == 4000
    assert len({*opened}) == 1000
    opened.clear()
    again = pipe()
    assert len(again) == 4000
    loader = fp.Loader(again, rank=7, world_size=1000, even=None)
    assert (len(loader), opened) == (4, [])
    assert [row["x"] for row in fp.Loader(again.take(6))] == [0, 1, 2, 3, 0, 1]
    assert {*opened} == {"0000", "0001"} if reader == "read_parquet" else len({*opened}) == 1000


def tables() -> dict[str, pa.Table]:
    x = pa.array([1, 2, None], pa.int64())
    return {
        "data/year=2024/a": pa.table({"x": x, "t": ["a", "b", "c"]}),
        "data/year=2024/b": pa.table({"t": ["d"] * 9, "x": pa.array(range(9), pa.int32())}),
        "data/year=2025/c": pa.table({"x": pa.array([], pa.int64()), "t": pa.array([], pa.string())}),
        "data/year=2026/d": pa.table({"x": x, "t": pa.array(["é", None, ""])}),
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": ["t", "year"]},
        {"unify_schemas": True},
        {"columns": ["x"], "path_column": "p", "row_column": "r"},
    ],
)
@pytest.mark.parametrize("reader", ["read_parquet", "read_arrow", "streams"])
def test_kept_units_give_what_footers_give(here: Path, opened: list[str], reader: str, options: dict[str, Any]) -> None:
    for number, (name, table) in enumerate(tables().items()):
        put(name, parquet(table, 4) if reader == "read_parquet" else arrow(table, 4, stream=number > 1))
        if reader == "read_arrow":
            put(name, arrow(table, 4))

    def pipe(**manifest: str) -> fp.Pipe[Any]:
        listed = fp.list_files(str(here / "data"), recursive=True, **manifest).open_files()  # type: ignore[arg-type]
        if reader == "read_parquet":
            return listed.parse_parquet(**options)
        return listed.parse_arrow(**options, indexed=reader == "read_arrow")

    expected = facts(pipe())
    assert facts(pipe(manifest="m.jsonl")) == expected
    resolve(again := pipe(manifest="m.jsonl"))
    opened.clear()
    resolve(another := pipe(manifest="m.jsonl"))
    assert opened == []
    assert facts(again) == facts(another) == expected


def test_files_that_do_not_fit_are_named_without_a_look_at_them(here: Path, opened: list[str]) -> None:
    put("data/a", parquet(pa.table({"x": [1], "y": [1]})))
    put("data/b", parquet(pa.table({"x": [2.5], "y": [1]})))
    assert len(fp.read_parquet("data", columns=["y"], manifest="m.jsonl")) == 2
    opened.clear()
    with pytest.raises(DataError, match=r"data/b, column 'x': its type is double, and int64 in .*data/a") as error:
        len(fp.read_parquet("data", manifest="m.jsonl"))
    assert "test_unit_file.py" in str(error.value)
    with pytest.raises(DataError, match=r"data/a has no column 'z', which `columns` names"):
        len(fp.read_parquet("data", columns=["z"], manifest="m.jsonl"))
    assert opened == []


def test_what_only_footers_know(here: Path, opened: list[str]) -> None:
    rows = [{"s": {"a": k, "b": "x"}, "n": k} for k in range(20)]
    put("data/a", parquet(pa.Table.from_pylist(rows), 5))
    for _ in range(2):
        nested = fp.read_parquet("data", columns=["s.a"], manifest="m.jsonl")
        assert list(nested) == [{"s": {"a": k}} for k in range(20)]
        filtered = fp.read_parquet("data", filter=pc.field("n") >= 15, manifest="m.jsonl")
        assert len(resolve(filtered).inputs[0].op.table.numbers) == 1  # type: ignore[attr-defined]
        assert list(filtered) == rows[15:]
        assert list(fp.read_parquet("data", manifest="m.jsonl")) == rows


def damage(change: Callable[[bytes], bytes]) -> None:
    path = Path("_m.jsonl.units")
    path.write_bytes(change(path.read_bytes()))


def rewritten(data: bytes, key: str, value: bytes) -> bytes:
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    metadata = {**(table.schema.metadata or {}), key.encode(): value}
    return arrow(table.replace_schema_metadata(metadata))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:100], "it is damaged"),
        (lambda data: b"", "it is damaged"),
        (lambda data: arrow(pa.table({"x": [1]})), "its 'feedpipe units' is ''"),
        (lambda data: rewritten(data, "feedpipe units", b"99"), "its 'feedpipe units' is '99' and should be '2'"),
        (lambda data: rewritten(data, "kind", b"record_batches"), "its 'kind' is 'record_batches' and should be 'row"),
        (lambda data: rewritten(data, "listing", b"0"), "its 'listing' is '0' and should be "),
        (lambda data: rewritten(data, "schema 0", b"0"), "it is damaged"),
        (lambda data: rewritten(data, "digest", b"0"), "it is damaged: its digest is another one"),
    ],
)
def test_a_unit_file_that_does_not_fit_is_written_anew(
    here: Path, opened: list[str], caplog: pytest.LogCaptureFixture, change: Any, reason: str
) -> None:
    for name in "abc":
        put(f"data/{name}", parquet(pa.table({"x": [1, 2]})))
    assert len(fp.read_parquet("data", manifest="m.jsonl")) == 6
    damage(change)
    with caplog.at_level(logging.INFO, LOG):
        assert len(fp.read_parquet("data", manifest="m.jsonl")) == 6
    (record,) = caplog.records
    assert "_m.jsonl.units is not used, and written again: " + reason in record.getMessage()
    opened.clear()
    assert len(fp.read_parquet("data", manifest="m.jsonl")) == 6
    assert opened == []


def test_a_new_manifest_has_a_new_unit_file(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    put("data/a", parquet(pa.table({"x": [1, 2]})))
    with caplog.at_level(logging.INFO, LOG):
        assert len(fp.read_parquet("data", manifest="data/m.jsonl")) == 2
        os.remove("data/m.jsonl")
        put("data/b", parquet(pa.table({"x": [3]})))
        assert len(fp.read_parquet("data", manifest="data/m.jsonl")) == 3  # the unit file is not listed as data
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_a_unit_file_that_cannot_be_written_is_no_error(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    put("data/a", parquet(pa.table({"x": [1, 2]})))
    (here / "_m.jsonl.units").mkdir()
    with caplog.at_level(logging.INFO, LOG):
        assert len(fp.read_parquet("data", manifest="m.jsonl")) == 2
    assert "footers are not kept for the next run: " in caplog.records[-1].getMessage()
    assert sorted(os.listdir()) == ["_m.jsonl.units", "data", "m.jsonl"]


def test_a_file_that_changed_is_told_by_its_seal(here: Path) -> None:
    put("data/a", parquet(pa.table({"x": [1, 2]})))
    put("data/b", parquet(pa.table({"x": [3, 4]})))
    list(fp.read_parquet("data", manifest="m.jsonl"))
    put("data/b", parquet(pa.table({"y": [3, 4]})))  # of the same size
    again = fp.read_parquet("data", manifest="m.jsonl")
    assert len(again) == 4
    with pytest.raises(SourceError, match="data/b has changed since its footer was read"):
        list(again)


def test_the_footer_of_a_remote_file_of_known_length_is_one_request() -> None:
    data = parquet(pa.table({f"column_{k}": [k] for k in range(1_000)}))
    size, length = len(data), int.from_bytes(data[-8:-4], "little") + 8
    store = RemoteStore({"d/a": data})
    pipe = resolve(fp.read_parquet("d", filesystem=store.filesystem))
    (group,) = bind(pipe.inputs[0]).rows(range(1), Context())
    assert group.footer_bytes == length > 2**16
    for known, expected in [
        (0, [(size - 2**16, size), (size - length, size - 2**16)]),
        (length, [(size - length, size)]),
    ]:
        _footers._cache.clear()
        store.requests.clear()
        stream, version = open_version(group.file)
        with stream:
            assert _footers.parquet_footer(group.file, stream, version, known).seal == group.seal
        assert [(begin, end) for _, begin, end in store.requests] == expected


def test_the_manifest_of_a_writer_keeps_units_too(here: Path, opened: list[str]) -> None:
    manifest = fp.write_parquet(fp.from_sequence(range(30)).map(lambda i: {"id": i}), "data", rows_per_file=10)
    before = Path(manifest).read_bytes()
    assert len(fp.read_parquet("data", manifest=manifest)) == 30
    opened.clear()
    assert len(fp.read_parquet("data", manifest=manifest)) == 30
    assert opened == [f"{os.path.basename(manifest)}", "_manifest.jsonl.units"][: len(opened)]
    assert Path(manifest).read_bytes() == before
    shutil.rmtree("data")


def test_the_digest_is_one_of_values() -> None:
    schema = pa.schema({"x": pa.int64()})
    units = FileUnits.of([FileContents(schema, 5, [3, 4], [False, True]), FileContents(schema, 6, [], [])])
    same = FileUnits.of(iter([FileContents(pa.schema({"x": pa.int64()}), 5, [3, 4], [0, 1]), units_of(6)]))  # type: ignore[list-item]
    assert units.digest() == same.digest()
    others = [
        FileUnits.of([FileContents(schema, 5, [3], [False]), FileContents(schema, 6, [4], [True])]),
        FileUnits.of([FileContents(schema, 5, [3, 4], [False, True])]),
        FileUnits.of([FileContents(schema, 5, [3, 4], [False, True]), FileContents(schema, 7, [], [])]),
        FileUnits.of([FileContents(schema, 5, [3, 4], [False, True]), FileContents(pa.schema({}), 6, [], [])]),
        FileUnits.of([FileContents(schema, 5, [3, 4], [False, True], None, 99), units_of(6)]),
    ]
    assert len({units.digest(), *(other.digest() for other in others)}) == 6
    assert units.unit_table(Parquet.fields).numbers.tolist() == [[0, 0, 3, 0, 5, 0], [0, 1, 4, 3, 5, 0]]
    assert units.unit_table(Parquet.fields).digest() == others[-1].unit_table(Parquet.fields).digest()


def units_of(seal: int) -> FileContents:
    return FileContents(pa.schema({"x": pa.int64()}), seal, [], [])
