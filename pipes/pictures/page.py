"""`tag`, `page`, `fragment`: markup that is safe by its type, one style sheet, tables, bars and histograms.

A page is one file: it loads nothing, and has the colours of the system, light or dark. Only `Html` is markup. All other
text is escaped when it gets into a page, without the secrets of its URLs and without characters that a browser obeys.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TypeAlias

from ..errors import shown


class Html(str):
    """Markup. Its methods return plain text, which is escaped again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Html({super().__repr__()})"


Content: TypeAlias = "str | int | float | Iterable[Content] | None"
"""What becomes part of a page: markup, text, which is escaped, a number, None for nothing, or several of these."""
_WITHOUT_CONTENT = frozenset(("br", "circle", "img", "line", "meta", "path", "polyline", "rect"))


def markup(*content: Content) -> Html:
    """The parts one after the other."""
    return Html("".join(_texts(content)))


def tag(name: str, /, *content: Content, **attributes: str | float | bool | None) -> Html:
    """An element of HTML or SVG.

    Args:
        name: of the element.
        content: what is in it.
        attributes: `class_` is `class`, and `aria_label` is `aria-label`. None and False leave one out.
    """
    head = "".join([name, *(f' {_name(key)}="{_value(value)}"' for key, value in attributes.items() if _is_set(value))])
    if name in _WITHOUT_CONTENT:
        return Html(f"<{head}/>")
    return Html(f"<{head}>{markup(*content)}</{name}>")


def _texts(content: Iterable[Content]) -> Iterator[str]:
    for part in content:
        if isinstance(part, Html):
            yield str(part)
        elif isinstance(part, str):
            yield escape(shown(part))
        elif isinstance(part, (int, float)):
            yield str(part)
        elif part is not None:
            yield from _texts(part)


def _is_set(value: object) -> bool:
    return value is not None and value is not False


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float | bool | None) -> str:
    if value is True:
        return ""
    return f"{value:.8g}" if isinstance(value, float) else escape(shown(str(value)))


def prose(text: str) -> Html:
    """A sentence, in which code stands between backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick is left over
        return markup(text)
    return markup(tag("code", part) if place % 2 else part for place, part in enumerate(parts))


def clipped(text: str, length: int) -> str:
    """The text on one line, cut after this many characters."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length and len(text) <= 4 * length else f"{line[: length - 1]}…"


def short_number(value: float) -> str:
    """Three digits and a unit: 1.23k, 45M."""
    for unit in ("", "k", "M", "G"):
        if abs(value) < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}T"


# Parts of pages


def table(head: Sequence[Content], rows: Iterable[Sequence[Content]], numbers: Sequence[int] = ()) -> Html:
    """A table; the columns at the places `numbers` end at one line."""
    right = dict.fromkeys(numbers, "n")
    titles = tag("tr", [tag("th", title, class_=right.get(place)) for place, title in enumerate(head)])
    lines = [tag("tr", [tag("td", cell, class_=right.get(place)) for place, cell in enumerate(row)]) for row in rows]
    return tag("div", tag("table", tag("thead", titles) if head else None, tag("tbody", lines)), class_="wide")


def bar(share: float, label: Content = None) -> Html:
    """A share from 0 to 1 as a bar, and as a number or another label: it is never told by length alone."""
    part = 100 * min(1.0, max(0.0, share))
    full = tag("span", style=f"display:inline-block;height:.7em;background:#4a86c5;width:{part:.1f}%")
    scale = tag("span", full, class_="bar", style="display:inline-block;width:5em")
    return tag("span", scale, " ", f"{share:.0%}" if label is None else label, style="white-space:nowrap")


def histogram(counts: Sequence[float], titles: Sequence[str], ends: tuple[str, str], label: str) -> Html:
    """Bars beside each other.

    Args:
        counts: the heights.
        titles: a tooltip for each bar.
        ends: what stands below the first and below the last bar.
        label: what it shows, for those who do not see it.
    """
    width, height = 220, 56
    step, most = width / max(1, len(counts)), max([*counts, 1e-300])
    bars: list[Html] = []
    for place, (count, title) in enumerate(zip(counts, titles, strict=True)):
        high = max(1.0, height * count / most) if count else 0.0
        box = {"x": place * step, "y": height - high, "width": max(0.5, step - 1), "height": high}
        bars.append(tag("rect", class_="mark", **box) if not title else _titled(title, box))
    picture = tag(
        "svg", bars, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img", aria_label=label
    )
    return tag(
        "div", picture, tag("div", tag("span", ends[0]), tag("span", ends[1]), class_="ends"), class_="histogram"
    )


def curve(points: Sequence[tuple[float, float]], most: float, label: str) -> Html:
    """Values over time, as a line from the left end to the right.

    Args:
        points: of each value, its place between the ends, from 0 to 1, and the value.
        most: the value at the upper edge.
        label: what it shows, for those who do not see it.
    """
    width, height = 320, 40
    spots = " ".join(f"{x * width:.1f},{height - 1 - (height - 2) * y / max(most, 1e-300):.1f}" for x, y in points)
    line = tag("polyline", points=spots, fill="none", stroke="currentColor", stroke_width=1.5)
    ground = tag("rect", width=width, height=height, class_="ground")
    return tag(
        "svg", ground, line, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img", aria_label=label
    )


