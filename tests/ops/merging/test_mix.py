from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, PlanWarning, RowError
from feedpipe.testing import check_operator

from ..tables import streamed

A, B, C = fp.from_sequence(range(30)), fp.from_sequence(range(100, 112)), fp.from_sequence(range(200, 205))


def shares(rows, count=3):
    """How many rows each input has given before each position."""
    sources = np.array([row // 100 for row in rows])
    return np.stack([np.cumsum(sources == source) for source in range(count)], axis=1)


class TestOrder:
    @pytest.mark.parametrize("stop", ["longest", "first"])
    @pytest.mark.parametrize("weights", [None, [0.6, 0.3, 0.1], [5, 1, 1], [1, 1, 0]])
    def test_law_and_the_same_by_position_and_in_order(self, stop, weights):
        pipe = A.mix(B, C, weights=weights, stop=stop)
        rows = check_operator(pipe, samples=6)
        assert len(rows) == len(pipe)
        inputs = [streamed(A), B, streamed(C)]
        assert check_operator(inputs[0].mix(*inputs[1:], weights=weights, stop=stop), samples=6) == rows

    @pytest.mark.parametrize("weights", [None, [0.6, 0.3, 0.1], [1, 5, 1]])
    def test_the_rows_before_an_error_come_first(self, weights):
        inputs = [streamed(A), streamed(B).map(lambda row: row if row != 107 else row // 0), streamed(C)]
        expected = list(A.mix(B, C, weights=weights))
        found = []
        with pytest.raises(RowError, match="from_sequence, row 8"):
            found.extend(inputs[0].mix(*inputs[1:], weights=weights))
        assert found == expected[: expected.index(107)]

    def test_proportions(self):
        rows = list(A.mix(B, C, weights=[0.6, 0.3, 0.1]))
        assert np.abs(shares(rows[:40]) - np.arange(1, 41)[:, None] * [0.6, 0.3, 0.1]).max() < 1
        assert sorted(rows) == [*A, *B, *C]


class TestRandom:
    @pytest.mark.parametrize("stop", ["longest", "first"])
    def test_law(self, stop):
        for inputs in ([A, B, C], [streamed(A), B, streamed(C)]):
            check_operator(inputs[0].mix(*inputs[1:], weights=[3, 2, 1], random=True, stop=stop), samples=6)

    def test_proportions_are_exact_in_each_block(self):
        a, b = fp.from_sequence([0] * 5000), fp.from_sequence([100] * 5000)
        pipe = a.mix(b, weights=[0.7, 0.3], random=True)
        rows = list(pipe)
        counts = shares(rows, 2)
        assert np.abs(counts[1023::1024][:4] - 1024 * np.arange(1, 5)[:, None] * [0.7, 0.3]).max() < 1
        assert rows[:50] != list(a.mix(b, weights=[0.7, 0.3]))[:50]
        assert [pipe[k] for k in (4999, 3, 1500)] == [rows[k] for k in (4999, 3, 1500)]

    @pytest.mark.parametrize("random", [False, True])
    @pytest.mark.parametrize("stop", ["longest", "first"])
    def test_long_mixtures_are_the_same_by_position_and_in_order(self, random, stop):
        inputs = [fp.from_sequence(rows) for rows in (range(6000), range(20_000, 23_000), range(30_000, 30_700))]
        pipe = inputs[0].mix(*inputs[1:], weights=[5, 3, 1], random=random, stop=stop)
        rows = np.array(list(pipe))
        places = list(fp.from_sequence(range(len(pipe))).shuffle())
        assert (np.array(list(pipe.shuffle())) == rows[places]).all()
        if not random:
            first, *others = map(streamed, inputs)
            assert (np.array(list(first.mix(*others, weights=[5, 3, 1], stop=stop))) == rows).all()

    def test_each_input_keeps_its_order_and_each_epoch_has_its_own(self):
        loader = fp.Loader(streamed(A).mix(streamed(B), random=True), shards=1)
        first, second = list(loader), list(loader)
        assert [row for row in first if row < 100] == list(A) and first != second and sorted(first) == sorted(second)


class TestColumns:
    TABLE = pa.table({"x": list(range(50)), "t": [str(k) for k in range(50)]})
    OTHER = pa.table({"x": list(range(100, 120)), "t": ["o"] * 20})

    def test_stay_columns_if_all_have_one_schema(self):
        a, b = fp.from_table(self.TABLE), fp.from_table(self.OTHER)
        for one, other in ((a, b), (streamed(a), b), (streamed(a), streamed(b))):
            pipe = one.mix(other, weights=[2, 1])
            check_operator(pipe, samples=4)
            batches = list(pipe.batch(8))
            assert all(isinstance(batch, fp.Rows) for batch in batches)
            assert [row["x"] for batch in batches for row in batch][:6] == [0, 100, 1, 2, 101, 3]
            assert pipe.schema == self.TABLE.schema

    def test_other_columns_become_python_rows_wherever_blocks_end(self):
        pipe = streamed(fp.from_table(self.TABLE)).mix(fp.from_table(self.OTHER).rename({"t": "u"}))
        assert check_operator(pipe, samples=3)[:2] == [{"x": 0, "t": "0"}, {"x": 100, "u": "o"}]
        assert all(isinstance(batch, list) for batch in pipe.batch(4)) and pipe.schema is None

    def test_shards_keep_columns(self):
        pipe = streamed(fp.from_table(self.TABLE)).mix(streamed(fp.from_table(self.OTHER))).batch(4)
        assert all(isinstance(batch, fp.Rows) for batch in fp.Loader(pipe, shards=3))


class TestPlan:
    def test_the_number_of_rows_is_that_of_all_shards(self):
        pipe = streamed(A).mix(B, stop="first")
        with pytest.warns(
            PlanWarning, match="100% .* read again .* the rows of `mix` cannot be divided.*`write_parquet`"
        ):
            first = list(fp.Loader(pipe, rank=0, world_size=2, even=None))
        second = list(fp.Loader(pipe, rank=1, world_size=2, even=None))
        assert sorted(first + second) == sorted(pipe)

    def test_inputs_without_an_end_are_divided(self, recwarn):
        a, b = fp.from_sequence(range(99)), fp.from_sequence(range(100, 199))
        pipe = streamed(a).repeat().mix(b.repeat().map(lambda row: row), stop="first", weights=[1, 1])
        loader = fp.Loader(pipe, rank=0, world_size=2, steps=16, shards=4)
        assert sum(row >= 100 for row in loader) == 8 and not recwarn
        assert list(A.repeat().take(9).mix(B.repeat(), stop="first"))[-3:] == [107, 8, 108]

    def test_files_of_a_mixture_are_divided_by_size(self, tmp_path):
        for name, lines in (("a", 40), ("b", 3), ("c", 21)):
            (tmp_path / name).write_text("".join(f"{name}{k}\n" for k in range(lines)), encoding="utf-8")
        files = [fp.list_files(tmp_path / name) for name in "abc"]
        pipe = files[0].mix(*files[1:], weights=[1, 2, 3]).open_files().parse_lines()
        assert sorted(check_operator(pipe, samples=3)) == sorted(
            f"{n}{k}" for n, c in (("a", 40), ("b", 3), ("c", 21)) for k in range(c)
        )

    def test_explain_says_what_each_input_contributes(self, capsys):
        A.mix(B, C, weights=[1, 2, 3], name="m").explain()
        text = capsys.readouterr().out
        assert "`mix(weights=[1, 2, 3], name='m')`: takes 30, 12, 5 rows of its inputs" in text
        assert "the first to end does so after 11 rows, and the others go on" in text


class TestErrors:
    def test_weights(self):
        for weights, message in (
            ([1], "must have a number for each of the 2 pipes, this one first, but has 1"),
            ([1, -1], r"must be >= 0, and one of them > 0, but got: \[1, -1\]"),
            ([0, 0], "must be >= 0, and one of them > 0, but got:"),
            ([1, float("nan")], "must be >= 0"),
        ):
            with pytest.raises(ArgumentError, match=message):
                A.mix(B, weights=weights)
        with pytest.raises(
            ArgumentTypeError, match="`weights` must be numbers, one for each pipe, but got: 3; weights that change are"
        ):
            A.mix(B, weights=3)
        with pytest.raises(ArgumentTypeError, match="weights that change are a dict by row"):
            A.mix(B, weights=lambda epoch: [1, 2])
        with pytest.raises(ArgumentError, match="`stop` must be one of 'first', 'longest' but got: 'none'"):
            A.mix(B, stop="none")
        with pytest.raises(ArgumentError, match="but got: 'all'; give `stop=\"first\"`, and `.repeat"):
            A.mix(B, stop="all")
        with pytest.raises(ArgumentTypeError, match="the inputs of `mix` must be pipes but got: 'ab'"):
            A.mix("ab", stop="first")

    def test_inputs_without_rows(self):
        empty = fp.from_sequence([])
        assert check_operator(A.mix(empty)) == list(A) and check_operator(empty.mix(streamed(empty))) == []
        assert check_operator(A.mix(streamed(empty), stop="first")) == [0]
