"""A pass goes on after the pipe has changed: each row comes once, or the state is refused."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import StateError, StateWarning

from ..soak import SOAK
from ..support.examples import examples
from ..support.torchrun import torchrun
from .edits import Pass, edited_pass


def quiet(function: Callable[..., None]) -> Callable[..., None]:
    for warning in ("StateWarning", "PlanWarning"):
        function = pytest.mark.filterwarnings(f"ignore::feedpipe.errors.{warning}")(function)
    return function


GROUPS = ("batch", "rows", "dress")
ORDER = (*GROUPS, "weights", "random", "add", "grow", "order", "join")

KNOWN_REASONS = (
    "giving out the rows that its shards have left over",
    "shards were cut after",
    "divided among the shards after",
    "nobody knows how many rows",
    "nobody knows the rows of it",
    "different numbers of elements of named sources",
    "no rows in common",
)


def with_none(schedule: dict[int, list[int]]) -> dict[int, list[int]]:
    """A schedule with another input, which gives nothing."""
    return {row: [*weights, 0] for row, weights in schedule.items()}


def is_odd(number: int) -> bool:
    return number % 2 == 1


def is_third(number: int) -> bool:
    return number % 3 == 0


def numbers(rows: int) -> fp.Pipe[Any]:
    return fp.from_sequence(range(rows))


def streamed(rows: int) -> fp.Pipe[Any]:
    return numbers(2 * rows).filter(is_odd)


def jittered(row: int, rng: np.random.Generator) -> tuple[int, int]:
    return row, int(rng.integers(1000))


def check_refusals(result: Pass) -> None:
    assert all(any(reason in why for reason in KNOWN_REASONS) for why in result.refused), result.refused


@quiet
@settings(max_examples=examples(24 * SOAK), deadline=None)
@given(seed=st.integers(0, 10**9), ranks_change=st.booleans())
def test_each_row_comes_once_after_its_groups_have_changed(seed: int, ranks_change: bool) -> None:
    check_refusals(edited_pass(seed, GROUPS, ranks_change=ranks_change))


@quiet
@settings(max_examples=examples(24 * SOAK), deadline=None)
@given(seed=st.integers(0, 10**9), ranks_change=st.booleans())
def test_each_row_comes_once_after_inputs_or_weights_have_changed(seed: int, ranks_change: bool) -> None:
    check_refusals(edited_pass(seed, (*ORDER, "drop"), ranks_change=ranks_change))


@quiet
@pytest.mark.slow
@settings(max_examples=examples(4 * SOAK), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_workers_change_nothing(seed: int) -> None:
    check_refusals(edited_pass(seed, ORDER, ranks_change=True, service=fp.MultiProcess(2)))


@quiet
@pytest.mark.slow
@settings(max_examples=SOAK, deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 10**9))
def test_real_ranks_change_nothing(seed: int) -> None:
    done = torchrun("-m", "tests.loading.edits_job", str(seed), "4", ranks=2 + seed % 3)
    assert done.stdout.startswith("4 passes")


def state_after(pipe: fp.Pipe[Any], count: int, **options: Any) -> tuple[list[Any], dict[str, Any]]:
    """The elements of a few steps, and the state after them, which has gone through JSON."""
    loader = fp.Loader(pipe, **options)
    taken = list(islice(loader, count))
    return taken, json.loads(json.dumps(loader.state_dict()))


def gone_on(pipe: fp.Pipe[Any], state: Any, edits: Any = "groups", **options: Any) -> fp.Loader[Any]:
    loader = fp.Loader(pipe, **options)
    with pytest.warns(StateWarning):
        loader.load_state_dict(state, edits=edits)
    return loader


class TestGroups:
    @pytest.mark.parametrize("source", [numbers, streamed])
    def test_another_size_of_batches(self, source: Callable[[int], fp.Pipe[Any]]) -> None:
        taken, state = state_after(source(50).batch(4), 3)
        loader = fp.Loader(source(50).batch(8))
        with pytest.warns(StateWarning) as seen:
            loader.load_state_dict(state)
        (warning,) = seen
        message = "`batch(4)` is now `batch(8)`: 12 rows were taken, the pass goes on at row 12"
        assert str(warning.message) == message
        assert loader.resumed is not None and loader.resumed.effect == "groups"
        assert [rows for _, rows in loader.resumed.taken] == [12] and loader.resumed.changes == (
            message.partition(":")[0],
        )
        rest = list(loader)
        assert [row for batch in taken + rest for row in batch] == list(source(50))
        assert [*map(len, rest)] == [8, 8, 8, 8, 6]
        assert list(loader) == list(source(50).batch(8)), "the next pass is that of the new pipe alone"

    def test_other_functions_only_dress_rows(self) -> None:
        taken, state = state_after(numbers(12).shuffle().map(str).batch(4), 1)
        loader = gone_on(numbers(12).map(int).shuffle().map(float).batch(4).map(list), state)
        assert loader.resumed is not None and loader.resumed.taken == ()
        rest = [row for batch in loader for row in batch]
        assert sorted([*map(int, taken[0]), *map(int, rest)]) == [*range(12)]
        assert all(type(row) is float for row in rest)

    @quiet
    @pytest.mark.parametrize(("shards", "ranks"), [(1, 1), (2, 1), (6, 2)])
    @pytest.mark.parametrize("now", [1, 2, 3])
    def test_draws_and_windows_stay_those_of_the_first_ranks(self, shards: int, ranks: int, now: int) -> None:
        rows = streamed(120).map(jittered, rng=True).shuffle(window=24)

        def job(size: int, world_size: int, **options: Any) -> list[fp.Loader[Any]]:
            pipe = rows.batch(size)
            return [fp.Loader(pipe, rank=n, world_size=world_size, even=None, **options) for n in range(world_size)]

        whole = [row for loader in job(2, ranks, shards=shards) for batch in loader for row in batch]
        before, after = job(2, ranks, shards=shards), job(5, now)
        batches = [batch for loader in before for batch in islice(loader, 9)]
        for loader in after:
            loader.load_state_dict([one.state_dict() for one in before])
        batches += [batch for loader in after for batch in loader]
        assert sorted(row for batch in batches for row in batch) == sorted(whole)

    @pytest.mark.parametrize("source", [numbers, streamed])
    def test_a_ramp_goes_on_at_its_row(self, source: Callable[[int], fp.Pipe[Any]]) -> None:
        ramps: list[Any] = [4, {0: 3, 20: 6, 32: 2}, {0: 1, 22: 5}, 7]
        taken, state = state_after(source(60).batch(ramps[0]), 3)
        batches = list(taken)
        for ramp, steps in zip(ramps[1:], (3, 3, 100), strict=True):
            loader = gone_on(source(60).batch(ramp), state)
            batches += islice(loader, steps)
            state = json.loads(json.dumps(loader.state_dict()))
        assert [*map(len, batches)] == [4, 4, 4, 3, 3, 3, 1, 5, 5, 7, 7, 7, 7]
        assert [row for batch in batches for row in batch] == list(source(60))

    @pytest.mark.parametrize("steps", [1, 2, 3, 4])
    def test_another_length_of_packs(self, steps: int) -> None:
        documents = fp.from_sequence([[10 * n + place for place in range(n % 5 + 1)] for n in range(20)])
        tokens = [token for document in documents for token in document]
        taken, state = state_after(documents.pack(7), steps)
        packs = taken + list(gone_on(documents.pack(4), state))
        given = [
            int(token) for pack in packs for token, own in zip(pack["tokens"], pack["segment_ids"], strict=True) if own
        ]
        assert given == tokens

    @pytest.mark.parametrize("steps", [1, 5])
    def test_another_limit_of_batches_by_size(self, steps: int) -> None:
        words = fp.from_sequence(["x" * (n % 4 + 1) for n in range(30)]).shuffle()
        taken, state = state_after(words.batch_by_size(9, len), steps)
        rest = list(gone_on(words.batch_by_size(5, len), state))
        assert Counter(row for batch in taken + rest for row in batch) == Counter(words)
        assert all(sum(map(len, batch)) <= 5 for batch in rest)

    def test_an_epoch_of_steps_goes_on_in_the_next_pass(self) -> None:
        taken, state = state_after(numbers(20).batch(4), 3, steps=100)
        loader = gone_on(numbers(20).batch(3), state, steps=7)
        elements = [*islice(loader, 4)]
        assert [row for batch in taken + elements[:3] for row in batch] == [*range(20)]
        assert elements[3] == [0, 1, 2]
        again = fp.Loader(numbers(20).batch(3), steps=7)
        again.load_state_dict(loader.state_dict())
        assert again.resumed is None and next(iter(again)) == [3, 4, 5]

    @pytest.mark.parametrize("source", [numbers, streamed])
    def test_an_element_of_the_rest_is_made_again(self, source: Callable[[int], fp.Pipe[Any]]) -> None:
        _, state = state_after(source(40).batch(4), 3)
        pipe = source(40).batch(7)
        loader = gone_on(pipe, state)
        cursors = [(element, info.cursor) for element, info in loader.with_info()]
        assert all(fp.replay(pipe, json.loads(json.dumps(cursor))) == element for element, cursor in cursors)

    def test_ranks_of_an_indexed_pipe_have_equal_steps(self) -> None:
        states = [state_after(numbers(103).batch(4), 5, rank=rank, world_size=2)[1] for rank in range(2)]
        loaders = [gone_on(numbers(103).batch(9), states, rank=rank, world_size=3) for rank in range(3)]
        assert len({len(list(loader)) for loader in loaders}) == 1


class TestOrder:
    def test_each_input_goes_on_where_it_was(self) -> None:
        def pipe(*weights: int) -> fp.Pipe[Any]:
            return numbers(300).shuffle().mix(numbers(300).map(str), weights=weights).batch(10)

        taken, state = state_after(pipe(1, 1), 10)
        with pytest.raises(StateError, match='changes the order of rows; if this is meant, give `edits="order"`'):
            fp.Loader(pipe(3, 1)).load_state_dict(state)
        loader = gone_on(pipe(3, 1), state, "order")
        assert loader.resumed is not None and loader.resumed.taken == (("from_sequence(range(0, 300))", 50),) * 2
        rest = [row for batch in loader for row in batch]
        first = [type(row) is int for row in rest[:200]]
        assert all(abs(sum(first[start : start + 40]) - 30) <= 2 for start in range(160)), "the new weights"
        rows = [row for batch in taken for row in batch] + rest
        assert sorted(rows, key=repr) == sorted([*range(300), *map(str, range(300))], key=repr)
        assert [row for row in rows if type(row) is str] == [*map(str, range(300))]

    @pytest.mark.parametrize("source", [numbers, streamed])
    @pytest.mark.parametrize("gone", [False, True])
    def test_a_schedule_goes_on_at_its_row(self, source: Callable[[int], fp.Pipe[Any]], *, gone: bool) -> None:
        one, two, three = (source(200).map(lambda row, name=name: (name, row)) for name in "abc")
        schedules = [{0: [1, 1, 1], 150: [1, 0, 0]}, {0: [1, 0], 60: [0, 1], 90: [1, 1]}, {0: [1, 0], 75: [0, 1]}]
        _, state = state_after(one.mix(two, three, weights=schedules[0]).batch(10), 3)
        rows: list[tuple[str, int]] = []
        for schedule, steps in ((schedules[1], 4), (schedules[2], 4)):
            pipe = one.mix(two, weights=schedule) if gone else one.mix(two, three, weights=with_none(schedule))
            loader = gone_on(pipe.batch(10), state, "drop")
            rows += [row for batch in islice(loader, steps) for row in batch]
            state = json.loads(json.dumps(loader.state_dict()))
        assert "".join(name for name, _ in rows) == "a" * 30 + "b" * 10 + "a" * 5 + "b" * 35

    def test_a_schedule_by_tokens_must_see_a_pass_from_its_beginning(self) -> None:
        one, two = streamed(60), streamed(60).map(lambda row: -row)
        _, state = state_after(one.mix(two).batch(4), 2)
        with pytest.raises(StateError, match=r"`mix\(.*by=.*must see a pass from its beginning"):
            fp.Loader(one.mix(two, weights={0: [1, 2], 9: [1, 1]}, by=abs).batch(4)).load_state_dict(
                state, edits="order"
            )

    def test_an_input_is_new(self) -> None:
        taken, state = state_after(streamed(50).batch(5), 4, seed=1)
        pipe = streamed(50).mix(numbers(30).map(str), weights=[1, 2]).batch(5)
        loader = gone_on(pipe, state, "order", seed=1)
        assert loader.resumed is not None and loader.resumed.added == ("from_sequence(range(0, 30))",)
        rows = [row for batch in taken + list(loader) for row in batch]
        assert sorted(rows, key=repr) == sorted([*streamed(50), *map(str, range(30))], key=repr)

    def test_an_input_is_gone(self) -> None:
        one, other = numbers(50).shuffle(), numbers(50).map(str).shuffle()
        taken, state = state_after(other.mix(one).batch(5), 4)
        with pytest.raises(StateError, match='leave out the rest of an input; if this is meant, give `edits="drop"`'):
            fp.Loader(one.batch(5)).load_state_dict(state, edits="order")
        loader = gone_on(one.batch(5), state, "drop")
        assert loader.resumed is not None and loader.resumed.dropped == ("from_sequence(range(0, 50))",)
        rows = [row for batch in taken + list(loader) for row in batch]
        assert sorted(row for row in rows if type(row) is int) == [*range(50)], "its order is that of the old pipe"


def arrays(rows: int) -> fp.Pipe[Any]:
    return fp.from_arrays({"id": np.arange(rows), "length": np.arange(2 * rows).reshape(rows, 2)})


def table(rows: int) -> fp.Pipe[Any]:
    return fp.from_table(pa.table({"id": range(rows), "text": [str(row) for row in range(rows)]}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for files of ten rows."""
    return tmp_path


