"""`resample`: classes in other shares."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ..tables import TABLE, variants


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(0, 3))
def test_law(values: list[int], epoch: int) -> None:
    pipe = fp.from_sequence(values).resample(lambda x: x, target="uniform", source={0: 1, 1: 2, 2: 6})
    rows = check_operator(pipe, samples=4, epoch=epoch)
    assert set(rows) | {2} == set(values) | {2}
    assert rows.count(0) == 3 * values.count(0) and rows.count(2) <= values.count(2)


@pytest.mark.parametrize("stored", ["columns", "dicts"])
@pytest.mark.parametrize("key", ["kind", ["kind", "other"], lambda row: row["kind"]])
def test_shares(stored: str, key: Any) -> None:
    kinds = ["a"] * 7000 + ["b"] * 2000 + ["c"] * 1000
    pipe = variants(pa.table({"kind": kinds, "other": [None] * 10_000}))[stored]
    name: Any = (lambda kind: (kind, None)) if isinstance(key, list) else str
    out = pipe.resample(
        key,
        target={name("a"): 0.25, name("b"): 0.25, name("c"): 0.5},
        source={name("a"): 7, name("b"): 2, name("c"): 1},
    )
    counts = Counter(row["kind"] for row in out)
    assert counts["c"] == 5000
    assert np.allclose([counts["a"], counts["b"]], 2500, atol=150)
    assert isinstance(next(iter(out.batch(9))), Rows) == (stored == "columns")


def test_epochs_differ_and_workers_agree() -> None:
    pipe = fp.from_sequence([k % 5 > 0 for k in range(200)]).enumerate()
    pipe = pipe.resample(lambda row: row[1], target="uniform", source={False: 0.2, True: 0.8})
    loader, again = fp.Loader(pipe, shards=3), fp.Loader(pipe, shards=3)
    first, second = list(loader), list(loader)
    assert first != second and [list(again), list(again)] == [first, second]
    elements = iter(again)
    taken = [next(elements) for _ in range(25)]
    state, rest = again.state_dict(), list(elements)
    again.load_state_dict(state)
    assert list(again) == rest and taken


def test_arguments() -> None:
    pipe = fp.from_sequence("ab")
    two = {"a": 0.5, "b": 0.5}
    arguments: list[tuple[Any, Any, type[Exception], str]] = [
        ("unifrom", two, ArgumentError, "`target` must be 'uniform' or shares by class but got: 'unifrom'"),
        ("uniform", {}, ArgumentTypeError, "`source` must map classes to shares"),
        ("uniform", {"a": "1"}, ArgumentTypeError, "`source` must map classes to shares"),
        ("uniform", {"a": 0}, ArgumentError, "the shares in `source` must be finite, >= 0 and not all 0"),
        ({"a": -1, "b": 2}, two, ArgumentError, "the shares in `target` must be finite, >= 0 and not all 0"),
        ({"a": 1}, two, ArgumentError, "must name the same classes, but `target` lacks 'b'; a share of 0"),
        ({**two, "c": 1}, two, ArgumentError, "must name the same classes, but `source` lacks 'c'"),
        (two, {"a": 1, "b": 0}, ArgumentError, "class 'b' has a share in `target` but none in `source`"),
        (two, {"a": 49, "b": 1}, ArgumentError, "'b' would come 25 times on average, and `limit` is 10; raise"),
    ]
    for target, source, error, text in arguments:
        with pytest.raises(error, match=text):
            pipe.resample(str, target=target, source=source)
    with pytest.raises(ArgumentError, match="`limit` must be >= 1"):
        pipe.resample(str, target="uniform", source=two, limit=0)
    with pytest.raises(ArgumentTypeError, match="not None"):
        pipe.resample(None, target="uniform", source=two)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="there is no column 'txet'; did you mean 'text'"):
        fp.from_table(TABLE).resample("txet", target="uniform", source=two).explain()


@pytest.mark.parametrize("stored", variants())
def test_rows_without_a_class(stored: str) -> None:
    pipe = variants()[stored]
    shares = {1: 1, 2: 1, 4: 1, 5: 1}
    rows: list[Any] = []
    with pytest.raises(DataError, match=r"is 3, which has no share in `source`; add it there\n  on .*row 3\n  at "):
        rows.extend(pipe.resample("id", target="uniform", source=shares))
    assert [row["id"] for row in rows] == [1, 2]
    with pytest.raises(DataError, match="a key must be hashable but is: "):
        list(pipe.resample("tags", target="uniform", source=shares))
    with pytest.raises(fp.RowError, match=r"ZeroDivisionError(.|\n)*row 4\n"):
        list(pipe.resample(lambda row: 1 / (row["id"] - 4) * 0, target="uniform", source={0: 1}))
