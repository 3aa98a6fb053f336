"""`profile`: the contents of the columns of a pipe, and what looks wrong."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import check_bool, check_int
from ..core.progress_bar import ProgressBar
from ..core.rows import Column, to_arrow
from ..errors import ArgumentTypeError, DataError, RowError, UnfitError, with_call_site
from ..loader import Loader
from ..pipe import Pipe
from ..stats.distinct_values import CountsStatistic, Tally
from ..stats.statistics import Moments, QuantileSketch, missing_rows
from .fit import PARTS, check_ends, single_rows

if TYPE_CHECKING:
    import pyarrow as pa


CHUNK_ROWS = 2**13
CELL_WIDTH = 24


def profile(pipe: Pipe[Mapping[str, object]], *, rows: int | None = None, progress: bool = True) -> Profile:
    """Run a pipe once in this process, and return a profile of its columns.

    Printed, a profile is a table: for each column its type, missing values, the extremes, the median and the most
    frequent values. Below is what looks wrong: columns that are constant, ids that repeat, text that is numbers,
    spellings that differ in case or white space, outliers.

    Args:
        pipe: gives rows, of a table or as dicts.
        rows: look only at the first rows, of this number.
        progress: on a terminal, shows the number of rows.

    Raises:
        PlanError: the pipe repeats its rows without end, and `rows` is None.
        DataError: an element is no row.

    Example:
        >>> import feedpipe as fp
        >>> people = [{"age": "34", "city": "Rome"}, {"age": "n/a", "city": " rome"}, {"age": "51", "city": None}]
        >>> fp.profile(fp.from_sequence(people))
        3 rows
        column  type    missing  distinct  min  median  max  most frequent
        age     string  0        3                           '34', '51', 'n/a'
        city    string  1        2                           ' rome', 'Rome'
        what looks wrong
          age: 66.7% of the text is numbers, and others are such as 'n/a'
          city: some values differ in case or white space alone: ' rome', 'Rome'
    """
    if not isinstance(pipe, Pipe):
        raise ArgumentTypeError(with_call_site(f"`pipe` must be a Pipe but got: {pipe!r}"))
    check_bool("progress", progress)
    if rows is not None:
        pipe = pipe.take(check_int("rows", rows, least=1))
    check_ends(pipe, "profile")
    outlines: defaultdict[str, list[ColumnOutline]] = defaultdict(list)
    count = 0
    for number, columns in _outlines(pipe, progress=progress):
        for name, outline in columns.items():
            parts = outlines[name]
            if count and not parts:  # rows that are dicts: those before it lack the column
                parts.append(_nothing(count))
            parts.append(outline)
        count += number
        for name, parts in outlines.items():
            if name not in columns:
                parts.append(_nothing(number))
            if len(parts) > PARTS:
                parts[:] = [ColumnOutline.merged(parts)]
    profiles = {name: ColumnProfile.of(name, ColumnOutline.merged(parts)) for name, parts in outlines.items()}
    return Profile(profiles, count)


def _outlines(pipe: Pipe[Any], *, progress: bool) -> Iterator[tuple[int, dict[str, ColumnOutline]]]:
    chain = pipe.batch(CHUNK_ROWS).map(OutlineRows())
    with (
        Loader(chain, rank=0, world_size=1, even=None) as loader,
        ProgressBar("profile", pipe.length, share=lambda: loader.progress, shown=None if progress else False) as bar,
    ):
        try:
            for part in loader:
                bar.update(part[0])
                yield part
        except RowError as error:
            if isinstance(error.__cause__, UnfitError):
                raise DataError(with_call_site(f"`profile`: {error.__cause__}")) from error.__cause__
            raise


def _nothing(rows: int) -> ColumnOutline:
    import pyarrow as pa

    return ColumnOutline.of(pa.nulls(rows))


SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
FREQUENT = 5
"""The number of the most frequent values that are shown."""
FENCE = 10.0
"""An outlier lies beyond a quartile by this multiple of the distance between the quartiles."""
ALMOST_ALL = 0.95
"""The share of different values in a column that identifies rows."""
MANY_NUMBERS = 0.5
"""The share of numbers among the texts of a column that is meant to have numbers."""
FEW_ROWS = 20
"""The number of rows up to which ids and chance look alike."""

_FLOATS = ("float", "double", "halffloat")


@dataclass(frozen=True)
class ColumnProfile:
    """The profile of a column.

    Attributes:
        name, type: of the column.
        rows, missing: the number of rows, and of those without a value.
        distinct: the number of different values; None if they are too many, or their type is not counted.
        too_many: whether there are more than 100,000 different values.
        min, max, mean, std: of numbers; None for others, but dates and times have the first two.
        quantiles: of numbers, by the share of rows below.
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
            outline.too_many,
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
    if outline.too_many and outline.types.keys().isdisjoint(_FLOATS):
        remarks.append(f"it has more than {MAX_DISTINCT:,} distinct values, so it was not checked for repeats")
    if outline.number_texts == count:
        remarks.append("all of the text is numbers")
    elif outline.number_texts >= MANY_NUMBERS * count:
        share = outline.number_texts / count
        remarks.append(f"{share:.1%} of the text is numbers, and others are such as {outline.no_number!r:.40}")
    return remarks + _spellings([value for value, _ in frequent])


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


