"""`pack({"inputs": 1024, "targets": 256})`; columns of more dimensions, and one number for each document."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.testing import check_operator

from ...loading.elastic import Job
from ...support.examples import examples

ROOM = {"inputs": 8, "targets": 3}
sizes = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=25)


def documents(sizes: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Documents of these sizes: each item tells its document and its place, and `n` is the number of the document."""
    return [
        {
            "inputs": np.array([[100 * n + k, -n] for k in range(inputs)], np.int32).reshape(-1, 2),
            "n": n,
            "targets": [100 * n + k + 0.5 for k in range(targets)],
            "weight": n / 4,
        }
        for n, (inputs, targets) in enumerate(sizes)
    ]


def table(rows: list[dict[str, Any]]) -> fp.Pipe[Any]:
    pairs = [row["inputs"].tolist() for row in rows]
    columns = {
        "inputs": pa.array(pairs, pa.list_(pa.list_(pa.int32(), 2))),
        "n": np.arange(len(rows)),
        "targets": pa.array([row["targets"] for row in rows], pa.large_list(pa.float64())),
        "weight": pa.array([row["weight"] for row in rows], pa.float64()),
    }
    return fp.from_table(pa.table(columns))


def unpacked(pack: Any) -> list[tuple[int, Any, Any, float]]:
    """The documents of a pack, with all that their tokens say."""
    found = []
    ids = {name: pack[f"{name}_segment_ids"] for name in ROOM}
    for number in range(1, max(int(each.max()) for each in ids.values()) + 1):
        inputs = pack["inputs"][ids["inputs"] == number]
        targets = pack["targets"][ids["targets"] == number]
        for name in ROOM:
            inside = ids[name] == number
            assert pack[f"{name}_position_ids"][inside].tolist() == list(range(inside.sum()))
        own = {int(n) for n in pack["n"][ids["inputs"] == number]}
        weights = {float(weight) for weight in pack["weight"][ids["inputs"] == number]}
        n = int(inputs[0, 0]) // 100 if len(inputs) else int(targets[0]) // 100
        assert own <= {n} and weights <= {n / 4}
        found.append((n, inputs.tolist(), targets.tolist(), n / 4))
    for name in ROOM:
        padding = ids[name] == 0
        used = len(padding) - padding.sum()
        assert padding[used:].all() and not padding[:used].any()
        assert (pack[name][padding] == (-1 if name == "targets" else 7)).all()
        assert (pack[f"{name}_position_ids"][padding] == 0).all()
    assert (pack["n"][ids["inputs"] == 0] == 0).all()
    return found


def numbers_in(pack: Any) -> list[int]:
    return [n for n, *_ in unpacked(pack)]


def by_hand(sizes: list[tuple[int, int]], window: int) -> list[list[int]]:
    """Best fit decreasing, document by document, as a reference."""
    packs: list[list[int]] = []
    for first in range(0, len(sizes), window):
        rows = [n for n in range(first, min(first + window, len(sizes))) if any(sizes[n])]
        order = sorted(rows, key=lambda n: -max(sizes[n][0] / 8, sizes[n][1] / 3))
        bins: list[tuple[list[int], list[int]]] = []
        for n in order:
            fitting = [each for each in bins if each[1][0] >= sizes[n][0] and each[1][1] >= sizes[n][1]]
            if fitting:
                chosen = min(fitting, key=lambda each: each[1][0] / 8 + each[1][1] / 3)
            else:
                chosen = ([], [8, 3])
                bins.append(chosen)
            chosen[0].append(n)
            chosen[1][:] = [room - size for room, size in zip(chosen[1], sizes[n], strict=True)]
        packs += sorted((sorted(members) for members, _ in bins), key=lambda members: members[0])
    return packs


