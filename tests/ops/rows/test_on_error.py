"""`on_error`, `retry` and `Quarantine`: which rows are left out, what is recorded, and that a resume is exact."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, UnknownLengthError
from feedpipe.testing import check_operator

from ...soak import SOAK
from ...support.core import AdaptiveBlockSize
from ..tables import streamed


def parse(x: int) -> int:
    if x % 10 == 3:
        raise ValueError(f"{x} is bad")
    return x


def numbers(count: int = 100) -> fp.Pipe[int]:
    return fp.from_sequence(range(count))


def parsed(pipe: fp.Pipe[Any] | None = None) -> fp.Pipe[Any]:
    return (numbers() if pipe is None else pipe).map(parse, on_error="skip")


def columns_parsed(rows: dict[str, Any]) -> dict[str, Any]:
    if (rows["x"] % 10 == 3).any():
        raise ValueError("a bad value")
    return {"x": rows["x"], "y": rows["x"] / 2}


GOOD = [x for x in range(100) if x % 10 != 3]
TABLE = fp.from_arrays({"x": np.arange(100)}).map_batches(columns_parsed, 8, format="numpy", on_error="skip")

FUNCTIONS = {
    "map": parsed(),
    "streamed map": parsed(streamed(numbers())),
    "concurrent map": numbers().map(parse, concurrency=4, on_error="skip"),
    "streamed concurrent map": streamed(numbers()).map(parse, concurrency=4, on_error="skip"),
    "filter": numbers().filter(lambda x: parse(x) >= 0, on_error="skip"),
    "flat_map": numbers().flat_map(lambda x: [parse(x)], on_error="skip"),
    "map_batches": numbers().map_batches(lambda rows: [parse(row) for row in rows], 8, on_error="skip"),
    "decode": numbers()
    .map(lambda x: {"cls": str(x).encode() if x % 10 != 3 else b"three"})
    .decode(on_error="skip")
    .map(lambda row: row["cls"]),
    "columns": TABLE.map(lambda row: row["x"]),
}

CHAINS = {
    "batch": parsed().batch(7),
    "streamed batch": parsed(streamed(numbers())).batch(7),
    "shuffle": parsed().shuffle().batch(7),
    "windowed shuffle": parsed(streamed(numbers())).shuffle(window=20).batch(8),
    "shuffled columns": streamed(TABLE).shuffle(window=20).batch(8).collate(),
    "columns": TABLE.batch(8).collate(),
    "concat": parsed().concat(parsed()).batch(8),
    "repeat": parsed().repeat(2).batch(8),
    "zip": parsed().zip(numbers()).batch(8),
    "streamed zip": streamed(parsed()).zip(streamed(numbers())).batch(8),
    "fork": (lambda forks: forks[0].map(float).zip(forks[1]))(parsed().fork()).batch(8),
    "mix": parsed().mix(parsed(), weights=[2, 1]).batch(8),
    "filter": parsed().filter(lambda x: x % 2).batch(8),
    "flat_map": parsed().flat_map(lambda x: [x] * (x % 3)).batch(8),
    "pack": parsed().map(lambda x: np.arange(x % 7)).pack(8),
    "group_by": parsed().group_by(lambda x: x % 3, size=4),
    "bucket": parsed().bucket_by_length(8, lambda x: x % 5 + 1),
    "load": parsed().load().shuffle().batch(8),
    "take": parsed().skip(5).take(50).batch(8),
    "enumerate": parsed().enumerate().batch(8).collate(),
    "map_batches": parsed().map_batches(list, 8).batch(8),
    "batch of batches": parsed().batch(4).batch(3),
    "unbatch": parsed().batch(8).unbatch().batch(5),
    "dispatch": parsed(streamed(numbers())).dispatch().batch(8),
    "no batch": parsed(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_leaves_out_the_rows_that_fail(name):
    pipe = FUNCTIONS[name]
    assert list(pipe) == GOOD
    assert [row for batch in pipe.batch(8) for row in batch] == GOOD
    assert pipe.length is None and pipe.count() == len(GOOD)
    check_operator(pipe, samples=4)


def with_states(loader: fp.Loader[Any]) -> Iterator[tuple[str, str, int]]:
    for element, info in loader.with_info():
        yield repr(element), json.dumps(info.state_dict()), sum(loader.skipped.values())


@pytest.mark.parametrize("name", CHAINS)
def test_a_resume_gives_the_same_elements_and_counts(name):
    def loader() -> fp.Loader[Any]:
        return fp.Loader(CHAINS[name], seed=3)

    reference = loader()
    elements, states, _ = zip(*with_states(reference), strict=True)
    for step in random.Random(0).sample(range(1, len(elements)), 4):
        resumed = loader()
        resumed.load_state_dict(json.loads(states[step - 1]))
        assert tuple(map(repr, resumed)) == elements[step:]
        assert resumed.skipped == reference.skipped
    ahead = loader()
    iterator = iter(ahead)
    taken = [repr(next(iterator)) for _ in range(5)]
    resumed = loader()
    resumed.load_state_dict(ahead.state_dict(step=3))
    assert (*taken[:3], *map(repr, resumed)) == elements


@fp.operator(lookback=2)
def with_previous(rows: Iterator[int]) -> Iterator[tuple[int | None, int]]:
    previous = None
    for row in rows:
        yield previous, row
        yield row, row
        previous = row


@fp.operator
def sums(rows: Iterator[int]) -> Iterator[int]:
    total = 0
    for row in rows:
        total += row
        yield total


READ_AGAIN: dict[str, Callable[[fp.Pipe[int]], fp.Pipe[Any]]] = {
    **{
        f"interleave({cycle})": lambda p, cycle=cycle: p.interleave(
            lambda x: [x, x + 10, x + 20][: 1 + x % 3], cycle=cycle, block=2
        )
        for cycle in (1, 2, 3)
    },
    "distinct": lambda p: streamed(p).distinct(lambda x: x % 5, last=3),
    "sliding": lambda p: streamed(p).sliding(3),
    "lookback": with_previous,
    "generator": sums,
    "pack": lambda p: p.map(lambda x: np.arange(x % 7)).pack(4),
    "zip_by_key": lambda p: streamed(p).zip_by_key(streamed(numbers(12)), key=lambda x: x, window=4, unmatched="drop"),
}


@pytest.mark.parametrize("name", READ_AGAIN)
@settings(max_examples=10 * SOAK, deadline=None)
@given(bad=st.sets(st.integers(0, 11), min_size=1, max_size=6), rows=st.sampled_from([1, 3, 100]))
def test_a_row_that_is_read_again_is_skipped_once(name: str, bad: set[int], rows: int) -> None:
    def check(x: int) -> int:
        if x in bad:
            raise ValueError(f"{x} is bad")
        return x

    def loader() -> fp.Loader[Any]:
        return fp.Loader(READ_AGAIN[name](numbers(12).map(check, on_error="skip")), shards=1)

    with pytest.MonkeyPatch.context() as patch:
        reference = loader()
        steps = list(with_states(reference))
        patch.setattr(AdaptiveBlockSize, "rows", lambda self: rows)
        counts = [(element, skipped) for element, _, skipped in with_states(loader())]
        assert counts == [(element, skipped) for element, _, skipped in steps], "it depends on where a block ends"
        for step, (_, state, _) in enumerate(steps[:-1], 1):
            resumed = loader()
            resumed.load_state_dict(json.loads(state))
            assert [element for element, _, _ in with_states(resumed)] == [element for element, _, _ in steps[step:]]
            assert resumed.skipped == reference.skipped and sum(resumed.skipped.values()) == len(bad)


@pytest.mark.parametrize("name", ["batch", "streamed batch", "no batch", "shuffled columns"])
def test_workers_give_the_same_elements_and_counts(name):
    with fp.Loader(CHAINS[name], seed=3, shards=2) as here:
        expected = [(element, skipped) for element, _, skipped in with_states(here)]
    with fp.Loader(CHAINS[name], workers=2, seed=3, shards=2) as loader:
        assert [(element, skipped) for element, _, skipped in with_states(loader)] == expected


def test_batches_of_an_indexed_pipe_keep_their_number():
    pipe = parsed().batch(10)
    assert len(pipe) == 10 and [len(batch) for batch in pipe] == [9] * 10
    assert pipe[4] == [x for x in range(40, 50) if x != 43]
    assert all(len(batch) == 10 for batch in parsed(streamed(numbers())).batch(10))
    with pytest.raises(DataError, match=r"all 1 rows of a batch were skipped.*ValueError: 3 is bad"):
        list(parsed().batch(1))
    with pytest.raises(UnknownLengthError, match="rows that fail are skipped"):
        len(parsed())
    with pytest.raises(DataError, match=r"was skipped, because `.map\(parse\)` failed: ValueError: 13 is bad"):
        parsed()[13]


def test_draws_do_not_move():
    def draw(x: int, rng: np.random.Generator) -> tuple[int, float]:
        return x, rng.random()

    whole = dict(numbers().map(draw, rng=True, name="draws"))
    assert dict(parsed().map(draw, rng=True, name="draws")) == {x: whole[x] for x in GOOD}
    order = [x for x in fp.Loader(numbers().shuffle(), seed=1) if x % 10 != 3]
    assert list(fp.Loader(parsed().shuffle(), seed=1)) == order


def test_on_error_is_the_default_for_what_stands_before_it():
    pipe = numbers().map(parse).map(float).on_error("skip")
    assert list(pipe) == GOOD
    assert repr(pipe).count("on_error='skip'") == 2
    with pytest.raises(fp.RowError, match="3 is bad"):
        list(numbers().map(parse, on_error="raise").on_error("skip"))
    with pytest.raises(fp.RowError, match="3 is bad"):
        list(numbers().on_error("skip").map(parse))
    check_operator(pipe.batch(3), samples=4)


@pytest.mark.parametrize(
    "make", [lambda: numbers(20).map(parse), lambda: streamed(numbers(20)).map(parse).batch(3)], ids=["rows", "batches"]
)
def test_after_a_failure_a_resume_can_go_on_behind_the_failing_row(make: Callable[[], fp.Pipe[Any]]):
    loader = fp.Loader(make())
    elements: list[Any] = []
    with pytest.raises(fp.RowError, match="3 is bad"):
        elements.extend(element for element in loader)
    resumed = fp.Loader(make().on_error("skip"))
    resumed.load_state_dict(loader.state_dict())
    elements.extend(resumed)
    rows = [row for element in elements for row in (element if isinstance(element, list) else [element])]
    assert rows == [x for x in range(20) if x % 10 != 3]


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]


def value_of(row: dict[str, int]) -> int:
    return parse(row["x"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_quarantine_records_each_row_once(tmp_path, workers):
    path = tmp_path / "rows.csv"
    path.write_text("x\n" + "".join(f"{x}\n" for x in range(40)))
    rows = fp.read_csv(path, newlines_in_values=False).shuffle(window=2)
    pipe = rows.map(value_of, on_error=fp.Quarantine(tmp_path / "bad")).batch(4)
    with fp.Loader(pipe, workers=workers, shards=1 if workers == 0 else 2) as loader:
        states = [info.state_dict() for _, info in loader.with_info()]
    with fp.Loader(pipe, workers=workers, shards=1 if workers == 0 else 2) as resumed:
        resumed.load_state_dict(states[2])
        list(resumed)
    assert resumed.skipped == loader.skipped == {".map(value_of)": 4}
    skipped = sorted(records(tmp_path / "bad"), key=lambda record: record["row"])
    assert [record["row"] for record in skipped] == [5, 15, 25, 35]  # the header is line 1
    assert {record["file"] for record in skipped} == {str(path)}
    assert skipped[0]["error"] == "ValueError: 3 is bad" and skipped[0]["repr"] == "{'x': 3}"
    assert "in parse" in skipped[0]["traceback"]


def test_only_its_owner_may_read_a_quarantine(tmp_path):
    list(fp.from_sequence(["one"]).map(int, on_error=fp.Quarantine(tmp_path / "bad")))
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "bad", *(tmp_path / "bad").iterdir())] == [0o700, 0o600]


@pytest.mark.parametrize(
    "name", ["no batch", "shuffle", "windowed shuffle", "filter", "flat_map", "group_by", "map_batches"]
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_row_of_a_quarantine_fails_again_by_its_cursor(tmp_path, name, ranks):
    def with_quarantine(node: Any) -> fp.Pipe[Any]:
        op = replace(node.op, on_error=fp.Quarantine(tmp_path)) if node.op.on_error == "skip" else node.op
        return fp.Pipe(op, tuple(map(with_quarantine, node.inputs)))

    quarantined = with_quarantine(CHAINS[name])
    list(fp.Loader(quarantined, seed=3, rank=ranks - 1, world_size=ranks, even=None))
    rows = records(tmp_path)
    assert rows
    for record in rows:
        with pytest.raises(fp.RowError, match=f"ValueError: {record['repr']} is bad"):
            fp.replay(quarantined, record["cursor"])


def test_the_budget_is_used_up_at_the_same_element(tmp_path):
    def failing_step(state: Any = None, workers: int = 0, folder: str = "a") -> int:
        pipe = numbers().map(parse, on_error=fp.Quarantine(tmp_path / folder, budget=5)).shuffle().batch(4)
        with fp.Loader(pipe, workers=workers) as loader:
            if state is not None:
                loader.load_state_dict(state)
            with pytest.raises(DataError, match=r"6 rows failed in an epoch, and `budget` allows 5"):
                list(loader)
            return loader.step

    pipe = numbers().map(parse, on_error="skip").shuffle().batch(4)
    loader = fp.Loader(pipe)
    iterator = iter(loader)
    while sum(loader.skipped.values()) < 3:
        next(iterator)
    steps = {failing_step(), failing_step(workers=2), failing_step(loader.state_dict(), folder="b")}
    assert len(steps) == 1


def test_a_rate_counts_from_a_thousand_rows_on(tmp_path):
    def pipe(count: int, rate: float) -> fp.Pipe[Any]:
        return numbers(count).map(parse, on_error=fp.Quarantine(tmp_path, rate=rate)).batch(10)

    assert len(list(pipe(900, 0.05))) == 90
    assert len(list(pipe(2000, 0.15))) == 200
    with pytest.raises(DataError, match=r"of 10\d\d rows failed in an epoch, and `rate` allows 0.05"):
        list(fp.Loader(pipe(2000, 0.05)))


def test_a_call_is_repeated_before_the_policy_applies():
    left = {3: 1, 5: 9}

    def fetch(x: int, rng: np.random.Generator) -> tuple[int, float]:
        drawn = rng.random()
        if left.get(x, 0):
            left[x] -= 1
            raise OSError("busy")
        return x, drawn

    retry = fp.Retry(2, backoff=0)
    pipe = numbers(8).map(fetch, rng=True, retry=retry, on_error="skip")
    repeated = list(pipe)
    assert [x for x, _ in repeated] == [0, 1, 2, 3, 4, 6, 7] and left == {3: 0, 5: 6}
    left.clear()
    assert dict(repeated) == {x: drawn for x, drawn in pipe if x != 5}
    with pytest.raises(fp.RowError, match="3 is bad"):  # no `OSError`
        list(numbers().map(parse, retry=retry))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_failures_that_pass_double_no_row_and_lose_none(kind, workers):
    chance = random.Random(1)

    def flaky(x: int) -> int:
        if chance.random() < 0.05:
            raise OSError("busy")
        return x

    resumes = (4 if workers else 20) * SOAK
    rows = 42 * resumes  # whole batches; half of them are taken at most: a state of a whole epoch begins the next
    pipe = {
        "indexed": lambda: numbers(rows).map(flaky, on_error="skip").shuffle().batch(3),
        "streamed": lambda: streamed(numbers(rows)).map(flaky, on_error="skip").filter(lambda x: x % 5).batch(3),
    }[kind]()
    state: Any = None
    seen: list[int] = []
    for turn in range(resumes + 1):
        with fp.Loader(pipe, workers=workers, seed=2, shards=None if pipe.indexed else 2) as loader:
            if state is not None:
                loader.load_state_dict(state)
            steps = chance.randint(0, 6) if turn < resumes else None
            for batch in islice(loader, steps):
                seen.extend(batch)
            state = json.loads(json.dumps(loader.state_dict()))
    expected = {x for x in range(rows) if pipe.indexed or x % 5}
    assert len(seen) == len(set(seen)) and set(seen) <= expected
    missing, skipped = len(expected) - len(seen), sum(loader.skipped.values())
    assert missing > 0 and ((missing == skipped) if pipe.indexed else (missing <= skipped))


def test_errors_of_arguments():
    with pytest.raises(ArgumentError, match=r'`on_error` must be "raise", "skip" or a `Quarantine\(folder\)`'):
        numbers().map(parse, on_error="ignore")  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="`folder` must be local"):
        fp.Quarantine("s3://key:secret@bucket/bad")
    with pytest.raises(ArgumentError, match="`rate` must be between 0 and 1"):
        fp.Quarantine("bad", rate=5)
    with pytest.raises(ArgumentTypeError, match="`on` must be a class of errors"):
        fp.Retry(on=("OSError",))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="makes a row of several rows, and some of them were skipped"):
        list(parsed().sliding(3))
