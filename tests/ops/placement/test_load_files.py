"""`load(path)`: rows in files, which processes and runs share."""

from __future__ import annotations

import errno
import itertools
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError, LimitError, SourceError
from feedpipe.testing import check_operator

from ...support.examples import examples


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feedpipe.writing.load_files.FILE_BYTES", 2000)
    monkeypatch.setattr("feedpipe.writing.load_files.CHUNK_ROWS", 4)


def files() -> list[str]:
    return sorted(str(path) for path in Path("rows").rglob("*.rows"))


def stream(rows: Any) -> fp.Pipe[Any]:
    return fp.from_sequence(rows).filter(lambda row: True)


@pytest.mark.usefixtures("small_files")
def test_law() -> None:
    for count in (0, 1, 300):
        pipe = stream(range(count)).load("rows")
        assert check_operator(pipe, samples=3) == list(range(count))
        assert sorted(check_operator(pipe.shuffle().batch(4).unbatch(), samples=3)) == list(range(count))
    assert len(files()) > 4 and pipe[-1] == 299 and len(pipe.take(10)) == 10


@pytest.mark.usefixtures("small_files")
def test_tables_stay_columns_over_many_files() -> None:
    table = pa.table(
        {
            "n": np.arange(400),
            "text": [f"{n}" * (n % 5) for n in range(400)],
            "bytes": [bytes([n % 256]) for n in range(400)],
            "null": [None if n % 3 else n for n in range(400)],
            "list": [[n] * (n % 3) for n in range(400)],
        }
    )
    pipe = fp.from_table(table).filter(lambda row: True).load("rows")
    assert list(pipe) == table.to_pylist() and len(files()) > 4
    batches = list(fp.Loader(pipe.shuffle().batch(64), seed=1))
    assert all(isinstance(batch, fp.Rows) for batch in batches)
    assert sorted((row for batch in batches for row in batch), key=lambda row: row["n"]) == table.to_pylist()


FOLDERS = itertools.count()
values = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(st.characters()), st.binary()),
        *(st.dates(), st.datetimes(), st.decimals(allow_nan=False), st.uuids()),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.integers(0, 5), inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=examples(40))
@given(st.lists(values, max_size=12), st.data())
def test_rows_keep_their_types(rows: list[Any], data: st.DataObject) -> None:
    pipe = stream(rows).load(f"{next(FOLDERS)}")
    assert repr(list(pipe)) == repr(rows)
    places = data.draw(st.lists(st.integers(0, len(rows) - 1)) if rows else st.just([]))
    assert repr([pipe[place] for place in places]) == repr([rows[place] for place in places])


def test_arrays_keep_their_types() -> None:
    rows = [{"image": np.full((2, n % 3), n, np.uint8), "label": np.int16(n), "jpeg": bytes([n])} for n in range(9)]
    for before, after in zip(rows, stream(rows).load("rows"), strict=True):
        assert list(before) == list(after) and type(after["label"]) is np.int16 and after["jpeg"] == before["jpeg"]
        assert after["image"].dtype == np.uint8 and np.array_equal(before["image"], after["image"])


def test_a_second_run_finds_the_rows_and_other_code_does_not() -> None:
    Path("calls").touch()

    def noted(row: int) -> int:
        with Path("calls").open("a") as calls:
            calls.write(f"{row}\n")
        return row

    def pipe(version: str = "") -> fp.Pipe[int]:
        return stream(range(3)).map(noted).load("rows", version=version)

    assert list(pipe()) == list(pipe()) == [0, 1, 2]
    assert Path("calls").read_text().split() == ["0", "1", "2"]
    assert list(pipe("2")) == [0, 1, 2] and len(Path("calls").read_text().split()) == 6
    assert list(stream(range(3)).map(lambda row: noted(row) + 1).load("rows")) == [1, 2, 3]


@pytest.mark.usefixtures("small_files")
def test_a_run_that_failed_goes_on_after_its_last_file() -> None:
    Path("calls").touch()

    def fails_once(row: int) -> int:
        with Path("calls").open("a") as calls:
            calls.write(f"{row}\n")
        if row == 300 and not Path("repaired").exists():
            raise ValueError("broken")
        return row

    with pytest.raises(fp.RowError, match="on from_sequence, row 301"):
        len(stream(range(400)).map(fails_once).load("rows"))
    written = files()
    Path("calls").write_text("")
    Path("repaired").touch()
    assert list(stream(range(400)).map(fails_once).load("rows")) == list(range(400))
    assert written and set(written) <= set(files())
    assert 100 <= len(Path("calls").read_text().split()) < 300


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = stream([b"x" * 100] * 100)
    with pytest.raises(
        LimitError, match=r"`load\('rows', limit='1KB'\)` is full after 0 rows: .* give a larger"
    ) as error:
        len(pipe.load("rows", limit="1KB"))
    assert "test_load_files.py" in str(error.value)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", full)
        with pytest.raises(SourceError, match=r"`load\('rows'\)` is full after 0 rows: No space left on device"):
            len(pipe.load("rows"))
    assert not files() and len(pipe.load("rows", limit="1MB")) == 100


