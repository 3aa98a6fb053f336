from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.errors import ArgumentError, DataError

from ...support.files import Lines
from ..reading import read_all


def read(data: bytes, size: int = 8, encoding: str = "utf-8") -> tuple[list[object], list[int], DataError | None]:
    return read_all(data, Lines(encoding), size, "a.txt")


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))),
    st.booleans(),
    st.integers(1, 40),
)
def test_lines_come_back(lines: list[str], crlf: bool, size: int) -> None:
    end = "\r\n" if crlf else "\n"
    text = "".join(line + end for line in lines)
    if text.startswith("\ufeff"):
        return
    assert read(text.encode(), size) == (lines, list(range(1, len(lines) + 1)), None)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\rc\r\n", ["a", "b\rc"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        ("a\u2028b\x0bc\n".encode(), ["a\u2028b\x0bc"]),
    ],
)
def test_what_ends_a_line(data: bytes, lines: list[str]) -> None:
    assert read(data)[0] == lines


def test_bytes_that_are_not_in_the_encoding_are_named() -> None:
    rows, _, error = read(b"one\ntwo\n\xff\xfe\nfour\n", size=1000)
    assert rows == ["one", "two"]
    assert "a.txt, line 3: byte 0xff is not utf-8" in str(error)


@given(st.binary(max_size=60), st.integers(1, 70))
def test_any_bytes_give_rows_or_an_error(data: bytes, size: int) -> None:
    rows, lines, error = read(data, size)
    assert len(rows) == len(lines)
    all_rows, _, expected = read(data, 1000)
    assert (rows, str(error)) == (all_rows, str(expected))


def test_other_encodings() -> None:
    assert read("é\n".encode("latin-1"), encoding="latin-1")[0] == ["é"]
    with pytest.raises(ArgumentError, match="a newline is the byte 0x0A"):
        Lines("utf-16")
    with pytest.raises(ArgumentError, match="must be a text encoding"):
        Lines("no-such")
