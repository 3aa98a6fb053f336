"""`split`: each row in one part, the same in each epoch, run and place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ..tables import TABLE, streamed, variants

SHARES = {"train": 0.7, "val": 0.2, "test": 0.1}


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(0, 80), st.booleans(), st.sampled_from([None, lambda x: x // 7]))
def test_law(count: int, indexed: bool, key: Any) -> None:
    source: fp.Pipe[Any] = fp.from_sequence(range(count))
    parts = (source if indexed else streamed(source)).split(SHARES, key=key)
    rows = [row for part in parts.values() for row in check_operator(part, samples=3)]
    assert sorted(rows) == list(range(count))
    assert [part.indexed for part in parts.values()] == [indexed] * 3
    assert list(parts) == list(SHARES)


def test_sizes_are_near_the_shares() -> None:
    source = fp.from_sequence(range(100_000))
    for pipe in (source, streamed(source), source.map(str).filter(bool), source.map(lambda x: [x / 7, None])):
        counts = [part.count() for part in pipe.split(SHARES).values()]
        assert sum(counts) == 100_000 and np.allclose(counts, [70_000, 20_000, 10_000], atol=450)


def test_more_rows_move_no_row() -> None:
    for key in (None, lambda x: str(x)):
        before, after = (set(fp.from_sequence(range(n)).split(SHARES, key=key)["val"]) for n in (5_000, 9_000))
        assert before == {row for row in after if row < 5_000}


def test_parts_never_change() -> None:
    """Other rows here would move rows of running projects to another part."""
    source = fp.from_sequence(range(40))
    assert list(source.split({"a": 0.8, "b": 0.2})["b"]) == [22, 24, 26, 27, 28, 38]
    assert list(source.map(str).filter(bool).split({"a": 0.8, "b": 0.2})["b"]) == [
        "6",
        "13",
        "15",
        "17",
        "21",
        "24",
        "27",
        "28",
        "34",
        "39",
    ]
    assert list(source.split({"a": 34, "b": 6}, seed=1)["b"]) == [0, 14, 16, 17, 29, 36]
    assert list(source.split({"a": 0.8, "b": 0.2}, stratify=lambda x: x % 3)["b"]) == [0, 1, 5, 16, 24, 26, 33, 35]


@settings(deadline=None)
@given(st.integers(0, 120), st.integers(1, 5), st.integers(1, 4), st.integers(0, 9), st.booleans())
def test_exact_sizes(count: int, classes: int, parts: int, seed: int, stratified: bool) -> None:
    chance = np.random.default_rng(seed)
    sizes = chance.multinomial(count, np.ones(parts) / parts).tolist()
    labels = chance.integers(0, classes, count)
    source = fp.from_sequence(list(enumerate(labels.tolist())))
    split = source.split(dict(enumerate(sizes)), stratify=(lambda row: row[1]) if stratified else None, seed=seed)
    assert [len(part) for part in split.values()] == sizes
    assert sorted(row for part in split.values() for row in part) == list(source)
    if stratified:
        for label, total in Counter(labels.tolist()).items():
            for number, size in enumerate(sizes):
                rows = sum(row[1] == label for row in split[number])
                assert abs(rows - total * size / count) < 2


@pytest.mark.parametrize("key", ["id", ["text", "id"], None, lambda row: row["text"]])
def test_lists_and_columns_are_divided_alike(key: Any) -> None:
    table = pa.table({"id": [k % 40 for k in range(200)], "text": [f"user {k % 7}" for k in range(200)]})
    parts = {name: pipe.split({"a": 0.5, "b": 0.5}, key=key)["a"] for name, pipe in variants(table).items()}
    rows = {name: list(part) for name, part in parts.items()}
    assert 0 < len(rows["columns"]) < 200
    assert rows["columns"] == rows["dicts"]
    assert rows["streamed columns"] == rows["streamed dicts"]
    if key is not None:
        assert rows["columns"] == rows["streamed columns"]
    for name, part in parts.items():
        assert isinstance(next(iter(part.batch(9))), Rows) == ("columns" in name)


def test_rows_of_one_key_stay_together() -> None:
    rows = [{"user": f"u{k % 50}", "n": k} for k in range(500)]
    source: fp.Pipe[Any] = fp.from_sequence(rows)
    users = [{row["user"] for row in part} for part in source.shuffle().split(SHARES, key="user").values()]
    assert sum(map(len, users)) == 50 and all(users)
    behind_take = source.shuffle().take(400).split(SHARES, key="user")
    assert not behind_take["val"].indexed
    assert {row["user"] for row in behind_take["val"]} <= users[1]


def parse(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] % 9 == 4:
        raise ValueError(f"{row['id']} is bad")
    return row


def parse_columns(rows: dict[str, Any]) -> dict[str, Any]:
    if (rows["id"] % 9 == 4).any():
        raise ValueError("a bad value")
    return rows


COUNT = 90
COLUMNS = fp.from_arrays({"id": np.arange(COUNT), "user": np.arange(COUNT) // 6, "label": np.arange(COUNT) % 2})
INDEXED = COLUMNS.map(parse, on_error="skip")
FAILING = {
    "rows": INDEXED,
    "columns": COLUMNS.map_batches(parse_columns, 6, format="numpy", on_error="skip"),
    "shuffled rows": INDEXED.shuffle(),
    "streamed rows": streamed(INDEXED),
    "policy given later": COLUMNS.map(parse),
}
GOOD = {k for k in range(COUNT) if k % 9 != 4}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize(
    "arguments",
    [
        {"parts": SHARES},
        {"parts": SHARES, "key": "user"},
        {"parts": SHARES, "key": lambda row: row["user"]},
        {"parts": {"train": 60, "val": 20, "test": 10}},
        {"parts": SHARES, "stratify": "label"},
        {"parts": {"train": 60, "val": 20, "test": 10}, "stratify": lambda row: row["label"]},
    ],
)
def test_rows_that_are_skipped(name: str, arguments: dict[str, Any]) -> None:
    pipe = FAILING[name]
    by_position = "stratify" in arguments or isinstance(arguments["parts"]["val"], int)
    if by_position and not pipe.indexed:
        with pytest.raises(PlanError, match="must follow an indexed pipe"):
            pipe.split(**arguments)
        return
    parts = {part: rows.on_error("skip") for part, rows in pipe.split(**arguments).items()}
    loaders = {part: fp.Loader(rows, seed=1) for part, rows in parts.items()}
    rows = {part: list(loader) for part, loader in loaders.items()}
    assert sorted(row["id"] for part in rows.values() for row in part) == sorted(GOOD)
    counts = [sum(loader.skipped.values()) for loader in loaders.values()]
    if parts["val"].indexed:
        assert sum(counts) == COUNT - len(GOOD)
        assert sum(rows.batch(1).length or 0 for rows in parts.values()) == COUNT
    else:
        assert counts == [COUNT - len(GOOD)] * 3  # each part looks at each row
    if "key" in arguments:  # a row is where it would be if none failed
        whole = COLUMNS.split(**arguments)
        users = {part: {row["user"] for row in whole[part]} for part in SHARES}
        assert all({row["user"] for row in rows[part]} <= users[part] for part in SHARES)
    check_operator(parts["val"], samples=2)


def test_a_key_that_could_not_be_read_at_first_is_in_one_part_only(tmp_path: Path) -> None:
    """A row that fails when the rows are divided, and not later, never brings its key into another part."""
    works = False

    def parse_later(row: dict[str, Any]) -> dict[str, Any]:
        return row if works else parse(row)

    def in_columns(rows: dict[str, Any]) -> dict[str, Any]:
        return rows if works else parse_columns(rows)

    reference = {part: {row["user"] for row in rows} for part, rows in COLUMNS.split(SHARES, key="user").items()}
    for pipe in (
        COLUMNS.map(parse_later, on_error="skip"),
        COLUMNS.map_batches(in_columns, 6, format="numpy", on_error=fp.Quarantine(tmp_path)),
    ):
        works = False
        parts = pipe.split(SHARES, key="user")
        sizes = [part.batch(1).length or 0 for part in parts.values()]  # the rows are divided here
        works = True
        skipped = 0
        kept: list[int] = []
        for name, part in parts.items():
            loader = fp.Loader(part.shuffle())
            rows = list(loader)
            assert {row["user"] for row in rows} <= reference[name]
            skipped += sum(loader.skipped.values())
            assert all(code.startswith(".split(") for code in loader.skipped)
            kept += [row["id"] for row in rows]
        assert len(kept) == len(set(kept)) and set(kept) >= GOOD
        assert 0 < skipped == COUNT - len(kept) and sum(sizes) == COUNT


def test_arguments() -> None:
    source = fp.from_sequence(range(10))
    for parts, error, text in (
        ({}, ArgumentTypeError, "`parts` must map names to shares"),
        ([0.5, 0.5], ArgumentTypeError, "`parts` must map names to shares"),
        ({"a": "b"}, ArgumentTypeError, "`parts` must map names to shares"),
        ({"a": True}, ArgumentTypeError, "`parts` must map names to shares"),
        ({"a": 1.5, "b": -0.5}, ArgumentError, "each share in `parts` must be >= 0 but got"),
        ({"a": float("nan")}, ArgumentError, "each share in `parts` must be >= 0 but got"),
        ({"a": 0.8, "b": 0.1}, ArgumentError, "must sum to 1, because each row is in one part, but sum to 0.9: "),
    ):
        with pytest.raises(error, match=text):
            source.split(parts)  # type: ignore[arg-type]
    assert [len(part) for part in source.split({"none": 0.0, "all": 1.0, "neither": 0}).values()] == [0, 10, 0]


def test_pipes_that_cannot_be_divided() -> None:
    source = fp.from_sequence(range(10))
    for pipe in (source.batch(2), source.batch(2).map(len).shuffle()):
        with pytest.raises(PlanError, match=r"`split` must come before `batch\(2\)`, because it divides rows"):
            pipe.split(SHARES)
    for pipe, code in (
        (source.shuffle().take(5), r"shuffle\(\)"),
        (source.repeat(2), r"repeat\(times=2\)"),
        (source.shard_by_rank().take(5), r"shard_by_rank\(\)"),
    ):
        with pytest.raises(PlanError, match=f"`split` must come before `{code}`, because it divides rows by their"):
            pipe.split(SHARES)
    for arguments in ({"parts": {"a": 5, "b": 5}}, {"parts": SHARES, "stratify": abs}):
        with pytest.raises(PlanError, match="must follow an indexed pipe, because it must know all rows"):
            streamed(source).split(**arguments)
    with pytest.raises(
        PlanError, match=r"must sum to the number of rows, 10, .* but sum to 9; (.|\n)*\n  at "
    ) as caught:
        len(source.split({"a": 5, "b": 4})["a"])
    assert __file__ in str(caught.value)
    with pytest.raises(PlanError, match="there is no column 'txet'; did you mean 'text'"):
        fp.from_table(TABLE).split(SHARES, key="txet")["val"].explain()


@pytest.mark.parametrize("stored", variants())
def test_rows_without_a_digest(stored: str) -> None:
    pipe = variants()[stored]
    with pytest.raises(DataError, match=r"type object has no digest that is the same in each process(.|\n)*row 1\n"):
        list(pipe.split(SHARES, key=lambda row: object())["val"])
    with pytest.raises(fp.RowError, match=r"ZeroDivisionError(.|\n)*row 3\n"):
        list(
            pipe.split(SHARES, stratify=lambda row: 1 / (row["id"] - 3))["val"]
            if pipe.indexed
            else pipe.split(SHARES, key=lambda row: 1 / (row["id"] - 3))["val"]
        )