class Profile(Mapping[str, ColumnProfile]):
    """The profiles of the columns of a pipe, by the name of the column. Printed, it is a table.

    Attributes:
        rows: the number of rows.
    """

    def __init__(self, columns: Mapping[str, ColumnProfile], rows: int) -> None:
        self._columns = dict(columns)
        self.rows = rows

    def __getitem__(self, name: str) -> ColumnProfile:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def table(self) -> pa.Table:
        """A row for each column, with its remarks; values of several types are text."""
        import pyarrow as pa

        entries = self._columns.values()
        floats = {"mean": pa.float64(), "std": pa.float64()}
        counts = {"rows": pa.int64(), "missing": pa.int64(), "distinct": pa.int64()}
        columns: dict[str, Any] = {"column": pa.array([entry.name for entry in entries], pa.string())}
        columns["type"] = pa.array([entry.type for entry in entries], pa.string())
        for name, kind in {**counts, **floats}.items():
            columns[name] = pa.array([getattr(entry, name) for entry in entries], kind)
        for name in ("min", "max"):
            columns[name] = pa.array([_text(getattr(entry, name)) for entry in entries], pa.string())
        columns["median"] = pa.array([entry.quantiles.get(0.5) for entry in entries], pa.float64())
        frequent = [[_text(value) for value, _ in entry.frequent] for entry in entries]
        columns["frequent"] = pa.array(frequent, pa.list_(pa.string()))
        columns["remarks"] = pa.array([entry.remarks for entry in entries], pa.list_(pa.string()))
        return pa.table(columns)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the profile as a page for a browser, in one file that loads nothing."""
        Path(path).write_text(html_page(list(self._columns.values()), self.rows), encoding="utf-8")

    def _repr_html_(self) -> str:
        from ..pictures.page import fragment, table, tag

        header = ["column", "type", "missing", "distinct", "min", "median", "max", "most frequent", "what looks wrong"]
        lines = [
            [*_cells(entry), [tag("div", remark, class_="warn") for remark in entry.remarks]] for entry in self.values()
        ]
        return fragment(table(header, lines, range(2, 7)), tag("small", f"{self.rows:,} rows"))

    def __repr__(self) -> str:
        header = ["column", "type", "missing", "distinct", "min", "median", "max", "most frequent"]
        lines = [header, *(_cells(entry) for entry in self._columns.values())]
        widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
        rows = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        remarks = [f"  {name}: {remark}" for name, entry in self._columns.items() for remark in entry.remarks]
        return "\n".join([f"{self.rows} rows", *rows, *(["what looks wrong", *remarks] if remarks else [])])


def _cells(entry: ColumnProfile) -> list[str]:
    frequent = ", ".join(f"{value!r:.12}" for value, _ in entry.frequent[:3])
    numbers = [_text(value) or "" for value in (entry.min, entry.quantiles.get(0.5), entry.max)]
    cells = [entry.name, entry.type, str(entry.missing), _distinct(entry, "d"), *numbers, frequent]
    return [cell if len(cell) <= 2 * CELL_WIDTH else f"{cell[: 2 * CELL_WIDTH - 3]}..." for cell in cells]


def _distinct(entry: ColumnProfile, form: str) -> str:
    if entry.too_many:
        return f"> {MAX_DISTINCT:,}"
    return "" if entry.distinct is None else format(entry.distinct, form)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# Outlines of columns, which join


MAX_DISTINCT = 100_000
"""The most distinct values that are counted."""
EXAMPLES = 3
NUMBER = r"^\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*$"
"""Text that is a number to a person."""


class OutlineRows:
    """The outlines of all columns of a batch of rows."""

    def __call__(self, batch: Sequence[object]) -> tuple[int, dict[str, ColumnOutline]]:
        rows = single_rows(batch)
        return len(rows), {name: ColumnOutline.of(column) for name, column in rows.columns.items()}


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

    @staticmethod
    def of(column: Column) -> ColumnOutline:
        """The outline of a column."""
        import pyarrow as pa

        array: Any = to_arrow(column)
        if isinstance(array.type, pa.DictionaryType):
            array = array.dictionary_decode()
        present = array.drop_null()
        examples = [value for value in present.slice(0, EXAMPLES).to_pylist() if value == value]
        kind = "decimal" if pa.types.is_decimal(array.type) else str(array.type)
        types = Counter({} if kind == "null" else {kind: len(array)})
        outline = ColumnOutline(len(array), missing_rows(array), types, examples)
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
        whole.no_number = next((part.no_number for part in parts if part.no_number is not None), None)
        if moments := [part.moments for part in parts if part.moments is not None]:
            merged = Moments.merged(moments)
            assert isinstance(merged, Moments)
            whole.moments = merged
            whole.sketch = QuantileSketch.merged([part.sketch for part in parts if part.sketch is not None])
        if spans := [part.span for part in parts if part.span is not None]:
            whole.span = min(low for low, _ in spans), max(high for _, high in spans)
        tallies = [part.tally for part in parts if part.missing < part.rows]
        if tallies and all(tally is not None for tally in tallies) and len(types) == 1:
            tally = Tally.merged([tally for tally in tallies if tally is not None])
            whole.too_many = len(tally.values) > MAX_DISTINCT
            whole.tally = None if whole.too_many else tally
        return whole

    def _add_numbers(self, present: Any) -> None:
        import pyarrow as pa

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
        import pyarrow as pa
        import pyarrow.compute as pc

        if not (pa.types.is_string(present.type) or pa.types.is_large_string(present.type)):
            return
        is_number: Any = pc.match_substring_regex(present, NUMBER)
        self.number_texts = int(is_number.true_count)
        others = present.filter(pc.invert(is_number)).slice(0, 1).to_pylist()
        self.no_number = others[0] if others else None

    def _add_span(self, present: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(present) and (pa.types.is_date(present.type) or pa.types.is_timestamp(present.type)):
            bounds: Any = pc.min_max(present).as_py()
            self.span = bounds["min"], bounds["max"]


# The HTML page


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1b1f24; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem; }
th { border-bottom: 2px solid #888; } td { border-bottom: 1px solid #ddd; } td.number { text-align: right; }
.remark { color: #a33; } .bar { background: #6a9fd4; display: inline-block; height: .7em; margin-right: .4em; }
small { color: #666; }
@media (prefers-color-scheme: dark) { body { background: #16181b; color: #ddd; } .remark { color: #f88; } }
"""
BAR_WIDTH = 80
"""The width of the longest bar, in pixels."""


