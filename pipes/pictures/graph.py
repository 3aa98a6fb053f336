"""`Graph`: the operators of a pipe as boxes, drawn as SVG."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .layout import Fold, GraphLayout, folded, layout, unfolded
from .page import COLOURS, Content, Html, image, short_number, tag

WIDTH, GAP, MARGIN = 300.0, 40.0, 16.0
LINE, PAD = 19.0, 12.0
BETWEEN, GATE = 34.0, 26.0
"""The height between two rows of boxes, and what a line of a gate takes beside."""
MAX_BOXES, MAX_IN_ROW = 60, 12
"""Above these, equal branches become one box."""
CODE_CHARACTERS, TEXT_CHARACTERS = 34, 44
"""The characters of a line in a box."""
EDGES = 1.5, 9.0
"""The width of an edge: the least, and that of the one with the most rows."""


@dataclass(frozen=True)
class Box:
    """An operator.

    Attributes:
        code: its call.
        kind: boxes of one kind may be drawn as one.
        inputs: the places of the boxes that it reads from, which come before it.
        facts: what is known of it, a line each.
        gates: what happens to its rows after it, such as that they are divided; one line each.
        share: of the work of all, if it was measured.
        rate: the rows that leave it in a second, if it was measured.
    """

    code: str
    kind: object
    inputs: tuple[int, ...]
    facts: Sequence[str] = ()
    gates: Sequence[str] = ()
    share: float | None = None
    rate: float | None = None


class Shape(NamedTuple):
    """One box of a picture, which may stand for several operators.

    Attributes:
        boxes: the operators; the first one is shown.
        members: their places among all boxes.
        inputs: the places of the shapes that it reads from.
    """

    boxes: tuple[Box, ...]
    members: tuple[int, ...]
    inputs: tuple[int, ...]

    @property
    def first(self) -> Box:
        return self.boxes[0]

    @property
    def share(self) -> float | None:
        shares = [box.share for box in self.boxes if box.share is not None]
        return sum(shares) if shares else None

    @property
    def rate(self) -> float | None:
        rates = [box.rate for box in self.boxes if box.rate is not None]
        return sum(rates) if rates else None

    @property
    def measures(self) -> str | None:
        """The share of the work, and the rate, in words."""
        if self.share is None:
            return None
        rate = "" if self.rate is None else f" · {short_number(self.rate)} rows/s"
        return f"{self.share:.0%} of the work{rate}"

    @property
    def facts(self) -> list[str]:
        others = len(self.boxes) - 1
        first = list(self.first.facts)
        return [f"and {others:,} like it{''.join(f' · {fact}' for fact in first[:1])}", *first[1:]] if others else first


class Graph:
    """Boxes with their places.

    Args:
        boxes: the operators; each comes after those that it reads from, and the last one is read by none.
    """

    def __init__(self, boxes: Sequence[Box]) -> None:
        inputs = [box.inputs for box in boxes]
        folds = unfolded(inputs)
        self._places = self._laid_out(folds)
        widest = max(self._places.rows.count(row) for row in set(self._places.rows))
        if len(boxes) > MAX_BOXES or widest > MAX_IN_ROW:
            folds = folded(inputs, [box.kind for box in boxes])
            self._places = self._laid_out(folds)
        self.shapes = [Shape(tuple(boxes[at] for at in fold.members), *fold) for fold in folds]
        self._lines = max(len(shape.facts) for shape in self.shapes)
        self._is_measured = any(shape.share is not None for shape in self.shapes)
        self._height = 2 * PAD + LINE * (1 + self._lines) + (LINE + 4 if self._is_measured else 0) - 4

    @staticmethod
    def _laid_out(folds: Sequence[Fold]) -> GraphLayout:
        return layout([fold.inputs for fold in folds], WIDTH, GAP)

    def svg(self, *, interactive: bool = False) -> Html:
        """The picture.

        Args:
            interactive: each box is a button, for the script of a page; else the picture is one image.
        """
        tops = self._tops()
        parts = [*self._edges(tops), *self._gates(tops)]
        parts += [self._box(place, top, interactive=interactive) for place, top in enumerate(tops)]
        width, height = self.size
        box = {"viewBox": f"0 0 {width} {height}", "width": f"{width}", "height": f"{height}", "aria_label": self.label}
        if interactive:
            return tag("svg", parts, class_="graph", role="group", **box)
        style = tag("style", Html(COLOURS), Html(GRAPH_STYLE), Html(".graph{background:var(--bg)}"))
        return tag("svg", style, parts, xmlns="http://www.w3.org/2000/svg", class_="fp graph", role="img", **box)

    def image(self) -> Html:
        """The picture as an image of a notebook, which shows it even if it does not trust what it shows."""
        return image(self.svg().encode(), self.label, *self.size, "image/svg+xml")

    def explorer(self, panels: Sequence[Content], first: int = 0) -> Html:
        """The picture, and a panel for each box, which `SCRIPT` shows if the box is chosen; without it all are shown.

        Args:
            panels: of the shapes, in their order.
            first: the place of the one that is shown to begin with.
        """
        parts = [
            tag("section", panel, aria_label=shape.first.code) for panel, shape in zip(panels, self.shapes, strict=True)
        ]
        pane = tag("div", self.svg(interactive=True), class_="pane")
        return tag("div", pane, tag("aside", parts, aria_live="polite"), class_="explorer", data_first=first)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, in pixels."""
        high = max(self._tops()) + self._height + self._gate_height(0) + MARGIN
        return math.ceil(self._places.width + 2 * MARGIN), math.ceil(high)

    @property
    def label(self) -> str:
        """The picture in words."""
        count = sum(len(shape.boxes) for shape in self.shapes)
        return f"graph of {count} operator{'s' * (count > 1)}, from {self.shapes[0].first.code} to {self._last.code}"

    @property
    def _last(self) -> Box:
        return self.shapes[-1].first

    def _tops(self) -> list[float]:
        """The upper end of each box."""
        last = max(self._places.rows)
        tops = {last: MARGIN}
        for row in range(last - 1, -1, -1):
            tops[row] = tops[row + 1] + self._height + self._gate_height(row + 1) + BETWEEN
        return [tops[row] for row in self._places.rows]

    def _gate_height(self, row: int) -> float:
        gates = [len(shape.first.gates) for shape, of in zip(self.shapes, self._places.rows, strict=True) if of == row]
        return GATE * max(gates, default=0)

    def _edges(self, tops: Sequence[float]) -> list[Html]:
        rates = [shape.rate or 0.0 for shape in self.shapes]
        most = max(rates)
        top_of = dict(zip(self._places.rows, tops, strict=True))
        parts: list[Html] = []
        for reader, shape in enumerate(self.shapes):
            sources = sorted(shape.inputs, key=self._middle)
            step = min(26.0, 0.7 * WIDTH / max(1, len(sources)))
            for port, source in enumerate(sources):
                lanes = self._places.lanes[source, reader]
                stops = [(MARGIN + x, top_of[self._places.rows[source] - 1 - at]) for at, x in enumerate(lanes)]
                stops.append((self._middle(reader) + (port - (len(sources) - 1) / 2) * step, tops[reader]))
                width = EDGES[0] + (EDGES[1] - EDGES[0]) * math.sqrt(rates[source] / most) if most else 2.0
                way = _way((self._middle(source), tops[source] + self._height), stops)
                parts.append(tag("path", class_="edge", stroke_width=f"{width:.1f}", d=way))
        return parts

    def _middle(self, place: int) -> float:
        return MARGIN + self._places.centers[place]

    def _gates(self, tops: Sequence[float]) -> list[Html]:
        parts: list[Html] = []
        for place, (shape, top) in enumerate(zip(self.shapes, tops, strict=True)):
            left = self._middle(place) - WIDTH / 2
            for number, text in enumerate(shape.first.gates):
                middle = top + self._height + GATE * (number + 0.5) + 4
                line = cut(text, TEXT_CHARACTERS)
                wide = min(WIDTH, 7.0 * len(line) + 16)
                parts.append(
                    tag(
                        "g",
                        tag("line", class_="gate", x1=left, x2=left + WIDTH, y1=middle, y2=middle),
                        tag("rect", class_="plate", x=left + (WIDTH - wide) / 2, y=middle - 9, width=wide, height=18.0),
                        tag("text", line, class_="soft middle", x=left + WIDTH / 2, y=middle + 4),
                        tag("title", text),
                    )
                )
        return parts

    def _box(self, place: int, top: float, *, interactive: bool) -> Html:
        shape = self.shapes[place]
        left = self._middle(place) - WIDTH / 2
        lines: list[Html] = []
        y = PAD + 12
        lines.append(tag("text", cut(shape.first.code, CODE_CHARACTERS), class_="code", x=PAD, y=y))
        for fact in shape.facts:
            y += LINE
            lines.append(tag("text", cut(fact, TEXT_CHARACTERS), class_="soft", x=PAD, y=y))
        if shape.measures is not None:
            low = self._height - PAD
            full = WIDTH - 2 * PAD
            lines += [
                tag("text", cut(shape.measures, TEXT_CHARACTERS), class_="soft", x=PAD, y=low - 7),
                tag("rect", class_="scale", x=PAD, y=low - 2, width=full, height=5.0, rx=2.0),
                tag("rect", class_="heat", x=PAD, y=low - 2, width=full * (shape.share or 0.0), height=5.0, rx=2.0),
            ]
        outline = [
            tag("rect", class_="plate", x=left + 5, y=top + 5, width=WIDTH, height=self._height, rx=7.0)
            if len(shape.boxes) > 1
            else None,
            tag("rect", class_="box", x=left, y=top, width=WIDTH, height=self._height, rx=7.0),
        ]
        content = [*outline, tag("svg", lines, x=left, y=top, width=WIDTH, height=self._height)]
        if not interactive:
            return tag("g", content, tag("title", shape.first.code))
        words = ", ".join(filter(None, [shape.first.code, *shape.facts, shape.measures]))
        return tag(
            "g",
            content,
            tag("title", shape.first.code),
            class_="node",
            role="button",
            tabindex=0 if place == 0 else -1,
            data_box=place,
            aria_label=words,
            aria_pressed="false",
        )


