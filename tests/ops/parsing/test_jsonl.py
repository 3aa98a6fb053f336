from __future__ import annotations

import bz2
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ...support.engine import resolve
from ...support.examples import examples


def parsed(files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_jsonl(**options)


def write(path, rows):
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(bz2.compress(data) if path.suffix == ".bz2" else data)
    return path


@pytest.mark.parametrize("ending", ["", ".bz2"])
def test_law(tmp_path, ending):
    counts = [3, 0, 40, 1]
    rows = [[{"id": i, "tags": ["é"] * (i % 3), "more": {"x": i / 2}} for i in range(n)] for n in counts]
    files = [write(tmp_path / f"{k}.jsonl{ending}", some) for k, some in enumerate(rows)]
    assert check_operator(parsed(files)) == [row for some in rows for row in some]


@given(st.lists(st.lists(st.text(max_size=5), max_size=9), min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
def test_law_of_random_files(tmp_path, texts):
    rows = [[{"text": text, "n": i} for i, text in enumerate(some)] for some in texts]
    files = [write(tmp_path / f"{k}.jsonl", some) for k, some in enumerate(rows)]
    got = check_operator(parsed(files, schema={"text": "string", "n": "int64"}), samples=4)
    assert got == [row for some in rows for row in some]


def test_rows_stay_columns_until_they_are_used(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"a": 1}, {"a": 2}, {"a": 3}])
    first, _ = parsed([path]).batch(2)
    assert isinstance(first, Rows)
    assert first.arrow.to_pylist() == [{"a": 1}, {"a": 2}]


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


def test_the_largest_numbers_are_read(tmp_path):
    values = [1.7976931348623157e308, 10**308, -(10**308), 5e-324]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"a": {value}}}\n' for value in values))
    pipe = parsed([tmp_path / "a.jsonl"], schema={"a": "float64"})
    assert [row["a"] for row in pipe] == [*map(float, values)]


def test_a_field_that_appears_later(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"a": 1}])
    later = write(tmp_path / "b.jsonl", [{"a": 2}, {"a": 3, "b": 4}])
    rows = []
    with pytest.raises(DataError, match=r"b\.jsonl, line 2: there is a field 'b', and the first lines of .*a\.jsonl"):
        rows.extend(parsed([path, later]))
    assert rows == [{"a": 1}, {"a": 2}]
    assert list(parsed([path, later], columns=["a"])) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert list(parsed([path, later], schema={"b": "int8"}))[2:] == [{"b": 4, "a": 3}]


def test_identity_holds_options_and_types(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"a": [1], "b": None}])
    assert resolve(parsed([path], columns=["b", "a"])).op.identity() == {
        "call": "parse_jsonl(columns=['b', 'a'])",
        "types": [["b", "string"], ["a", "list<item: int64>"]],
    }


def test_no_files_and_empty_files(tmp_path):
    assert list(parsed([])) == []
    assert list(parsed([write(tmp_path / "a.jsonl", []), write(tmp_path / "b.jsonl", [])])) == []
    assert list(parsed([write(tmp_path / "a.jsonl", []), write(tmp_path / "b.jsonl", [{"a": 1}])])) == [{"a": 1}]


def test_lineage(tmp_path):
    files = [write(tmp_path / f"{k}.jsonl", [{"id": n} for n in range(k)]) for k in (2, 1000)]
    pipe = parsed(files, path_column="path", row_column="row")
    expected = [
        {"id": n, "path": str(file), "row": n} for file, k in zip(files, (2, 1000), strict=True) for n in range(k)
    ]
    assert check_operator(pipe, samples=4) == expected
    with pytest.raises(DataError, match=r"2\.jsonl has a column 'id' already; `path_column` needs another name"):
        list(parsed(files, path_column="id"))
    with pytest.raises(ArgumentError, match="`path_column` and `row_column` must differ"):
        parsed([], path_column="x", row_column="x")


def test_folders_give_columns(tmp_path):
    files = []
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        files.append(write(tmp_path / f"year={year}" / "a.jsonl", [{"id": year - 2000}]))
    assert check_operator(parsed(files)) == [{"id": 23, "year": 2023}, {"id": 24, "year": 2024}]
    assert check_operator(parsed(files, columns=["year"])) == [{"year": 2023}, {"year": 2024}]
    assert resolve(parsed(files)).op.identity()["types"] == [["id", "int64"], ["year", "int64"]]
    own = write(tmp_path / "year=2024" / "own.jsonl", [{"year": "x"}])
    assert list(parsed([own])) == [{"year": "x"}]
    with pytest.raises(DataError, match=r"own\.jsonl is in no folder year=..., and .*a\.jsonl is"):
        list(parsed([files[0], write(tmp_path / "own.jsonl", [{"id": 1}])]))
