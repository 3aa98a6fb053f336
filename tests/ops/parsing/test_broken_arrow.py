"""Arrow files and streams that are damaged, missing or replaced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError, FeedpipeError, SourceError

from ...support.examples import examples
from .arrow_files import FILE, STREAM, WAYS, encoded, parsed, write

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
    assert "arrow_files.py" in str(caught.value)  # where the chain is written


@WAYS
def test_a_file_that_changed(tmp_path: Path, indexed: bool) -> None:
    path = write(tmp_path / "a.arrow", {"x": range(20)}, 6)
    pipe = parsed([path], indexed=indexed)
    assert len(pipe) == 20
    write(path, {"x": range(19)}, 6)
    with pytest.raises(SourceError, match="a.arrow has changed since its footer was read"):
        list(pipe)


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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60), deadline=None)
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::feedpipe.errors.WorkerWarning")
def test_a_mapped_file_that_is_cut_in_use_ends_no_loader_with_workers(tmp_path):
    path = tmp_path / "a.arrow"
    table = pa.table({"x": range(400_000)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, 4000)
    pipe = fp.list_files(path).open_files().parse_arrow(indexed=True).shuffle().batch(256)
    with fp.Loader(pipe, workers=1) as loader:
        batches = iter(loader)
        next(batches)
        os.truncate(path, 1000)
        with pytest.raises(SourceError, match=r"a\.arrow is not the file that was listed"):
            list(batches)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_mapped_file_that_is_cut_in_use(indexed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    table = pa.table({"x": range(20_000), "t": [str(number) for number in range(20_000)]})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=500)
    pipe = fp.read_arrow(path).shuffle() if indexed else fp.list_files(path).open_files().parse_arrow()
    rows = iter(pipe)
    for _ in range(500):  # a batch: what is left of one is not looked at again
        next(rows)
    os.truncate(path, 5000)
    with pytest.raises(SourceError, match=r"a\.arrow has changed since its footer was read"):
        list(rows)