def _way(start: tuple[float, float], stops: Sequence[tuple[float, float]]) -> str:
    """Straight down, past gates and through lanes, and in a curve to each stop, in the space above its row."""
    x, y = start
    way = f"M{x:.0f} {y:.0f}"
    for to_x, to_y in stops:
        middle = to_y - BETWEEN / 2
        way += f"V{to_y - BETWEEN:.0f}C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"
        x = to_x
    return way


def cut(text: str, characters: int) -> str:
    """The text, cut after this many characters; wide ones count twice."""
    line = " ".join(text[: 4 * characters].split())
    width = 0
    for place, character in enumerate(line):
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width > characters:
            return f"{line[: max(0, place - 1)]}…"
    return line if len(text) <= 4 * characters else f"{line}…"


GRAPH_STYLE = """
.graph text{fill:var(--fg);font:12.5px system-ui,sans-serif}
.graph .code{font:13px ui-monospace,"DejaVu Sans Mono",monospace}
.graph .soft{fill:var(--soft);font-size:12px}.graph .middle{text-anchor:middle}
.graph .box{fill:var(--box);stroke:var(--line)}.graph .plate{fill:var(--bg);stroke:var(--line)}
.graph g>.plate:first-child{fill:var(--box)}
.graph .edge{fill:none;stroke:var(--edge);opacity:.8}.graph .gate{stroke:var(--soft);stroke-dasharray:5 4}
.graph line+.plate{stroke:none}.graph .scale{fill:var(--line);opacity:.5}.graph .heat{fill:var(--hot)}
"""
"""Rules for the picture, beside the colours."""
EXPLORER_STYLE = (
    GRAPH_STYLE
    + """
.explorer{display:grid;grid-template-columns:minmax(0,1fr) minmax(22rem,34rem)}
.explorer .pane{overflow:auto;max-height:max(24rem,calc(100vh - 8rem))}.graph{display:block;margin:0 auto}
.explorer aside{padding:0 1.2rem 1rem;overflow:auto;max-height:max(24rem,calc(100vh - 8rem))}
.explorer aside{border-left:1px solid var(--line)}
.explorer pre{background:var(--box);padding:.6rem;overflow-x:auto;margin:.4rem 0}
.explorer .hit{background:var(--heat)}
.node{cursor:pointer}.node:focus{outline:none}
.node:hover .box,.node:focus .box{stroke:var(--pick);stroke-width:2}.node.on .box{stroke:var(--pick);stroke-width:3}
.node:focus-visible .box{stroke-dasharray:7 3;stroke-width:3}
@media (max-width:60rem){.explorer{grid-template-columns:minmax(0,1fr)}.explorer .pane{max-height:60vh}
.explorer aside{border-left:0;border-top:1px solid var(--line);max-height:none}}
@media print{.explorer{display:block}.explorer .pane,.explorer aside{max-height:none;overflow:visible}
.explorer section[hidden]{display:block!important}}
"""
)
"""Rules for a picture that is explored."""
SCRIPT = """
for (const explorer of document.querySelectorAll('.explorer')) {
  const boxes = [...explorer.querySelectorAll('.node')];
  const panels = [...explorer.querySelectorAll('aside section')];
  const show = chosen => {
    boxes.forEach((box, at) => {
      box.classList.toggle('on', at === chosen);
      box.setAttribute('aria-pressed', at === chosen);
      box.setAttribute('tabindex', at === chosen ? 0 : -1);
    });
    panels.forEach((panel, at) => { panel.hidden = at !== chosen; });
  };
  const middle = box => {
    const place = box.querySelector('.box').getBoundingClientRect();
    return [place.x + place.width / 2, place.y + place.height / 2];
  };
  const neighbour = (box, right, down) => {
    const [x, y] = middle(box);
    let best = null, least = Infinity;
    for (const other of boxes) {
      const [otherX, otherY] = middle(other);
      const along = (otherX - x) * right + (otherY - y) * down;
      const aside = Math.abs((otherX - x) * down) + Math.abs((otherY - y) * right);
      const isInRow = down || aside < 1;
      if (isInRow && along > 1 && along + 2 * aside < least) { best = other; least = along + 2 * aside; }
    }
    return best;
  };
  const arrows = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] };
  boxes.forEach((box, at) => {
    box.addEventListener('click', () => show(at));
    box.addEventListener('keydown', event => {
      let next = null;
      if (event.key === 'Enter' || event.key === ' ') show(at);
      else if (event.key === 'Home') next = boxes[0];
      else if (event.key === 'End') next = boxes[boxes.length - 1];
      else if (arrows[event.key]) next = neighbour(box, ...arrows[event.key]);
      else return;
      event.preventDefault();
      if (next) {
        boxes.forEach(one => one.setAttribute('tabindex', one === next ? 0 : -1));
        next.focus();
      }
    });
  });
  const first = Number(explorer.dataset.first);
  show(first);
  boxes[first].scrollIntoView({ block: 'nearest', inline: 'center' });
}
"""
"""Chooses a box by a click, or by arrows, Home, End and Enter."""
