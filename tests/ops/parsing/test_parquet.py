"""`parse_parquet`: its rows, columns and types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError
from feedpipe.extensions import START, Context, Rows
from feedpipe.testing import check_operator

from ...support.core import Clock, Pacing
from ...support.engine import bind, resolve
from ...support.examples import examples
from ...support.files import parquet as parquet_file
from .parquet_files import column, counted, listed, parsed, write


class Stopped(Clock):
    def now(self):
        return 0.0


def test_small_row_groups_are_read_at_once(tmp_path, monkeypatch):
    files = counted(tmp_path, [200, 200], rows=5)
    counts = []

    def batches(self, footer, source, groups, rows):
        counts.append(len(groups))
        return read(self, footer, source, groups, rows)

    read = parquet_file.ParquetFile._batches
    monkeypatch.setattr(parquet_file.ParquetFile, "_batches", batches)
    blocks = bind(resolve(parsed(files))).blocks(START, Context(pacing=Pacing(clock=Stopped())))
    assert sum(map(len, blocks)) == 400
    assert sum(counts) >= 80 and len(counts) < 12
    assert check_operator(parsed(files), samples=4) == listed(400)
    rest = check_operator(parsed(files, filter=column("id").isin(range(0, 400, 7)), row_column="row"), samples=4)
    assert [(row["id"], row["row"]) for row in rest] == [(n, n % 200) for n in range(0, 400, 7)]


@pytest.mark.parametrize("columns", [["id"], ["id", "t"]])
def test_law_beyond_one_batch(tmp_path, monkeypatch, columns):
    # A row group is read in batches of as many rows as 4 MiB hold. If they have text, the first 256 rows tell how many.
    monkeypatch.setattr(parquet_file.BatchSize, "MAX_ROWS", 600)
    files = counted(tmp_path, [2_400, 60], rows=1_800)
    got = check_operator(parsed(files, columns=columns), samples=6)
    assert got == [{name: row[name] for name in columns} for row in listed(2_460)]


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize(
    "files",
    [
        lambda paths: fp.from_sequence(paths).shuffle(seed=3),
        lambda paths: fp.from_sequence(paths).filter(lambda path: True),
        lambda paths: fp.from_iterable(paths),
        lambda paths: fp.from_sequence(paths).shard_by_rank(),
        lambda paths: fp.from_sequence(paths).repeat(2),
    ],
)
def test_law_if_files_have_no_fixed_order(tmp_path, files):
    paths = [str(path) for path in counted(tmp_path, [8, 0, 20, 5], rows=6)]
    pipe = files(paths).open_files().parse_parquet()
    got = check_operator(pipe)
    assert sorted({row["id"] for row in got}) == list(range(33))
    for epoch in (0, 1):
        check_operator(pipe, epoch=epoch)
    rows = [row["id"] for rank in range(2) for row in fp.Loader(pipe, rank=rank, world_size=2, even=None)]
    assert sorted(rows) == sorted(row["id"] for row in got)


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=3),
    st.integers(1, 5),
    st.sampled_from([None, column("n") > 2, column("n") == 7, ~(column("n") < 3) | column("n").is_null()]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25), deadline=None)
def test_law_of_random_files(tmp_path, numbers, rows, expression):
    files = [write(tmp_path / f"{k}.parquet", {"n": pa.array(n, pa.int64())}, rows) for k, n in enumerate(numbers)]
    got = check_operator(parsed(files, filter=expression, row_column="row"), samples=4)
    whole = pa.concat_tables(
        [pa.table({"n": pa.array(n, pa.int64()), "row": pa.array(range(len(n)), pa.int64())}) for n in numbers]
    )
    assert got == (whole if expression is None else whole.filter(expression)).to_pylist()


def test_rows_stay_columns_until_they_are_used(tmp_path):
    path = write(
        tmp_path / "a.parquet", {"id": [1, 2, 3], "t": ["a", None, "c"], "f": pa.array([1, 2, 3], pa.float32())}, 2
    )
    first, second = parsed([path]).batch(2)
    assert isinstance(first, Rows)
    assert first.arrow.schema == pa.schema([("id", pa.int64()), ("t", pa.string()), ("f", pa.float32())])
    assert list(first) == [{"id": 1, "t": "a", "f": 1.0}, {"id": 2, "t": None, "f": 2.0}]
    assert list(second) == [{"id": 3, "t": "c", "f": 3.0}]


def test_columns(tmp_path):
    people = {"id": [1, 2], "home": [{"city": "Ulm", "zip": 1}, {"city": "Bonn", "zip": 2}], "l": [[1], [2, 3]]}
    path = write(tmp_path / "a.parquet", people)
    assert check_operator(parsed([path], columns=["l", "id"])) == [{"l": [1], "id": 1}, {"l": [2, 3], "id": 2}]
    assert list(parsed([path], columns=["home.city"])) == [{"home": {"city": "Ulm"}}, {"home": {"city": "Bonn"}}]
    both = parsed([path], columns=["home.city", "id", "home.zip"]).head(1)
    assert both == [{"home": people["home"][0], "id": 1}]
    assert list(parsed([path], columns=["id"], filter=column("home", "zip") == 2)) == [{"id": 2}]
    assert list(parsed([path], columns=["home.zip"], filter=column("home", "zip") == 2)) == [{"home": {"zip": 2}}]
    with pytest.raises(DataError, match="`filter` needs a part of a column that `columns` leaves out"):
        list(parsed([path], columns=["home.city"], filter=column("home", "zip") == 2))


def test_folders_give_columns(tmp_path):
    files = [
        write(tmp_path / f"year={year}" / f"code={code}" / "a.parquet", {"id": [k]})
        for k, (year, code) in enumerate([("2023", "07"), ("2024", "a%2Fb"), ("2024", "__HIVE_DEFAULT_PARTITION__")])
    ]
    rows = [{"year": 2023, "code": "07"}, {"year": 2024, "code": "a/b"}, {"year": 2024, "code": None}]
    assert check_operator(parsed(files)) == [{"id": k, **row} for k, row in enumerate(rows)]
    assert check_operator(parsed(files, columns=["year"])) == [{"year": row["year"]} for row in rows]
    assert list(parsed(files, columns=["id"], filter=column("year") > 2023)) == [{"id": 1}, {"id": 2}]
    assert list(parsed(files, columns=["id"], filter=column("code").is_null())) == [{"id": 2}]
    own = [write(tmp_path / "year=2024" / "own.parquet", {"year": ["x"]})]
    assert list(parsed(own)) == [{"year": "x"}]
    with pytest.raises(DataError, match=r"own\.parquet is in no folder code=..., and .*a\.parquet is"):
        list(parsed([*files[:1], write(tmp_path / "year=1" / "own.parquet", {"id": [1]})]))


def test_an_error_downstream_names_the_row_of_row_groups_that_are_read_at_once(tmp_path):
    (path,) = counted(tmp_path, [400], rows=5)
    for pipe in (parsed([path]), parsed([path], filter=column("id") != 100), parsed([path]).shuffle(window=50)):
        failing = pipe.map(lambda row: row["id"] // (row["id"] != 333))
        with pytest.raises(fp.RowError, match=r"0\.parquet, row 334\b"):
            list(fp.Loader(failing, shards=1))


def test_types_that_fit(tmp_path):
    of = {
        "n": [pa.int64(), pa.int32(), pa.uint8(), pa.null()],
        "f": [pa.float64(), pa.float32(), pa.float64(), pa.null()],
        "t": [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()],
        "l": [pa.list_(pa.int64()), pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.null()],
        "s": [pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int8())]), pa.null(), pa.null()],
    }
    values = {"n": [1, 2], "f": [0.5, 1.5], "t": ["a", "b"], "l": [[1], [2, 3]], "s": [{"a": 1}, {"a": 2}]}
    files = []
    for k in range(4):
        arrays = {name: pa.nulls(2) if of[name][k] == pa.null() else pa.array(values[name], of[name][k]) for name in of}
        files.append(write(tmp_path / f"{k}.parquet", {name: arrays[name] for name in [*of][:: 1 - 2 * (k % 2)]}))
    got = check_operator(parsed(files))
    whole = [{name: values[name][k] for name in of} for k in range(2)]
    empty = [{**row, "s": None} for row in whole]
    assert got == [
        *whole,
        *whole,
        *empty,
        *[{"n": None, "f": None, "t": row["t"], "l": None, "s": None} for row in whole],
    ]
    types = [kind for _, kind in resolve(parsed(files)).op.identity()["types"]]
    assert types[:3] == ["int64", "double", "string"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"id": ["x"], "t": ["x"]}, r"b\.parquet, column 'id': its type is string, and int64 in .*a\.parquet"),
        ({"id": pa.array([1], pa.uint64()), "t": ["x"]}, r"b\.parquet, column 'id': its type is uint64, and int64 in"),
        (
            {"id": [1]},
            r"b\.parquet has no column 't', and .*a\.parquet has one; it has 'id'; `unify_schemas=True` takes",
        ),
        (
            {"id": [1], "t": ["x"], "z": [1]},
            r"b\.parquet has a column 'z', and .*a\.parquet has none; `columns=` names",
        ),
    ],
)
def test_a_file_that_differs(tmp_path, table, message):
    files = [write(tmp_path / "a.parquet", {"id": [1], "t": ["x"]}), write(tmp_path / "b.parquet", table)]
    with pytest.raises(DataError, match=message) as error:
        list(parsed(files))
    assert "parquet_files.py" in str(error.value)  # where the chain is written
    drawn = fp.from_iterable([str(file) for file in files]).open_files().parse_parquet()
    rows = []
    with pytest.raises(DataError, match=message):  # a footer is read when its file comes, after the rows before it
        rows.extend(drawn)
    assert "t" in parsed(files[:1]).head(1)[0]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"columns": []}, ArgumentError, "`columns` must name at least one column"),
        ({"columns": "id"}, ArgumentTypeError, "`columns` must be a list of names"),
        ({"filter": lambda row: True}, ArgumentTypeError, "`filter` must be an expression of `pyarrow.compute`"),
        (
            {"filter": column(0) > 3},
            ArgumentError,
            "`filter` must name its columns but got an expression with a column by number",
        ),
        ({"path_column": 3}, ArgumentTypeError, "`path_column` must be the name of a column but got: 3"),
        ({"path_column": "x", "row_column": "x"}, ArgumentError, "`path_column` and `row_column` must differ"),
    ],
)
def test_arguments_name_the_line(options, kind, message):
    with pytest.raises(kind, match=message) as error:
        parsed([], **options)
    assert "parquet_files.py" in str(error.value)  # where the chain is written
