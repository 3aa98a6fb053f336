import json
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.testing import check_operator

from ...support.engine import resolve
from ...support.examples import examples
from ...support.files import read_parquet_footer
from ...support.formats import common_type

VALUES = {
    pa.int8(): 1,
    pa.int32(): -2,
    pa.int64(): 3,
    pa.uint64(): 4,
    pa.float32(): 0.5,
    pa.float64(): 1.5,
    pa.bool_(): True,
    pa.string(): "a",
    pa.large_string(): "b",
    pa.binary(): b"c",
    pa.null(): None,
    pa.date32(): date(2024, 1, 2),
    pa.timestamp("s"): datetime(2024, 1, 2),
    pa.timestamp("us"): datetime(2024, 1, 2, 3, 4, 5, 6),
    pa.list_(pa.int32()): [1, 2],
    pa.list_(pa.float64()): [0.5],
    pa.struct([("x", pa.int32())]): {"x": 1},
    pa.struct([("y", pa.string()), ("x", pa.int64())]): {"y": "z", "x": 2},
}
KINDS = st.sampled_from(list(VALUES))
SCHEMAS = st.lists(st.dictionaries(st.sampled_from("abc"), KINDS), min_size=3, max_size=3)


def table(types, rows=3):
    """A table in which every other value is missing, with a column `id` that numbers the rows."""
    columns = {name: pa.array([VALUES[kind], None] * rows, kind)[:rows] for name, kind in types.items()}
    return pa.table({**columns, "id": pa.array(range(rows))})


def write(path, tables, form):
    paths = []
    for number, content in enumerate(tables):
        paths.append(f"{path}/{number}.{form}")
        if form == "parquet":
            pq.write_table(content, paths[-1], row_group_size=2)
        else:
            with pa.ipc.new_file(paths[-1], content.schema) as file:
                file.write_table(content, max_chunksize=2)
    return paths


def read_all(form, paths, **options):
    read = fp.read_parquet if form == "parquet" else fp.read_arrow
    return read(paths, unify_schemas=True, **options)


def write_text(path, **files):
    for name, content in files.items():
        (path / name.replace("_", ".")).write_text(content)
    return sorted(str(path / name.replace("_", ".")) for name in files)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@given(st.data())
@settings(max_examples=examples(25), deadline=None)
def test_rows_are_those_of_the_tables_together(tmp_path_factory, form, data):
    tables = [table(types) for types in data.draw(SCHEMAS)]
    pipe = read_all(form, write(tmp_path_factory.mktemp("files"), tables, form))
    try:
        whole = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        with pytest.raises(DataError, match="no type holds the values of both"):
            list(pipe)
    else:
        assert list(pipe) == whole.to_pylist()
        assert [*pipe.head(1)[0]] == whole.schema.names
        if form == "arrow":
            assert sorted(pipe.shuffle(), key=repr) == sorted(pipe, key=repr)
            assert [pipe[k] for k in reversed(range(len(pipe)))] == list(pipe)[::-1]


