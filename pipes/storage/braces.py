"""Braces in paths, as shells and WebDataset expand them: `{000..003}` and `{train,val}`."""

from __future__ import annotations

import re
from itertools import product

from ..errors import ArgumentError, with_call_site

MAX_PATHS = 10**7
"""Paths that one pattern may stand for."""
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")


def expand_braces(path: str) -> list[str]:
    """The paths that `path` stands for; `path` itself if it has no braces that mean something.

    `{000..003}` counts, with as many digits as its ends have; `{0..9..3}` counts by threes; `{a,b}` gives each part.
    Groups may follow each other, and a part may have groups.

    Raises:
        ArgumentError: there are too many paths.
    """
    group = _first_group(path)
    if group is None:
        return [path]
    start, stop = group
    inner = path[start + 1 : stop - 1]
    parts = _counted(inner, path) or [part for option in _options(inner) for part in expand_braces(option)]
    rest = expand_braces(path[stop:])
    _check_count(len(parts) * len(rest), path)
    return [path[:start] + part + end for part, end in product(parts, rest)]


def _counted(inner: str, path: str) -> list[str]:
    """The numbers of `a..b` or `a..b..step`, as text."""
    match = _RANGE.fullmatch(inner)
    if match is None:
        return []
    first, last, step = int(match[1]), int(match[2]), abs(int(match[3] or 1)) or 1
    padded = any(re.match(r"-?0\d", end) for end in (match[1], match[2]))
    width = max(len(match[1]), len(match[2])) if padded else 0
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    _check_count(len(numbers), path)
    return [f"{number:0{width}d}" for number in numbers]


def _check_count(count: int, path: str) -> None:
    if count > MAX_PATHS:
        raise ArgumentError(
            with_call_site(f"the braces of {path!r} stand for {count} paths, and {MAX_PATHS} are most; use a glob")
        )


def _first_group(path: str) -> tuple[int, int] | None:
    """The first group in braces that is a range or has several options: where it starts, and the place after it."""
    for start in (match.start() for match in re.finditer("{", path)):
        depth = 0
        for at in range(start, len(path)):
            depth += (path[at] == "{") - (path[at] == "}")
            if depth == 0:
                inner = path[start + 1 : at]
                if _RANGE.fullmatch(inner) or len(_options(inner)) > 1:
                    return start, at + 1
                break
    return None


def _options(inner: str) -> list[str]:
    """Splits at the commas that are in no further braces."""
    options, depth = [""], 0
    for char in inner:
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            options.append("")
        else:
            options[-1] += char
    return options
