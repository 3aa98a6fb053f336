"""The pictures in docstrings, such as `a b c   ->   batch(2): [a b] [c]`, show what the operator yields.

line   = streams "->" result {3 spaces result}
result = call ":" streams                           the call without the other pipes
stream = token {token};   streams = stream {"and" stream}
token  = word | "-" (padding) | "None" | "..." | "[" stream "]" | "(" stream ")"
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

import numpy as np
import pytest

import feedpipe as fp

from .support.cli import families


class Group(NamedTuple):
    """Elements between brackets: a list, or a tuple with `(`."""

    bracket: str
    items: tuple[Token, ...]


Token = str | Group


def tokens(text: str) -> list[Token]:
    """Read a stream."""
    open_groups: list[tuple[str, list[Token]]] = [("", [])]
    for word in re.findall(r"[\[\]()]|[^\s\[\]()]+", text):
        if word in "[(":
            open_groups.append((word, []))
        elif word in "])":
            bracket, items = open_groups.pop()
            assert bracket + word in ("[]", "()")
            open_groups[-1][1].append(Group(bracket, tuple(items)))
        else:
            open_groups[-1][1].append(word)
    [(_, stream)] = open_groups
    assert stream
    return stream


def streams(text: str) -> list[list[Token]]:
    return [tokens(part) for part in re.split(r"\s+and\s+", text.strip())]


LINES: dict[str, str] = {}
for _, listed in families():
    for name, _, function in listed:
        if found := re.search(r"^ {4}(?!>>>)(.* -> .*)$", inspect.getdoc(function) or "", re.MULTILINE):
            LINES[name] = found[1]

# Families whose operators act on rows, and those of them whose effect lies within a row.
DRAWN = ("Rows", "Selection and order", "Parts", "Several pipes", "Groups")
WITHIN_A_ROW = {"decode", "on_error", "join", "collate"}


@pytest.mark.parametrize("name", LINES)
def test_the_operator_gives_what_the_picture_shows(name: str) -> None:
    left, _, right = LINES[name].partition("->")
    numbers = " - " in LINES[name]  # padding is a number, so letters stand for numbers too
    for result in re.split(rf"\s{{3,}}(?={name}\()", right.strip()):
        call, _, shown = result.rpartition("): ")
        drawn_streams = streams(shown)
        pipe, *others = (fp.from_sequence([element(token, numbers) for token in row]) for row in streams(left))
        call = re.sub(r"\(", "(*others, ", call, count=1) if others else call
        given = eval(f"pipe.{call})", {"pipe": pipe, "others": others})
        pipes = [*given.values()] if isinstance(given, dict) else given if isinstance(given, tuple) else [given]
        assert len(pipes) == len(drawn_streams)
        for drawn, real in zip(drawn_streams, pipes, strict=True):
            endless = drawn[-1] == "..."
            rows = real.head(len(drawn) - 1) if endless else list(real)
            assert [token(row, numbers) for row in rows] == drawn[: len(rows)]
            assert len(rows) == len(drawn) - endless


def element(token: Token, numbers: bool) -> object:
    """Make the row that a token stands for."""
    if isinstance(token, Group):
        items = [element(item, numbers) for item in token.items]
        return items if token.bracket == "[" else tuple(items)
    if numbers:
        return ord(token)
    return int(token) if token.isdigit() else token


def token(row: object, numbers: bool) -> Token:
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
    acting = {name for family, listed in families() for name, _, _ in listed if family in DRAWN}
    assert acting - LINES.keys() == WITHIN_A_ROW
