"""`ColumnProfile`: what a column has in it, and what looks wrong."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from ..stats.column_outline import MAX_DISTINCT, ColumnOutline

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
FREQUENT = 5
"""So many of the most frequent values are shown."""
FENCE = 10.0
"""A number is an outlier if it lies so many times the distance between the quartiles beyond one of them."""
ALMOST_ALL = 0.95
"""If such a share of the values is different, the column identifies rows."""
MANY_NUMBERS = 0.5
"""If such a share of the text is numbers, the column is meant to have numbers."""
FEW_ROWS = 20
"""Up to so many rows say little."""


@dataclass(frozen=True)
class ColumnProfile:
    """What a column has in it.

    Attributes:
        name, type: of the column.
        rows, missing: the number of rows, and of those without a value.
        distinct: the number of different values; None if there are more than 100,000, or their type is not counted.
        min, max, mean, std: of numbers; None for others, but dates and times have the first two.
        quantiles: of numbers, by the share of rows below.
        frequent: the most frequent values, each with its number.
        examples: the first values.
        remarks: what looks wrong, in words.
    """

    name: str
    type: str
    rows: int
    missing: int
    distinct: int | None
    min: Any
    max: Any
    mean: float | None
    std: float | None
    quantiles: dict[float, float]
    frequent: list[tuple[Any, int]]
    examples: list[Any]
    remarks: list[str]

    @staticmethod
    def of(name: str, outline: ColumnOutline) -> ColumnProfile:
        """The profile of a column with this outline."""
        kinds = ", ".join(outline.types) or "null"
        low, high = outline.span or (None, None)
        mean = std = None
        quantiles: dict[float, float] = {}
        if outline.moments is not None and outline.moments.rows and outline.sketch is not None:
            mean, std = map(float, outline.moments.mean_and_std())
            quantiles = dict(zip(SHARES, outline.sketch.quantiles(SHARES), strict=True))
            low, high = outline.sketch.bounds
        values, counts = ([], []) if outline.tally is None else outline.tally.ordered()
        frequent = list(zip(values, counts, strict=True))
        return ColumnProfile(
            name,
            kinds,
            outline.rows,
            outline.missing,
            None if outline.tally is None else len(frequent),
            low,
            high,
            mean,
            std,
            quantiles,
            frequent[:FREQUENT],
            outline.examples,
            [*_remarks(outline, frequent), *_outliers(low, high, quantiles)],
        )


def _remarks(outline: ColumnOutline, frequent: list[tuple[Any, int]]) -> list[str]:
    count = outline.rows - outline.missing
    if not count:
        return ["it has no value"]
    remarks: list[str] = []
    if len(outline.types) > 1:
        remarks.append(f"it has values of several types: {', '.join(outline.types)}")
    if outline.missing > outline.rows / 2:
        remarks.append(f"{outline.missing / outline.rows:.1%} of the values are missing")
    if outline.infinite:
        remarks.append(f"it has infinite numbers: {outline.infinite}")
    if len(frequent) == 1 and count > 1:
        remarks.append(f"it is constant: {frequent[0][0]!r:.40}")
    if count > FEW_ROWS and ALMOST_ALL * count <= len(frequent) < count and outline.types.keys().isdisjoint(_FLOATS):
        value, times = frequent[0]
        repeated = f"{count - len(frequent)} repeat a value, such as {value!r:.40}, which comes {times} times"
        remarks.append(f"it seems to identify rows, but {repeated}")
    if outline.number_texts == count:
        remarks.append("all of the text is numbers")
    elif outline.number_texts >= MANY_NUMBERS * count:
        share = outline.number_texts / count
        remarks.append(f"{share:.1%} of the text is numbers, and others are such as {outline.no_number!r:.40}")
    return remarks + _spellings([value for value, _ in frequent])


_FLOATS = ("float", "double", "halffloat")


def _spellings(values: list[Any]) -> list[str]:
    """A remark if some texts differ in case and white space alone."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for value in values if len(values) <= MAX_DISTINCT else []:
        if isinstance(value, str):
            groups[" ".join(value.lower().split())].append(value)
    alike = [group for group in groups.values() if len(group) > 1]
    if not alike:
        return []
    shown = ", ".join(f"{value!r:.40}" for value in alike[0][:3])
    return [f"some values differ in case or white space alone: {shown}"]


def _outliers(low: Any, high: Any, quantiles: dict[float, float]) -> list[str]:
    if not quantiles:
        return []
    quarter, three_quarters = quantiles[0.25], quantiles[0.75]
    reach = FENCE * (three_quarters - quarter)
    far = [value for value in (low, high) if reach and not quarter - reach <= value <= three_quarters + reach]
    if not far:
        return []
    numbers = " and ".join(f"{value:.6g}" for value in far)
    return [f"it has outliers, such as {numbers}; half of the numbers lie from {quarter:.6g} to {three_quarters:.6g}"]
