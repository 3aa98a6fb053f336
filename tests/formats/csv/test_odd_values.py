"""Tests of the log lines about columns that became text because of one value."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import DataError

from ...support.files import odd_value

NULLS = ("", "NA")


def odd(values):
    return odd_value(pa.chunked_array([pa.array(values, pa.string())]), NULLS)


NUMBERS = [str(i) for i in range(100)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([*NUMBERS, "?"], ("?", 100, "int64")),
        (["-", *NUMBERS, "-"], ("-", 0, "int64")),  # a sign for nothing, in several rows
        ([*NUMBERS, "", "NA", "1,5"], ("1,5", 102, "int64")),
        ([*NUMBERS, "-1.5e3", ".5", "1.2.3"], ("1.2.3", 102, "float64")),
        ([f"2024-01-{i:02d}" for i in range(1, 31)] + ["soon"], ("soon", 30, "date32")),
        ([*NUMBERS, "?", "x"], None),
        ([*NUMBERS, None], None),
        (["1", "2", "x"], None),  # too few to tell
        (["a", "b", *NUMBERS], None),
        ([], None),
        (["same"] * 50, None),
    ],
)
def test_the_value_is_the_only_one_that_does_not_fit(values, expected):
    assert odd(values) == expected


def test_a_column_is_told_once_with_file_line_and_value(tmp_path, caplog):
    lines = ["id,x,name", *(f"{i},{i}.5,n{i}" for i in range(20)), "", '20,"1,5",last', "21,2.5,end"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    with caplog.at_level(logging.WARNING, "feedpipe"):
        pipe = fp.read_csv(tmp_path / "a.csv")
        assert [row["x"] for row in pipe][-2:] == ["1,5", "2.5"]
        assert len(list(fp.read_csv(tmp_path / "a.csv"))) == 22
    (message,) = caplog.messages
    assert message.startswith(f"{tmp_path}/a.csv, line 23, column 'x': '1,5' is no number, and all other values")
    assert "`schema={'x': 'float64'}`" in message
    repaired = fp.read_csv(tmp_path / "a.csv", schema={"x": "float64"})
    with pytest.raises(DataError, match=r"line 23, column 'x': '1,5' is not double"):
        list(repaired)


def test_a_type_that_is_given_is_not_told(tmp_path, caplog):
    (tmp_path / "b.csv").write_text("x\n" + "\n".join([*NUMBERS, "?"]))
    assert list(fp.read_csv(tmp_path / "b.csv", schema={"x": "string"}))[-1] == {"x": "?"}
    assert not caplog.messages


def test_with_unified_types_the_file_is_named(tmp_path, caplog):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x\n" + "\n".join([*NUMBERS, "?"] if name == "b" else NUMBERS))
    with pytest.raises(DataError, match=r"b\.csv, column 'x': its type is string, and int64 in .*a\.csv"):
        list(fp.read_csv(tmp_path / "*.csv", unify_schemas=True))
    (message,) = caplog.messages
    assert message.startswith(f"{tmp_path}/b.csv, line 102, column 'x': '?' is no number")