PACK: dict[str, Any] = {"strategy": "fit", "pad": {"inputs": 7, "targets": -1}}


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(sizes, st.integers(1, 9))
def test_packs(sizes: list[tuple[int, int]], window: int) -> None:
    rows = documents(sizes)
    for pipe in (fp.from_sequence(rows), table(rows)):
        packs = list(pipe.pack(ROOM, window=window, **PACK))
        assert [numbers_in(pack) for pack in packs] == by_hand(sizes, window)
        for n, inputs, targets, weight in (each for pack in packs for each in unpacked(pack)):
            row = rows[n]
            assert (inputs, targets, weight) == (row["inputs"].tolist(), row["targets"], row["weight"])
        for pack in packs:
            assert pack["inputs"].shape == (8, 2) and pack["targets"].shape == (3,)
            assert list(pack)[:4] == ["inputs", "targets", "n", "weight"] and pack["weight"].shape == (8,)


@settings(max_examples=examples(40))
@given(sizes, st.integers(1, 9), st.booleans())
def test_law(sizes: list[tuple[int, int]], window: int, as_table: bool) -> None:
    rows = documents(sizes)
    pipe = table(rows) if as_table else fp.from_sequence(rows)
    check_operator(pipe.pack(ROOM, window=window, **PACK), samples=3, rows_of=numbers_in)


SIZES = [(1 + n * n % 8, n * 7 % 4) for n in range(90)]
ROWS = fp.from_sequence(documents(SIZES))


def plain(elements: Any) -> list[Any]:
    return [{name: np.asarray(values).tolist() for name, values in pack.items()} for pack in elements]


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 4))
def test_goes_on_on_another_number_of_ranks(first: int, second: int, ranks: int) -> None:
    pipe = ROWS.filter(lambda row: True).shuffle(window=9).pack(ROOM, window=7, **PACK)
    before, states = Job(pipe, 2).take([first, second])
    after = Job(pipe, ranks, states).rest()
    assert Counter(n for pack in [*before, *after] for n in numbers_in(pack)) == Counter(range(len(SIZES)))


def refuse(row: dict[str, Any]) -> dict[str, Any]:
    if row["n"] % 7 == 3:
        raise ValueError("refused")
    return row


@pytest.mark.parametrize("streamed", [False, True])
def test_rows_that_a_policy_skips_are_in_no_pack(streamed: bool) -> None:
    rows = (ROWS.filter(lambda row: True) if streamed else ROWS).map(refuse, on_error="skip")
    pipe = rows.pack(ROOM, window=9, **PACK)
    kept = [n for n in range(len(SIZES)) if n % 7 != 3]
    packs = check_operator(pipe, rows_of=numbers_in)
    assert [numbers_in(pack) for pack in packs] == [
        [kept[n] for n in pack] for pack in by_hand([SIZES[n] for n in kept], 9)
    ]
    loader = fp.Loader(pipe)
    states = [json.loads(json.dumps(info.state_dict())) for _, info in loader.with_info()]
    assert loader.skipped == {".map(refuse)": 13}
    for step, state in [*enumerate(states[:-1], 1)][::4]:
        again = fp.Loader(pipe)
        again.load_state_dict(state)
        assert plain(again) == plain(packs[step:])
        assert again.skipped == {".map(refuse)": 13}


def test_order_of_a_run_never_changes() -> None:
    pipe = ROWS.shuffle().pack(ROOM, window=30, **PACK)
    text = json.dumps(plain(fp.Loader(pipe, seed=1)))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "5e9db5b5ad6ea160"


