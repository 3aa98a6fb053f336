from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.testing import check_operator

from ...support.examples import examples


def parsed(files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_jsonl(**options)


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@given(st.lists(st.lists(st.text(max_size=5), max_size=9), min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
def test_law_of_random_files(tmp_path, texts):
    rows = [[{"text": text, "n": i} for i, text in enumerate(some)] for some in texts]
    files = [write(tmp_path / f"{k}.jsonl", some) for k, some in enumerate(rows)]
    got = check_operator(parsed(files, schema={"text": "string", "n": "int64"}), samples=4)
    assert got == [row for some in rows for row in some]


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 400, "1e999", "9" * 400 + ".5"])
@pytest.mark.parametrize("line", ['{"a": %s}', '{"l": [1.5, %s]}', '{"s": {"x": %s}}'])
def test_a_number_that_is_too_large_is_an_error(tmp_path, line, number):
    """Arrow makes infinity of some such numbers."""
    good = '{"a": 1.5, "l": [0.5], "s": {"x": 2.5}}\n'
    (tmp_path / "a.jsonl").write_text(good * 3 + line % number + "\n" + good)
    with pytest.raises(DataError, match=r"a\.jsonl, line 4: a number is too large for a float: "):
        list(parsed([tmp_path / "a.jsonl"]))
    assert [row["a"] for row in parsed([tmp_path / "a.jsonl"], on_error="skip")] == [1.5] * 4
    (tmp_path / "a.jsonl").write_text(line % number + "\n")
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: a number is too large for a float: "):
        list(parsed([tmp_path / "a.jsonl"]))


def test_a_field_that_appears_later(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"a": 1}])
    later = write(tmp_path / "b.jsonl", [{"a": 2}, {"a": 3, "b": 4}])
    rows = []
    with pytest.raises(DataError, match=r"b\.jsonl, line 2: there is a field 'b', and the first lines of .*a\.jsonl"):
        rows.extend(parsed([path, later]))
    assert rows == [{"a": 1}, {"a": 2}]
    assert list(parsed([path, later], columns=["a"])) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert list(parsed([path, later], schema={"b": "int8"}))[2:] == [{"b": 4, "a": 3}]
