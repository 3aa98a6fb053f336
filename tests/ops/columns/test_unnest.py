"""`unnest`: structs of tables, dicts and tuples of rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError
from feedpipe.testing import check_operator

from ..tables import variants

# Some versions of Arrow sort the fields of a type that they infer.
PLACE = pa.struct([("x", pa.int64()), ("at", pa.struct([("h", pa.int64())]))])
NESTED = pa.table(
    {
        "id": [1, 2, 3],
        "place": pa.array([{"x": 1, "at": {"h": 5}}, {"x": 2, "at": {"h": 6}}, {"x": 3, "at": {"h": 7}}], PLACE),
        "who": [{"name": "a"}, {"name": None}, {"name": "c"}],
    }
)


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants(NESTED)[stored]
    rows = check_operator(pipe.unnest())
    assert rows[0] == {"id": 1, "place.x": 1, "place.at": {"h": 5}, "who.name": "a"}
    assert [list(row) for row in rows] == [["id", "place.x", "place.at", "who.name"]] * 3
    twice = check_operator(pipe.unnest(["place"], separator="_").unnest(["place_at"], "/"))
    assert twice[1] == {"id": 2, "place_x": 2, "place_at/h": 6, "who": {"name": None}}
    assert check_operator(pipe.select("id").unnest()) == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_columns_stay_columns() -> None:
    pipe = fp.from_table(NESTED).unnest()
    (batch,) = pipe.batch(3)
    assert batch.arrow.schema == pipe.schema
    assert batch["place.x"].tolist() == [1, 2, 3]


def test_a_field_of_a_null_is_null() -> None:
    table = pa.table({"s": pa.array([{"a": 1}, None, {"a": 3}, {"a": 4}])})
    assert list(fp.from_table(table).unnest()) == [{"s.a": 1}, {"s.a": None}, {"s.a": 3}, {"s.a": 4}]
    assert (
        list(fp.from_table(table).skip(1).filter(lambda row: True).unnest()) == list(fp.from_table(table).unnest())[1:]
    )


WRONG: dict[str, tuple[Any, str]] = {
    "unknown": (lambda p: p.unnest(["plaec"]), "there is no column 'plaec'; did you mean 'place'"),
    "no struct": (lambda p: p.unnest(["id"]), "column 'id' .* int.*, which has no fields"),
    "doubled": (
        lambda p: p.rename({"id": "who.name"}).unnest(),
        "two columns would have the name 'who.name'; give another `separator`, or `.rename` one of them",
    ),
}


@pytest.mark.parametrize(("chain", "message"), WRONG.values(), ids=WRONG.keys())
def test_errors(chain: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        chain(fp.from_table(NESTED)).explain()
    assert __file__ in str(caught.value)
    for pipe in variants(NESTED).values():
        with pytest.raises(DataError, match=f"{message}(.|\n)*, row 1\n"):
            list(chain(pipe.batch(2).unbatch()))


def test_arguments() -> None:
    pipe = fp.from_table(NESTED)
    with pytest.raises(ArgumentTypeError, match="`columns` must be a list of names but got: 'place'"):
        pipe.unnest("place")
    with pytest.raises(ArgumentError, match="`columns` must name at least one column but got"):
        pipe.unnest([])
    with pytest.raises(ArgumentTypeError, match="`separator` must be a string but got: 3"):
        pipe.unnest(separator=3)  # type: ignore[call-overload]
    assert repr(pipe.unnest(["place"], "_")).endswith(".unnest(['place'], separator='_')")