def fill(folder: Path, numbers: Sequence[int]) -> None:
    for number in numbers:
        rows = pa.table({"id": range(10 * number, 10 * number + 10)})
        pq.write_table(rows, folder / f"{number:03}.parquet", row_group_size=4)
        csv.write_csv(rows, folder / f"{number:03}.csv")
        feather.write_feather(rows, folder / f"{number:03}.arrow", compression="uncompressed")
        lines = "".join(f'{{"id": {row}}}\n' for row in range(10 * number, 10 * number + 10))
        (folder / f"{number:03}.jsonl").write_text(lines)


def ids(elements: Iterable[Any]) -> list[int]:
    return [int(row) for element in elements for row in element["id"]]


READERS: dict[str, Callable[[Path], fp.Pipe[Any]]] = {
    "parquet": lambda folder: fp.read_parquet(f"{folder}/*.parquet").shuffle(window=16),
    "csv": lambda folder: fp.read_csv(f"{folder}/*.csv").filter(pc.field("id") != 7),
    "jsonl": lambda folder: fp.read_jsonl(f"{folder}/*.jsonl"),
    "arrow": lambda folder: fp.read_arrow(f"{folder}/*.arrow").shuffle(),
    "split": lambda folder: fp.read_arrow(f"{folder}/*.arrow").split({"train": 0.8, "test": 0.2})["train"].shuffle(),
    "files": lambda folder: fp.list_files(folder, pattern="*.csv").shuffle().open_files().parse_csv(),
}