@given(KINDS, KINDS)
def test_a_common_type_holds_both(one, other):
    common = common_type(one, other)
    assert (common is None) == (common_type(other, one) is None)
    if common is not None:
        assert common_type(common, one) == common_type(common, other) == common


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_contract_of_operators(tmp_path, form):
    paths = write(tmp_path, [table({"a": pa.int8()}), table({"b": pa.string()}), table({"a": pa.float64()})], form)
    files = fp.list_files(paths).open_files()
    parse = files.parse_parquet if form == "parquet" else files.parse_arrow
    rows = check_operator(parse(unify_schemas=True, path_column="path", row_column="row"))
    assert [row["a"] for row in rows] == [1.0, None, 1.0, None, None, None, 1.5, None, 1.5]
    assert [row["row"] for row in rows] == [0, 1, 2] * 3
    assert {*rows[0]} == {"a", "id", "b", "path", "row"}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_columns_that_only_some_files_have(tmp_path, form):
    paths = write(tmp_path, [table({"a": pa.int8()}), table({"b": pa.string(), "a": pa.bool_()})], form)
    (rows,) = read_all(form, paths, columns=["b", "id"]).batch(6)
    assert list(rows)[2:4] == [{"b": None, "id": 2}, {"b": "a", "id": 0}]
    assert rows.arrow.schema.names == ["b", "id"]
    assert list(read_all(form, paths, columns=["b"]))[3] == {"b": "a"}
    with pytest.raises(DataError, match="no file has a column 'c', which `columns` names; there are 'a', 'id', 'b'"):
        read_all(form, paths, columns=["c"]).head(1)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_types_with_nothing_in_common(tmp_path, form):
    paths = write(tmp_path, [table({"a": pa.int8()}), table({"a": pa.int64()}), table({"a": pa.string()})], form)
    message = (
        r"2\.\w+, column 'a': its type is string, and int64 in .*1\.\w+, and no type holds the values of both; leave"
    )
    with pytest.raises(DataError, match=message) as error:
        list(read_all(form, paths))
    assert "test_unify_schemas.py" in str(error.value)
    assert list(read_all(form, paths, columns=["id"])) == [{"id": k} for k in [0, 1, 2] * 3]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_errors_without_unify_schemas_name_it(tmp_path, form):
    read = fp.read_parquet if form == "parquet" else fp.read_arrow
    for other, repair in (
        ({}, "takes it for null"),
        ({"a": pa.string()}, "looks for a type"),
        (ALL, "takes those of all"),
    ):
        paths = write(tmp_path, [table({"a": pa.int8()}), table(other)], form)
        with pytest.raises(DataError, match=f"0.{form}.*`unify_schemas=True` {repair}"):
            list(read(paths))


ALL = {"a": pa.int8(), "b": pa.int8()}


@pytest.mark.parametrize("value", [-1, 0, 1, 2])
@pytest.mark.parametrize("kinds", [(pa.int8(), pa.int64()), (pa.int64(), pa.float64()), (pa.null(), pa.int8())])
def test_a_filter_leaves_out_only_rows_that_do_not_match(tmp_path, kinds, value):
    tables = [table({"a": kind}) for kind in kinds] + [table({})]
    paths = write(tmp_path, tables, "parquet")
    whole = pa.concat_tables(tables, promote_options="permissive")
    for condition in (
        pc.field("a") > value,
        pc.field("a").is_null(),
        ~(pc.field("a") <= value),
        pc.field("a") != value,
    ):
        assert list(read_all("parquet", paths, filter=condition)) == whole.filter(condition).to_pylist()


def test_parts_of_structs(tmp_path):
    one = pa.table({"s": [{"x": 1, "y": "a"}]})
    two = pa.table({"s": [{"y": "b", "z": 2.5}]})
    three = pa.table({"t": [3]})
    paths = write(tmp_path, [one, two, three], "parquet")
    assert list(read_all("parquet", paths, columns=["s.x", "s.z"])) == [
        {"s": {"x": 1, "z": None}},
        {"s": {"x": None, "z": 2.5}},
        {"s": None},
    ]
    assert list(read_all("parquet", paths, columns=["t", "s.y"]))[1:] == [
        {"t": None, "s": {"y": "b"}},
        {"t": 3, "s": None},
    ]


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "jsonl"])
def test_folders(tmp_path, form):
    for folder, row in ("", {"x": 1}), ("year=2024", {"x": 2}), ("year=2025/month=may", {"x": 3}):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        if form == "csv":
            (tmp_path / folder / "a.csv").write_text("x\n{x}\n".format(**row))
        elif form == "jsonl":
            (tmp_path / folder / "a.jsonl").write_text(json.dumps(row) + "\n")
        else:
            write(tmp_path / folder, [pa.Table.from_pylist([row])], form)
    read = {"csv": fp.read_csv, "jsonl": fp.read_jsonl, "parquet": fp.read_parquet, "arrow": fp.read_arrow}[form]
    assert sorted(read(str(tmp_path), recursive=True, unify_schemas=True), key=lambda row: row["x"]) == [
        {"x": 1, "year": None, "month": None},
        {"x": 2, "year": 2024, "month": None},
        {"x": 3, "year": 2025, "month": "may"},
    ]


