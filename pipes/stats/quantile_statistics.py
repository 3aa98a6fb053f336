"""`quantiles`: exact for a few thousand rows, from a sketch for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.column import Column
from ..errors import ArgumentError, ArgumentTypeError, UnfitError, with_call_site
from .number_statistics import check_filled
from .present_values import present_numbers
from .statistic import Fitted, Statistic, Summary

Floats = npt.NDArray[np.float64]

MAX_POINTS = 4096
"""Up to so many values are kept as they are."""
CLUSTERS = 2000
"""To so many clusters they are joined otherwise."""


@dataclass(frozen=True)
class Quantiles(Fitted):
    """Some quantiles of a column of numbers: `quantiles[0.5]` is the median.

    Attributes:
        values: by the share of rows below; `bucketize` takes them as boundaries.
        rows: the number of rows.
        missing: how many of them have no value.
    """

    kind: ClassVar[str] = "quantiles"

    values: Mapping[float, float]
    rows: int
    missing: int

    def __getitem__(self, share: float) -> float:
        if share not in self.values:
            raise KeyError(f"{share!r} is none of the quantiles that were fitted: {', '.join(map(repr, self.values))}")
        return self.values[share]

    def to_json(self) -> dict[str, object]:
        return {"rows": self.rows, "missing": self.missing, "values": [list(pair) for pair in self.values.items()]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Quantiles:
        return cls(dict(values["values"]), values["rows"], values["missing"])


class QuantileSketch(Summary):
    """Sorted points with weights: single values, or the means of clusters of neighbours.

    Clusters are as in the t-digest of Dunning and Ertl (Computing Extremely Accurate Quantiles Using t-Digests, 2019):
    small at both ends, where quantiles of outliers lie, and made anew, all at once, when there are too many points.
    """

    def __init__(self, rows: int, points: Floats, weights: Floats, bounds: tuple[float, float]) -> None:
        self.rows = rows
        self.points = points
        self.weights = weights
        self.bounds = bounds

    @staticmethod
    def of(rows: int, numbers: Floats) -> QuantileSketch:
        bounds = (float(numbers.min()), float(numbers.max())) if len(numbers) else (np.inf, -np.inf)
        return QuantileSketch.joined(rows, numbers, np.ones(len(numbers)), bounds)

    @staticmethod
    def joined(rows: int, points: Floats, weights: Floats, bounds: tuple[float, float]) -> QuantileSketch:
        """The sketch of points in any order."""
        order = np.argsort(points, kind="stable")
        points, weights = points[order], weights[order]
        if len(points) > MAX_POINTS:
            shares = (np.cumsum(weights) - weights / 2) / weights.sum()
            places = np.floor((np.arcsin(2 * shares - 1) / np.pi + 0.5) * CLUSTERS)
            first = np.flatnonzero(np.diff(places, prepend=-1))
            sums = np.add.reduceat(weights, first)
            points, weights = np.add.reduceat(points * weights, first) / sums, sums
        return QuantileSketch(rows, points, weights, bounds)

    @classmethod
    def merged(cls, parts: Sequence[QuantileSketch]) -> QuantileSketch:
        bounds = min(part.bounds[0] for part in parts), max(part.bounds[1] for part in parts)
        points = np.concatenate([part.points for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        return cls.joined(sum(part.rows for part in parts), points, weights, bounds)

    @property
    def count(self) -> int:
        return round(float(self.weights.sum()))

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Values between the points by their ranks, as `numpy.quantile` computes them of single values."""
        middles = np.cumsum(self.weights) - self.weights / 2
        ranks = [0.5, *middles, self.count - 0.5]
        values = [self.bounds[0], *self.points, self.bounds[1]]
        quantiles: list[float] = np.interp(np.array(shares) * (self.count - 1) + 0.5, ranks, values).tolist()
        return quantiles

    def to_json(self) -> dict[str, object]:
        points, weights = self.points.tolist(), self.weights.tolist()
        return {"rows": self.rows, "points": points, "weights": weights, "bounds": self.bounds if points else None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> QuantileSketch:
        low, high = values["bounds"] or (np.inf, -np.inf)
        return cls(values["rows"], np.array(values["points"]), np.array(values["weights"]), (low, high))


@dataclass(frozen=True)
class QuantilesStatistic(Statistic[QuantileSketch]):
    kind: ClassVar[str] = "quantiles"
    summary_type: ClassVar[type[Summary]] = QuantileSketch

    shares: tuple[float, ...]

    def summary(self, column: Column) -> QuantileSketch:
        numbers, _ = present_numbers(column)
        if numbers.ndim > 1:
            raise UnfitError("has arrays, and single numbers are needed")
        return QuantileSketch.of(len(column), numbers)

    def result(self, summary: QuantileSketch) -> Quantiles:
        check_filled(summary.count, summary.rows)
        values = dict(zip(self.shares, summary.quantiles(self.shares), strict=True))
        return Quantiles(values, summary.rows, summary.rows - summary.count)


def quantiles(q: Sequence[float] = (0.01, 0.25, 0.5, 0.75, 0.99)) -> Statistic[Any]:
    """Values below which given shares of the numbers lie, for `clip` and `bucketize`.

    They are exact, as `numpy.quantile` computes them, for up to 4,096 rows. Of more rows, the share that lies below a
    value is right to about 0.001.

    Args:
        q: the shares, which rise, from 0 to 1.
    """
    if isinstance(q, (str, bytes)) or not isinstance(q, (Sequence, np.ndarray)):
        raise ArgumentTypeError(with_call_site(f"`q` must be a list of shares but got: {q!r}"))
    shares = tuple(map(float, q))
    if not shares or any(not 0 <= share <= 1 for share in shares) or sorted(set(shares)) != list(shares):
        raise ArgumentError(with_call_site(f"`q` must be shares between 0 and 1 that rise but got: {q!r}"))
    return QuantilesStatistic(shares)