def _titled(title: str, box: dict[str, float]) -> Html:
    return tag("g", tag("title", title), tag("rect", class_="mark", **box))


def image(data: bytes, label: str, width: int, height: int, kind: str = "image/png") -> Html:
    """An image, whose file becomes part of the page."""
    source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return Html(f'<img src="{source}" alt="{_value(label)}" width="{width}" height="{height}"/>')


# Pages


def page(title: str, *body: Content, script: str = "") -> str:
    """A page in one file.

    Args:
        title: of the window.
        body: what it shows.
        script: what it runs; it is the only script that the browser lets run.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"script-src 'sha256-{digest}'" if script else "script-src 'none'"
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; {allowed}; base-uri 'none'; form-action 'none'"
    )
    head = markup(
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(STYLE), Html(PAGE_STYLE)),
    )
    code = tag("script", Html(script)) if script else None
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body, code, class_='fp'), lang='en')}\n"


def fragment(*body: Content) -> str:
    """A part of a notebook: no script, and rules for its own elements alone.

    A notebook that is not trusted drops the style sheet and SVG; tables and images stay.
    """
    return str(tag("div", tag("style", Html(STYLE)), body, class_="fp"))


def data_block(name: str, value: object) -> Html:
    """A plain value for the script of a page, by the name of the element."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Html(text), type="application/json", id=name)


_LIGHT = (
    "--bg:#fff;--fg:#1b1f24;--soft:#57606a;--box:#f5f7fa;--line:#c3ccd6;--mark:#3f7cbf;--heat:#f3c9b8;--hot:#d2462a;"
    "--warn:#9a3412;--edge:#7ba7d3;--pick:#1f6feb;color-scheme:light"
)
_DARK = (
    "--bg:#15181c;--fg:#e2e5e9;--soft:#a3acb6;--box:#20252b;--line:#454f5a;--mark:#5f97d0;--heat:#6b3a2a;--hot:#eb6e46;"
    "--warn:#fdba8c;--edge:#4f86bd;--pick:#69a7ff;color-scheme:dark"
)
COLOURS = (
    f".fp{{{_LIGHT}}}"
    f"@media (prefers-color-scheme:dark){{.fp{{{_DARK}}}}}"
    # What a notebook or a site has chosen goes before what the system has.
    f"[data-jp-theme-light=true] .fp,[data-theme=light] .fp,[theme=light] .fp,.vscode-light .fp{{{_LIGHT}}}"
    f"[data-jp-theme-light=false] .fp,[data-theme=dark] .fp,[theme=dark] .fp,.vscode-dark .fp{{{_DARK}}}"
)
"""The colours of pages, as variables of the class `fp`."""
STYLE = (
    COLOURS
    + """
.fp{background:var(--bg);color:var(--fg);font:14px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
div.fp{padding:.5em .75em}
.fp code,.fp pre{font:13px/1.5 ui-monospace,"DejaVu Sans Mono",monospace;color:inherit;background:none;padding:0}
.fp small,.fp .soft{color:var(--soft);font-size:12.5px;font-weight:400}
.fp .warn{color:var(--warn)}
.fp .wide{overflow-x:auto;max-width:100%}
.fp table{border-collapse:collapse;width:max-content;margin:.3em 0;color:inherit;font-size:inherit}
.fp th,.fp td{text-align:left;vertical-align:top;padding:.2em .9em .2em 0;border:0;overflow-wrap:normal;max-width:32em}
.fp thead th{border-bottom:1px solid var(--line);font-weight:600;white-space:nowrap;vertical-align:bottom}
.fp tbody tr{background:none;border-bottom:1px solid var(--box)}
.fp th.n,.fp td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.fp .bar{background:var(--box);line-height:1;white-space:nowrap}
.fp .bar span{background:var(--mark)!important;vertical-align:top}
.fp .mark{fill:var(--mark)}.fp .ground{fill:var(--box)}
.fp .histogram{display:inline-block;max-width:100%}.fp .histogram svg{display:block;max-width:100%}
.fp .ends{display:flex;justify-content:space-between;gap:1em;color:var(--soft);font-size:12px}
.fp img{image-rendering:pixelated;margin:0;max-width:none}
.fp summary{cursor:pointer}
"""
)
"""Rules for all that is in an element of the class `fp`."""
PAGE_STYLE = """
*{box-sizing:border-box}body{margin:0}
.fp header{padding:.8rem 1.2rem;border-bottom:1px solid var(--line)}.fp header p{margin:.2rem 0}
.fp h1{font-size:1.15rem;margin:.2rem 0}
.fp h2{font-size:1.05rem;margin:1.2rem 0 .4rem}
.fp h3{font-size:.95rem;margin:1rem 0 .3rem}
.fp h1 code,.fp h2 code{font-size:inherit}
.fp a{color:var(--pick)}
.fp :focus-visible{outline:2px solid var(--pick);outline-offset:2px}
"""
"""Rules for a whole page."""
