"""`parse_parquet(filter=)` leaves out row groups, and gives the rows that Arrow's own filter gives."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feedpipe.testing import check_operator

from ...support.engine import resolve
from ...support.examples import examples
from .parquet_files import column, counted, listed, parsed, write


def test_law_with_a_filter(tmp_path):
    files = counted(tmp_path, [30, 0, 40], rows=7)
    got = check_operator(parsed(files, filter=pc.bit_wise_and(column("id"), 3) == 0))
    assert got == listed(70)[::4]


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


@pytest.mark.slow
@given(
    st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=14),
    st.integers(1, 4),
    st.lists(expressions(), min_size=4, max_size=8),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60), deadline=None)
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