def test_csv(tmp_path):
    paths = write_text(tmp_path, a_csv="x,y\n1,\n2,\n", b_csv="z,x\nq,0.5\n", c_csv="y\n", d_csv="y\n7\n")
    pipe = fp.list_files(paths).open_files().parse_csv(unify_schemas=True, row_column="row")
    assert check_operator(pipe) == [
        {"x": 1.0, "y": None, "z": None, "row": 0},
        {"x": 2.0, "y": None, "z": None, "row": 1},
        {"x": 0.5, "y": None, "z": "q", "row": 0},
        {"x": None, "y": 7, "z": None, "row": 0},
    ]
    assert list(fp.read_csv(paths, unify_schemas=True, columns=["z"])) == [{"z": None}] * 2 + [{"z": "q"}, {"z": None}]


def test_jsonl(tmp_path):
    paths = write_text(
        tmp_path, a_jsonl='{"x": 1, "s": {"p": 1}, "n": null}\n', b_jsonl="", c_jsonl='{"s": {"q": "r"}, "n": 0.5}\n'
    )
    assert check_operator(fp.list_files(paths).open_files().parse_jsonl(unify_schemas=True)) == [
        {"x": 1, "s": {"p": 1, "q": None}, "n": None},
        {"x": None, "s": {"p": None, "q": "r"}, "n": 0.5},
    ]
    (tmp_path / "c.jsonl").write_text('{"x": "no"}\n')
    with pytest.raises(DataError, match=r"c\.jsonl, column 'x': its type is string, and int64 in .*a\.jsonl"):
        list(fp.list_files(paths).open_files().parse_jsonl(unify_schemas=True))
    with pytest.raises(DataError, match="the first lines of all files have no field 'y'"):
        list(fp.read_jsonl(paths, unify_schemas=True, columns=["y"], schema={"x": "string"}))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"z": [1]},
            "has a column 'z', and the files of seed 0 and epoch 0, which fix the columns, have none; `columns=`",
        ),
        ({"x": ["no"]}, "column 'x': its type is string, and double in .*, which cannot hold all such values; leave"),
    ],
)
def test_a_file_that_did_not_fix_the_schema(tmp_path, other, message):
    paths = write(tmp_path, [pa.table({"x": [1]}), pa.table({"x": [0.5], "y": [1]})], "parquet")
    pipe = resolve(read_all("parquet", paths).skip(0))
    fixed = pipe.inputs[0].op.format.fixed_schema
    paths = write(tmp_path, [pa.table(other)], "parquet")
    with open(paths[0], "rb") as stream, pytest.raises(DataError, match=message):
        fixed.columns_in(read_parquet_footer(stream, paths[0]))


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_state_is_checked_against_names_and_types(tmp_path, form):
    paths = write(tmp_path, [table({"a": pa.int8()}), table({"b": pa.int8()})], form)
    loader = fp.Loader(read_all(form, paths))
    iterator = iter(loader)
    first = [next(iterator) for _ in range(4)]
    state = loader.state_dict()
    again = fp.Loader(read_all(form, paths))
    again.load_state_dict(state)
    assert first + list(again) == list(read_all(form, paths))
    other = fp.Loader(
        read_all(form, paths[:1] + write(tmp_path, [table({"a": pa.int8()}), table({"c": pa.int8()})], form)[1:])
    )
    with pytest.raises(fp.errors.StateError):
        other.load_state_dict(state)
