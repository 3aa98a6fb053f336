from __future__ import annotations

import io
import math
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow.parquet import encryption

import feedpipe as fp
from feedpipe.core.context import Context
from feedpipe.core.cursor import START
from feedpipe.core.rows import Rows
from feedpipe.engine.stage import bind, resolve
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, SourceError
from feedpipe.formats.parquet import file as parquet_file
from feedpipe.ops.parsing import _footers, _open_files
from feedpipe.testing import check_operator

from ...storage.remote_store import RemoteStore

column = pc.field


def write(path, table, rows=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, row_group_size=rows, **options)
    return path


def parsed(files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_parquet(**options)


def counted(tmp_path, counts, rows):
    """Files with these numbers of rows; ids continue from file to file."""
    files, first = [], 0
    for k, count in enumerate(counts):
        ids = list(range(first, first + count))
        files.append(
            write(tmp_path / f"{k}.parquet", {"id": pa.array(ids, pa.int64()), "t": [str(i) for i in ids]}, rows)
        )
        first += count
    return files


def listed(count):
    return [{"id": i, "t": str(i)} for i in range(count)]


def test_law(tmp_path):
    files = counted(tmp_path, [3, 0, 40, 1], rows=7)
    assert check_operator(parsed(files)) == listed(44)


def test_law_with_a_filter(tmp_path):
    files = counted(tmp_path, [30, 0, 40], rows=7)
    got = check_operator(parsed(files, filter=pc.bit_wise_and(column("id"), 3) == 0))
    assert got == listed(70)[::4]


@pytest.mark.parametrize("columns", [["id"], ["id", "t"]])
def test_law_beyond_one_batch(tmp_path, monkeypatch, columns):
    # A row group is read in batches of as many rows as 4 MiB hold. If they have text, the first 256 rows tell how many.
    monkeypatch.setattr(parquet_file.BatchSize, "MAX_ROWS", 600)
    files = counted(tmp_path, [2_400, 60], rows=1_800)
    got = check_operator(parsed(files, columns=columns), samples=6)
    assert got == [{name: row[name] for name in columns} for row in listed(2_460)]


@pytest.mark.parametrize(("columns", "first"), [(["id"], 2**19), (["id", "t"], 256)])
def test_the_types_of_columns_tell_how_many_rows_make_a_batch(tmp_path, monkeypatch, columns, first):
    asked = []
    real = parquet_file.ParquetFile._batches

    def batches(self, footer, stream, group, rows, *rest, **options):
        asked.append(rows)
        return real(self, footer, stream, group, rows, *rest, **options)

    monkeypatch.setattr(parquet_file.BatchSize, "MAX_ROWS", 2**30)
    monkeypatch.setattr(parquet_file.ParquetFile, "_batches", batches)
    assert len(list(parsed(counted(tmp_path, [1_000], rows=1_000), columns=columns))) == 1_000
    assert len(asked) == (1 if "t" not in columns else 2)
    assert first <= asked[0] < 2 * first


@pytest.mark.parametrize(
    "chain",
    [
        lambda pipe: pipe.filter(lambda row: row["id"] % 3).batch(4),
        lambda pipe: pipe.shuffle(window=8).batch(3, drop_last=True),
        lambda pipe: pipe.batch(5).unbatch().skip(3).slice(0, 40, 2),
        lambda pipe: pipe.repeat(2).enumerate(),
        lambda pipe: pipe.concat(fp.from_sequence([{"id": -1, "t": ""}])).take(60),
        lambda pipe: pipe.zip(fp.from_sequence(range(100)).filter(lambda n: n % 2)),
    ],
)
def test_law_of_chains(tmp_path, chain):
    assert check_operator(chain(parsed(counted(tmp_path, [20, 0, 33, 6], rows=9))))


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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
def test_law_of_random_files(tmp_path, numbers, rows, expression):
    files = [write(tmp_path / f"{k}.parquet", {"n": pa.array(n, pa.int64())}, rows) for k, n in enumerate(numbers)]
    got = check_operator(parsed(files, filter=expression, row_column="row"), samples=4)
    whole = pa.concat_tables(
        [pa.table({"n": pa.array(n, pa.int64()), "row": pa.array(range(len(n)), pa.int64())}) for n in numbers]
    )
    assert got == (whole if expression is None else whole.filter(expression)).to_pylist()


# Shards


def test_one_file_serves_many_shards(tmp_path):
    files = counted(tmp_path, [120], rows=10)
    pipe = parsed(files)
    shards = [list(fp.Loader(pipe, rank=rank, world_size=4)) for rank in range(4)]
    assert [[row["id"] // 10 for row in shard[::10]] for shard in shards] == [[r, r + 4, r + 8] for r in range(4)]


def test_a_shuffle_permutes_row_groups_anew_in_each_epoch(tmp_path):
    loader = fp.Loader(parsed(counted(tmp_path, [128], rows=4)).shuffle(window=2), shards=1)
    epochs = [[row["id"] // 4 for row in loader][::4] for _ in range(2)]
    assert all(len({*epoch}) > 20 for epoch in epochs)
    assert epochs[0] != epochs[1] and epochs[0] != sorted(epochs[0])


def test_lengths_are_known(tmp_path):
    files = counted(tmp_path, [50, 33, 90], rows=7)
    pipe = parsed(files)
    assert len(pipe) == 173 and len(pipe.batch(10)) == 18
    with pytest.raises(TypeError, match="the length of this pipe is not known"):
        len(parsed(files, filter=column("id") > 5))
    for chained in (pipe.batch(4), pipe.shuffle(window=8).batch(4), pipe.shuffle(window=8)):
        loaders = [fp.Loader(chained, rank=rank, world_size=3, even=None, seed=2) for rank in range(3)]
        for _ in range(3):  # row groups differ in length, so ranks do, differently in each epoch
            lengths = [len(loader) for loader in loaders]
            assert [len(list(loader)) for loader in loaders] == lengths


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
def test_ranks_are_made_even(tmp_path):
    pipe = parsed(counted(tmp_path, [50, 33, 90], rows=7)).shuffle(window=8).batch(4)
    for even in ("drop", "pad"):
        loaders = [fp.Loader(pipe, rank=rank, world_size=3, even=even) for rank in range(3)]
        for _ in range(2):
            lengths = {len(loader) for loader in loaders}
            assert len(lengths) == 1
            assert {len(list(loader)) for loader in loaders} == lengths


@pytest.mark.parametrize("world_size", [1, 3])
def test_resumes_at_sampled_positions(tmp_path, world_size):
    files = counted(tmp_path, [50, 0, 33, 90], rows=8)
    for pipe in (
        parsed(files).shuffle(window=20).batch(4),
        parsed(files, filter=pc.bit_wise_and(column("id"), 3) == 0).batch(4),
    ):
        for rank in range(world_size):
            loader = fp.Loader(pipe, rank=rank, world_size=world_size, even=None, seed=1)
            steps = [(list(batch), info.state_dict()) for batch, info in loader.with_info()]
            for place in range(0, len(steps), 3):
                again = fp.Loader(pipe, rank=rank, world_size=world_size, even=None, seed=1)
                again.load_state_dict(steps[place][1])
                expected = [batch for batch, _ in steps[place + 1 :]]
                if expected:
                    assert [list(batch) for batch in again] == expected


def test_footers_are_read_once_and_the_graph_is_small(tmp_path, monkeypatch):
    import cloudpickle

    files = counted(tmp_path, [30, 30, 30], rows=10)
    read = []
    opened = fp.File.open
    monkeypatch.setattr(fp.File, "open", lambda self, *rest: read.append(self.path) or opened(self, *rest))
    root = resolve(parsed(files))
    assert sorted({*read}) == sorted(map(str, files)) and len(read) <= 4
    sent = cloudpickle.dumps(root)
    assert len(sent) < 20_000
    read.clear()
    assert [row["id"] for block in bind(cloudpickle.loads(sent)).blocks(START, Context()) for row in block.rows] == [
        *range(90)
    ]
    assert len(read) == 3


class Shelf(RemoteStore):
    """Files that count as local, whose reads are counted."""

    def get_type_name(self):
        return "mock"


@pytest.mark.parametrize(("store", "groups", "count"), [(RemoteStore, 10, 30), (Shelf, 100, 5), (Shelf, 1000, 2)])
def test_shuffled_row_groups_cost_no_more_bytes_than_those_in_order(monkeypatch, store, groups, count):
    monkeypatch.setattr(_open_files, "_MAX_OPEN_FILES", 1)
    table = pa.table({f"c{k}": pa.array(np.zeros(4 * groups, np.int8)) for k in range(5)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=4)
    shelf = store({f"d/{k}": sink.getvalue() for k in range(count)})

    def bytes_read(make):
        _footers._cache.clear()
        shelf.requests.clear()
        batches = make(fp.read_parquet("d", filesystem=shelf.filesystem))
        assert sum(len(batch) for batch in fp.Loader(batches)) == len(table) * count
        return sum(end - begin for _, begin, end in shelf.requests)

    in_order = bytes_read(lambda pipe: pipe.batch(2000))
    shuffled = bytes_read(lambda pipe: pipe.shuffle(window=500).batch(2000))
    assert shuffled <= 1.2 * in_order
    monkeypatch.setattr(_footers._cache, "_budget", 0)  # one footer is kept, so all rows still come
    if groups == 10:
        assert bytes_read(lambda pipe: pipe.shuffle(window=500).batch(2000)) > 1.2 * in_order


def test_a_file_of_another_footer_is_noticed_though_the_footer_is_kept(tmp_path):
    files = counted(tmp_path, [30, 30], rows=10)
    pipe = parsed(files)
    assert len(list(pipe)) == 60
    other = write(tmp_path / "other.parquet", {"id": range(30, 60), "t": ["y"] * 30}, 15)
    os.replace(other, files[1])
    with pytest.raises(SourceError, match=r"1\.parquet has changed since its footer was read"):
        list(pipe)


def test_files_are_closed(tmp_path):
    files = counted(tmp_path, [30] * 20, rows=10)
    before = len(os.listdir("/proc/self/fd"))
    rows = iter(parsed(files))
    for _ in range(500):
        next(rows)
    assert len(os.listdir("/proc/self/fd")) <= before + 8
    del rows
    assert len(os.listdir("/proc/self/fd")) <= before


# What is read


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


def test_lineage(tmp_path, monkeypatch):
    files = counted(tmp_path, [3, 2], rows=2)
    monkeypatch.chdir(tmp_path)
    pipe = fp.list_files("*.parquet").open_files().parse_parquet(columns=["id"], path_column="path", row_column="row")
    assert check_operator(pipe)[1:4] == [
        {"id": 1, "path": "0.parquet", "row": 1},
        {"id": 2, "path": "0.parquet", "row": 2},
        {"id": 3, "path": "1.parquet", "row": 0},
    ]
    filtered = parsed(files, filter=column("id") == 4, columns=["t"], row_column="at")
    assert list(filtered) == [{"t": "4", "at": 1}]
    with pytest.raises(DataError, match=r"0\.parquet has a column 'id' already; `row_column` needs another name"):
        list(parsed(files, row_column="id"))


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


def test_identity(tmp_path):
    files = counted(tmp_path, [30, 5], rows=7)
    root = resolve(parsed(files, columns=["id"], filter=column("id") > 3))
    assert root.op.identity() == {
        "call": "parse_parquet(columns=['id'], filter=(id > 3))",
        "types": [["id", "int64"]],
        "filter": "(id > 3)",
    }
    units = root.inputs[0].op.identity()
    assert (units["row_groups"], units["rows"]) == (6, 35)
    write(files[1], {"id": range(9, 14), "t": ["x"] * 5}, 7)
    changed = resolve(parsed(files, columns=["id"], filter=column("id") > 3)).inputs[0].op.identity()
    assert changed["rows"] == 35 and changed["digest"] != units["digest"]
    many, others = (resolve(parsed(files, filter=column("id").isin([*range(20), k, *range(30, 50)]))) for k in (20, 21))
    assert many.op.identity()["filter"][0] == others.op.identity()["filter"][0]
    assert many.op.identity() != others.op.identity()


def test_shown_as_code():
    pipe = parsed([], columns=["a"], filter=column("a") > 3, path_column="p", row_column="r")
    assert repr(pipe).endswith(".parse_parquet(columns=['a'], filter=(a > 3), path_column='p', row_column='r')\n)")
    assert "row_groups" not in repr(pipe)


def test_no_files():
    assert list(parsed([])) == [] and len(parsed([])) == 0


def test_tensors(tmp_path, capsys):
    table = {"x": np.arange(50, dtype="float32"), "y": np.arange(50), "b": [True, False] * 25, "s": ["a"] * 50}
    pipe = parsed([write(tmp_path / "a.parquet", table, 20)]).shuffle(window=30).batch(16).collate()
    batches = list(pipe)
    assert {name: str(value.dtype) for name, value in batches[0].items() if name != "s"} == {
        "x": "torch.float32",
        "y": "torch.int64",
        "b": "torch.bool",
    }
    batches[0]["x"][0] = 5  # it is writable
    assert batches[0]["s"] == ["a"] * 16
    pipe.explain()
    assert "Python rows" not in capsys.readouterr().out


def test_a_null_where_a_number_should_be(tmp_path):
    path = write(tmp_path / "a.parquet", {"x": [1.0, 2.0, None, 4.0]})
    with pytest.raises(DataError, match="field `x`: null at row 3 of the batch"):
        list(parsed([path]).batch(4).collate())


def test_an_error_downstream_names_file_and_row(tmp_path):
    files = counted(tmp_path, [30, 20], rows=7)
    with pytest.raises(fp.RowError) as error:
        list(parsed(files, filter=column("id") > 2).map(lambda row: 1 // (row["id"] - 45)))
    assert f"{files[1]}, row 16" in str(error.value)


# Types


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


def test_a_column_without_a_type_in_the_first_file(tmp_path):
    files = [write(tmp_path / "a.parquet", {"x": pa.nulls(2)}), write(tmp_path / "b.parquet", {"x": [1, 2]})]
    assert list(parsed(files)) == [{"x": None}] * 2 + [{"x": 1}, {"x": 2}]
    assert list(parsed(files[:1])) == [{"x": None}] * 2


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
    assert "test_parquet.py" in str(error.value)
    drawn = fp.from_iterable([str(file) for file in files]).open_files().parse_parquet()
    rows = []
    with pytest.raises(DataError, match=message):  # a footer is read when its file comes, after the rows before it
        rows.extend(drawn)
    assert "t" in parsed(files[:1]).head(1)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["idd"]}, "has no column 'idd', which `columns` names; there are 'id', 't'; did you mean 'id'\\?"),
        ({"columns": ["id", "x.y"]}, "has no column 'x.y', which `columns` names; there are 'id', 't'"),
        ({"filter": column("zz") > 3}, r"`filter` does not fit the columns of .*: No match for FieldRef.Name\(zz\)"),
        ({"filter": column("t") > 3}, "`filter` does not fit the columns of .*: Function 'greater' has no kernel"),
        ({"filter": column("id")}, "`filter` does not fit the columns of .*: it gives int64 and not true or false"),
    ],
)
def test_columns_that_the_files_do_not_have(tmp_path, options, message):
    with pytest.raises(DataError, match=message) as error:
        len(parsed(counted(tmp_path, [3], 2), **options).batch(2).load())
    assert "test_parquet.py" in str(error.value)


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
    assert "test_parquet.py" in str(error.value)


def test_paths_without_open_files():
    with pytest.raises(ArgumentTypeError, match="put `.open_files\\(\\)` before it"):
        list(fp.from_sequence(["a"]).parse_parquet())


# Filters

TABLE_TYPES = {"n": pa.int64(), "f": pa.float64(), "t": pa.string(), "b": pa.bool_()}
SOME = {
    "n": st.integers(-3, 3),
    "f": st.sampled_from([math.nan, -0.0, 0.0, 1.5, -2.0, math.inf]),
    "t": st.sampled_from(["", "a", "b", "é", "zz"]),
    "b": st.booleans(),
}
VALUES = {name: st.none() | values for name, values in SOME.items()}


@st.composite
def comparisons(draw):
    name = draw(st.sampled_from([*VALUES]))
    value = draw(SOME[name])
    some = draw(st.lists(VALUES[name], min_size=1, max_size=3))
    one, literal = column(name), pa.scalar(value, TABLE_TYPES[name])
    made = [one == literal, one != literal, one.is_null(), one.is_valid(), one.isin(pa.array(some, TABLE_TYPES[name]))]
    if name != "b":
        made += [one < literal, one <= literal, one > literal, one >= literal]
    if name == "f":
        made += [one.is_nan(), one.is_null(nan_is_null=True)]
    return draw(st.sampled_from(made))


@st.composite
def expressions(draw):
    made = [draw(comparisons()) for _ in range(draw(st.integers(1, 4)))]
    while len(made) > 1:
        one, other = (~part if draw(st.booleans()) else part for part in (made.pop(), made.pop()))
        made.append(one & other if draw(st.booleans()) else one | other)
    return ~made[0] if draw(st.booleans()) else made[0]


@given(
    st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=14),
    st.integers(1, 4),
    st.lists(expressions(), min_size=4, max_size=8),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_pruning_loses_nothing(tmp_path, rows, size, filters, statistics):
    table = pa.Table.from_pylist(rows, pa.schema(TABLE_TYPES))
    path = write(tmp_path / "a.parquet", table, size, write_statistics=statistics)
    numbered = table.append_column("row", pa.array(range(len(rows))))
    for expression in filters:
        got = list(parsed([path], columns=["t"], filter=expression, row_column="row"))
        assert got == numbered.filter(expression).select(["t", "row"]).to_pylist(), str(expression)


@pytest.mark.parametrize(
    ("expression", "groups"),
    [
        (column("id") > 17, 4),
        (column("id") == 3, 1),
        ((column("id") < 5) | (column("id") > 45), 2),
        (~(column("id") < 40), 1),
        (column("id").isin([1, 45]), 2),
        (column("id").is_null(), 0),
        (column("f") > 3.5, 2),
        ((column("f") > 3.5) & (column("id") > 25), 2),
        (~(column("f") < 3.5), 5),  # NaN could be anywhere
        (column("part") == 8, 0),
        ((column("part") == 7) & (column("id") < 10), 1),
    ],
)
def test_row_groups_are_left_out(tmp_path, expression, groups):
    table = {"id": range(50), "f": [i / 10 for i in range(50)]}
    path = write(tmp_path / "part=7" / "a.parquet", table, 10)
    root = resolve(parsed([path], filter=expression))
    assert root.inputs[0].op.identity()["row_groups"] == groups


def test_zeros_are_not_mistaken_for_negative_zeros(tmp_path):
    path = write(tmp_path / "a.parquet", {"f": [0.0, -0.0, 0.0, 1.0]}, 1)
    for value in (0.0, -0.0):
        for expression in (column("f").isin([value]), column("f") == value):
            got = list(parsed([path], filter=expression))
            assert got == pq.read_table(path).filter(expression).to_pylist()


def test_a_filter_uses_the_types_fixed_for_all_files(tmp_path):
    # In the second file the sum would overflow, and its statistics have another type.
    files = [
        write(tmp_path / "a.parquet", {"n": pa.array([1, 2], pa.int64())}),
        write(tmp_path / "b.parquet", {"n": pa.array([2_000_000_000], pa.int32())}),
    ]
    expression = pc.add(column("n"), column("n")) > 3_000_000_000
    assert list(parsed(files, filter=expression)) == [{"n": 2_000_000_000}]


# Bad files


def data_of(table, rows=None, **options):
    sink = io.BytesIO()
    pq.write_table(pa.table(table), sink, row_group_size=rows, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty, but a Parquet file has a footer"),
        (b"PAR1", r"is damaged: its footer would be longer than the file"),
        (b"id,t\n1,x\n", "is no Parquet file, or is cut short: it does not end with 'PAR1'"),
        (data_of({"id": range(99)})[:-7], "is no Parquet file, or is cut short"),
        (b"PAR1" + b"x" * 20 + (20).to_bytes(4, "little") + b"PAR1", "is damaged: its footer cannot be read"),
        (data_of({"id": range(99)})[:-4] + b"PARE", "is encrypted: its footer cannot be read without a key"),
    ],
)
def test_files_that_are_not_parquet(tmp_path, content, message):
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match=f"a.parquet {message}") as error:
        list(parsed([tmp_path / "a.parquet"]))
    assert "test_parquet.py" in str(error.value)


def test_a_file_with_encrypted_columns(tmp_path):
    class Plain(encryption.KmsClient):
        def __init__(self, config):
            super().__init__()

        def wrap_key(self, key, name):
            return key.hex()

        def unwrap_key(self, key, name):
            return bytes.fromhex(key)

    factory = encryption.CryptoFactory(Plain)
    config = encryption.EncryptionConfiguration(footer_key="f", column_keys={"c": ["id"]}, plaintext_footer=True)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    path = write(tmp_path / "a.parquet", {"id": [1], "t": ["x"]}, encryption_properties=properties)
    with pytest.raises(DataError, match="a.parquet.* is encrypted, and cannot be read without a key"):
        list(parsed([path]))
    assert list(parsed([path], columns=["t"])) == [{"t": "x"}]


def test_a_missing_file_and_one_that_vanishes(tmp_path):
    files = counted(tmp_path, [3, 3], rows=2)
    with pytest.raises(FileNotFoundError, match="none.parquet is not there"):
        list(parsed([*files, tmp_path / "none.parquet"]))
    pipe = parsed(files)
    assert len(pipe) == 6
    files[1].unlink()
    rows = []
    with pytest.raises(FileNotFoundError, match="1.parquet is not there: it has vanished"):
        rows.extend(pipe)
    assert rows == listed(3)


@pytest.mark.parametrize("content", [data_of({"id": [7], "t": ["x"]}), data_of({"id": range(99)})[:80], b""])
def test_a_file_that_changes_after_its_footer_was_read(tmp_path, content):
    files = counted(tmp_path, [3, 30], rows=10)
    pipe = parsed(files)
    assert len(pipe) == 33
    files[1].write_bytes(content)
    rows = []
    with pytest.raises(
        SourceError, match="1.parquet has changed since its footer was read: .*so make it anew"
    ) as error:
        rows.extend(pipe)
    assert rows == listed(3)
    assert "test_parquet.py" in str(error.value)


def test_a_file_that_is_cut_short_while_it_is_read(tmp_path):
    path = write(tmp_path / "a.parquet", {"x": np.random.default_rng(0).normal(size=400_000)}, 200_000)
    rows = iter(parsed([path]))
    assert next(rows)
    os.truncate(path, 100_000)  # within the row group, whose first rows have been read
    with pytest.raises((DataError, SourceError), match="a.parquet, row group 0,.* is damaged, or has changed"):
        list(rows)
    with pytest.raises((DataError, SourceError), match="row group 0"):
        next(rows)


def test_two_columns_of_one_name(tmp_path):
    path = write(tmp_path / "a.parquet", pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]))
    with pytest.raises(DataError, match="two columns have the name 'x'"):
        list(parsed([path]))


