"""The page of a profile, and the same for a notebook: a card for each column, with pictures of its values."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from ..pictures.page import Html, bar, clipped, fragment, histogram, markup, page, prose, short_number, table, tag
from ..pictures.values import ABOUT_PILLOW, NO_PILLOW, preview, text, thumbnail

if TYPE_CHECKING:
    from ..stats.statistics import QuantileSketch
    from .column_profile import ColumnProfile

BARS = 30
"""The bars of a histogram."""
MANY_COLUMNS = 500
"""Columns beyond that number are left to `profile.table`."""
STYLE = """
.fp main{padding:.8rem 1.2rem}div.fp main{padding:0}
.fp .columns{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:.8rem}
.fp .column{border:1px solid var(--line);border-radius:6px;padding:.5rem .8rem;min-width:0}
.fp .column h3{margin:0 0 .2rem;font-size:1em;overflow-wrap:anywhere}
.fp .column p{margin:.25rem 0}.fp .column td{max-width:11em;overflow:hidden;text-overflow:ellipsis}
.fp .facts{display:flex;flex-wrap:wrap;gap:0 1em;color:var(--soft);font-size:12.5px}
"""


def profile_page(columns: Sequence[ColumnProfile], rows: int) -> str:
    """The page, in one file."""
    return page("Profile", tag("header", tag("h1", "Profile"), tag("p", _size(columns, rows))), _body(columns))


def profile_fragment(columns: Sequence[ColumnProfile], rows: int) -> str:
    """The same for a notebook; one that is not trusted shows it without the histograms."""
    return fragment(tag("p", _size(columns, rows)), _body(columns))


def _size(columns: Sequence[ColumnProfile], rows: int) -> str:
    wrong = sum(bool(column.remarks) for column in columns)
    remarks = f", {wrong} of them with remarks" if wrong else ""
    return f"{rows:,} rows, {len(columns):,} columns{remarks}"


def _body(columns: Sequence[ColumnProfile]) -> Html:
    cards = [_card(column) for column in columns[:MANY_COLUMNS]]
    left = len(columns) - len(cards)
    more = tag("p", f"and {left:,} more columns: profile.table has all") if left else None
    pillow = tag("p", tag("small", ABOUT_PILLOW)) if any(NO_PILLOW in card for card in cards) else None
    return markup(tag("style", Html(STYLE)), tag("main", tag("div", cards, class_="columns"), more, pillow))


def _card(column: ColumnProfile) -> Html:
    head = tag("h3", clipped(column.name, 80), " ", tag("small", clipped(column.type, 60)))
    remarks = [tag("p", prose(remark), class_="warn") for remark in column.remarks]
    return tag("section", head, _facts(column), remarks, _pictures(column), class_="column")


def _facts(column: ColumnProfile) -> Html:
    facts: list[str] = []
    if column.missing:
        facts.append(f"{column.missing:,} missing ({column.missing / max(1, column.rows):.1%})")
    if column.distinct is not None:
        facts.append(f"about {column.distinct:,} distinct" if column.too_many else f"{column.distinct:,} distinct")
    if column.mean is not None and column.std is not None:
        median = column.quantiles.get(0.5, column.mean)
        facts += [f"mean {column.mean:.4g}", f"std {column.std:.4g}", f"median {median:.4g}"]
    elif column.min is not None:
        facts.append(f"{column.min} to {column.max}")
    return tag("div", [tag("span", fact) for fact in facts], class_="facts")


def _pictures(column: ColumnProfile) -> Html:
    """Thumbnails, a histogram of numbers or of lengths, and the most frequent values."""
    images = [picture for value in column.examples if (picture := thumbnail(value)) is not None]
    if images:
        return tag("p", images if NO_PILLOW not in images else NO_PILLOW)
    parts: list[Html] = []
    few = column.distinct is not None and column.distinct <= len(column.frequent)
    if column.sketch is not None and not few:
        what, shown = (
            ("numbers", _number) if column.mean is not None else ("dates", _date_of(column.type, column.sketch))
        )
        parts.append(_histogram(column.sketch, f"{what} of {column.name}", shown))
    if column.lengths is not None and column.lengths.count and _repeats_little(column):
        parts += [tag("div", tag("small", "lengths")), _histogram(column.lengths, f"lengths of {column.name}", _number)]
    if column.frequent and column.frequent[0][1] > 1:
        parts.append(_frequent(column))
    elif column.examples and column.sketch is None:
        parts.append(tag("p", [markup(_example(value), tag("br")) for value in column.examples]))
    return markup(parts)


def _example(value: Any) -> Html:
    plain = isinstance(value, (datetime.date, datetime.time, Decimal))
    return tag("code", str(value)) if plain else preview(value)


def _repeats_little(column: ColumnProfile) -> bool:
    """Whether lengths say more than the values themselves, of which a few are frequent."""
    return column.distinct is None or column.distinct > 10 * len(column.frequent)


def _frequent(column: ColumnProfile) -> Html:
    most = column.frequent[0][1]
    lines = [
        (tag("code", clipped(text(value), 28)), bar(count / most, f"{count:,}")) for value, count in column.frequent
    ]
    shown = sum(count for _, count in column.frequent)
    rest = column.rows - column.missing - shown
    other = tag("small", f"and {rest:,} rows with other values") if rest > 0 else None
    return markup(table((), lines), other)


def _histogram(sketch: QuantileSketch, label: str, shown: Callable[[Any], str]) -> Html:
    """The rows in equal spans of the numbers, by the points of the sketch, up to outliers at either end."""
    low, high = sketch.quantiles((0.005, 0.995)) if sketch.count > 200 else sketch.bounds
    inside = sketch.bounds if _reaches(sketch.bounds, (low, high)) else (low, high)
    edges = _edges(sketch, *inside)
    counts, _ = np.histogram(np.clip(sketch.points, edges[0], edges[-1]), edges, weights=sketch.weights)
    titles = [
        f"{round(count):,} from {shown(start)} to {shown(stop)}"
        for count, start, stop in zip(counts, edges, edges[1:], strict=False)
    ]
    first, last = sketch.bounds
    ends = (
        shown(first) if edges[0] <= first else f"{shown(first)} ... {shown(edges[0])}",
        shown(last) if edges[-1] >= last else f"{shown(edges[-1])} ... {shown(last)}",
    )
    return histogram(counts.tolist(), titles, ends, f"histogram of {clipped(label, 60)}")


def _edges(sketch: QuantileSketch, low: float, high: float) -> Any:
    """The borders of the bars; a few whole numbers have a bar each."""
    if high - low < BARS and (sketch.points == np.round(sketch.points)).all():
        return np.arange(round(low) - 0.5, round(high) + 1)
    return np.linspace(low, high, BARS + 1) if high > low else np.array([low - 0.5, low + 0.5])


def _reaches(bounds: tuple[float, float], inner: Sequence[float]) -> bool:
    """Whether a picture from one bound to the other still shows the inner values."""
    return (bounds[1] - bounds[0]) <= 3 * (inner[1] - inner[0])


def _date_of(kind: str, sketch: QuantileSketch) -> Callable[[Any], str]:
    """How a number of days or seconds since 1970 is written: with the time of day if all are within three days."""
    low, high = sketch.bounds
    unit = "D" if kind.startswith("date") else "s"
    shown = "D" if unit == "D" or high - low > 3 * 86_400 else "m"
    return lambda number: str(np.array(math.ceil(number), f"datetime64[{unit}]").astype(f"datetime64[{shown}]"))


def _number(value: Any) -> str:
    number = float(value)
    return short_number(number) if abs(number) >= 1e5 else f"{number:.4g}"
