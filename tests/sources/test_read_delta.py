from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, MissingError, PlanError, SourceError
from feedpipe.testing import check_operator

from ..servers.s3 import S3
from ..support.core import walk
from ..support.sources import read_delta as _delta_log

WORDS = ["007", "a b/c%20d", None, "é=1"]


def table(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "x": pa.array([n / 8 for n in numbers], pa.float64()),
            "word": pa.array([WORDS[n % 4] for n in numbers], pa.string()),
            "day": pa.array([datetime.date(2024, 1, 1 + n // 20) for n in numbers], pa.date32()),
        }
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Version 0 has 40 rows, version 1 has 60."""
    path = str(tmp_path / "date=2024" / "table")  # a folder above the table gives no column
    write_deltalake(path, table(0, 40), partition_by=["word", "day"])
    write_deltalake(path, table(40, 20), mode="append")
    return path


def by_id(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: row["id"])


def test_law(uri: str) -> None:
    pipe = fp.read_delta(uri)
    rows = check_operator(pipe)
    assert by_id(rows) == table(0, 60).to_pylist()
    assert len(pipe) == 60 and pipe.schema == table(0, 1).schema and not pipe.indexed
    assert by_id(fp.read_delta(uri, version=0)) == table(0, 40).to_pylist()
    assert list(fp.read_delta(uri, columns=["word", "id"])) == [{"word": row["word"], "id": row["id"]} for row in rows]
    assert list(fp.read_delta(uri, columns=["day"])) == [{"day": row["day"]} for row in rows]


@pytest.mark.parametrize(
    ("expression", "files"),
    [
        (pc.field("word") == "007", 3),
        (pc.field("word").is_null() & (pc.field("day") > datetime.date(2024, 1, 1)), 2),
        ((pc.field("word") == "é=1") & (pc.field("x") > 6), 3),
        (pc.field("x") < 1, 12),
        (pc.field("day") > datetime.date(2025, 1, 1), 0),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_files_that_a_filter_rules_out_are_not_opened(
    uri: str, expression: pc.Expression, files: int, later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    stream = fp.File.stream
    monkeypatch.setattr(fp.File, "stream", lambda file, *part: opened.append(file.path) or stream(file, *part))
    pipe = fp.read_delta(uri).filter(expression) if later else fp.read_delta(uri, filter=expression)
    assert by_id(pipe) == table(0, 60).filter(expression).to_pylist()
    assert len(set(opened)) == files
    if str(expression).startswith("(x < 1"):
        (units,) = (node.op for node in walk(pipe._stage().node) if node.op.kind == "row_groups")
        assert len(units.resolved_table) == 4  # by their statistics


def test_a_state_keeps_its_version(uri: str) -> None:
    first = fp.Loader(fp.read_delta(uri))
    rows = list(first)
    elements = iter(first)
    taken = [next(elements) for _ in range(25)]
    state = json.loads(json.dumps(first.state_dict()))
    write_deltalake(uri, table(60, 30), mode="append")
    assert len(fp.read_delta(uri)) == 90
    for pipe in (fp.read_delta(uri), fp.read_delta(uri, version=1)):
        resumed = fp.Loader(pipe)
        resumed.load_state_dict(state)
        assert [*taken, *resumed] == rows == list(resumed)
    with pytest.raises(fp.FeedpipeError, match="`version` in `read_delta\\(\\)` was 1 and is now 2"):
        fp.Loader(fp.read_delta(uri, version=2)).load_state_dict(state)


def test_a_version_whose_files_were_vacuumed(uri: str) -> None:
    state = fp.Loader(fp.read_delta(uri)).state_dict()
    write_deltalake(uri, table(60, 10), mode="overwrite")
    DeltaTable(uri).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert by_id(fp.read_delta(uri)) == table(60, 10).to_pylist()
    with pytest.raises(MissingError, match=r"is not there: version 1 of .*table lists it, so a vacuum has removed it"):
        fp.Loader(fp.read_delta(uri)).load_state_dict(state)


def test_ranks_that_do_not_communicate_must_name_the_version(uri: str) -> None:
    with pytest.raises(PlanError, match="do not communicate; .*or give all ranks the same `version`"):
        next(iter(fp.Loader(fp.read_delta(uri), rank=0, world_size=2)))
    ranks = [list(fp.Loader(fp.read_delta(uri, version=1), rank=k, world_size=2)) for k in range(2)]
    assert by_id(ranks[0] + ranks[1]) == table(0, 60).to_pylist()


def test_values_of_folders_have_the_types_of_the_table(tmp_path: Path) -> None:
    source = pa.table(
        {
            "id": pa.array([0, 1], pa.int64()),
            "flag": [True, None],
            "short": pa.array([-3, None], pa.int16()),
            "float": pa.array([0.5, None], pa.float64()),
            "time": pa.array([datetime.datetime(2024, 1, 2, 3, 4, 5, 6), None], pa.timestamp("us", "UTC")),
            "price": pa.array([1, None], pa.decimal128(5, 2)),
        }
    )
    write_deltalake(str(tmp_path), source, partition_by=source.schema.names[1:])
    pipe = fp.read_delta(tmp_path)
    assert by_id(check_operator(pipe)) == source.to_pylist()
    assert pipe.schema == source.schema


# Tables that deltalake does not write


def write(folder: Path, fields: dict[str, str], files: dict[str, pa.Table], **changes: Any) -> str:
    """A table with one version; `changes` are of its actions."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    columns = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    metadata = {
        "id": "0", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "createdTime": 0,
        "schemaString": json.dumps({"type": "struct", "fields": columns}), "configuration": {},
        **changes.get("metadata", {}),
    }  # fmt: skip
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2, **changes.get("protocol", {})}
    actions: list[Any] = [{"protocol": protocol}, {"metaData": metadata}]
    for name, rows in files.items():
        pq.write_table(rows, folder / name, use_deprecated_int96_timestamps=True)
        added = {"path": name, "partitionValues": {}, "size": (folder / name).stat().st_size, "modificationTime": 0}
        actions.append({"add": {**added, "dataChange": True, **changes.get("add", {})}})
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(folder)


def features(*names: str) -> dict[str, Any]:
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names, "writerFeatures": names}


