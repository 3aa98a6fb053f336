"""`exact_sums`: sums and moments do not depend on how the numbers are divided, and are rounded once."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ..support.stats import Moments

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.lists(st.floats(-1e6, 1e6) | FINITE | st.sampled_from([0.1, 1e9, 1e9 + 1, 2.0**-1074]), min_size=1)


def moments(numbers: list[float]) -> tuple[float, float]:
    mean, std = Moments.of(np.array(numbers, np.float64)).mean_and_std()
    return float(mean), float(std)


@given(NUMBERS, st.lists(st.integers(0, 30)), st.randoms())
def test_any_division_and_order_give_the_same_bits(numbers: list[float], cuts: list[int], random: Random) -> None:
    whole = moments(numbers)
    random.shuffle(numbers)
    edges = sorted({0, len(numbers), *(min(cut, len(numbers)) for cut in cuts)})
    parts = [Moments.of(np.array(numbers[a:b], np.float64)) for a, b in pairwise(edges)]
    parts = [Moments.from_json(part.to_json()) for part in parts]
    random.shuffle(parts)
    mean, std = Moments.merged(parts).mean_and_std()  # type: ignore[attr-defined]
    assert (float(mean), float(std)) == whole


@given(NUMBERS)
def test_the_mean_is_the_exact_one_rounded_once(numbers: list[float]) -> None:
    assert moments(numbers)[0] == float(sum(map(Fraction, numbers)) / len(numbers))


@given(st.lists(st.floats(-1e150, 1e150), min_size=1))
def test_the_deviation_is_the_root_of_the_exact_variance(numbers: list[float]) -> None:
    mean = sum(map(Fraction, numbers)) / len(numbers)
    variance = sum((Fraction(number) - mean) ** 2 for number in numbers) / len(numbers)
    if float(variance) > 1e-290 or not variance:
        assert math.isclose(moments(numbers)[1], math.sqrt(variance), rel_tol=1e-15)
