"""A value of CSV and JSON comes out as it was written, or there is an error or a line in the log."""

from __future__ import annotations

import json
import logging

import pytest

import feedpipe as fp
from feedpipe.errors import DataError

BIG = 12345678901234567890


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["007", "12"], str),
        (["0", "00"], str),
        (["+1", "2"], str),
        (["0x1F", "3"], str),
        (["1_000", "1"], str),
        (["12e5", "77"], str),
        (["true", "1"], str),
        (["nan", "inf"], str),
        (["1e400", "2"], str),
        (["0.1", str(BIG)], str),
        ([str(2**64), "1"], str),
        (["-1", str(BIG)], str),
        ([str(BIG), str(BIG + 1), "0"], int),
        (["-0", "10", "-7"], int),
        (["1e-4", "3e5", "0.5"], float),
        (["nan", "1.5", "inf"], float),
        (["+1.5", "-2"], float),
    ],
)
def test_text_that_looks_like_numbers(tmp_path, caplog, values, expected):
    path = tmp_path / "a.csv"
    path.write_text("x,n\n" + "".join(f"{value},1\n" for value in values))
    with caplog.at_level(logging.WARNING, "feedpipe"):
        rows = list(fp.read_csv(path))
    assert [repr(row["x"]) for row in rows] == [repr(expected(value)) for value in values]
    words = {"1_000", "true"}  # Arrow takes these for text by itself
    assert bool(caplog.messages) == (expected is str and not words & {*values})


@pytest.mark.parametrize("late", ["02139", "0x1F", '"007"'])
def test_a_late_value_that_a_number_would_change_is_an_error(tmp_path, late):
    path = tmp_path / "a.csv"
    path.write_text("zip,t\n" + "90210,x\n" * 200_000 + f"{late},y\n90211,0123\n")
    with pytest.raises(DataError, match=r"line 200002, column 'zip': .* would not come out of int64 as it is"):
        list(fp.read_csv(path))
    assert len(list(fp.read_csv(path, on_error="skip"))) == 200_001
    assert next(iter(fp.read_csv(path, schema={"zip": "string"}).skip(200_000)))["zip"] == late.strip('"')


def test_integers_of_json(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"x": BIG, "y": [BIG, 1], "z": {"w": BIG}}, {"x": 1, "y": [], "z": {"w": None}}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert list(fp.read_jsonl(path)) == rows
    path.write_text('{"x": 0.5}\n{"x": 1e300}\n{"x": 9007199254740993}\n')
    with pytest.raises(DataError, match=r"line 3, field 'x': '9007199254740993' is not double, a float would round it"):
        list(fp.read_jsonl(path))
    path.write_text('{"x": Infinity}\n{"x": -Infinity}\n{"x": 1e999}\n')
    with pytest.raises(DataError, match=r"line 3: a number is too large for a float"):
        list(fp.read_jsonl(path))
    assert list(fp.read_jsonl(path, on_error="skip")) == [{"x": float("inf")}, {"x": float("-inf")}]


def test_an_error_says_that_a_type_was_inferred(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": [], "y": 1}\n{"x": [1], "y": 1}\n{"x": [1], "y": "a"}\n')
    with pytest.raises(DataError, match=r"line 3, field 'y': .* is not int64; its type was inferred from the first"):
        list(fp.read_jsonl(path))
    path.write_text('{"x": [[0, 4, "Protein"]]}\n')
    with pytest.raises(DataError, match=r"line 1, field 'x/\[\]/\[\]': it holds values of two types, number and"):
        list(fp.read_jsonl(path))