class TestOneLength:
    """Columns of more dimensions, and one number for each document, in both strategies."""

    ROWS = tuple(
        {"tokens": [10 * n + k for k in range(size)], "vectors": np.full((size, 2), n / 2, "f4"), "domain": n}
        for n, size in enumerate([3, 0, 2, 4])
    )
    TABLE = pa.table(
        {
            "tokens": pa.array([row["tokens"] for row in ROWS], pa.list_(pa.int64())),
            "vectors": pa.array([row["vectors"].tolist() for row in ROWS], pa.list_(pa.list_(pa.float32()))),
            "domain": pa.array(range(4), pa.int64()),
        }
    )

    @pytest.mark.parametrize("strategy", ["cut", "fit"])
    @pytest.mark.parametrize("pipe", [fp.from_sequence(ROWS), fp.from_table(TABLE)], ids=["rows", "table"])
    def test_are_packed_along(self, pipe: fp.Pipe[Any], strategy: Any) -> None:
        def tokens(pack: Any) -> list[int]:
            return pack["tokens"][pack["segment_ids"] > 0].tolist()  # type: ignore[no-any-return]

        packs = check_operator(pipe.pack(5, column="tokens", strategy=strategy, pad={"domain": -1}), rows_of=tokens)
        assert sorted(token for pack in packs for token in tokens(pack)) == [0, 1, 2, 20, 21, 30, 31, 32, 33]
        for pack in packs:
            inside = pack["segment_ids"] > 0  # type: ignore[index]
            assert pack["vectors"].shape == (5, 2) and pack["vectors"].dtype == np.float32  # type: ignore[index]
            assert pack["domain"][inside].tolist() == [token // 10 for token in tokens(pack)]  # type: ignore[index]
            assert (pack["vectors"][inside] == pack["domain"][inside, None] / 2).all()  # type: ignore[index]
            assert (pack["domain"][~inside] == -1).all() and (pack["vectors"][~inside] == 0).all()  # type: ignore[index]

    def test_arrays_of_more_dimensions_alone(self) -> None:
        arrays = np.arange(24).reshape(4, 3, 2)
        for pipe in (fp.from_arrays({"x": arrays}), fp.from_sequence([{"x": each} for each in arrays])):
            assert [pack["x"].tolist() for pack in pipe.pack(6)] == arrays.reshape(2, 6, 2).tolist()
        grids = pa.table({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(arrays)})
        assert [pack["x"].tolist() for pack in fp.from_table(grids).pack(6)] == arrays.reshape(2, 6, 2).tolist()


WRONG: list[tuple[list[dict[str, Any]], str]] = [
    (
        [{"inputs": [1] * 9, "targets": [1]}],
        "field `inputs`: 9 items, and `length` has room for 8; leave such rows out",
    ),
    ([{"inputs": [1], "targets": [1] * 4}], "field `targets`: 4 items, and `length` has room for 3"),
    ([{"inputs": [1], "targets": [1], "mask": [1]}], "field `mask`: an array, and `length` does not name it; give it"),
    ([{"inputs": [1], "labels": [1]}], r"`length` must have names of columns, which are .* but has: 'targets'"),
    ([{"inputs": [1], "targets": [1], "name": "a"}], "field `name`: a (value of type str|column of type string)"),
    ([{"inputs": [1], "targets": 1}], "field `targets`: a (number|column)"),
    ([{"inputs": [1], "targets": [1], "n": None}], "field `n`: (a value of type NoneType|null|a column of type null)"),
    ([{"inputs": [1], "targets": [1], "targets_segment_ids": 1}], "must not have a column `targets_segment_ids`"),
]


@pytest.mark.parametrize(("rows", "message"), WRONG)
@pytest.mark.parametrize("as_table", [False, True])
def test_rows_that_do_not_fit(rows: list[dict[str, Any]], message: str, as_table: bool) -> None:
    good = {name: [1] if isinstance(value, list) or name == "targets" else value for name, value in rows[0].items()}
    if len(rows[0]) == 2 and "targets" in rows[0] and isinstance(rows[0]["targets"], list):
        rows, row = [good, *rows], 2
    else:
        row = 1
    pipe = fp.from_table(pa.Table.from_pylist(rows)) if as_table else fp.from_sequence(rows)
    with pytest.raises(DataError, match=message) as caught:
        list(pipe.pack(ROOM, strategy="fit"))
    assert f", row {row}\n" in str(caught.value) and __file__ in str(caught.value)
