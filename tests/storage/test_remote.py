"""Remote files that are read in ranges: the bytes are right, the requests few, and everything is closed."""

from __future__ import annotations

import gc
import io
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import feedpipe as fp
from feedpipe.errors import SourceError

from ..support.core import end_dropped, join
from ..support.storage import REQUESTS_AHEAD, RemoteFile, RemoteRanges, RemoteStream, remote, tasks
from ..support.storage import filesystem as retry
from .remote_store import RemoteStore

DATA = random.Random(1).randbytes(3_000_000)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_policy", retry.RetryPolicy(max_attempts=3, sleep=lambda seconds, cancellation: None))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of some KiB, so that files of some KiB take many."""
    monkeypatch.setattr(remote, "FIRST_REQUEST_BYTES", 2**10)
    monkeypatch.setattr(remote, "MAX_REQUEST_BYTES", 2**13)
    monkeypatch.setattr(remote, "MAX_GAP_BYTES", 2**8)


@pytest.fixture(autouse=True)
def budget_is_released() -> Iterator[None]:
    budget = tasks.budget
    yield
    until(lambda: budget.acquire(tasks.BUDGET_BYTES, needed=False))
    budget.release(tasks.BUDGET_BYTES)


def file_of(place: RemoteStore, name: str = "a") -> RemoteFile:
    return RemoteFile(name, lambda: place.filesystem.open_input_file(name))


def until(fact: Callable[[], bool]) -> None:
    """Ends what was dropped, waits for the fetch threads, which end when their queue is empty, and checks the fact."""
    gc.collect()
    end_dropped()
    for thread in threading.enumerate():
        if thread.name == "feedpipe-fetch":
            join(thread)
    gc.collect()
    assert fact()


# The stream


@given(
    st.lists(st.one_of(st.integers(1, 70_000), st.tuples(st.integers(-5000, 210_000), st.sampled_from([0, 1, 2])))),
    st.one_of(st.none(), st.tuples(st.integers(0, 200_000), st.integers(0, 200_000)).map(sorted)),
    st.integers(0, 200_000),
)
def test_law_it_reads_as_a_file_in_memory(steps, part, size: int) -> None:
    data = DATA[:size]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "FIRST_REQUEST_BYTES", 2**10)
        patch.setattr(remote, "MAX_REQUEST_BYTES", 2**13)
        patch.setattr(retry, "_policy", retry.RetryPolicy(sleep=lambda seconds, cancellation: None))
        raw = RemoteStream(file_of(RemoteStore({"a": data})), part and range(*part))
        with io.BufferedReader(raw, 4096) as ours, io.BytesIO(data) as theirs:
            for step in steps:
                if isinstance(step, int):
                    assert ours.read(step) == theirs.read(step)
                else:
                    offset, whence = step
                    offset = max(offset, -(0, theirs.tell(), size)[whence])
                    assert ours.seek(offset, whence) == theirs.seek(offset, whence)
                    assert ours.tell() == theirs.tell()
            assert ours.read() == theirs.read()


def test_requests_grow_and_are_made_ahead(small: None) -> None:
    place = RemoteStore({"a": DATA[:100_000]})
    stream = RemoteStream(file_of(place))
    assert stream.read(10) == DATA[:10]
    assert place.requests == [("a", 0, 1024)]  # a reader of the head fetches no more
    stream.read(2000)
    until(lambda: len(place.requests) == 2 + REQUESTS_AHEAD)
    assert sorted(place.requests)[1:4] == [("a", 1024, 5120), ("a", 5120, 13312), ("a", 13312, 21504)]
    assert stream.read() == DATA[2010:100_000]
    requests = sorted(place.requests)
    assert [begin for _, begin, _ in requests] == [0, *(end for _, _, end in requests[:-1])]  # each byte once
    stream.close()