def html_page(columns: Sequence[ColumnProfile], rows: int) -> str:
    """The page: a table of the columns, with bars of the most frequent values."""
    titles = ("Column", "Missing", "Distinct", "Numbers", "Most frequent", "Examples")
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "\n".join(_row(column) for column in columns)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Profile</title>'
        f"<style>{STYLE}</style></head>\n<body><h1>Profile</h1><p>{rows:,} rows, {len(columns)} columns</p>\n"
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></body></html>\n"
    )


def _row(column: ColumnProfile) -> str:
    remarks = "".join(f'<br><span class="remark">{escape(remark)}</span>' for remark in column.remarks)
    missing = f"{column.missing:,}<br><small>{column.missing / max(column.rows, 1):.1%}</small>"
    examples = "<br>".join(escape(f"{value!r:.60}") for value in column.examples)
    return (
        f"<tr><td><b>{escape(column.name)}</b> <small>{escape(column.type)}</small>{remarks}</td>"
        f'<td class="number">{missing}</td><td class="number">{escape(_distinct(column, ",d"))}</td>'
        f"<td>{_numbers(column)}</td><td>{_frequent(column)}</td><td>{examples}</td></tr>"
    )


def _numbers(column: ColumnProfile) -> str:
    lines: list[tuple[str, Any]] = [("min", column.min)]
    lines += [(f"{share:.0%}", value) for share, value in column.quantiles.items()]
    lines += [("max", column.max), ("mean", column.mean), ("std", column.std)]
    return "<br>".join(
        f"<small>{name}</small> {escape(f'{value:.6g}' if isinstance(value, float) else str(value))}"
        for name, value in lines
        if value is not None
    )


def _frequent(column: ColumnProfile) -> str:
    most = max((count for _, count in column.frequent), default=1)
    return "<br>".join(
        f'<span class="bar" style="width:{round(BAR_WIDTH * count / most)}px"></span>{escape(f"{value!r:.40}")} '
        f"<small>{count:,}</small>"
        for value, count in column.frequent
    )
