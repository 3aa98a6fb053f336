from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.errors import DataError

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
