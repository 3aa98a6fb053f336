"""`batch(size, distinct=)`: no key comes twice in a batch."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, PlanWarning, RowError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ...loading.elastic import Job, count
from ...support.examples import examples
from ..groups import pipes, places


def by_hand(keys: list[Any], size: int, window: int, *, drop_last: bool = False) -> list[list[int]]:
    """Row by row, as a reference: each batch looks at all rows of its window."""
    left = list(range(len(keys)))
    batches: list[list[int]] = []
    while left:
        chosen: list[int] = []
        seen: set[Any] = set()
        for place in left:
            own = set(keys[place]) if isinstance(keys[place], (set, frozenset)) else {keys[place]}
            if place < left[0] + window and len(chosen) < size and not own & seen:
                chosen.append(place)
                seen |= own
        left = [place for place in left if place not in set(chosen)]
        if len(chosen) == size or not drop_last:
            batches.append(chosen)
    return batches


numbers = st.integers(1, 12).flatmap(lambda most: st.lists(st.integers(0, most), max_size=60))
sizes = st.integers(1, 7)


@settings(max_examples=examples(300))
@given(numbers, sizes, st.integers(0, 20), st.booleans())
def test_batches(keys: list[int], size: int, more: int, drop_last: bool) -> None:
    options: dict[str, Any] = {"window": size + more, "drop_last": drop_last}
    expected = by_hand(keys, size, size + more, drop_last=drop_last)
    for pipe in pipes(keys):
        for key in ("x", ["x", "text"], lambda row: row["x"]):
            assert places(list(pipe.batch(size, distinct=key, **options))) == expected
    if not drop_last:
        assert sorted(sum(expected, [])) == list(range(len(keys)))


@settings(max_examples=examples(300))
@given(st.lists(st.sets(st.integers(0, 6), max_size=3), max_size=40), sizes, st.integers(0, 20))
def test_several_keys_of_a_row(keys: list[set[int]], size: int, more: int) -> None:
    pipe = fp.from_sequence(range(len(keys))).batch(size, distinct=keys.__getitem__, window=size + more)
    assert list(pipe) == by_hand(keys, size, size + more)


@settings(max_examples=examples(60))
@given(numbers, sizes, st.integers(0, 20), st.booleans())
def test_law(keys: list[int], size: int, more: int, drop_last: bool) -> None:
    expected = by_hand(keys, size, size + more)
    rows = fp.from_sequence([(place, key) for place, key in enumerate(keys)])
    sets = rows.batch(size, distinct=lambda row: {row[1], -row[0] // 2}, window=size + more)
    check_operator(sets, samples=3)
    for pipe in (rows, rows.filter(lambda row: True)):
        batches = check_operator(pipe.batch(size, distinct=lambda row: row[1], window=size + more), samples=3)
        assert [[place for place, _ in batch] for batch in batches] == expected  # type: ignore[union-attr]
    for pipe in pipes(keys):
        check_operator(pipe.batch(size, distinct="text", window=size + more), samples=2)


KEYS = [(place * place) % 11 % 7 for place in range(120)]
ROWS = fp.from_sequence([{"n": n, "x": x} for n, x in enumerate(KEYS)])


def test_resume_at_each_element() -> None:
    pipe = ROWS.shuffle().batch(5, distinct="x")
    loader = fp.Loader(pipe, seed=4)
    states = [json.dumps(loader.state_dict())]
    elements = []
    for element, info in loader.with_info():
        elements.append(element)
        states.append(json.dumps(info.state_dict()))
    assert len(elements) > 20
    for step, state in enumerate(states[:-1]):
        again = fp.Loader(pipe, seed=4)
        again.load_state_dict(json.loads(state))
        assert list(again) == elements[step:]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_and_workers(ranks: int) -> None:
    pipe = ROWS.shuffle().batch(4, distinct="x")
    rows: Counter[int] = Counter()
    for rank in range(ranks):
        options: dict[str, Any] = {"seed": 2, "rank": rank, "world_size": ranks, "even": None}
        elements = list(fp.Loader(pipe, **options))
        with fp.Loader(pipe, workers=2, **options) as loader:
            assert list(loader) == elements
        for batch in elements:
            assert len({row["x"] for row in batch}) == len(batch)
            rows.update(row["n"] for row in batch)
    assert rows == Counter(range(len(KEYS)))


@settings(max_examples=examples(40))
@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 4))
def test_goes_on_on_another_number_of_ranks(first: int, second: int, ranks: int) -> None:
    pipe = ROWS.filter(lambda row: True).shuffle(window=9).batch(4, distinct="x")
    whole = count(Job(pipe, 1).rest())
    before, states = Job(pipe, 2).take([first, second])
    after = Job(pipe, ranks, states).rest()
    assert count(before) + count(after) == whole
    assert all(len({row["x"] for row in batch}) == len(batch) for batch in [*before, *after])


def refuse(row: dict[str, Any]) -> dict[str, Any]:
    if row["n"] % 7 == 3:
        raise ValueError("refused")
    return row


@pytest.mark.parametrize("streamed", [False, True])
def test_rows_that_a_policy_skips_are_in_no_batch(streamed: bool) -> None:
    rows = (ROWS.filter(lambda row: True) if streamed else ROWS).map(refuse, on_error="skip")
    pipe = rows.batch(4, distinct="x")
    kept = [n for n in range(len(KEYS)) if n % 7 != 3]
    expected = [[kept[place] for place in batch] for batch in by_hand([KEYS[n] for n in kept], 4, 32)]
    assert places(check_operator(pipe)) == expected
    loader = fp.Loader(pipe)
    states = []
    for _, info in loader.with_info():
        states.append(json.loads(json.dumps(info.state_dict())))
    assert loader.skipped == {".map(refuse)": 17}
    for step, state in enumerate(states[:-1], 1):
        again = fp.Loader(pipe)
        again.load_state_dict(state)
        assert places(list(again)) == expected[step:]
        assert again.skipped == {".map(refuse)": 17}


def test_a_batch_of_a_table_stays_columns() -> None:
    first = next(iter(pipes([1, 1, 2])[1].batch(2, distinct="x")))
    assert isinstance(first, Rows) and first["n"].tolist() == [0, 2]


def test_null_and_nan_are_keys() -> None:
    for values in ([1.0, None, None, 1.0, 2.0], [float("nan"), 0.0, -0.0, float("nan"), 5.0]):
        records = [{"x": value, "n": n} for n, value in enumerate(values)]
        expected = [[0, 1, 4], [2, 3]]
        for pipe in (fp.from_sequence(records), fp.from_table(pa.Table.from_pylist(records))):
            assert places(list(pipe.batch(3, distinct="x"))) == expected


def test_order_of_a_run_never_changes() -> None:
    rows = fp.from_arrays({"x": np.arange(3_000) ** 2 % 701}).shuffle()
    batches = [batch["x"].tolist() for batch in fp.Loader(rows.batch(64, distinct="x"), seed=1)]
    assert hashlib.sha256(json.dumps(batches).encode()).hexdigest()[:16] == "2860f05bef733ceb"


def test_a_state_is_small() -> None:
    loader = fp.Loader(fp.from_arrays({"x": np.arange(20_000) ** 2 % 7001}).shuffle().batch(256, distinct="x"))
    sizes = [len(json.dumps(info.state_dict())) for _, info in loader.with_info()]
    assert max(sizes) < 20_000


def test_a_frequent_key_costs_no_look_at_all_rows_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    class Key(str):
        def __hash__(self) -> int:
            nonlocal looked
            looked += 1
            return super().__hash__()

        __slots__ = ()

    keys = [Key("hot") if n % 3 else Key(n) for n in range(3_000)]
    with pytest.warns(PlanWarning, match="more than half of 1000 batches .* 'hot', is in .*% of the rows"):
        batches = list(fp.from_sequence(range(3_000)).batch(64, distinct=keys.__getitem__))
    assert sum(map(len, batches)) == 3_000
    assert looked < 20 * 3_000


def test_many_short_batches_are_a_warning_with_a_size_that_fits() -> None:
    rows = fp.from_sequence([{"n": n, "x": "often" if n % 2 else str(n)} for n in range(4_000)])
    with pytest.warns(PlanWarning) as caught:
        assert len(list(rows.batch(16, distinct="x"))) >= 2_000
    (message,) = (str(warning.message) for warning in caught)
    assert "more than half of 1000 batches of `batch(16, distinct='x')` have fewer than 16 rows" in message
    assert "'often', is in 50.0%" in message and "batches of 2 fit" in message and caught[0].filename == __file__


def test_drop_last_leaves_out_short_batches_and_logs_their_rows(caplog: pytest.LogCaptureFixture) -> None:
    rows = fp.from_sequence("aaabbcd")
    assert list(rows.batch(3, distinct=str)) == [["a", "b", "c"], ["a", "b", "d"], ["a"]]
    with caplog.at_level(logging.INFO, "feedpipe"):
        assert list(rows.batch(3, distinct=str, drop_last=True)) == [["a", "b", "c"], ["a", "b", "d"]]
    assert "has left out 1 rows, of short batches" in caplog.text


def test_explain_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    pipe = ROWS.batch(4, distinct="x", window=9)
    assert repr(pipe).endswith(".batch(4, distinct='x', window=9)")
    pipe.explain()
    text = capsys.readouterr().out
    assert "no key comes twice in a batch" in text and "resume: runs again at most 9 rows of `batch`" in text
    assert not pipe.indexed and pipe.length is None


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"window": 9}, ArgumentError, "`window` needs `distinct`"),
    ({"distinct": "x", "window": 3}, ArgumentError, "`window` must be >= `size`, .* but got: 3 and 4"),
    ({"distinct": "x", "window": 0}, ArgumentError, "`window` must be >= 1 but got: 0"),
    ({"distinct": "x", "window": 2.5}, ArgumentTypeError, "`window` must be an int"),
    ({"distinct": 3}, ArgumentTypeError, "`distinct` must be the name of a column"),
    ({"distinct": []}, ArgumentError, "`distinct` must name at least one column"),
    ({"distinct": "x", "drop_last": 1}, ArgumentTypeError, "`drop_last` must be True or False"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD)
def test_wrong_arguments(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        ROWS.batch(4, **options)
    assert __file__ in str(caught.value)


def test_wrong_keys_come_after_the_batches_before_them() -> None:
    rows = fp.from_sequence([{"x": 1}, {"x": 2}, {"x": [3]}, {"x": 4}])
    batches = iter(rows.batch(2, distinct="x"))
    assert next(batches) == [{"x": 1}, {"x": 2}]
    with pytest.raises(DataError, match=r"a key must be hashable but is: \[3\].*\n.*row 3"):
        next(batches)
    with pytest.raises(DataError, match="there is no column 'y'"):
        list(rows.batch(2, distinct="y"))
    with pytest.raises(PlanError, match="there is no column 'y'"):
        list(pipes([1])[1].batch(2, distinct="y"))
    with pytest.raises(RowError, match="ZeroDivisionError"):
        list(fp.from_sequence([1, 0]).batch(2, distinct=lambda n: 1 // n))
