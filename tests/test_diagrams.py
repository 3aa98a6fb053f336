"""The pictures of operators: each is drawn from a line of a docstring, and is what the operator gives."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import feedpipe as fp

from .support.site import diagrams, docstrings, operators

Group, DiagramError = diagrams.Group, diagrams.DiagramError

LINES = {
    entry.name: line for entry in operators.entries() if (line := docstrings.read(entry.function, entry.name).diagram)
}

# Families whose operators act on rows, and those of them whose effect lies within a row.
DRAWN = ("Rows", "Selection and order", "Parts", "Several pipes", "Groups")
WITHIN_A_ROW = {"decode", "on_error", "join", "collate"}


@pytest.mark.parametrize("name", LINES)
def test_the_operator_gives_what_the_picture_shows(name: str) -> None:
    diagram = diagrams.parse(LINES[name], name)
    numbers = " - " in LINES[name]  # padding is a number, so letters stand for numbers too
    for result in diagram.results:
        pipe, *others = (fp.from_sequence([element(token, numbers) for token in row]) for row in diagram.inputs)
        call = re.sub(r"\(", "(*others, ", result.call, count=1) if others else result.call
        given = eval(f"pipe.{call}", {"pipe": pipe, "others": others})
        pipes = [*given.values()] if isinstance(given, dict) else given if isinstance(given, tuple) else [given]
        assert len(pipes) == len(result.streams)
        for drawn, real in zip(result.streams, pipes, strict=True):
            endless = drawn[-1] == "..."
            rows = real.head(len(drawn) - 1) if endless else list(real)
            assert [token(row, numbers) for row in rows] == drawn[: len(rows)]
            assert len(rows) == len(drawn) - endless


def element(token: diagrams.Token, numbers: bool) -> object:
    """Make the row that a token stands for."""
    if isinstance(token, Group):
        items = [element(item, numbers) for item in token.items]
        return items if token.bracket == "[" else tuple(items)
    if numbers:
        return ord(token)
    return int(token) if token.isdigit() else token


def token(row: object, numbers: bool) -> diagrams.Token:
    """Return the token that stands for a row; of a pack, for its tokens."""
    if isinstance(row, dict):
        row = row["tokens"]
    if isinstance(row, np.ndarray):
        row = row.tolist()
    if isinstance(row, list | tuple):
        return Group("[" if isinstance(row, list) else "(", tuple(token(item, numbers) for item in row))
    if numbers:
        assert isinstance(row, int)
        return chr(row) if row else "-"
    return str(row)


def test_operators_on_rows_have_pictures() -> None:
    acting = {entry.name for entry in operators.entries() if entry.family in DRAWN}
    assert acting - LINES.keys() == WITHIN_A_ROW
    assert len(LINES) >= 34


@pytest.mark.parametrize("name", LINES)
def test_a_picture_is_xml_with_its_line_as_text(name: str) -> None:
    picture = ET.fromstring(diagrams.svg(LINES[name], name))
    assert picture.attrib["role"] == "img"
    assert picture.attrib["aria-label"] == " ".join(LINES[name].split())


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("a b c", "one `->` is needed"),
        ("a -> b -> c", "one `->` is needed"),
        ("a b -> [a b]", r"a result begins with `batch\(...\):`"),
        ("a b -> zip(): a b", r"a result begins with `batch\(...\):`"),
        ("a b -> batch(2): [a b", "not closed"),
        ("a b] -> batch(2): [a b]", "closes nothing"),
        ("(a b] -> batch(2): [a b]", "closes nothing"),
        ("a b -> batch(2): ", "a result begins with"),
        (" -> batch(2): a", "no elements"),
    ],
)
def test_a_line_with_a_fault_is_refused(line: str, fault: str) -> None:
    with pytest.raises(DiagramError, match=fault):
        diagrams.parse(line, "batch")


def test_nested_groups_are_boxes_around_boxes() -> None:
    heights = [
        float(box.attrib["height"])
        for box in ET.fromstring(diagrams.svg("[[a] b] -> unbatch(): [a] b", "unbatch")).iter(
            "{http://www.w3.org/2000/svg}rect"
        )
        if "fp-group" in box.attrib["class"]
    ]
    assert heights == [46, 36, 36]
