"""`html`: markup in which every value is escaped; tables, bars and the style of pages and notebooks.

Only `Html` is markup, and only templates of this package make it. So whatever a user's data, code or paths hold, a page
shows it as text, without the secrets of URLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import LiteralString

from ..errors import shown


class Html(str):
    """Markup. Its methods return plain text, which is escaped again."""

    __slots__ = ()


def html(template: LiteralString, /, *values: object) -> Html:
    """The template with a value in place of each `{}`.

    Args:
        template: markup; attributes stand in double quotes.
        values: `Html` stays as it is, a list or a tuple gives its parts, None gives nothing; of another value, the text
            is escaped.
    """
    return Html(template.format(*map(_markup, values)))


def _markup(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Html):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "".join(map(_markup, value))  # pyright: ignore[reportUnknownArgumentType]
    return escape(shown(str(value)))


def prose(text: str) -> Html:
    """A sentence, in which code stands between backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick is left over
        return html("{}", text)
    return html("{}", [html("<code>{}</code>", part) if place % 2 else part for place, part in enumerate(parts)])


def table(head: Sequence[object], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> Html:
    """A table; the columns at the places `numbers` are aligned on the right."""
    titles = [html('<th class="{}">{}</th>', "n" * (at in numbers), title) for at, title in enumerate(head)]
    lines: list[Html] = []
    for row in rows:
        cells = [html('<td class="{}">{}</td>', "n" * (at in numbers), cell) for at, cell in enumerate(row)]
        lines.append(html("<tr>{}</tr>", cells))
    return html('<div class="wide"><table><tr>{}</tr>{}</table></div>', titles, lines)


def bar(share: float, label: object = None) -> Html:
    """A share from 0 to 1 as a bar, with the number or another label."""
    width = f"{100 * min(1.0, max(0.0, share)):.1f}"
    text = f"{share:.0%}" if label is None else label
    return html('<span class="bar"><span style="width:{}%"></span></span> {}', width, text)


def fragment(*body: object) -> str:
    """A part of a notebook: no script, and rules for its own elements alone."""
    return str(html('<div class="fp"><style>{}</style>{}</div>', Html(STYLE), body))


def page(title: str, *body: object) -> str:
    """A page in one file, which loads nothing and runs nothing."""
    return str(html(PAGE, title, Html(STYLE), prose(title), body))


PAGE: LiteralString = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{}</title><style>:root{{color-scheme:light dark}}{}</style></head>
<body class="fp"><h1>{}</h1>{}</body></html>
"""
# Colours are shades over those of the page or the notebook, light or dark.
STYLE = """
.fp{font:14px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
.fp h1{font-size:1.2em}.fp h2{font-size:1.05em;margin:1.2em 0 .3em}
.fp code{font:13px/1.5 ui-monospace,monospace;background:none;color:inherit;padding:0}
.fp small{opacity:.75}
.fp .wide{overflow-x:auto}
.fp table{border-collapse:collapse;margin:.3em 0}
.fp th,.fp td{text-align:left;vertical-align:top;padding:.2em .9em .2em 0;border-bottom:1px solid #8883;max-width:32em}
.fp th.n,.fp td.n{text-align:right;white-space:nowrap}
.fp .bar{display:inline-block;width:5em;height:.7em;background:#8883}
.fp .bar span{display:block;height:100%;background:#4a86c5}
.fp .box{border:1px solid #8886;border-radius:4px;padding:.2em .6em;margin:.3em 0}
.fp .side{display:flex;gap:1em;align-items:flex-end;border:1px dashed #8886;border-radius:4px;padding:.2em .6em}
.fp .column{width:fit-content;max-width:100%}
"""
