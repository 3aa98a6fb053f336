"""A profile as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from .column_profile import ColumnProfile

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
    distinct = "" if column.distinct is None else f"{column.distinct:,}"
    examples = "<br>".join(escape(f"{value!r:.60}") for value in column.examples)
    return (
        f"<tr><td><b>{escape(column.name)}</b> <small>{escape(column.type)}</small>{remarks}</td>"
        f'<td class="number">{missing}</td><td class="number">{distinct}</td>'
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