def test_files_without_rows_or_columns(tmp_path):
    files = [write(tmp_path / "a.parquet", {"x": pa.array([], pa.int64())}), write(tmp_path / "b.parquet", {"x": [1]})]
    assert check_operator(parsed(files)) == [{"x": 1}]
    assert list(parsed(files[:1])) == []
    assert list(parsed([write(tmp_path / "c.parquet", {})])) == []


GOOD = data_of({"id": range(300), "t": [str(i % 7) for i in range(300)], "f": [i / 7 for i in range(300)]}, 100)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
def test_damaged_bytes_give_an_error_or_rows(tmp_path, data):
    content = bytearray(GOOD)
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "a.parquet").write_bytes(content)
    try:
        rows = list(parsed([tmp_path / "a.parquet"]))
    except FeedpipeError:
        return
    assert bytes(content) != GOOD or [row["id"] for row in rows] == list(range(300))


def test_a_page_that_fails_its_checksum(tmp_path):
    table = {"x": np.random.default_rng(0).normal(size=1000)}
    content = bytearray(data_of(table, write_page_checksum=True, compression="none", use_dictionary=False))
    content[4000] ^= 1
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match="row group 0, is damaged"):
        list(parsed([tmp_path / "a.parquet"]))


# Memory


@pytest.mark.parametrize("filesystem", ["local", "memory"])
def test_a_large_row_group_is_read_bit_by_bit(tmp_path, monkeypatch, filesystem):
    monkeypatch.setattr(parquet_file, "MAX_FETCH_BYTES", 2**20)
    rows = 2_000_000
    path = write(tmp_path / "a.parquet", {f"x{k}": np.random.default_rng(k).normal(size=rows) for k in range(4)}, rows)
    files = fp.from_sequence([str(path)]).open_files()
    if filesystem == "memory":
        import fsspec

        memory = fsspec.filesystem("memory")
        memory.pipe("/large/a.parquet", path.read_bytes())
        files = fp.from_sequence(["/large/a.parquet"]).open_files(filesystem=memory)
    before = pa.total_allocated_bytes()
    most = seen = 0
    for batch in files.parse_parquet().batch(4096):
        most = max(most, pa.total_allocated_bytes() - before)
        seen += len(batch)
    if filesystem == "memory":
        memory.rm("/large", recursive=True)
    assert seen == rows
    assert most < rows * 32 / 2  # of 64 MB


def test_long_text_makes_short_batches(tmp_path):
    # A dictionary makes the file small although its rows are large.
    path = write(tmp_path / "a.parquet", {"t": ["x" * 100_000] * 3000})
    assert path.stat().st_size < 2**20
    before = pa.total_allocated_bytes()
    most = 0
    for block in bind(resolve(parsed([path]))).blocks(START, Context()):
        most = max(most, pa.total_allocated_bytes() - before)
        del block
    assert most < 100_000 * 3000 / 3


def test_an_iterator_that_is_open_when_python_exits_prints_nothing(tmp_path):
    write(tmp_path / "a.parquet", {"x": [*range(100)]})
    code = """if True:
        import sys, feedpipe as fp
        loader = fp.Loader(fp.read_parquet(sys.argv[1]).filter(lambda row: True))
        rows = iter(loader)
        next(rows)"""
    run = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert run.stderr == ""