class TestGrowth:
    """A source has new rows at its end: the pass gives what is left of the old ones, and then the new ones."""

    @pytest.mark.parametrize("source", [arrays, table])
    @pytest.mark.parametrize("ranks", [1, 2])
    def test_rows_in_memory(self, source: Callable[[int], fp.Pipe[Any]], ranks: int) -> None:
        taken, state = state_after(source(50).shuffle().batch(4), 3)
        now = source(63).shuffle().batch(8)
        loaders = [gone_on(now, state, "order", rank=rank, world_size=ranks, even=None) for rank in range(ranks)]
        rests = [list(loader) for loader in loaders]
        assert sorted(ids([*taken, *chain(*rests)])) == [*range(63)]
        resumed = loaders[0].resumed
        assert resumed is not None and resumed.effect == "order" and [rows for _, rows in resumed.grown] == [13]
        assert sorted(ids(chain(*map(list, loaders)))) == [*range(63)], "the next pass is that of the new pipe alone"

    @pytest.mark.parametrize("reader", READERS)
    def test_files(self, reader: str, folder: Path) -> None:
        fill(folder, range(3))
        pipe = READERS[reader]
        taken, state = state_after(pipe(folder).batch(3), 4)
        fill(folder, [3, 4])
        first = gone_on(pipe(folder).batch(5), state, "order")
        elements = [*taken, *islice(first, 3)]
        state = json.loads(json.dumps(first.state_dict()))
        fill(folder, [5])
        second = gone_on(pipe(folder).batch(5), state, "order")
        elements += islice(second, 2)
        state = json.loads(json.dumps(second.state_dict()))
        third = fp.Loader(pipe(folder).batch(5))
        third.load_state_dict(state)
        assert sorted(ids([*elements, *third])) == sorted(ids(fp.Loader(pipe(folder).batch(5))))
        assert second.resumed is not None
        assert [*second.resumed.changes] == ["`list_files()` has 1 new row"]

    def test_types_stay_those_of_the_pass(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("id\n1.5\n2\n")
        _, state = state_after(fp.read_csv(f"{tmp_path}/*.csv").batch(1), 1)
        (tmp_path / "b.csv").write_text("id\n3\n4\n")
        loader = gone_on(fp.read_csv(f"{tmp_path}/*.csv").batch(1), state, "order")
        assert [repr(value) for element in loader for value in element["id"].tolist()] == ["2.0", "3.0", "4.0"]

    @pytest.mark.parametrize("change", ["between", "other"])
    def test_files_that_are_not_new_at_the_end_are_refused(self, change: str, folder: Path) -> None:
        fill(folder, [0, 2, 4])
        _, state = state_after(fp.read_csv(f"{folder}/*.csv").batch(3), 2)
        fill(folder, [3 if change == "between" else 5])
        if change == "other":
            (folder / "002.csv").write_text("id\n1\n")
        with pytest.raises(StateError, match=r"`list_files\(\)` lists has changed, by names or sizes"):
            fp.Loader(fp.read_csv(f"{folder}/*.csv").batch(3)).load_state_dict(state, edits="drop")

    def test_rows_of_the_rest_need_a_word(self) -> None:
        _, state = state_after(numbers(20).batch(4), 1)
        with pytest.raises(StateError, match='changes the order of rows; if this is meant, give `edits="order"`'):
            fp.Loader(numbers(25).batch(4)).load_state_dict(state)


class TestRefusals:
    @pytest.mark.parametrize(
        ("now", "reason"),
        [
            (lambda: numbers(60).shuffle(seed=1).filter(is_odd).batch(8), "divided among the shards after"),
            (lambda: numbers(60).shuffle().filter(is_third).batch(8), "must see a pass from its beginning"),
            (lambda: numbers(60).shuffle().filter(is_odd).enumerate().batch(8), "must see a pass from its beginning"),
            (lambda: numbers(60).shuffle().batch(8), "only one of both pipes is indexed"),
            (lambda: numbers(59).shuffle().filter(is_odd).batch(8), "no rows in common"),
        ],
    )
    def test_what_has_no_exact_rest_is_refused(self, now: Callable[[], fp.Pipe[Any]], reason: str) -> None:
        pipe = numbers(60).shuffle().filter(is_odd).batch(4)
        whole = list(fp.Loader(pipe))
        taken, state = state_after(pipe, 2)
        with pytest.raises(StateError, match=reason):
            fp.Loader(now()).load_state_dict(state, edits="drop")
        loader = fp.Loader(pipe)
        loader.load_state_dict(state)
        assert taken + list(loader) == whole, "the state still fits the old pipe"

    @pytest.mark.parametrize("source", [numbers, streamed])
    @pytest.mark.parametrize(("before", "now"), [(int, None), (None, int)])
    def test_equal_work_must_see_a_pass_from_its_beginning(
        self, source: Callable[[int], fp.Pipe[Any]], before: Any, now: Any
    ) -> None:
        _, state = state_after(source(60).batch(4, balance=before, among=2), 2)
        with pytest.raises(StateError, match="`batch.* it does not go on, because .*`batch.4, balance=int, among=2"):
            fp.Loader(source(60).batch(4, balance=now, among=2)).load_state_dict(state, edits="drop")

    def test_a_shuffle_of_all_rows_cannot_change(self) -> None:
        _, state = state_after(numbers(60).shuffle().batch(4), 2)
        with pytest.raises(StateError, match=r"`shuffle\(\)`.* does not say what it has read"):
            fp.Loader(numbers(60).shuffle(seed=3).batch(4)).load_state_dict(state, edits="order")

    def test_an_unknown_kind_of_edits(self) -> None:
        with pytest.raises(fp.errors.ArgumentError, match="`edits`"):
            fp.Loader(numbers(3)).load_state_dict({}, edits="all")  # type: ignore[arg-type]


def test_loading_calls_no_function() -> None:
    calls: list[int] = []

    def noted(row: int) -> int:
        calls.append(row)
        return row

    def pipe(size: int) -> fp.Pipe[Any]:
        return numbers(100).map(noted).filter(is_odd).batch(size)

    _, state = state_after(pipe(4), 3)
    calls.clear()
    gone_on(pipe(8), state)
    assert not calls


def test_a_state_of_an_edited_pass_costs_little() -> None:
    chance = random.Random(0)
    data = [chance.random() for _ in range(1000)]
    pipe = fp.from_sequence(data).shuffle()
    _, state = state_after(pipe.batch(4), 20)
    loader = gone_on(pipe.batch(8), state)
    plain = fp.Loader(pipe.batch(8))
    for one in (loader, plain):
        next(iter(one))
    assert len(json.dumps(loader.state_dict())) - len(json.dumps(plain.state_dict())) <= 170
