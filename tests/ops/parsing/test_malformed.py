"""`on_error` of parsers: which records are left out, and that shards, resumes and encodings change nothing of it."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.testing import check_operator

from ...readers.contents import mds
from ...support.examples import examples
from ...support.files import BYTES, INTS, write_example, write_feature
from ...support.files import ranges as _byte_ranges
from ...support.formats import ChunkSize
from .test_tfrecord import framed

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")

COUNT = 600
BAD = {0, 1, 7, 500, 501, COUNT - 1}
GOOD = [x for x in range(COUNT) if x not in BAD]


def write_csv(path: Path) -> Path:
    faults = ["{},a,b", "x,a", "{}", '{},"a', "{},a,b", "{}"]
    lines = [f"{x},é{x}" for x in range(COUNT)]
    for fault, place in zip(faults, sorted(BAD), strict=True):
        lines[place] = fault.format(place)
    path.write_text("x,text\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_jsonl(path: Path) -> Path:
    faults = [b"garbage", b"[1]", b'{"x": ', b'{"x": "a"}', b'{"x": 1, "x": 2}', b'{"x": "\xff"}']
    lines = [b'{"x": %d, "tags": ["a"]}' % x for x in range(COUNT)]
    for fault, place in zip(faults, sorted(BAD), strict=True):
        lines[place] = fault
    path.write_bytes(b"\n".join(lines))
    return path


def write_lines(path: Path) -> Path:
    path.write_bytes(b"".join(b"%d\n" % x if x not in BAD else b"\xff\n" for x in range(COUNT)))
    return path


def write_tar(path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        for x in range(COUNT):
            for name in (f"{x}.cls", f"{x}.txt"):
                member = tarfile.TarInfo(name)
                member.type = tarfile.SYMTYPE if x in BAD and name.endswith("cls") else tarfile.REGTYPE
                member.size = 0 if member.type == tarfile.SYMTYPE else len(str(x))
                tar.addfile(member, io.BytesIO(str(x).encode()))
    return path


def write_tfrecord(path: Path) -> Path:
    records = [framed(write_example({b"x": write_feature(INTS, [x])})) for x in range(COUNT)]
    faults = [
        records[0][:-5] + b"?" + records[0][-4:],
        framed(b"\x12\x00"),
        framed(write_example({b"x": write_feature(BYTES, [b"1"])})),
        framed(write_example({b"x": write_feature(INTS, [1, 2])})),
        records[1][:-1] + b"?",
        framed(b"no message"),
    ]
    for fault, place in zip(faults, sorted(BAD), strict=True):
        records[place] = fault
    path.write_bytes(b"".join(records))
    return path


def write_mds(path: Path) -> Path:
    path.write_bytes(mds({"x": "str_int"}, [[b"?" if x in BAD else b"%d" % x] for x in range(COUNT)]))
    return path


def number(row: Any) -> int:
    return int(row if isinstance(row, str) else row["x"] if "x" in row else row["cls"])


def write(kind: str, folder: Path) -> Path:
    writers = {
        "csv": write_csv,
        "jsonl": write_jsonl,
        "lines": write_lines,
        "tar": write_tar,
        "tfrecord": write_tfrecord,
        "mds": write_mds,
    }
    return writers[kind](folder / f"a.{kind}")


def read(kind: str, path: Path, **options: Any) -> fp.Pipe[Any]:
    if kind == "csv":
        options = {"newlines_in_values": False, "schema": {"x": "int32"}, **options}
    if kind == "tfrecord":
        options = {"features": {"x": "int64"}, **options}
    pipe: fp.Pipe[Any] = getattr(fp, f"read_{kind}")(path, **options)
    return pipe


TEXT_AND_TAR, RECORDS = ["csv", "jsonl", "lines", "tar"], ["tfrecord", "mds"]
KINDS = pytest.mark.parametrize("kind", TEXT_AND_TAR + RECORDS)


@KINDS
def test_malformed_records_are_left_out(tmp_path, kind):
    path = write(kind, tmp_path)
    pipe = read(kind, path, on_error="skip")
    rows = check_operator(pipe, samples=2)
    assert list(map(number, rows)) == GOOD
    loader = fp.Loader(pipe)
    assert list(map(number, loader)) == GOOD
    ((code, count),) = loader.skipped.items()
    assert count == len(BAD) and code.startswith(f".parse_{kind}(") and "on_error" not in code
    with pytest.raises(DataError, match=rf"a\.{kind}"):
        list(read(kind, path))
    assert repr(pipe) == repr(read(kind, path).on_error("skip"))


@pytest.mark.parametrize(
    ("kind", "workers"),
    [*((kind, 0) for kind in TEXT_AND_TAR + RECORDS), pytest.param("csv", 2, marks=pytest.mark.slow)],
)
def test_a_resume_gives_the_same_rows_and_counts(tmp_path, monkeypatch, kind, workers):
    monkeypatch.setattr(_byte_ranges, "MIN_RANGE_BYTES", 2**10)
    pipe = read(kind, write(kind, tmp_path), on_error="skip").shuffle(window=50).map(number).batch(8)
    with fp.Loader(pipe, workers=workers, shards=2) as loader:
        steps = [(batch, info.state_dict()) for batch, info in loader.with_info()]
        skipped = loader.skipped
        assert sorted(x for batch, _ in steps for x in batch) == GOOD
        for step in (1, 40, len(steps) - 1) if workers == 0 else (40,):
            loader.load_state_dict(json.loads(json.dumps(steps[step - 1][1])))
            assert list(loader) == [batch for batch, _ in steps[step:]]
            assert loader.skipped == skipped and sum(skipped.values()) == len(BAD)


@pytest.mark.parametrize("kind", TEXT_AND_TAR)
def test_a_quarantine_names_file_row_and_content(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(_byte_ranges, "MIN_RANGE_BYTES", 2**10)
    path = write(kind, tmp_path)
    pipe = read(kind, path, on_error=fp.Quarantine(tmp_path / "bad")).batch(100)
    for _ in range(2):  # the second run writes nothing again
        list(fp.Loader(pipe))
    records = [json.loads(line) for file in (tmp_path / "bad").iterdir() for line in file.read_text().splitlines()]
    assert {record["file"] for record in records} == {str(path)} and len(records) == len(BAD)
    records.sort(key=lambda record: record["row"])
    if kind == "tar":
        assert [record["unit"] for record in records] == [f"{x} at byte" for x in sorted(BAD)]
        assert "is a symbolic link" in records[0]["error"] and "'__key__': '0'" in records[0]["repr"]
        return
    assert [record["row"] for record in records] == [x + 1 + (kind == "csv") for x in sorted(BAD)]
    assert all(f"{path}, line {record['row']}" in record["error"] for record in records)
    firsts = {"csv": "0,a,b", "jsonl": "garbage", "lines": r"\xff"}
    assert records[0]["repr"] == firsts[kind]


@pytest.mark.parametrize("kind", RECORDS)
def test_a_quarantine_names_the_byte_or_the_sample(tmp_path, kind):
    path = write(kind, tmp_path)
    data = path.read_bytes()
    with pytest.raises(DataError, match="`budget` allows 5"):
        list(fp.Loader(read(kind, path, on_error=fp.Quarantine(tmp_path / "bad", budget=len(BAD) - 1))))
    list(fp.Loader(read(kind, path, on_error=fp.Quarantine(tmp_path / "all", budget=len(BAD)))))
    records = [json.loads(line) for file in (tmp_path / "all").iterdir() for line in file.read_text().splitlines()]
    assert [record["position"] for record in records] == sorted(BAD)
    for record in records:
        unit = "sample" if kind == "mds" else "byte"
        assert record["file"] == str(path) and f"{unit} {record['row']}" in record["error"]
    expected = {
        "tfrecord": (data.find(framed(b"\x12\x00")), "it has a field 2", r"b'\x12\x00'"),
        "mds": (2, "it is damaged: invalid literal", repr(b"\x01\0\0\0?")),
    }
    row, message, content = expected[kind]
    assert records[1]["row"] == row and message in records[1]["error"] and records[1]["repr"] == content


def test_what_ends_a_file_is_no_malformed_record(tmp_path):
    for kind, message in (("tfrecord", "cut short"), ("mds", "cut short")):
        path = write(kind, tmp_path)
        path.write_bytes(path.read_bytes()[:-3])
        loader = fp.Loader(read(kind, path, on_error="skip"))
        rows = []
        with pytest.raises(DataError, match=message):
            rows.extend(loader)
        assert list(map(number, rows)) == GOOD[: len(rows)] and len(rows) >= len(GOOD) - 1
        again = fp.Loader(read(kind, path, on_error="skip"))
        again.load_state_dict(loader.state_dict())
        with pytest.raises(DataError, match=message):
            next(iter(again))


def test_types_do_not_depend_on_malformed_records(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\njunk\n1,2\n2\n1.5,a\n")
    loader = fp.Loader(fp.read_csv(path))
    with pytest.raises(DataError, match="line 2: 1 value for 2 columns"):
        list(loader)
    resumed = fp.Loader(fp.read_csv(path, on_error="skip"))
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == [{"x": 1.0, "y": "2"}, {"x": 1.5, "y": "a"}]
    path = tmp_path / "a.jsonl"
    path.write_text('junk\n{"x": 1}\n\n{"x": 1.5}\n')
    assert list(fp.read_jsonl(path, on_error="skip")) == [{"x": 1.0}, {"x": 1.5}]


def test_a_quote_that_is_never_closed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x,y\n1,a\n2,"b')
    assert list(fp.read_csv(path, on_error="skip")) == [{"x": 1, "y": "a"}]
    path.write_text('x,y\n1,a\n2,"b\n3,c\n')
    with pytest.raises(DataError, match=r"line 3: .* never closed; .*, `newlines_in_values=False` ends each record"):
        list(fp.read_csv(path, on_error="skip"))
    assert [row["x"] for row in fp.read_csv(path, newlines_in_values=False, on_error="skip")] == [1, 3]


FAULTS = {
    "csv": ["1", "1,2,3", '1,"a', "1,\xff", "\xff,a"],
    "jsonl": ["junk", "[1]", '{"x": 1, "x": 2}', '{"x": "\\ud83d"}', '{"x": [1, "a"]}', '{"x": 1e999}'],
    "lines": ["\xff", "a\xc3"],
}


@pytest.mark.slow
@given(
    st.sampled_from(sorted(FAULTS)),
    st.lists(st.booleans(), min_size=1, max_size=120) | st.integers(1, 60).map(lambda n: [False] * n),
    st.data(),
    st.sampled_from([40, 2**14]),
    st.integers(1, 4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60), deadline=None)
def test_a_bad_record_costs_one_row_wherever_it_is(tmp_path, kind, sound, data, size, shards):
    """The first, the last, all, neighbours, at the borders of chunks and ranges; and types are those of the rest."""
    good = {"csv": "{0},t{0}", "jsonl": '{{"x": {0}, "t": "t{0}"}}', "lines": "{0}"}[kind]
    options = {"newlines_in_values": False, "schema": {"text": "string"}} if kind == "csv" else {}
    lines = [good.format(x) if is_sound else None for x, is_sound in enumerate(sound)]
    drawn = [line or data.draw(st.sampled_from(FAULTS[kind])) for line in lines]
    head = "x,text\n" if kind == "csv" else ""
    for name, kept in (("bad", drawn), ("clean", [line for line in lines if line])):
        (tmp_path / name).write_bytes((head + "".join(f"{line}\n" for line in kept)).encode("latin-1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_byte_ranges, "MIN_RANGE_BYTES", size)
        patch.setattr(ChunkSize, "FIRST_BYTES", size)
        pipe = getattr(fp, f"read_{kind}")(tmp_path / "bad", on_error="skip", **options)
        clean = getattr(fp, f"read_{kind}")(tmp_path / "clean", **options)
        loader = fp.Loader(pipe, shards=shards)
        assert sorted(map(number, loader)) == [x for x, is_sound in enumerate(sound) if is_sound]
        assert sum(loader.skipped.values()) == sound.count(False)
        assert list(pipe) == list(clean) and (pipe.schema == clean.schema or not any(sound))
        with (
            pytest.raises(DataError, match=rf"bad, line {sound.index(False) + 1 + bool(head)}\b")
            if False in sound
            else nullcontext()
        ):
            list(getattr(fp, f"read_{kind}")(tmp_path / "bad", **options))


ENCODINGS = ["latin-1", "cp1252", "utf-16", "utf-16-be", "utf-32", "shift_jis", "gb18030", "utf-7", "cp037", "utf8"]


@pytest.mark.parametrize(
    ("encoding", "compressed"), [*((encoding, False) for encoding in ENCODINGS), ("utf-16", True), ("gb18030", True)]
)
def test_encodings(tmp_path, encoding, compressed):
    text = "日本" if encoding in ("shift_jis", "gb18030", "utf-16") else "aà"
    data = f"{text},x\n" + "".join(f'"{text}, {x}\n{text}",{x}\n' for x in range(900))
    path = tmp_path / ("a.csv.gz" if compressed else "a.csv")
    raw = data.encode(encoding)
    path.write_bytes(gzip.compress(raw) if compressed else raw)
    pipe = fp.from_sequence([str(path)]).open_files().parse_csv(encoding=encoding)
    assert check_operator(pipe, samples=2) == [{text: f"{text}, {x}\n{text}", "x": x} for x in range(900)]
    loader = fp.Loader(pipe.batch(100))
    batches = [(list(batch), info.state_dict()) for batch, info in loader.with_info()]
    loader.load_state_dict(batches[6][1])
    assert [list(batch) for batch in loader] == [batch for batch, _ in batches[7:]]


def test_bytes_that_cannot_be_decoded_belong_to_their_record(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("x,s\n1,à\n2,b\n".encode("cp1252") + b"3,\x81\n4,d\n")
    with pytest.raises(DataError, match=r"line 4, column 's': '\\\\x81' is not cp1252; `encoding=` says"):
        list(fp.read_csv(path, encoding="cp1252"))
    good = fp.read_csv(path, encoding="cp1252", on_error="skip")
    assert [(row["x"], row["s"]) for row in good] == [(1, "à"), (2, "b"), (4, "d")]
    assert [row["x"] for row in fp.read_csv(path, encoding="cp1252", columns=["x"])] == [1, 2, 3, 4]
    with pytest.raises(DataError, match=r"line 2, column 's': .* is not UTF-8; `encoding=` says how the file is writ"):
        list(fp.read_csv(path))
    path.write_bytes("x\n1\n".encode("utf-16") + b"\x00")  # cut short
    assert list(fp.read_csv(path, encoding="utf-16", on_error="skip", schema={"x": "string"})) == [{"x": "1"}]
    path.write_bytes(b"x\n1\n")
    with pytest.raises(DataError, match=r"a\.csv is not utf-16: .*BOM.*; `encoding=` says how the file is written"):
        list(fp.read_csv(path, encoding="utf-16"))
    for encoding in ("base64", "none", 3):
        with pytest.raises(ArgumentError, match="`encoding` must be a text encoding but got"):
            fp.read_csv(path, encoding=encoding)  # type: ignore[arg-type]