def test_closing_closes_all_files(small: None) -> None:
    place = RemoteStore({"a": DATA})
    stream = RemoteStream(file_of(place))
    stream.read(5000)
    stream.close()
    stream.close()
    until(lambda: place.open == 0)
    with pytest.raises(ValueError, match="closed"):
        stream.read(1)
    dropped = RemoteStream(file_of(place))
    dropped.read(5000)
    del dropped
    until(lambda: place.open == 0)


# Parts of a file


@given(
    st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 60_000)).map(sorted), max_size=6),
    st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 30_000)), max_size=8),
)
def test_law_of_ranges(parts, reads) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "MAX_REQUEST_BYTES", 2**12)
        patch.setattr(remote, "MAX_GAP_BYTES", 2**8)
        ranges = RemoteRanges(
            file_of(RemoteStore({"a": DATA[:50_000]})), [(a, min(b, 50_000)) for a, b in parts if a < min(b, 50_000)]
        )
        ranges.fetch(needed=True)
        assert ranges.size() == 50_000
        for begin, size in reads:
            assert ranges.seek(begin) == ranges.tell() == begin
            assert bytes(ranges.read(size)) == DATA[:50_000][begin : begin + size]
        ranges.close()


# Errors


def test_cut_bodies_are_requested_again(small: None) -> None:
    place = RemoteStore({"a": DATA[:50_000]})
    turns: dict[int, itertools.count[int]] = {}

    def cut(path: str, begin: int, end: int) -> bytes | None:
        turn = next(turns.setdefault(begin, itertools.count()))
        return DATA[begin : begin + 7] if turn == 0 and begin % 3 == 0 else None

    place.before = cut
    with RemoteStream(file_of(place)) as stream:
        assert stream.read() == DATA[:50_000]
    assert retry._policy.counts.total() > 0


def test_an_error_names_the_byte_and_comes_after_the_bytes_before(small: None) -> None:
    place = RemoteStore({"a": DATA[:50_000]})

    def reset(path: str, begin: int, end: int) -> None:
        if begin <= 30_000 < end:
            raise ConnectionResetError("reset by somebody")

    place.before = reset
    with RemoteStream(file_of(place)) as stream:
        read = b""
        with pytest.raises(
            SourceError, match="a cannot be read after byte 29696: reset by somebody; 3 attempts in 0.0 s"
        ):
            while part := stream.read(100):
                read += part
        assert read == DATA[:29_600]
        with pytest.raises(SourceError, match="after byte 29696"):
            stream.read(100)


def test_a_file_that_has_changed_since_it_was_listed(tmp_path: Path) -> None:
    place = RemoteStore({"a": b"12345"})
    (tmp_path / "a").write_bytes(b"12345")
    for file in (fp.File("a", filesystem=place.filesystem, listed=4), fp.File(str(tmp_path / "a"), listed=4)):
        with pytest.raises(SourceError, match="is not the file that was listed: that had 4 bytes, and this has 5"):
            file.open()
    assert fp.File("a", filesystem=place.filesystem, listed=5).open().read() == b"12345"
    gc.collect()
    assert place.open == 0


# A file system as a user writes one


def test_the_columns_of_a_row_group_are_fetched_at_once_and_no_others() -> None:
    sink = io.BytesIO()
    table = pa.table({name: pa.array(range(100_000)) for name in "abcdefgh"})
    parquet.write_table(table, sink, row_group_size=25_000, compression="none", use_dictionary=False)
    place = RemoteStore({"a.parquet": sink.getvalue()})
    pipe = fp.read_parquet("a.parquet", filesystem=place.filesystem, columns=["a", "e"])
    assert [row["e"] for row in pipe] == list(range(100_000))
    footers = [request for request in place.requests if request[2] == len(sink.getvalue())]
    data = [request for request in place.requests if request not in footers]
    assert len(footers) <= 3 and len(data) == 8
    assert sum(end - begin for _, begin, end in data) < 2 * 8 * 100_000 * 1.01
    until(lambda: place.open == 0)