ONE = {"a.parquet": pa.table({"x": [1, 2]})}
DELETED = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000315c8Xg00031",
    "sizeInBytes": 36,
    "cardinality": 2,
}
"""The first two rows, as a bitmap in the log itself."""
STATS = '{"numRecords": 2}'


def test_types_as_other_writers_store_them(tmp_path: Path) -> None:
    """Spark stores timestamps in 96 bits, and 64 bits of nanoseconds cannot hold all of them."""
    times = [datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC), None]
    stored = pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "n": pa.array([1, 2], pa.uint32())})
    stored = stored.append_column("extra", pa.array(["not", "declared"]))
    uri = write(tmp_path, {"n": "long", "time": "timestamp"}, {"a.parquet": stored})
    assert check_operator(fp.read_delta(uri)) == [{"n": n, "time": time} for n, time in zip([1, 2], times, strict=True)]
    with pytest.raises(DataError, match="column 'time': its type is timestamp.*, and string in version 0 of"):
        fp.read_delta(write(tmp_path / "b", {"time": "string"}, {"a.parquet": stored})).head(1)
    stored = pa.table({"n": pa.array([2**40], pa.int64())})
    with pytest.raises(DataError, match=r"a\.parquet, column 'n': values of type int64 cannot become int32"):
        fp.read_delta(write(tmp_path / "c", {"n": "integer"}, {"a.parquet": stored})).head(1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"protocol": features("deletionVectors"), "add": {"deletionVector": DELETED, "stats": STATS}},
            "has deletion vectors",
        ),
        (
            {
                "protocol": {"minReaderVersion": 2, "minWriterVersion": 5},
                "metadata": {"configuration": {"delta.columnMapping.mode": "name"}},
            },
            "column mapping|columnMapping",
        ),
        ({"protocol": features("typeWidening")}, "needs a reader with the feature 'typeWidening'"),
        ({"protocol": features("somethingNew")}, "Feature 'somethingNew' is not supported"),
        ({"protocol": {"minReaderVersion": 4}}, "minimum reader version 4"),
    ],
)
def test_features_that_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, SourceError), match=message) as caught:
        fp.read_delta(write(tmp_path, {"x": "long"}, ONE, **changes)).head(1)
    assert "test_read_delta.py" in str(caught.value)


def test_on_s3(uri: str, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"t/{p.relative_to(uri)}": p.read_bytes() for p in Path(uri).rglob("*") if p.is_file()}
    s3.put("delta", files)
    rows = list(fp.read_delta(uri))
    assert list(fp.read_delta("s3://delta/t")) == rows
    with pytest.raises(SourceError, match="s3://delta/none cannot be opened as a Delta table"):
        len(fp.read_delta("s3://delta/none"))
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    options = f"?endpoint_override={s3.endpoint}&scheme=http&region=us-east-1"
    assert list(fp.read_delta(f"s3://testing:testing@delta/t{options}")) == rows


def test_bad_input(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="table, version 7, cannot be opened as a Delta table(.|\n)*test_read_delta"):
        len(fp.read_delta(uri, version=7))
    with pytest.raises(SourceError, match="none cannot be opened as a Delta table"):
        len(fp.read_delta(tmp_path / "none"))
    with pytest.raises(DataError, match="version 1 of .* has no column 'words', .*did you mean 'word'?"):
        len(fp.read_delta(uri, columns=["words"]))
    with pytest.raises(DataError, match="`filter` does not fit the columns of version 1 of"):
        len(fp.read_delta(uri, filter=pc.field("y") > 3))
    with pytest.raises(ArgumentTypeError, match="`uri` must be a path or URL but got: 3"):
        fp.read_delta(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`version` must be >= 0 but got: -1"):
        fp.read_delta(uri, version=-1)
    (file,) = Path(uri).glob("word=007/day=2024-01-01/*.parquet")
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(DataError, match="is no Parquet file, or is cut short"):
        len(fp.read_delta(uri))
    shutil.rmtree(Path(uri, "_delta_log"))
    with pytest.raises(SourceError, match="cannot be opened as a Delta table"):
        len(fp.read_delta(uri))

    class PanicException(BaseException):
        pass

    def panic(*arguments: object, **options: object) -> None:
        raise PanicException("Forked process detected")

    monkeypatch.setattr("deltalake.DeltaTable", panic)
    with pytest.raises(SourceError, match=r"before this process was forked.*as `len\(pipe\)` does"):
        len(fp.read_delta(uri))
    monkeypatch.setattr("feedpipe.core.checks.find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match=r"package deltalake, which is not installed; .*'feedpipe\[delta\]'"):
        fp.read_delta(uri)
    assert _delta_log.PACKAGE.extra == "delta"
