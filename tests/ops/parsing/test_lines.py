from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.testing import check_operator

from ...support.examples import examples


def lines_of(files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_lines(**options)


@given(st.lists(st.lists(st.text("ab\r é", max_size=5), max_size=9), max_size=4), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
def test_law_of_random_files(tmp_path, files, ended):
    for number, lines in enumerate(files):
        end = "\n" if ended and lines else ""
        (tmp_path / f"{number}.txt").write_bytes(("\n".join(lines) + end).encode())
    got = check_operator(lines_of([tmp_path / f"{number}.txt" for number in range(len(files))]), samples=4)
    expected = []
    for lines in files:
        text = "\n".join(lines) + ("\n" if ended and lines else "")
        found = text.split("\n")
        expected += [line.removesuffix("\r") for line in (found if found[-1] else found[:-1])]
    assert got == expected


def test_lines_before_one_in_another_encoding(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ncaf\xe9\nthree\n")
    rows = iter(lines_of([tmp_path / "a.txt"]))
    assert next(rows) == "one"
    with pytest.raises(DataError, match=r"a\.txt, line 2: byte 0xe9 is not utf-8"):
        next(rows)
    assert list(lines_of([tmp_path / "a.txt"], encoding="latin-1")) == ["one", "café", "three"]
    with pytest.raises(ArgumentError, match="`encoding` must be a text encoding"):
        lines_of([], encoding="none")
