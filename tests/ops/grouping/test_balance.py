"""Batches that cost about the same: `batch(balance=)` and `batch_by_size(among=)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, RowError
from feedpipe.testing import check_operator

from ...support.examples import examples
from ..groups import numbers, pipes, places


def lengths(count: int, spread: float = 0.5, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).lognormal(5, spread, count).astype(int).tolist()


def rows(costs: list[int]) -> fp.Pipe[dict[str, int]]:
    return fp.from_sequence([{"n": n, "x": cost} for n, cost in enumerate(costs)])


def sums(batches: Any) -> np.ndarray[Any, Any]:
    return np.array([sum(row["x"] for row in batch) for batch in batches], float)


@settings(max_examples=examples(8))
@given(numbers, st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_each_row_once_in_batches_of_one_size(numbers: list[int], size: int, among: int, drop_last: bool) -> None:
    arguments: Any = {"balance": "x", "among": among, "drop_last": drop_last}
    plain = list(rows(numbers).batch(size, drop_last=drop_last))
    for pipe in pipes(numbers):
        for source in (pipe, pipe.filter(lambda row: True)):
            batches = places(check_operator(source.batch(size, **arguments), samples=2))
            assert list(map(len, batches)) == list(map(len, plain))
            groups = range(0, len(batches), among)
            for group in groups:  # no row leaves its group
                own = sum(batches[group : group + among], [])
                assert sorted(own) == sorted(sum(places(plain[group : group + among]), []))
                assert all(batch == sorted(batch) for batch in batches)


@settings(max_examples=examples(12))
@given(st.integers(0, 2**20), st.sampled_from([0.3, 0.5, 0.8, 1.0]))
def test_the_costliest_batch_costs_no_more_than_its_rows_ask_for(seed: int, spread: float) -> None:
    costs = lengths(8 * 64, spread, seed)
    batches = sums(rows(costs).batch(8, balance="x", among=64))
    ordered = np.sort(costs)
    # The longest rows, each in a batch of its own, with the shortest beside them.
    least = max((ordered[-k:].sum() + ordered[: 7 * k].sum()) / k for k in range(1, 9))
    assert batches.max() <= max(1.02 * batches.mean(), least + 0.03 * batches.mean())


@pytest.mark.parametrize("each_epoch", [True, False])
def test_sums_are_within_two_percent(each_epoch: bool) -> None:
    pipe = rows(lengths(8 * 64 * 3)).shuffle(each_epoch=each_epoch)
    balanced = pipe.map(lambda row: row).batch(8, balance="x", among=64)
    loader = fp.Loader(balanced, seed=3)
    orders = []
    for _ in range(2):
        batches = list(loader)
        assert sorted(n for batch in places(batches) for n in batch) == list(range(8 * 64 * 3))
        groups = sums(batches).reshape(3, 64)
        assert np.abs(groups / groups.mean(1)[:, None] - 1).max() < 0.02
        orders.append(places(batches))
    assert (orders[0] != orders[1]) == each_epoch
    of_function = fp.Loader(pipe.batch(8, balance=lambda row: row["x"]), seed=3)
    of_array = fp.Loader(pipe.batch(8, balance=np.array(lengths(8 * 64 * 3))), seed=3)
    assert places(list(of_function)) == places(list(of_array)) == orders[0]


@pytest.mark.slow
@settings(max_examples=examples(5), deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.integers(0, 30), st.sampled_from([1, 2, 4]), st.integers(0, 5))
def test_ranks_do_equal_work_after_a_resume(ranks: int, steps: int, later: int, seed: int) -> None:
    def loaders(world_size: int) -> list[fp.Loader[Any]]:
        pipe = rows(lengths(8 * 64)).shuffle().batch(8, balance="x", among=64)
        ranks = range(world_size)
        return [fp.Loader(pipe, seed=seed, rank=rank, world_size=world_size, even=None) for rank in ranks]

    steps = min(steps, 64 // ranks)
    taken, states = [], []
    for loader in loaders(ranks):
        taken.append([batch for _, batch in zip(range(steps), loader, strict=False)])
        states.append(loader.state_dict())
    left = loaders(later)
    for loader in left:
        loader.load_state_dict(states if ranks > 1 else states[0])
    for step in zip(*taken, strict=True):
        assert sums(step).max() <= sums(step).mean() * 1.02
    rest = [list(loader) for loader in left]
    whole = [batch for loader in [*taken, *(rest if steps < 64 // ranks else [])] for batch in loader]
    assert sorted(n for batch in places(whole) for n in batch) == list(range(8 * 64))
    for step in zip(*rest, strict=False):
        assert sums(step).max() <= sums(step).mean() * 1.02


@pytest.mark.slow
def test_workers_and_services_give_one_order() -> None:
    pipe = rows(lengths(300)).shuffle().batch(4, balance="x", among=8).batch(2)
    orders = [list(fp.Loader(pipe, service, seed=1)) for service in (None, fp.Threads(2), fp.MultiProcess(2))]
    assert orders[0] == orders[1] == orders[2]


def test_a_row_that_costs_more_than_a_batch() -> None:
    assert sorted(sums(rows([1, 2, 3, 4, 5, 6, 7, 100]).batch(2, balance="x", among=4))) == [9, 9, 9, 101]


def test_explain_and_report_name_the_costs(capsys: pytest.CaptureFixture[str]) -> None:
    pipe = rows(lengths(512)).shuffle().batch(8, balance="x", among=64)
    assert repr(pipe).endswith(".shuffle().batch(8, balance='x')")
    pipe.explain()
    rows([1]).filter(bool).batch(8, balance="x").explain()
    printed = capsys.readouterr().out
    assert "the costliest of 64 batches costs 1.00" in printed and "times without `balance`" in printed
    assert "balances 64 batches of one shard at a time" in printed
    loader = fp.Loader(pipe, seed=1)
    assert sum(sums(loader)) == sum(lengths(512))
    assert f"costs: {sum(lengths(512)):,}" in str(loader.report())


def test_a_skipped_row_costs_nothing() -> None:
    def fails(row: dict[str, int]) -> dict[str, int]:
        if row["n"] == 2:
            raise ValueError("broken")
        return row

    for source in (rows([1, 2, 3, 4, 5, 6]), rows([1, 2, 3, 4, 5, 6]).filter(lambda row: True)):
        pipe = source.map(fails, on_error="skip").batch(2, balance="x", among=3)
        assert sorted(n for batch in places(list(pipe)) for n in batch) == [0, 1, 3, 4, 5]


def test_a_cost_that_is_no_number_is_named() -> None:
    for source in (fp.from_sequence([1, 2, None]), fp.from_sequence([1, 2, None]).filter(lambda row: True)):
        with pytest.raises(DataError, match=r"`balance` must give a number >= 0 .* gave: None") as error:
            list(source.batch(2, balance=lambda row: row))
        assert "on from_sequence, row 3" in str(error.value) and "test_balance.py" in str(error.value)
        with pytest.raises(RowError, match=r"batch\(2, balance=.*failed with ZeroDivisionError"):
            list(source.batch(2, balance=lambda row: 1 / 0))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"balance": 3}, ArgumentTypeError, "`balance` must be the name of a column, a function of a row, or an array"),
        ({"balance": [1, -1]}, ArgumentError, "`balance` must be finite numbers >= 0 but that of row 2 is: -1"),
        ({"balance": "x", "among": 0}, ArgumentError, "`among` must be >= 1"),
        ({"balance": "x", "size": 0}, ArgumentError, "`size` must be >= 1"),
    ],
)
def test_arguments(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        rows([1]).batch(**{"size": 2, **arguments})


def test_plans_that_do_not_fit() -> None:
    with pytest.raises(PlanError, match="must have a cost for each of the 3 rows but has 2"):
        list(rows([1, 2, 3]).batch(2, balance=[1, 2]))
    with pytest.raises(PlanError, match="`balance` must be a column or a function if the pipe is streamed"):
        list(rows([1]).filter(bool).batch(2, balance=[1]))
    with pytest.raises(PlanError, match=r"`shuffle\(\)` changes positions before `concat\(\)`"):
        list(rows([1, 2]).shuffle().concat(rows([3])).batch(2, balance="x"))
    with pytest.raises(PlanError, match=r"must come before `shard_by_rank\(\)`"):
        list(rows([1, 2]).shard_by_rank().batch(2, balance="x"))
    loaded = rows([1, 2]).shuffle().concat(rows([3])).load().shuffle().batch(2, balance="x")
    assert sorted(n for batch in places(list(loaded)) for n in batch) == [0, 0, 1]


def test_a_state_of_other_costs_is_refused() -> None:
    state = fp.Loader(rows([1, 2, 3]).batch(2, balance=[1, 2, 3])).state_dict()
    with pytest.raises(fp.errors.StateError, match="`costs` in `batch"):
        fp.Loader(rows([1, 2, 3]).batch(2, balance=[1, 2, 4])).load_state_dict(state)


# By size


@settings(max_examples=examples(8))
@given(numbers, st.integers(6, 20), st.none() | st.integers(1, 4), st.integers(1, 4))
def test_no_batch_is_above_the_limit(numbers: list[int], limit: int, max_rows: int | None, among: int) -> None:
    for pipe in pipes(numbers):
        batches = check_operator(pipe.batch_by_size(limit, "x", among=among, max_rows=max_rows), samples=2)
        assert sorted(n for batch in places(batches) for n in batch) == list(range(len(numbers)))
        assert all(0 < len(batch) <= (max_rows or 99) for batch in batches)
        assert not len(batches) or sums(batches).max() <= limit


def test_batches_by_size_are_equal_and_full() -> None:
    pipe = rows(lengths(4000)).shuffle().batch_by_size(4096, "x", among=16)
    loader = fp.Loader(pipe, shards=1)
    full = sums(loader)[:-16]
    assert full.min() > 0.97 * 4096 and full.max() <= 4096
    assert f"costs: {sum(lengths(4000)):,}" in str(loader.report())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"among": 0}, "`among` must be >= 1"),
        ({"among": 2, "window": 3}, "`window` must be left out with `among`"),
        ({"among": 2, "padded": True}, "`padded` must be left out with `among`"),
        ({"among": 2, "drop_last": True}, "`drop_last` must be left out with `among`"),
    ],
)
def test_arguments_by_size(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        rows([1]).batch_by_size(4, "x", **arguments)
