"""Braces in paths stand for several paths, unless a file has that very name."""

from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError

from ..support.storage import expand_braces


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("a-{008..011}.tar", ["a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"]),
        ("{a,b}/{1..2}.x", ["a/1.x", "a/2.x", "b/1.x", "b/2.x"]),
        ("{a,{1..2}x,}", ["a", "1x", "2x", ""]),
        ("{3..1}", ["3", "2", "1"]),
        ("{0..10..5}", ["0", "5", "10"]),
        ("{-2..01}", ["-2", "-1", "00", "01"]),
        ("{x}{}", ["{x}{}"]),
        ("{a", ["{a"]),
        ("a}{b,c}", ["a}b", "a}c"]),
    ],
)
def test_braces_expand_as_in_a_shell(path: str, paths: list[str]) -> None:
    assert expand_braces(path) == paths


def test_braces_that_stand_for_too_many_paths() -> None:
    with pytest.raises(ArgumentError, match=r"make 100000000 paths, but 10000000 are allowed"):
        len(fp.read_bytes("{0..9999}/{0..9999}"))
