"""`mix` with weights by row: the order against one turn at a time, resumes, ranks, ends, and wrong schedules."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, StateError
from feedpipe.testing import check_operator

from ...support.examples import examples
from ...support.mixtures import scheduled_rows
from ..exactness import check_elastic, check_ranks, check_resumes, digest, through_json
from ..tables import streamed

weight = st.one_of(st.integers(0, 4), st.sampled_from([0.25, 0.04, 1.5]))
A, B, C = ([100 * source + row for row in range(rows)] for source, rows in enumerate((30, 12, 5)))


def mixed(inputs, weights, stop="longest", *, of=lambda pipe: pipe, **arguments):
    first, *others = (of(fp.from_sequence(rows)) for rows in inputs)
    return first.mix(*others, weights=weights, stop=stop, **arguments)


@st.composite
def schedules(draw, count, least=1, most=6):
    """Weights of `count` inputs by the row from which on they hold."""
    rows = draw(st.lists(st.integers(1, 40), unique=True, min_size=least - 1, max_size=most - 1))
    weights = st.lists(weight, min_size=count, max_size=count).filter(sum)
    return {row: draw(weights) for row in sorted([*rows, 0])}


@st.composite
def mixtures(draw):
    """Rows of inputs, and a schedule."""
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=7))
    inputs = [[100 * source + row for row in range(length)] for source, length in enumerate(lengths)]
    return inputs, draw(schedules(len(inputs)))


class TestOrder:
    @pytest.mark.slow
    @settings(max_examples=examples(300), deadline=None)
    @given(mixtures(), st.sampled_from(["longest", "first"]))
    def test_rows_are_those_of_one_turn_at_a_time(self, mixture, stop):
        inputs, schedule = mixture
        expected = scheduled_rows(inputs, schedule, stop)
        pipe = mixed(inputs, schedule, stop)
        assert list(pipe) == list(mixed(inputs, schedule, stop, of=streamed)) == expected and len(pipe) == len(expected)
        places = list(fp.from_sequence(range(len(expected))).shuffle())
        assert list(pipe.shuffle()) == [expected[place] for place in places]

    def test_a_rare_input_comes_in_short_stages(self):
        ramp = {10 * k: [96, 4] for k in range(1000)}
        rows = list(islice(mixed([[0], [1]], ramp, of=lambda pipe: pipe.repeat()), 10_000))
        assert sum(rows) == 400

    @pytest.mark.parametrize("weights", [[3, 1, 2], [0.7, 0.1, 0.2]])
    def test_one_stage_of_few_inputs_has_the_order_of_fixed_weights(self, weights):
        assert list(mixed([A, B, C], {0: weights})) == list(mixed([A, B, C], weights))

    def test_rows_may_be_given_in_any_order(self):
        weights = {9: [0, 1], 0: [1, 0]}
        assert list(mixed([A, B], weights)) == list(mixed([A, B], dict(sorted(weights.items()))))

    def test_keys_may_be_numpy_integers_and_far_away(self):
        pipe = mixed([A, B], {np.int64(0): [1, 0], 10**30: [0, 1]})
        assert list(pipe)[:30] == A and "{0: [1, 0], 1000000000000000000000000000000: [0, 1]}" in repr(pipe)


def ramp(stages=8, every=5):
    return {every * k: [stages - k, k, 1] for k in range(stages)}


class TestRandom:
    @pytest.mark.parametrize("stop", ["longest", "first"])
    def test_law(self, stop):
        for of in (lambda pipe: pipe, streamed):
            check_operator(mixed([A, B, C], ramp(), stop, of=of, random=True), samples=4)

    def test_no_draw_crosses_the_edge_of_a_stage(self):
        stages = {100 * k: [1, 0] if k % 2 else [0, 1] for k in range(30)}
        rows = list(islice(mixed([[0], [1]], stages, random=True, of=lambda pipe: pipe.repeat()), 3000))
        assert rows == [1 - k // 100 % 2 for k in range(3000)]
        stages = {0: [1, 1], 300: [3, 1], 1100: [1, 3]}
        in_order, random = (
            np.array(list(islice(mixed([[0], [1]], stages, random=draws, of=lambda pipe: pipe.repeat()), 2048)))
            for draws in (False, True)
        )
        for first, stop in ((0, 300), (300, 1024), (1024, 1100), (1100, 2048)):
            assert in_order[first:stop].sum() == random[first:stop].sum()
            assert (in_order[first:stop] != random[first:stop]).any()


PIPES = {
    "indexed": lambda **arguments: mixed([A, B, C], ramp(), **arguments),
    "streamed": lambda **arguments: mixed([A, B, C], ramp(), of=streamed, **arguments),
    "shuffled": lambda **arguments: mixed(
        [A, B, C], ramp(), of=lambda pipe: streamed(pipe).shuffle(window=8), **arguments
    ),
}


class TestResume:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("kind", "stop"),
        [(kind, stop) for kind in ("indexed", "streamed") for stop in ("longest", "first")] + [("shuffled", "longest")],
    )
    @pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")  # each shard reads all rows
    def test_at_each_element(self, kind, stop):
        check_operator(PIPES[kind](stop=stop), samples=10)
        check_resumes(PIPES[kind](stop=stop), epochs=2)
        check_resumes(PIPES[kind](stop=stop, random=True).batch(4))

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", PIPES)
    def test_ranks_and_workers(self, kind):
        check_ranks(PIPES[kind](), shards=None if kind == "indexed" else 8, in_turn=kind != "shuffled")

    def test_one_rank_becomes_three(self):
        for taken in (1, 17, 40):
            check_elastic(PIPES["indexed"](), taken)
            check_elastic(PIPES["streamed"](), taken, shards=6)

    def test_epochs_of_steps_are_parts_of_one_schedule(self):
        endless = mixed([A, B, C], ramp(stages=8, every=60), of=lambda pipe: streamed(pipe).repeat())
        for shards in (1, 4):
            long = list(fp.Loader(endless.batch(4), steps=120, shards=shards))
            short = fp.Loader(endless.batch(4), steps=40, shards=shards)
            assert [batch for _ in range(3) for batch in short] == long
            check_resumes(endless.batch(4), epochs=2, every=7, steps=40, shards=shards)

    def test_the_edge_of_a_stage_is_sharp_to_the_number_of_shards(self):
        for shards in (1, 3, 8):
            pipe = mixed([[0] * 30, [1] * 30], {0: [1, 0], 50: [0, 1]}, of=lambda pipe: streamed(pipe).repeat())
            rows = list(fp.Loader(pipe, steps=200, shards=shards))
            edge = rows.index(1)
            assert rows == [0] * edge + [1] * (200 - edge) and 50 <= edge < 50 + shards

    def test_rows_that_a_policy_skips_keep_their_turn(self):
        def picky(row):
            if row % 7 == 3:
                raise ValueError(row)
            return row

        for of in (lambda pipe: pipe.map(picky), lambda pipe: streamed(pipe).map(picky)):
            pipe = mixed([A, B, C], ramp(), of=of).on_error("skip")
            whole = scheduled_rows([A, B, C], ramp(), "longest")
            good = [row for row in whole if row % 7 != 3]
            assert check_resumes(pipe, shards=1) == [str(row) for row in good]
            check_operator(pipe, samples=6)
            check_ranks(pipe, shards=8, services=(0,), in_turn=False)

    def test_another_schedule_is_another_pipe(self):
        loader = fp.Loader(mixed([A, B], {0: [1, 0], 9: [1, 1]}))
        next(iter(loader))
        state = through_json(loader.state_dict())
        with pytest.raises(StateError, match=r"weights=\{0: \[1, 0\], 9: \[1, 1\]\}.* is now .*8: "):
            fp.Loader(mixed([A, B], {0: [1, 0], 8: [1, 1]})).load_state_dict(state)


def test_tables_keep_their_columns():
    a, b = (fp.from_table(pa.table({"x": list(range(k, k + 20))})) for k in (0, 100))
    for first in (a, streamed(a)):
        pipe = first.mix(b, weights={0: [1, 0], 6: [1, 2]})
        assert [row["x"] for row in check_operator(pipe, samples=4)][:10] == [0, 1, 2, 3, 4, 5, 100, 6, 101, 102]
        assert all(isinstance(batch, fp.Rows) for batch in pipe.batch(4))


def test_batches_of_a_mixture_of_batches_count_as_rows():
    easy, hard = fp.from_sequence([0] * 40).batch(4), fp.from_sequence([1] * 40).batch(4)
    kinds = [batch[0] for batch in easy.mix(hard, weights={0: [1, 0], 5: [0, 1]}, stop="first")]
    assert kinds == [0] * 5 + [1] * 10


# Computed when schedules were new: another order would break the states of running jobs.
GOLDEN = {
    "indexed": "f3da5500b405cf4a6e824c3ca1f36300",
    "streamed": "12155687cbee50c9305d7089e7a399a2",
    "random": "33b7384ae9db69c756fbf2ebcb2a424f",
}


def golden_pipe(kind):
    inputs = [[1000 * source + row for row in range(100 + 13 * source % 70)] for source in range(11)]
    schedule = {37 * k: [(source * 5 + k * 3) % 7 / 10 for source in range(11)] for k in range(20)}
    of = streamed if kind == "streamed" else lambda pipe: pipe
    return mixed(inputs, schedule, of=of, random=kind == "random", name="golden")


@pytest.mark.parametrize("kind", GOLDEN)
def test_the_order_never_changes(kind):
    loader = fp.Loader(golden_pipe(kind), seed=7, **({"shards": 3} if kind == "streamed" else {}))
    assert digest(loader) == GOLDEN[kind]


class TestErrors:
    def test_schedules(self):
        a, b = fp.from_sequence(A), fp.from_sequence(B)
        for weights, message in (
            (
                {},
                "`weights` must have the key 0, because its keys are the rows from which on weights hold, but has none",
            ),
            ({5: [1, 1], 9: [1, 2]}, "must have the key 0, .* but has 5, 9"),
            ({0: [1, 1], -5: [1, 2]}, r"`weights\.keys\(\)` must be >= 0 but got: -5"),
            (
                {0: [1, 1], 7: [1]},
                r"`weights\[7\]` must have a number for each of the 2 pipes, this one first, but has 1",
            ),
            ({0: [1, 1], 7: [1, -1]}, r"`weights\[7\]` must be >= 0, and one of them > 0, but got: \[1, -1\]"),
            ({0: [0, 0]}, r"`weights\[0\]` must be >= 0, and one of them > 0"),
            ({k: [1, 1] for k in range(2**16 + 1)}, "must have at most 65,536 stages but has 65,537"),
        ):
            with pytest.raises(ArgumentError, match=message):
                a.mix(b, weights=weights)
        for weights, message in (
            ({0: [1, 1], 1.5: [1, 1]}, "must be an int but got: 1.5"),
            ({0: [1, 1], True: [1, 1]}, "must be an int but got: True"),
            ({0: [1, 1], 3: 7}, r"`weights\[3\]` must be numbers, one for each pipe, but got: 7"),
        ):
            with pytest.raises(ArgumentTypeError, match=message):
                a.mix(b, weights=weights)

    def test_explain(self, capsys):
        mixed([A, B], {0: [1, 0], 9: [1, 1]}).explain()
        text = capsys.readouterr().out
        assert "takes 30, 12 rows of its inputs" in text
        assert "its weights change at row 9 of each pass, on all ranks together" in text
        mixed([A, B, C], ramp(), of=streamed).explain()
        assert "its weights change at 7 rows, from 5 to 35, of each pass" in capsys.readouterr().out
        assert repr(mixed([A, B, C], ramp())).endswith("weights={0: [8, 0, 1], 5: [7, 1, 1], ..., 35: [1, 7, 1]})\n)")
