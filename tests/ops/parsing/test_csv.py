from __future__ import annotations

import csv

import fsspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError
from feedpipe.testing import check_operator

from ...support.engine import resolve
from ...support.examples import examples


def parsed(files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_csv(**options)


def write(path, rows, names=("id", "text"), **options):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, **options)
        writer.writerow(names)
        writer.writerows(rows)
    return path


@given(st.lists(st.lists(st.text('a"\n, é', max_size=5), max_size=9), min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
def test_law_of_random_files(tmp_path, texts):
    files = [write(tmp_path / f"{k}.csv", enumerate(some)) for k, some in enumerate(texts)]
    got = check_operator(parsed(files, schema={"id": "int32", "text": "string"}), samples=4)
    assert got == [{"id": i, "text": text} for some in texts for i, text in enumerate(some)]


def test_names_and_types_are_fixed_by_the_first_file(tmp_path):
    files = [write(tmp_path / "a.csv", [(1, "a")]), write(tmp_path / "b.csv", [("x", "b")])]
    rows = iter(parsed(files))
    assert next(rows) == {"id": 1, "text": "a"}
    with pytest.raises(DataError, match=r"b\.csv, line 2, column 'id': 'x' is not int64; .* rows of .*a\.csv"):
        next(rows)
    # A shuffle changes the order of the files, but not the types.
    pipe = fp.from_sequence([str(file) for file in files]).open_files().shuffle(seed=1).parse_csv(columns=["text"])
    assert resolve(pipe).op.identity()["types"] == [["text", "string"]]


def test_rows_before_a_malformed_one_come_first(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,text\n" + "".join(f"{i},x\n" for i in range(5000)) + "oops\n" + "1,x\n" * 10)
    rows = []
    run = iter(parsed([path]))
    with pytest.raises(DataError, match=r"a\.csv, line 5002: 1 value for 2 columns: 'oops'") as error:
        rows.extend(run)
    assert rows == [{"id": i, "text": "x"} for i in range(5000)]
    assert "test_csv.py" in str(error.value)
    with pytest.raises(DataError, match="line 5002"):
        next(run)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_folder_gives_its_name_as_it_is_and_errors_show_it_escaped(tmp_path, form):
    path = tmp_path / "city=K\aln" / f"a.{form}"
    path.parent.mkdir()
    path.write_text("x\n1\n2,3\n" if form == "csv" else '{"x": 1}\n{"x": \n')
    files = fp.from_sequence([str(path)]).open_files()
    pipe = files.parse_csv(path_column="path") if form == "csv" else files.parse_jsonl(path_column="path")
    rows = iter(pipe)
    assert next(rows) == {"x": 1, "city": "K\aln", "path": str(path)}
    with pytest.raises(DataError, match=r"city=K\\x07ln"):
        next(rows)


def test_folders_give_columns(tmp_path):
    files = []
    for number, (year, code) in enumerate([("2023", "07"), ("2024", "a%2Fb"), ("2024", "__HIVE_DEFAULT_PARTITION__")]):
        folder = tmp_path / f"year={year}" / f"code={code}"
        folder.mkdir(parents=True)
        files.append(write(folder / "a.csv", [(number, "x")]))
    given = [{"year": 2023, "code": "07"}, {"year": 2024, "code": "a/b"}, {"year": 2024, "code": None}]
    pipe = parsed(files)
    assert check_operator(pipe) == [{"id": k, "text": "x", **row} for k, row in enumerate(given)]
    assert resolve(pipe).op.identity()["types"][2:] == [["year", "int64"], ["code", "string"]]
    assert check_operator(parsed(files, columns=["code", "id"])) == [
        {"code": row["code"], "id": k} for k, row in enumerate(given)
    ]
    assert check_operator(parsed(files, columns=["year"])) == [{"year": row["year"]} for row in given]
    own = write(tmp_path / "year=2024" / "own.csv", [("x",)], ["year"])
    assert list(parsed([own])) == [{"year": "x"}]
    with pytest.raises(DataError, match=r"own\.csv is in no folder code=..., and .*a\.csv is"):
        list(parsed([files[0], write(tmp_path / "year=2024" / "own.csv", [(1, "y")])]))
    names = r"there are 'id', 'text', 'year', 'code'; did you mean 'year'"
    with pytest.raises(DataError, match=rf"has no column 'yeer', which `columns` names; {names}"):
        list(parsed(files, columns=["yeer"]))
    with pytest.raises(DataError, match=r"has a column 'year' already; `path_column` needs"):
        list(parsed(files, path_column="year"))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"path_column": 3}, ArgumentTypeError, "`path_column` must be the name of a column but got: 3"),
        ({"path_column": "x", "row_column": "x"}, ArgumentError, "`path_column` and `row_column` must differ"),
        ({"newlines_in_values": 0}, ArgumentTypeError, "`newlines_in_values` must be True or False but got: 0"),
    ],
)
def test_bad_arguments(options, kind, message):
    with pytest.raises(kind, match=message) as error:
        parsed([], **options)
    assert "test_csv.py" in str(error.value)


def test_no_password_goes_into_a_column():
    fs = fsspec.filesystem("memory")
    fs.pipe("/me:secret@here/a.csv", b"x\n1\n")
    try:
        (row,) = fp.read_csv("memory://me:secret@here/a.csv", path_column="path")
    finally:
        fs.rm("/me:secret@here/a.csv")
    assert row == {"x": 1, "path": "memory://***@here/a.csv"}
