"""Filters by expressions after Parquet files: row groups are left out, and no row is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.testing import check_operator

from ...support.core import walk
from ...support.engine import bind, resolve
from ...support.examples import examples

ROWS = 40
TABLE = pa.table(
    {
        "t": np.arange(ROWS),
        "x": pa.array([None if k % 7 == 0 else float("nan") if k % 11 == 0 else k / 2 for k in range(ROWS)]),
        "s": [f"{k // 10}{k}" for k in range(ROWS)],
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, part in (("year=1/a", TABLE[:25]), ("year=2/b", TABLE[25:])):
        path = folder / f"{name}.parquet"
        path.parent.mkdir()
        pq.write_table(part, path, row_group_size=5)
    return folder


def read(folder: Path, **options: Any) -> fp.Pipe[Any]:
    return fp.read_parquet(folder, recursive=True, **options)


def row_groups(pipe: Any) -> int | None:
    """The number of row groups that are read."""
    root = resolve(pipe)
    (node,) = (node for node in walk(root) if node.op.kind == "row_groups")
    return bind(node).length


def test_row_groups_are_left_out_by_their_statistics(folder: Path) -> None:
    pipe = read(folder)
    late = pipe.filter(pc.field("t") >= 33)
    assert row_groups(pipe) == 8 and row_groups(late) == 2
    assert [row["t"] for row in check_operator(late)] == list(range(33, 40))
    assert row_groups(late.filter(pc.field("t") < 35)) == 1
    assert row_groups(pipe.filter(pc.field("year") == 2)) == 3
    assert row_groups(read(folder, filter=pc.field("t") > 20).filter(pc.field("t") < 30)) == 2
    assert "parse_parquet()" in repr(late) and "filter((t >= 33))" in repr(late)


def test_which_operators_may_stand_between(folder: Path) -> None:
    expression = pc.field("t") >= 33
    pipe = read(folder)
    for between in (
        pipe.select("t"),
        pipe.drop("x"),
        pipe.prefetch(2),
        pipe.filter(pc.field("x") > 1).select("t", "s"),
    ):
        assert row_groups(between.filter(expression)) == 2
    for between in (
        pipe.skip(1),
        pipe.map(lambda row: row),
        pipe.rename({"t": "u", "x": "t"}),
        pipe.with_columns(t=pc.field("t") + 30),
        pipe.shuffle(window=5),
        pipe.distinct("s", last=3),
        pipe.repeat(2),
    ):
        assert row_groups(between.filter(expression)) == 8


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(["t", "x"]),
    st.sampled_from(["<", "<=", "==", "!=", ">", ">=", "null", "valid", "isin"]),
    st.integers(-1, ROWS),
    st.booleans(),
)
def test_no_row_is_lost(folder: Path, column: str, test: str, value: int, inverted: bool) -> None:
    field = pc.field(column)
    expression: Any = {
        "<": lambda: field < value,
        "<=": lambda: field <= value,
        "==": lambda: field == value,
        "!=": lambda: field != value,
        ">": lambda: field > value,
        ">=": lambda: field >= value,
        "null": field.is_null,
        "valid": field.is_valid,
        "isin": lambda: field.isin([value, value + 9]),
    }[test]()
    expression = ~expression if inverted else expression
    kept = fp.from_table(TABLE).filter(expression)
    assert [row["t"] for row in read(folder).filter(expression)] == [row["t"] for row in kept]


def columns_read(pipe: Any) -> list[str]:
    """The columns that are read from files and folders."""
    root = resolve(pipe)
    (node,) = (node for node in walk(root) if node.op.kind == "parse_parquet")
    schema = bind(node).schema
    assert schema is not None
    return schema.names


@pytest.mark.parametrize(
    ("chain", "columns"),
    [
        (lambda pipe: pipe.select("s"), ["s"]),
        (lambda pipe: pipe.select("year", "t"), ["t", "year"]),
        (lambda pipe: pipe.select("year"), ["year"]),
        (lambda pipe: pipe.filter(pc.field("x") > 3).select("t"), ["t", "x"]),
        (
            lambda pipe: pipe.filter(pc.field("x") > 3).shuffle(4).filter(pc.field("year") == 2).select("t"),
            [*"tx", "year"],
        ),
        (lambda pipe: pipe.skip(3).take(9).prefetch(2).select("s").filter(pc.field("s") > "1"), ["s"]),
        (lambda pipe: pipe.select("s", "t").select("t"), ["t", "s"]),
        (lambda pipe: pipe.filter(lambda row: row["x"] is not None).select("t"), [*"txs", "year"]),
        (lambda pipe: pipe.drop("s").select("t"), [*"txs", "year"]),
        (lambda pipe: pipe, [*"txs", "year"]),
    ],
)
def test_columns_that_nothing_uses_are_not_read(folder: Path, chain: Any, columns: list[str]) -> None:
    pipe = chain(read(folder))
    assert columns_read(pipe) == columns
    table = fp.from_table(pa.Table.from_pylist(list(read(folder))))
    assert sorted(map(repr, check_operator(pipe, samples=3))) == sorted(map(repr, chain(table)))


def test_a_state_does_not_depend_on_what_is_read(folder: Path) -> None:
    def root(pipe: Any) -> Any:
        return next(node.op.identity() for node in walk(resolve(pipe)) if node.op.kind == "parse_parquet")

    assert root(read(folder).select("t")) == root(read(folder))
