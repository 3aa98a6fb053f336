from __future__ import annotations

import io
import random
from itertools import pairwise
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.errors import DataError, SourceError

from ...support.formats import TO_END, Chunk, ChunkReader, ChunkSize, TextPlace
from ...support.formats import text as chunks_module
from ..reading import Always


class Unseekable(io.RawIOBase):
    """Gives a few bytes at a time, as a decompressor may."""

    def __init__(self, data: bytes, fails_at: int | None = None, error: Exception | None = None) -> None:
        self.inner = io.BytesIO(data)
        self.fails_at = fails_at
        self.error = error
        self.chance = random.Random(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        if self.error is not None and self.fails_at is not None and self.inner.tell() >= self.fails_at:
            raise self.error
        return self.inner.read(min(size, self.chance.choice([1, 5, 1000])))


def open_reader(data: bytes, *, seekable: bool = True, **fault: object) -> ChunkReader:
    stream = io.BytesIO(data) if seekable else Unseekable(data, **fault)  # type: ignore[arg-type]
    return ChunkReader(cast("BinaryIO", stream), "a.txt")


@given(st.binary(max_size=200), st.integers(1, 50), st.booleans())
def test_chunks_are_the_data_split_at_newlines(data: bytes, size: int, seekable: bool) -> None:
    chunks = list(open_reader(data, seekable=seekable).chunks(TextPlace(), Always(size)))
    text = data.removeprefix(b"\xef\xbb\xbf")
    assert b"".join(chunk.data for chunk in chunks) == text
    assert all(chunk.data.endswith(b"\n") for chunk in chunks[:-1])
    for chunk in chunks:
        before = data[: chunk.at.offset]
        assert chunk.at.line == before.count(b"\n") + 1
        assert data[chunk.at.offset : chunk.end.offset] == chunk.data
    assert [chunk.end for chunk in chunks[:-1]] == [chunk.at for chunk in chunks[1:]]


@given(st.binary(max_size=200), st.integers(1, 50), st.integers(1, 50), st.booleans())
def test_reading_continues_at_the_end_of_any_chunk(data: bytes, size: int, other: int, seekable: bool) -> None:
    for chunk in open_reader(data, seekable=seekable).chunks(TextPlace(), Always(size)):
        rest = open_reader(data, seekable=seekable).chunks(chunk.end, Always(other))
        assert b"".join(after.data for after in rest) == data[chunk.end.offset :]


@given(st.text("ab\n", max_size=60), st.lists(st.integers(1, 59), max_size=5, unique=True), st.integers(1, 50))
def test_ranges_divide_the_lines_of_the_data(text: str, cuts: list[int], size: int) -> None:
    data = text.encode()
    all_chunks: list[Chunk] = []
    bounds = [0, *sorted(cut for cut in cuts if cut < len(data)), TO_END]
    for start, stop in pairwise(bounds):
        part = ChunkReader(io.BytesIO(data), "a.txt", start=start, stop=stop)
        chunks = list(part.chunks(part.first_record(TextPlace()), Always(size)))
        assert not any(chunk.last for chunk in chunks[:-1])
        for chunk in chunks:
            line = data[: chunk.at.offset].count(b"\n") + 1
            assert part.describe(chunk.at) == f"a.txt, line {line}"
        if chunks:
            assert chunks[0].at.offset >= start
            assert data.rfind(b"\n", 0, chunks[-1].end.offset - 1) + 1 < stop
        all_chunks += chunks
    assert b"".join(chunk.data for chunk in all_chunks) == data


def test_a_range_of_one_long_line_is_empty_and_not_read_to_its_end() -> None:
    stream = io.BytesIO(b"x" * 2**20)
    part = ChunkReader(stream, "a.txt", start=2**10, stop=2**12)
    assert list(part.chunks(part.first_record(TextPlace()), ChunkSize())) == []
    assert stream.tell() <= 2**10 + ChunkSize.FIRST_BYTES


def test_only_the_last_chunk_is_marked() -> None:
    chunks = list(open_reader(b"a\nb").chunks(TextPlace(), Always(2)))
    assert [(chunk.data, chunk.last) for chunk in chunks] == [(b"a\n", False), (b"b", True)]


def test_sizes_grow_from_small_to_large() -> None:
    size = ChunkSize()
    sizes = [size.next() for _ in range(6)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (ChunkSize.FIRST_BYTES, ChunkSize.MAX_BYTES)


@pytest.mark.parametrize("seekable", [True, False])
def test_a_file_that_shrank_is_an_error(seekable: bool) -> None:
    with pytest.raises(SourceError, match=r"a\.txt has changed .* ends before byte 10"):
        list(open_reader(b"a\nb\n", seekable=seekable).chunks(TextPlace(10, 5), Always(4)))


def test_a_place_at_the_very_end_gives_nothing() -> None:
    assert list(open_reader(b"a\nb\n").chunks(TextPlace(4, 3), Always(4))) == []


def test_lines_before_a_damaged_part_come_first() -> None:
    failing = open_reader(b"a\nb\nc" + b"x" * 100, seekable=False, fails_at=5, error=OSError("inflate failed"))
    chunks: list[Chunk] = []
    with pytest.raises(DataError, match=r"a\.txt is damaged or cut short: .* inflate failed"):
        chunks.extend(failing.chunks(TextPlace(), Always(1000)))
    assert b"".join(chunk.data for chunk in chunks) == b"a\nb\n"


def test_an_error_of_feedpipe_comes_after_the_lines_before_it() -> None:
    lost = SourceError("the connection is lost")
    failing = open_reader(b"a\nb\nc" + b"x" * 100, seekable=False, fails_at=5, error=lost)
    chunks: list[Chunk] = []
    with pytest.raises(SourceError, match="the connection is lost") as error:
        chunks.extend(failing.chunks(TextPlace(), Always(1000)))
    assert error.value is lost and error.value.__cause__ is None
    assert b"".join(chunk.data for chunk in chunks) == b"a\nb\n"


def test_an_error_of_the_system_is_a_source_error() -> None:
    failing = open_reader(b"a\n" * 10, seekable=False, fails_at=0, error=OSError(5, "Input/output error"))
    with pytest.raises(SourceError, match=r"a\.txt cannot be read after byte 0: Input/output error"):
        list(failing.chunks(TextPlace(), Always(4)))


def test_a_record_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks_module, "MAX_RECORD_BYTES", 2**20)
    endless = open_reader(b"ok\n" + b"x" * 2**22)
    chunks: list[Chunk] = []
    with pytest.raises(DataError, match=r"a\.txt, line 2: no end of the record"):
        chunks.extend(endless.chunks(TextPlace(), Always(100)))
    assert [chunk.data for chunk in chunks] == [b"ok\n"]
