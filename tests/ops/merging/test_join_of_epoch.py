"""`join(function)`: the other side is what a function returns for the number of the epoch."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.testing import check_operator

from ...loading.elastic import Job, count
from ...loading.resumes import check_resumes_in_two_epochs
from ...support.examples import examples
from ..tables import variants

ROWS = fp.from_sequence([{"n": n, "key": n % 7} for n in range(40)])


def mined(epoch: int) -> dict[int, dict[str, Any]]:
    return {key: {"negative": 100 * epoch + key} for key in range(epoch % 3, 7)}


def mined_table(epoch: int) -> pa.Table:
    rows = [{"key": key, **row} for key, row in mined(epoch).items()]
    return pa.Table.from_pylist(rows, pa.schema({"key": pa.int64(), "negative": pa.int64()}))


def joined(epoch: int) -> list[dict[str, Any]]:
    found = mined(epoch)
    return [{**row, **found[row["key"]]} for row in ROWS if row["key"] in found]


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(
    st.sampled_from(sorted(variants())),
    st.dictionaries(st.integers(0, 6), st.integers(-9, 9), max_size=6),
    st.dictionaries(st.integers(0, 6), st.integers(-9, 9), max_size=6),
    st.sampled_from(["inner", "left"]),
    st.booleans(),
)
def test_each_epoch_is_as_joined_with_its_own_side(
    name: str, first: dict[int, int], second: dict[int, int], how: Any, as_table: bool
) -> None:
    schema = pa.schema({"id": pa.int64(), "y": pa.int64()})

    def side(epoch: int) -> Any:
        values = (first, second)[epoch]
        if as_table:
            return pa.Table.from_pylist([{"id": key, "y": y} for key, y in values.items()], schema)
        return {key: {"y": y} for key, y in [*values.items(), (-1, 0)]}

    loader = fp.Loader(variants()[name].join(side, on="id", how=how), shards=1)
    for epoch in (0, 1):
        assert list(loader) == list(variants()[name].join(side(epoch), on="id", how=how))


@pytest.mark.parametrize("side", [mined, mined_table])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_law(side: Any, how: Any) -> None:
    for pipe in (ROWS, ROWS.filter(lambda row: True)):
        for epoch in (0, 1):
            rows = check_operator(pipe.join(side, on="key", how=how), samples=4, epoch=epoch)
            assert [row for row in rows if row["negative"] is not None] == joined(epoch)  # type: ignore[index, call-overload]


def test_resumes_in_two_epochs() -> None:
    check_resumes_in_two_epochs(ROWS.shuffle().join(mined_table, on="key"), every=3)


@settings(max_examples=examples(40))
@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 4))
def test_goes_on_on_another_number_of_ranks(first: int, second: int, ranks: int) -> None:
    pipe = ROWS.filter(lambda row: True).shuffle(window=9).join(mined, on="key")
    before, states = Job(pipe, 2).take([first, second])
    after = Job(pipe, ranks, states).rest()
    assert count(before) + count(after) == Counter(map(repr, joined(0)))


def test_is_called_once_when_an_epoch_begins() -> None:
    calls: list[int] = []
    lock = threading.Lock()

    def side(epoch: int) -> dict[int, dict[str, Any]]:
        with lock:
            calls.append(epoch)
        return mined(epoch)

    pipe = ROWS.shuffle().join(side, on="key", how="left").batch(4)
    assert calls == [] and len(pipe) == 10 and pipe.indexed
    for service in (fp.InProcess(), fp.Threads(3)):
        calls.clear()
        with fp.Loader(pipe, service=service, shards=3) as loader:
            list(loader), list(loader)
        assert calls == [0, 1]


def test_order_of_a_run_never_changes() -> None:
    loader = fp.Loader(ROWS.shuffle().join(mined, on="key"), seed=1)
    text = json.dumps([list(loader), list(loader)])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "e871924dfc9f38dc"


def other_types(epoch: int) -> pa.Table:
    return (
        mined_table(epoch) if not epoch else mined_table(epoch).cast(pa.schema({"key": "int64", "negative": "float32"}))
    )


def other_names(epoch: int) -> dict[int, dict[str, Any]]:
    return {key: {f"x{epoch}": key} for key in range(7)}


WRONG: list[tuple[Any, str]] = [
    (other_types, r"in epoch 1 its columns are \['negative: float'\], and were \['negative: int64'\] before"),
    (other_names, r"in epoch 1 its columns are \['x1'\], and were \['x0'\] before; return the same columns"),
    (lambda epoch: mined(0) if not epoch else ROWS, "in epoch 1, a function must return a table or .* returned a pipe"),
    (lambda epoch: mined(0) if not epoch else None, "in epoch 1, `other` must be a pipe, a data frame .*: NoneType"),
    (lambda epoch: mined(0) if not epoch else {1: 2}, "a row must be a dict"),
    (lambda epoch: mined_table(0) if not epoch else pa.table({"y": [1]}), "there is no column 'key'"),
    (
        lambda epoch: mined_table(0) if not epoch else pa.table({"key": [1, 1], "negative": [2, 3]}),
        "2 rows have the key 1",
    ),
]


@pytest.mark.parametrize(("side", "message"), WRONG)
def test_sides_that_do_not_fit(side: Any, message: str) -> None:
    loader = fp.Loader(ROWS.join(side, on="key"))
    assert list(loader)
    with pytest.raises(DataError, match=message) as caught:
        list(loader)
    assert "the other side of `join`" in str(caught.value) and __file__ in str(caught.value)


def test_an_error_of_the_function_is_raised_and_the_next_try_calls_it_again(tmp_path: Path) -> None:
    path = tmp_path / "0.json"

    def side(epoch: int) -> Any:
        return {int(key): row for key, row in json.loads(path.read_text()).items()}

    pipe = ROWS.join(side, on="key")
    with pytest.raises(FileNotFoundError):
        list(pipe)
    path.write_text(json.dumps(mined(0)))
    assert list(pipe) == joined(0)
