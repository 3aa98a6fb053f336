"""`mix` by tokens: shares at every row, the order of rows of one length, schedules, ends, resumes, and errors."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, UnknownLengthError
from feedpipe.testing import check_operator

from ...support.examples import examples
from ..exactness import check_elastic, check_ranks, check_resumes

Row = tuple[int, int, int]  # the input, the number of the row in it, and its tokens
weight = st.one_of(st.integers(1, 9), st.sampled_from([0.01, 0.3, 40]))


def tokens(row: Row) -> int:
    return row[2]


def inputs_of(lengths: list[list[int]]) -> list[fp.Pipe[Row]]:
    return [
        fp.from_sequence([(source, row, length) for row, length in enumerate(own)])
        for source, own in enumerate(lengths)
    ]


def mixed(lengths: list[list[int]], weights: Any = None, **arguments: Any) -> fp.Pipe[Row]:
    first, *others = inputs_of(lengths)
    return first.mix(*others, weights=weights, by=tokens, **arguments)


def given_tokens(rows: list[Row], count: int) -> Any:
    """The tokens that each input has given after each row."""
    own = np.zeros((len(rows), count), np.int64)
    own[np.arange(len(rows)), [row[0] for row in rows]] = [row[2] for row in rows]
    return np.cumsum(own, axis=0)


def before_an_end(rows: list[Row], lengths: list[list[int]]) -> list[Row]:
    stop = min(place for place, (source, row, _) in enumerate(rows) if row + 1 == len(lengths[source]))
    return rows[: stop + 1]


@st.composite
def lengths_of_inputs(draw: Any, least: int = 1) -> list[list[int]]:
    longest = draw(st.sampled_from([1, 5, 1000]))
    own = st.lists(st.integers(0, longest), min_size=least, max_size=40)
    return draw(st.lists(own, min_size=1, max_size=7))


class TestShares:
    @settings(max_examples=examples(100), deadline=None)
    @given(lengths_of_inputs(), st.data())
    def test_each_input_has_its_share_of_all_tokens_at_every_row(self, lengths: list[list[int]], data: Any) -> None:
        weights = [data.draw(weight) for _ in lengths]
        rows = list(mixed(lengths, weights))
        for source, own in enumerate(lengths):
            assert [row[1:] for row in rows if row[0] == source] == [*enumerate(own)]
        rows = before_an_end(rows, lengths)
        given_by_all = given_tokens(rows, len(lengths))
        ideal = given_by_all.sum(axis=1)[:, None] * (np.array(weights) / sum(weights))
        assert np.abs(given_by_all - ideal).max() <= 2 * max(map(max, lengths))

    @settings(max_examples=examples(60), deadline=None)
    @given(lengths_of_inputs(), st.data())
    def test_a_schedule_counts_tokens(self, lengths: list[list[int]], data: Any) -> None:
        edges = sorted(
            data.draw(st.lists(st.integers(1, 5 * sum(map(sum, lengths)) // 4 + 1), unique=True, max_size=5))
        )
        stages = {edge: [data.draw(weight) for _ in lengths] for edge in [0, *edges]}
        rows = before_an_end(list(mixed(lengths, stages)), lengths)
        given_by_all = given_tokens(rows, len(lengths))
        ideal = np.zeros(given_by_all.shape)
        for (first, weights), stop in zip(stages.items(), [*edges, np.inf], strict=True):
            inside = np.clip(given_by_all.sum(axis=1), first, stop) - first
            ideal += inside[:, None] * (np.array(weights) / sum(weights))
        assert np.abs(given_by_all - ideal).max() <= 3 * max(map(max, lengths)) + 1

    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(weight, min_size=1, max_size=8), st.integers(1, 2**31))
    def test_rows_of_one_length_have_the_order_by_rows(self, weights: list[float], length: int) -> None:
        pipes = inputs_of([[length] * 60] * len(weights))
        by_rows = list(islice(pipes[0].mix(*pipes[1:], weights=weights), 59))
        assert list(islice(mixed([[length] * 60] * len(weights), weights), 59)) == by_rows

    def test_each_shard_has_the_shares(self) -> None:
        rng = np.random.default_rng(0)
        lengths = [rng.integers(1, 100, 400).tolist() for _ in range(3)]
        for shard in range(4):
            loader = fp.Loader(mixed(lengths, [5, 3, 2]), rank=shard, world_size=4, shards=4, even=None)
            given_by_all = given_tokens(list(islice(loader, 150)), 3)
            ideal = given_by_all.sum(axis=1)[:, None] * np.array([0.5, 0.3, 0.2])
            assert np.abs(given_by_all - ideal).max() <= 200

    def test_shards_follow_a_schedule_by_their_part_of_the_tokens(self) -> None:
        pipe = mixed([[10] * 400, [10] * 400], {0: [1, 0], 2000: [0, 1]}, stop="first")
        for shards in (1, 2, 5):
            loader = fp.Loader(pipe.take(300), shards=shards)
            assert sum(row[0] == 0 for row in loader) == 200
        endless = [one.repeat() for one in inputs_of([[10] * 7, [10] * 7])]
        loader = fp.Loader(
            endless[0].mix(endless[1], weights={0: [1, 0], 2000: [0, 1]}, by=tokens), steps=300, shards=4
        )
        assert sum(row[0] == 0 for row in loader) == 200

    def test_large_lengths_and_many_inputs(self) -> None:
        lengths = [[2**40 + source * row for row in range(5)] for source in range(60)]
        rows = before_an_end(list(mixed(lengths, [1 + source for source in range(60)])), lengths)
        given_by_all = given_tokens(rows, 60)
        ideal = given_by_all.sum(axis=1)[:, None] * (np.arange(1, 61) / sum(range(61)))
        assert np.abs(given_by_all - ideal).max() < 2 * 2**41


class TestLengths:
    TABLE = pa.table({"n": [3, 1, 2, 0], "tokens": [[1, 2, 3], [1], [1, 2], []], "text": ["abc", "a", "äb", ""]})

    @pytest.mark.parametrize("by", ["n", "tokens", "text"])
    def test_a_column_of_numbers_lists_or_text(self, by: str) -> None:
        table, rows = fp.from_table(self.TABLE), fp.from_sequence(self.TABLE.to_pylist())
        expected = list(rows.mix(rows, weights=[2, 1], by=lambda row: row["n"]))
        assert list(rows.mix(rows, weights=[2, 1], by=by)) == expected
        assert list(table.mix(table, weights=[2, 1], by=by)) == expected
        assert all(isinstance(batch, fp.Rows) for batch in table.mix(table, by=by).batch(3))

    def test_rows_that_were_skipped_count_nothing(self) -> None:
        def picky(row: Row) -> Row:
            if row[1] % 3 == 1:
                raise ValueError(row)
            return row

        lengths = [[4] * 30, [2] * 30]
        first, second = (pipe.map(picky) for pipe in inputs_of(lengths))
        pipe = first.mix(second, weights=[1, 1], by=tokens).on_error("skip")
        rows = list(pipe)
        assert sorted(rows) == [row for one in inputs_of(lengths) for row in one if row[1] % 3 != 1]
        given_by_all = given_tokens(rows[:20], 2)
        assert np.abs(given_by_all[:, 0] - given_by_all[:, 1]).max() <= 8
        check_resumes(pipe, shards=1, every=3)


LENGTHS = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [2, 7, 1, 8, 2, 8], [1, 6, 1, 8]]
PIPES = {
    "plain": lambda **arguments: mixed(LENGTHS, [3, 2, 1], **arguments),
    "schedule": lambda **arguments: mixed(LENGTHS, {0: [1, 0, 1], 20: [1, 2, 3], 33: [2, 1, 0]}, **arguments),
    "named": lambda **arguments: fp.mix(
        dict(zip("abc", inputs_of(LENGTHS), strict=True)), weights={"a": 3, "b": 2, "c": 0}, by=tokens, **arguments
    ),
}


class TestRuns:
    @pytest.mark.parametrize("stop", ["longest", "first"])
    @pytest.mark.parametrize("kind", PIPES)
    def test_law(self, kind: str, stop: Any) -> None:
        check_operator(PIPES[kind](stop=stop), samples=6)

    def test_ends(self) -> None:
        assert [row[0] for row in mixed([[4], [1, 1, 1, 1, 1, 1]], stop="first")] == [1, 1, 0, 1, 1]
        assert [row[0] for row in mixed([[9, 9], [1, 1]], [0, 1])] == [1, 1, 0, 0]
        assert list(mixed([[], [1, 2]])) == [(1, 0, 1), (1, 1, 2)] and list(mixed([[], []])) == []

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", PIPES)
    def test_resumes_ranks_and_workers(self, kind: str) -> None:
        check_resumes(PIPES[kind](), epochs=2, every=2)
        check_resumes(PIPES[kind]().shuffle(window=4).batch(3), shards=2)
        check_ranks(PIPES[kind](), shards=8)
        for taken in (1, 9, 17):
            check_elastic(PIPES[kind](), taken, shards=6)

    def test_epochs_of_steps_are_parts_of_one_pass(self) -> None:
        first, second = (one.repeat() for one in inputs_of(LENGTHS[:2]))
        pipe = first.mix(second, weights={0: [3, 1], 100: [1, 1]}, by=tokens)
        short = fp.Loader(pipe, steps=10, shards=2)
        assert [row for _ in range(4) for row in short] == list(fp.Loader(pipe, steps=40, shards=2))


def test_it_is_streamed(capsys: Any) -> None:
    pipe = mixed(LENGTHS, {0: [1, 1, 1], 7: [1, 2, 3]})
    assert not pipe.indexed and len(pipe) == 21
    pipe.explain()
    text = capsys.readouterr().out
    assert "mix(weights={0: [1, 1, 1], 7: [1, 2, 3]}, by=tokens)  21 streamed" in text
    assert "its weights change at token 7 of each pass" in text


class TestErrors:
    def test_arguments(self) -> None:
        first, second = inputs_of([[1], [2]])
        with pytest.raises(ArgumentTypeError, match="`by` must be the name of a column or a function of a row"):
            first.mix(second, by=3)  # type: ignore[call-overload]
        with pytest.raises(ArgumentError, match="`random` must be left out with `by`, because the lengths of rows say"):
            first.mix(second, by=tokens, random=True)
        with pytest.raises(UnknownLengthError, match="only an indexed pipe gives rows by number"):
            first.mix(second, by=tokens)[0]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (-1, "`by` must give a number >= 0 for each row, or an item that has a length but gave: -1"),
            (None, "`by` must give a number >= 0 .* but gave: None"),
            (1.5, "`by` must give whole numbers but gave: 1.5"),
            (float("inf"), "`by` must give whole numbers but gave: inf"),
        ],
    )
    def test_a_row_without_a_length(self, value: Any, message: str) -> None:
        good = [{"n": 1}] * 9
        pipe = fp.from_sequence(good).mix(fp.from_sequence([*good[:4], {"n": value}, *good]), by="n")
        rows = []
        with pytest.raises(DataError, match=f"(?s){message}.*from_sequence, row 5") as error:
            rows.extend(pipe)
        assert len(rows) == 8 and "test_mix_by.py" in str(error.value)

    def test_a_missing_column(self) -> None:
        with pytest.raises(DataError, match="rows must be dicts with 'm'"):
            list(fp.from_sequence([{"n": 1}]).mix(fp.from_sequence([{"n": 1}]), by="m"))
        table = fp.from_table(pa.table({"n": [1]}))
        with pytest.raises(DataError, match="there is no column 'm'"):
            list(table.mix(table, by="m"))
