"""`ColumnProfile`: what a column holds and what looks wrong; `ColumnOutline`: a summary of some rows, which join."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, cast

import numpy as np

from ..core.lazy import pa, pc
from ..core.rows import Column, to_arrow
from ..errors import UnfitError
from ..stats.cardinality import Cardinality
from ..stats.distinct_values import CountsStatistic, Tally
from ..stats.statistics import Moments, QuantileSketch, missing_rows

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
FREQUENT = 5
"""The number of the most frequent values that are shown."""
FENCE = 10.0
"""An outlier lies beyond a quartile by this multiple of the distance between the quartiles."""
ALMOST_ALL = 0.95
"""The share of different values in a column that identifies rows."""
MANY_NUMBERS = 0.5
"""The share of numbers among the texts of a column that is meant to have numbers."""
RARE, MAX_LABELS = 5, 100
"""A label that comes less often is rare, in a column of at most this number of labels."""
LABELS = ("label", "labels", "class", "target", "category")
FEW_ROWS = 20
"""The number of rows up to which ids and chance look alike."""

_FLOATS = ("float", "double", "halffloat")


@dataclass(frozen=True)
class ColumnProfile:
    """The profile of a column.

    Attributes:
        name, type: of the column.
        rows, missing: the number of rows, and of those without a value.
        distinct: the number of different values; None if their type is not counted.
        too_many: whether there are more than 100,000 different values; `distinct` is then an estimate.
        min, max, mean, std: of numbers; None for others, but dates and times have the first two.
        quantiles: of numbers, by the share of rows below.
        sketch: of numbers, for histograms; of dates, as days since 1970, and of times, as seconds; None for others.
        lengths: of texts, lists and bytes, the same.
        frequent: the most frequent values, each with its number.
        examples: the first values.
        remarks: about what looks wrong.
    """

    name: str
    type: str
    rows: int
    missing: int
    distinct: int | None
    too_many: bool
    min: Any
    max: Any
    mean: float | None
    std: float | None
    quantiles: dict[float, float]
    sketch: QuantileSketch | None
    lengths: QuantileSketch | None
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
        sketch = outline.times if mean is None else outline.sketch
        distinct = None if outline.cardinality is None else outline.cardinality.estimate
        values, counts = ([], []) if outline.tally is None else outline.tally.ordered()
        frequent = list(zip(values, counts, strict=True))
        return ColumnProfile(
            name,
            kinds,
            outline.rows,
            outline.missing,
            distinct if outline.tally is None else len(frequent),
            outline.too_many,
            low,
            high,
            mean,
            std,
            quantiles,
            sketch,
            outline.lengths,
            frequent[:FREQUENT],
            outline.examples,
            [*_remarks(name, outline, frequent), *_outliers(low, high, quantiles)],
        )


def _remarks(name: str, outline: ColumnOutline, frequent: list[tuple[Any, int]]) -> list[str]:
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
    if outline.too_many and outline.cardinality is not None and outline.types.keys().isdisjoint(_FLOATS):
        few = outline.cardinality.estimate < 0.9 * count
        about = f"about {outline.cardinality.estimate:,} distinct values"
        remarks.append(f"it has {about}" + ("" if few else ", so it was not checked for repeats"))
    if outline.number_texts == count:
        remarks.append("all of the text is numbers")
    elif outline.number_texts >= MANY_NUMBERS * count:
        share = outline.number_texts / count
        remarks.append(f"{share:.1%} of the text is numbers, and others are such as {outline.no_number!r:.40}")
    if outline.date_texts >= ALMOST_ALL * count:
        remarks.append(f"dates are stored as text, such as {outline.examples[0]!r:.40}")
    if outline.blank_texts >= count / 2:
        remarks.append(f"{outline.blank_texts / count:.1%} of the text is empty")
    if "string" in next(iter(outline.types), "") or name.lower() in LABELS:
        remarks += _rare_labels(frequent, count)
    return remarks + _spellings([value for value, _ in frequent])


def _rare_labels(frequent: list[tuple[Any, int]], count: int) -> list[str]:
    """A remark if a column of few values has some that come a few times only."""
    rare = [(value, times) for value, times in frequent if times < RARE]
    if not rare or not 2 <= len(frequent) <= MAX_LABELS or count < 10 * RARE * len(frequent):
        return []
    value, times = rare[-1]
    others = "" if len(rare) == 1 else f", and {len(rare) - 1} others hardly more often"
    return [f"it has rare labels: {value!r:.40} comes {times} time{'s' * (times > 1)} in {count:,} rows{others}"]


def copies_of(outlines: Mapping[str, ColumnOutline]) -> dict[str, str]:
    """The columns that have the values of another one before them, each with that one."""
    firsts: dict[bytes, str] = {}
    copies: dict[str, str] = {}
    for name, outline in outlines.items():
        if outline.missing == outline.rows or outline.rows <= 1:
            continue
        first = firsts.setdefault(outline.digest, name)
        if first != name:
            copies[name] = first
    return copies


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


# Outlines of columns, which join


MAX_DISTINCT = 100_000
"""The most distinct values that are counted."""
EXAMPLES = 3
NUMBER = r"^\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*$"
"""Text that is a number to a person."""
DATE = r"^\s*(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{4})([T ]\d{1,2}:\d{2}.*)?\s*$"
"""Text that is a date."""


def _digest(array: Any) -> bytes:
    batch: Any = pa.record_batch([array], ["x"])
    return blake2b(batch.serialize(), digest_size=16).digest()


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


@dataclass
class ColumnOutline:
    """A summary of some rows of a column.

    Attributes:
        rows, missing: the number of rows, and of those without a value.
        types: the types of the column, each with the number of its rows.
        examples: its first values.
        infinite: the number of infinite numbers.
        moments, sketch: of the other numbers; None if there are none.
        tally: the distinct values; None if their type is not counted, or there are too many.
        too_many: whether there are too many distinct values.
        number_texts: the number of texts that are numbers.
        no_number: a text that is no number.
        span: the first and the last date or time.
        times: of dates, as days since 1970, or of times, as seconds; None if there are none.
        digest: of all values, by which copies are found.
        lengths: of texts, lists and bytes.
        date_texts, blank_texts: the number of texts that are dates, or nothing.
        cardinality: of the distinct values, if these are too many.
    """

    rows: int
    missing: int
    types: Counter[str]
    examples: list[Any]
    infinite: int = 0
    moments: Moments | None = None
    sketch: QuantileSketch | None = None
    tally: Tally | None = None
    too_many: bool = False
    number_texts: int = 0
    no_number: str | None = None
    span: tuple[Any, Any] | None = None
    times: QuantileSketch | None = None
    digest: bytes = b""
    lengths: QuantileSketch | None = None
    date_texts: int = 0
    blank_texts: int = 0
    cardinality: Cardinality | None = None

    @staticmethod
    def of(column: Column) -> ColumnOutline:
        """The outline of a column."""
        array: Any = to_arrow(column)
        if isinstance(array.type, pa.DictionaryType):
            array = array.dictionary_decode()
        is_tensor = isinstance(array.type, pa.FixedShapeTensorType)
        present = array.drop_null()
        if is_tensor:
            examples: list[Any] = list(array.slice(0, EXAMPLES).to_numpy_ndarray()) if not array.null_count else []
        else:
            examples = [value for value in present.slice(0, EXAMPLES).to_pylist() if not _is_nan(value)]
        of: Any = array.type
        kind = f"{of.value_type}{list(of.shape)}" if is_tensor else str(of)
        kind = "decimal" if pa.types.is_decimal(of) else kind
        types = Counter({} if kind == "null" else {kind: len(array)})
        outline = ColumnOutline(len(array), missing_rows(array), types, examples)
        outline.digest = _digest(array)
        outline._add_lengths(present)
        outline._add_numbers(present)
        outline._add_text(present)
        outline._add_span(present)
        try:
            outline.tally = CountsStatistic().summary(array)
        except UnfitError:
            outline.tally = None
        return outline

    @staticmethod
    def merged(parts: Sequence[ColumnOutline]) -> ColumnOutline:
        """The outline of the rows of all parts, at least one."""
        examples = list(islice((value for part in parts for value in part.examples), EXAMPLES))
        types = sum((part.types for part in parts), Counter[str]())
        whole = ColumnOutline(sum(p.rows for p in parts), sum(p.missing for p in parts), types, examples)
        whole.infinite = sum(part.infinite for part in parts)
        whole.too_many = any(part.too_many for part in parts)
        whole.number_texts = sum(part.number_texts for part in parts)
        whole.date_texts = sum(part.date_texts for part in parts)
        whole.blank_texts = sum(part.blank_texts for part in parts)
        whole.digest = blake2b(b"".join(part.digest for part in parts), digest_size=16).digest()
        if lengths := [part.lengths for part in parts if part.lengths is not None]:
            whole.lengths = QuantileSketch.merged(lengths)
        whole.no_number = next((part.no_number for part in parts if part.no_number is not None), None)
        if moments := [part.moments for part in parts if part.moments is not None]:
            merged = Moments.merged(moments)
            assert isinstance(merged, Moments)
            whole.moments = merged
            whole.sketch = QuantileSketch.merged([part.sketch for part in parts if part.sketch is not None])
        if spans := [part.span for part in parts if part.span is not None]:
            whole.span = min(low for low, _ in spans), max(high for _, high in spans)
            whole.times = QuantileSketch.merged([part.times for part in parts if part.times is not None])
        tallies = [part.tally for part in parts if part.missing < part.rows]
        if whole.too_many or (tallies and all(tally is not None for tally in tallies) and len(types) == 1):
            complete = [tally for tally in tallies if tally is not None]
            if not whole.too_many:
                whole.tally = Tally.merged(complete)
                whole.too_many = len(whole.tally.values) > MAX_DISTINCT
            if whole.too_many:
                whole.tally = None
                sketches = [part.cardinality for part in parts if part.cardinality is not None]
                whole.cardinality = Cardinality.merged(
                    [*sketches, *(Cardinality.of(tally.values) for tally in complete)]
                )
        return whole

    def _add_lengths(self, present: Any) -> None:
        kind = present.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            lengths: Any = pc.utf8_length(present)
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            lengths = pc.binary_length(present)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            lengths = pc.list_value_length(present)
        else:
            return
        numbers = lengths.to_numpy(zero_copy_only=False).astype(np.float64)
        self.lengths = QuantileSketch.of(len(numbers), numbers)

    def _add_numbers(self, present: Any) -> None:
        kind = present.type
        if pa.types.is_decimal(kind):
            present = present.cast(pa.float64())
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return
        numbers = present.to_numpy(zero_copy_only=False).astype(np.float64)
        numbers = numbers[~np.isnan(numbers)]
        finite = numbers[np.isfinite(numbers)]
        self.infinite = len(numbers) - len(finite)
        self.moments = Moments.of(finite)
        self.sketch = QuantileSketch.of(len(finite), finite)

    def _add_text(self, present: Any) -> None:
        if not (pa.types.is_string(present.type) or pa.types.is_large_string(present.type)):
            return
        is_number: Any = pc.match_substring_regex(present, NUMBER)
        self.number_texts = int(is_number.true_count)
        self.date_texts = int(cast("Any", pc.match_substring_regex(present, DATE)).true_count)
        self.blank_texts = int(cast("Any", pc.match_substring_regex(present, r"^\s*$")).true_count)
        others = present.filter(pc.invert(is_number)).slice(0, 1).to_pylist()
        self.no_number = others[0] if others else None

    def _add_span(self, present: Any) -> None:
        kind = present.type
        if len(present) and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            bounds: Any = pc.min_max(present).as_py()
            self.span = bounds["min"], bounds["max"]
            if pa.types.is_date(kind):
                numbers = present.cast(pa.date32()).cast(pa.int32())
            else:
                numbers = present.cast(pa.timestamp("s", kind.tz), safe=False).cast(pa.int64())
            self.times = QuantileSketch.of(len(present), numbers.to_numpy().astype(np.float64))