def test_errors() -> None:
    with pytest.raises(DataError, match="`load` cannot hold these rows: `row` is of type") as error:
        len(stream([object()]).load("rows"))
    assert "test_load_files.py" in str(error.value)
    for arguments, message in (
        ({"path": "s3://bucket"}, "`path` must be the path of a local folder"),
        ({"workers": 2}, "`workers` must be left out without `path`"),
        ({"version": "2"}, "`version` must be left out without `path`"),
        ({"path": "rows", "limit": "much"}, '`limit` must be a size such as "1GiB"'),
    ):
        with pytest.raises(ArgumentError, match=message):
            stream([1]).load(**arguments)  # type: ignore[arg-type]
    pipe = stream([1]).load("rows")
    assert len(pipe) == 1
    os.unlink(*files())
    with pytest.raises(SourceError, match="of `load` is gone; make the pipe again"):
        list(pipe)
    assert list(stream([1]).load("rows")) == [1]


def test_draws_are_those_of_the_first_epoch() -> None:
    pipe = fp.from_sequence(range(50)).shuffle().filter(lambda row: True).load("rows")
    assert list(pipe) == list(pipe) and sorted(pipe) == list(range(50))
    parts = pipe.split(2)  # positions are fixed
    assert sorted([*parts[0], *parts[1]]) == list(range(50))


def test_explain_says_what_there_is_and_whether_it_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    def said(pipe: fp.Pipe[Any]) -> str:
        pipe.explain()
        return capsys.readouterr().out

    printed = said(stream(range(5)).load("rows"))
    assert "holds 5 rows, " in printed and ", in rows/" in printed and ".load('rows')" in printed
    assert "not needed" not in printed
    table, needless = fp.from_sequence([{"x": 1}]), "`load` is not needed"
    for write, folder in ((fp.write_arrow, "arrow"), (fp.write_tfrecord, "tfrecord"), (fp.write_parquet, "parquet")):
        write(table, folder, progress=False)
    columns = {"column_names": ["x"], "column_encodings": ["int"], "column_sizes": [8]}
    text = json.dumps({"format": "mds", "version": 2, **columns}).encode()
    head = struct.pack("<3I", 1, 12 + len(text), 20 + len(text))
    Path("shard.mds").write_bytes(head + text + struct.pack("<q", 5))
    files = fp.list_files("arrow/*.arrow").open_files()
    own = "its files have positions of their own: with `indexed=True`, "
    assert f"{own}if no file is a stream, {needless}" in said(files.parse_arrow().map(dict).load())
    assert f"{own}with an index beside each file, {needless}" in said(fp.read_tfrecord("tfrecord").load("there"))
    assert f"{own}if no file is compressed, {needless}" in said(fp.read_mds("shard.mds").load())
    for pipe in (fp.read_arrow("arrow").load("a"), fp.from_sequence(range(5)).load()):
        assert "it is not needed for positions, which its input has" in said(pipe)
    for pipe in (fp.read_parquet("parquet").load(), files.parse_arrow().filter(lambda row: True).load()):
        assert "not needed" not in said(pipe)


def test_a_state_is_that_of_rows_in_memory() -> None:
    def loader(pipe: fp.Pipe[int]) -> fp.Loader[Any]:
        return fp.Loader(pipe.shuffle().batch(2), seed=1)

    first = loader(stream(range(9)).load("rows"))
    batches = iter(first)
    next(batches)
    other = loader(stream(range(9)).load("elsewhere"))
    other.load_state_dict(first.state_dict())
    assert list(other) == list(batches)


SHARED = """
import sys
from pathlib import Path
import feedpipe as fp

def noted(row):
    with Path("calls").open("a") as calls:
        calls.write("x\\n")
    return row

pipe = fp.from_sequence(range(200)).filter(bool).map(noted).load("rows")
rank = int(sys.argv[1])
loader = fp.Loader(pipe.shuffle(), seed=1, rank=rank, world_size=3, workers=rank % 2, even=None)
Path(f"rank{rank}").write_text(" ".join(map(str, loader)))
"""


@pytest.mark.slow
def test_one_process_writes_for_all_ranks() -> None:
    Path("job.py").write_text(SHARED)
    ranks = [subprocess.Popen([sys.executable, "job.py", str(rank)]) for rank in range(3)]
    assert [rank.wait(300) for rank in ranks] == [0, 0, 0]
    assert len(Path("calls").read_text().split()) == 199
    taken = [int(row) for rank in range(3) for row in Path(f"rank{rank}").read_text().split()]
    assert sorted(taken) == list(range(1, 200))


KILLED = """
import os, signal
import feedpipe as fp
import feedpipe.writing.load_files as load_files

load_files.FILE_BYTES, load_files.CHUNK_ROWS = 2000, 4

def killed(row):
    if row == 300 and not os.path.exists("repaired"):
        os.kill(os.getpid(), signal.SIGKILL)
    return row

print(sum(fp.from_sequence(range(400)).filter(bool).map(killed).load("rows", progress=False)))
"""


@pytest.mark.slow
def test_a_killed_process_leaves_files_for_the_next_one() -> None:
    Path("job.py").write_text(KILLED)
    assert subprocess.run([sys.executable, "job.py"], check=False).returncode == -9
    written = files()
    Path("repaired").touch()
    output = subprocess.run([sys.executable, "job.py"], check=True, capture_output=True, text=True).stdout
    assert int(output) == sum(range(400)) and written and set(written) <= set(files())


@pytest.mark.slow
def test_workers_write_all_rows() -> None:
    pipe = stream(range(3000)).map(lambda n: {"n": n, "x": np.full(n % 7, n)}).load("rows", workers=2)
    assert sorted(row["n"] for row in pipe) == list(range(3000))
    assert all((row["x"] == row["n"]).all() and len(row["x"]) == row["n"] % 7 for row in pipe)
    batches = list(fp.Loader(pipe.shuffle().batch(100), workers=2, seed=1))
    assert sorted(row["n"] for batch in batches for row in batch) == list(range(3000))
