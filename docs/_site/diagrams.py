"""The line `a b c d e   ->   batch(2): [a b] [c d] [e]` of a docstring, drawn as a marble diagram.

The grammar of a line, which `feedpipe ops NAME` prints as it is:

    line   = streams "->" result {3 spaces result}      several results: one picture below the other
    result = call ":" streams                           the call without the other pipes
    stream = token {token};   streams = stream {"and" stream}
    token  = word | "-" (padding) | "None" | "..." | "[" stream "]" | "(" stream ")"

The picture is SVG in the colours of the page around it. `tests/test_diagrams.py` makes the call and compares.
"""

from __future__ import annotations

import ast
import html
import re
from typing import NamedTuple

RADIUS = 13  # of a marble
LANE = 46  # height of a stream
INSET = 5  # between a box and what is in it
GAP = 10  # between two elements of a stream
CHARACTER = 8  # width, in the fixed-width font of the stylesheet
HUES = 8  # classes fp-h0 to fp-h7 of the stylesheet


class DiagramError(ValueError):
    """A line that does not follow the grammar."""


class Group(NamedTuple):
    """Elements between brackets: a list, or a tuple with `(`."""

    bracket: str
    items: tuple[Token, ...]


Token = str | Group
Stream = list[Token]


class Result(NamedTuple):
    """What one call gives."""

    call: str
    streams: list[Stream]


class Diagram(NamedTuple):
    """A line that was parsed."""

    inputs: list[Stream]
    results: list[Result]


def parse(line: str, name: str) -> Diagram:
    """Read the line of the operator `name`."""
    left, arrow, right = line.partition("->")
    if not arrow or "->" in right:
        raise DiagramError(f"one `->` is needed in {line!r}")
    parts = re.split(rf"\s{{3,}}(?={name}\()", right.strip())
    return Diagram(_streams(left), [_result(part, name) for part in parts])


def svg(line: str, name: str) -> str:
    """Draw the line of the operator `name`; a screen reader reads the line itself."""
    diagram = parse(line, name)
    every = [*diagram.inputs, *(stream for result in diagram.results for stream in result.streams)]
    boxes = [CHARACTER * len(result.call) + 32 for result in diagram.results]
    width = max(*(_stream_width(stream) for stream in every), *boxes) + 40
    shapes: list[str] = []
    bottom = 0
    for stream in diagram.inputs:
        shapes += _lane(stream, bottom + LANE / 2, width)
        bottom += LANE
    for result, box in zip(diagram.results, boxes, strict=True):
        shapes.append(
            f'<rect class="fp-op" x="4" y="{bottom + 2}" width="{box}" height="28" rx="6"/>'
            f'<text class="fp-code" x="{4 + box / 2:g}" y="{bottom + 21}">{html.escape(result.call)}</text>'
        )
        bottom += 36
        for stream in result.streams:
            shapes += _lane(stream, bottom + LANE / 2, width)
            bottom += LANE
    label = html.escape(" ".join(line.split()), quote=True)
    return (
        f'<svg class="fp-marbles" role="img" aria-label="{label}" viewBox="0 0 {width} {bottom}" width="{width}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(shapes)}</svg>'
    )


def _result(text: str, name: str) -> Result:
    for colon in re.finditer(r"\):\s", text):
        call = text[: colon.start() + 1]
        try:
            node = ast.parse(call, mode="eval").body
        except SyntaxError:
            continue  # a colon inside of the call
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            return Result(call, _streams(text[colon.end() :]))
    raise DiagramError(f"a result begins with `{name}(...):`, but this one is {text!r}")


def _streams(text: str) -> list[Stream]:
    return [_tokens(part) for part in re.split(r"\s+and\s+", text.strip())]


def _tokens(text: str) -> Stream:
    open_groups: list[tuple[str, list[Token]]] = [("", [])]
    for word in re.findall(r"[\[\]()]|[^\s\[\]()]+", text):
        if word in "[(":
            open_groups.append((word, []))
        elif word in "])":
            bracket, items = open_groups.pop()
            if bracket + word not in ("[]", "()"):
                raise DiagramError(f"`{word}` closes nothing in {text!r}")
            open_groups[-1][1].append(Group(bracket, tuple(items)))
        else:
            open_groups[-1][1].append(word)
    if len(open_groups) != 1:
        raise DiagramError(f"a bracket is not closed in {text!r}")
    if not open_groups[0][1]:
        raise DiagramError(f"a stream has no elements in {text!r}")
    return open_groups[0][1]


def _lane(stream: Stream, middle: float, width: int) -> list[str]:
    shapes = [f'<path class="fp-lane" d="M4 {middle:g}H{width - 8}m-7-5l7 5-7 5"/>']
    x = 12
    for token in stream:
        shapes += _shapes(token, x, middle)
        x += _width(token) + GAP
    return shapes


def _stream_width(stream: Stream) -> int:
    return sum(_width(token) + GAP for token in stream)


def _shapes(token: Token, x: int, middle: float) -> list[str]:
    width = _width(token)
    if isinstance(token, Group):
        half = RADIUS + INSET * _depth(token)
        kind, corner = ("fp-list", 8) if token.bracket == "[" else ("fp-tuple", half)
        shapes = [_box(f"fp-group {kind}", x, middle, width, half, corner)]
        x += INSET + 1
        for item in token.items:
            shapes += _shapes(item, x, middle)
            x += _width(item) + 4
        return shapes
    text = f'<text class="{{}}" x="{x + width / 2:g}" y="{middle + 5:g}">{{}}</text>'
    if token == "...":
        return [text.format("fp-dots", "…")]
    if token in ("-", "None"):
        missing = _box("fp-missing", x, middle, width, RADIUS, RADIUS)
        return [missing] if token == "-" else [missing, text.format("fp-none", token)]
    return [
        _box(f"fp-marble fp-h{_hue(token)}", x, middle, width, RADIUS, RADIUS),
        text.format("fp-word", html.escape(token)),
    ]


def _box(kind: str, x: int, middle: float, width: int, half: int, corner: int) -> str:
    return f'<rect class="{kind}" x="{x}" y="{middle - half:g}" width="{width}" height="{2 * half}" rx="{corner}"/>'


def _width(token: Token) -> int:
    if isinstance(token, str):
        return max(2 * RADIUS, CHARACTER * len(token) + 12)
    return sum(_width(item) for item in token.items) + 4 * (len(token.items) - 1) + 2 * INSET + 2


def _depth(token: Token) -> int:
    return 1 + max(map(_depth, token.items), default=0) if isinstance(token, Group) else 0


def _hue(word: str) -> int:
    """The colour of a marble is that of its first letter, small or large; digits have those of other letters."""
    first = word[0].lower()
    return (ord(first) - ord("a") if first.isalpha() else ord(first) + 3) % HUES
