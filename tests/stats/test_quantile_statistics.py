"""`quantiles`: exact for few rows; the rank of a sketch is near for many, however they come."""

from __future__ import annotations

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError

from ..support.stats import MAX_POINTS, QuantileSketch

SHARES = [0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0]


@pytest.mark.parametrize("distribution", ["normal", "lognormal", "rising", "ties", "two values"])
def test_ranks_are_near(distribution: str) -> None:
    rng = np.random.default_rng(1)
    numbers = {
        "normal": rng.normal(size=500_000),
        "lognormal": rng.lognormal(sigma=3, size=500_000),
        "rising": np.arange(500_000.0),
        "ties": rng.integers(0, 90, 500_000).astype(float),
        "two values": (rng.random(500_000) < 0.3) * 1e9,
    }[distribution]
    sketch = QuantileSketch.of(0, numbers[:0])
    for part in np.array_split(numbers, 50):  # one after the other, as they come from workers
        sketch = QuantileSketch.merged([sketch, QuantileSketch.of(len(part), part)])
    assert len(sketch.points) <= MAX_POINTS
    ordered = np.sort(numbers)
    for share, value in zip(SHARES, sketch.quantiles(SHARES), strict=True):
        tolerance = 1e-9 * abs(value)  # the mean of equal values need not be that value
        low = np.searchsorted(ordered, value - tolerance, "left") / len(ordered)
        high = np.searchsorted(ordered, value + tolerance, "right") / len(ordered)
        if low == high:  # between two neighbours, as of values that occur often: the next lower one counts
            low = np.searchsorted(ordered, ordered[np.searchsorted(ordered, value) - 1]) / len(ordered)
        assert low - 1e-3 <= share <= high + 1e-3, (share, low, high)


def test_arguments() -> None:
    for wrong in ([0.5, 0.25], [0.5, 0.5], [1.5], []):
        with pytest.raises(ArgumentError, match="`q` must be shares between 0 and 1 that rise but got: "):
            fp.stats.quantiles(wrong)
    with pytest.raises(ArgumentTypeError, match="`q` must be a list of shares but got: 0.5"):
        fp.stats.quantiles(0.5)  # type: ignore[arg-type]


def test_a_share_that_was_not_fitted() -> None:
    fitted = fp.fit(fp.from_sequence([{"x": n} for n in range(11)]), {"x": fp.stats.quantiles([0.1, 0.5])})["x"]
    assert (fitted[0.1], fitted[0.5]) == (1, 5)
    with pytest.raises(KeyError, match="0.2 is none of the quantiles that were fitted: 0.1, 0.5"):
        fitted[0.2]
