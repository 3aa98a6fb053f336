"""`with_columns`: columns from expressions and from functions of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, RowError, StateWarning
from feedpipe.testing import check_operator

from ..tables import TABLE, variants


def first_tag(columns: Any) -> Any:
    return [None if tags is None or not len(tags) else str(tags[0]) for tags in columns["tags"]]


@pytest.mark.parametrize("stored", ["columns", "streamed columns"])
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    computed = pipe.with_columns(
        double=lambda columns: columns["id"] * 2,
        id=pc.field("id") + 10,
        tag=first_tag,
        sum=pc.field("id") + pc.field("half"),
    )
    rows = check_operator(computed)
    tags = ["u", None, None, "v", "x"]
    assert rows == [
        {**row, "id": row["id"] + 10, "double": row["id"] * 2, "tag": tag, "sum": row["id"] + row["half"]}
        for row, tag in zip(TABLE.to_pylist(), tags, strict=True)
    ]
    assert [list(row) for row in rows] == [["id", "text", "half", "tags", "double", "tag", "sum"]] * 5
    assert check_operator(pipe.skip(9).with_columns(x=pc.field("id"), y=first_tag)) == []


def test_functions_of_arrays() -> None:
    seen: list[Any] = []

    def norm(columns: Any) -> Any:
        seen.append(columns)
        return np.stack([np.linalg.norm(x) for x in columns["x"]])  # it fails without rows

    pipe = fp.from_arrays({"x": np.arange(12.0).reshape(6, 2), "y": np.arange(6)})
    assert len(check_operator(pipe.with_columns(norm=norm, half=lambda c: c["x"][:, :1] / 2).shuffle())) == 6
    assert list(seen[0]) == ["x", "y"] and len(seen[0]) == 2
    assert not seen[0]["x"].flags.writeable


def test_schema() -> None:
    pipe = fp.from_table(TABLE)
    computed = pipe.with_columns(n=pc.field("id").cast("int8"), one=pc.scalar(1.5), id=pc.field("text"))
    assert computed.schema == next(iter(computed.batch(9))).arrow.schema
    assert pipe.with_columns(n=pc.field("id"), f=lambda c: c["id"]).schema is None


def test_errors_before_the_run() -> None:
    pipe = fp.from_table(TABLE)
    with pytest.raises(PlanError, match=r"`.with_columns\(x=.*hlaf.*there is no column 'hlaf'; did you mean") as caught:
        pipe.with_columns(x=pc.field("hlaf") * 2).explain()
    assert __file__ in str(caught.value)
    with pytest.raises(PlanError, match="does not fit the columns: Function 'multiply"):
        pipe.with_columns(x=pc.field("text") * 2).explain()
    with pytest.raises(ArgumentTypeError, match=r"`x` must be an expression .* but got: 3; .* is `pc.scalar\(...\)`"):
        pipe.with_columns(x=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`with_columns` must name at least one column but names none"):
        pipe.with_columns()
    with pytest.raises(ArgumentError, match="`x` must name its columns but got an expression with a column by number"):
        pipe.with_columns(x=pc.field(0))


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "raises": (
        lambda c: [1 // (x - 3) for x in c["id"].tolist()],
        RowError,
        "failed with ZeroDivisionError: .*\n  on .*, row 3\n",
    ),
    "too few": (lambda c: c["id"][:-1], DataError, "field `x`: .* a value for each of the 1 rows but returned 0\n"),
    "a number": (lambda c: 3, DataError, "field `x`: the function must return an array or a list with a value for"),
    "no such column": (lambda c: c["di"], RowError, "KeyError: .*'di' is none of the columns: 'id', 'text', 'half'"),
    "an expression": (pc.field("id").cast("string").cast("date32"), DataError, "Failed to parse string: '1'.*\n  on "),
}


@pytest.mark.parametrize(("value", "kind", "message"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("stored", ["columns", "streamed columns"])
def test_errors_name_the_row(stored: str, value: Any, kind: type[Exception], message: str) -> None:
    rows: list[Any] = []
    with pytest.raises(kind, match=message) as caught:
        rows.extend(variants()[stored].with_columns(x=value))
    assert len(rows) == (2 if "row 3" in message else 0) and __file__ in str(caught.value)


def test_a_state_says_which_expression_differs() -> None:
    pipe = fp.from_table(TABLE)
    state = fp.Loader(pipe.with_columns(x=pc.field("id") + 1)).state_dict()
    with pytest.warns(StateWarning, match="is now `with_columns"):
        fp.Loader(pipe.with_columns(x=pc.field("id") + 2)).load_state_dict(state)
