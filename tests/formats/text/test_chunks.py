from __future__ import annotations

import io
import random
from itertools import pairwise
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.errors import DataError

from ...support.formats import TO_END, Chunk, ChunkReader, TextPlace
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


def test_a_record_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks_module, "MAX_RECORD_BYTES", 2**20)
    endless = open_reader(b"ok\n" + b"x" * 2**22)
    chunks: list[Chunk] = []
    with pytest.raises(DataError, match=r"a\.txt, line 2: no end of the record"):
        chunks.extend(endless.chunks(TextPlace(), Always(100)))
    assert [chunk.data for chunk in chunks] == [b"ok\n"]
