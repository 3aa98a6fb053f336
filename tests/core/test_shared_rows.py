"""A function that changes its row changes no row of a later epoch, of another window, or of the user's data."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import RowError

from ..support.core import shared


class Point(NamedTuple):
    x: list[int]
    label: str


def spoil(value: Any) -> None:
    """Change everything in a value that can be changed."""
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value += 1
    elif isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = True
    elif isinstance(value, (list, tuple)):
        for item in value:
            spoil(item)
        if isinstance(value, list):
            value.append("spoilt")
    elif isinstance(value, set):
        value.add("spoilt")
    elif isinstance(value, bytearray):
        value.extend(b"spoilt")


def seen_and_spoilt(row: Any) -> str:
    seen = repr(row)
    spoil(row)
    return seen


def row(i: int) -> dict[str, Any]:
    return {"k": i % 3, "x": np.full(2, i), "tags": [i, [i]], "more": ({"i": i}, Point([i], "p")), "set": {i}}


ROWS = [row(i) for i in range(7)]
FLAT = [{"i": i, "text": str(i)} for i in range(7)]
OTHER = {k: {"y": np.full(2, k), "tags": [k]} for k in range(3)}


def loaded() -> fp.Pipe[Any]:
    return fp.from_sequence(range(7)).filter(lambda i: True).map(row).load()


PIPES: dict[str, Callable[[], fp.Pipe[Any]]] = {
    "from_sequence": lambda: fp.from_sequence(ROWS),
    "a tuple": lambda: fp.from_sequence(tuple(ROWS)),
    "tuples": lambda: fp.from_sequence([(i, np.full(2, i), [i]) for i in range(1000)]),
    "flat dicts": lambda: fp.from_sequence(FLAT),
    "arrays": lambda: fp.from_sequence(np.zeros((4, 2))),  # type: ignore[arg-type]
    "from_iterable": lambda: fp.from_iterable(ROWS),
    "values of a dict": lambda: fp.from_iterable(OTHER.values()),
    "load": loaded,
    "load of batches": lambda: loaded().batch(3).load(),
    "shuffled": lambda: loaded().shuffle(),
    "join": lambda: fp.from_sequence([{"k": k % 3} for k in range(6)]).join(OTHER, on="k"),
    "join with a pipe": lambda: fp.from_sequence([{"k": k} for k in range(3)]).join(
        fp.from_sequence(ROWS), on="k", multiple="first"
    ),
    "repeat": lambda: loaded().repeat(3),
    "repeat of a stream": lambda: fp.from_iterable(ROWS).repeat(3),
    "sample": lambda: loaded().sample(30, replacement=True),
    "sample of a sequence": lambda: fp.from_sequence(ROWS).sample(30, replacement=True),
    "mix": lambda: loaded().mix(fp.from_sequence(ROWS[:2]), weights=[1, 1]),
    "mix of streams": lambda: fp.from_iterable(ROWS).mix(fp.from_iterable(ROWS[:2]), weights=[1, 1]),
    "sliding": lambda: loaded().sliding(3),
    "sliding over a stream": lambda: fp.from_iterable(lambda: map(row, range(7))).sliding(3, step=2),
    "windows of windows": lambda: fp.from_sequence(FLAT).sliding(3).sliding(2),
    "itself": lambda: loaded().concat(loaded()),
}


@pytest.mark.parametrize("make", PIPES.values(), ids=PIPES)
def test_epochs_and_resumes_give_the_rows_of_the_first_epoch(make: Callable[[], fp.Pipe[Any]]) -> None:
    pipe = make()
    untouched = [repr(row) for row in make()]
    spoilt = pipe.map(seen_and_spoilt)
    for _ in range(2):
        assert sorted(spoilt) == sorted(untouched)
    loader, again = fp.Loader(spoilt, seed=1), fp.Loader(make().map(repr), seed=1)
    first, second, third = list(loader), list(loader), list(loader)
    assert [first, second, third] == [list(again), list(again), list(again)]
    loader = fp.Loader(spoilt, seed=1)
    elements = iter(loader)
    assert [next(elements), next(elements)] == first[:2]
    resumed = fp.Loader(spoilt, seed=1)
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == first[2:]


def test_workers_give_the_same_rows() -> None:
    pipe = PIPES["tuples"]().concat(fp.from_sequence(ROWS).repeat(2), PIPES["join"]())
    expected = list(fp.Loader(pipe.map(repr), seed=1, shards=4))
    with fp.Loader(pipe.map(seen_and_spoilt), workers=2, seed=1, shards=4) as loader:
        assert list(loader) == list(loader) == expected


def test_the_data_of_the_user_can_still_be_written_to() -> None:
    array = np.zeros(2)
    for pipe in (fp.from_sequence([{"x": array}]), fp.from_iterable(lambda: [{"x": array}]).load()):
        (row,) = pipe
        assert not row["x"].flags.writeable and row["x"].base is array
    array += 1


def test_a_write_into_an_array_says_what_to_do() -> None:
    def add(row: dict[str, Any]) -> dict[str, Any]:
        row["x"] += 1
        return row

    repair = r"read-only; arrays in rows are shared with other epochs and rows: write `x = x\.copy\(\)` first\n"
    with pytest.raises(RowError, match=repair):
        list(loaded().map(add))
    assert list(loaded().map(lambda row: {**row, "x": row["x"].copy()}).map(add).map(lambda row: row["x"][0])) == [
        *range(1, 8)
    ]


leaves = st.one_of(
    st.integers(),
    st.text(max_size=3),
    st.builds(lambda n: np.arange(n), st.integers(0, 3)),
    st.builds(bytearray, st.binary(max_size=3)),
    st.sets(st.integers(), max_size=2),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=2).map(OrderedDict),
        st.dictionaries(st.text(max_size=2), inner, max_size=2).map(lambda items: defaultdict(list, items)),
        st.tuples(inner, inner),
        st.builds(Point, st.lists(inner, max_size=2), st.text(max_size=1)),
    ),
    max_leaves=8,
)


@given(st.lists(values, max_size=4))
def test_law(rows: list[Any]) -> None:
    before = repr(rows)
    taken = shared(rows)
    assert repr(taken) == before
    again = shared(taken)
    for value in taken:
        spoil(value)
    assert repr(rows) == before == repr(again)
