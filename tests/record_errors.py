"""The texts of all errors and warnings that a run of the tests meets, for the site: `make errors`.

Reading the source finds too few of them, since many are put together by functions. At the end `docs/_site/errors.json`
has for each class its texts, in which "…" stands for what differs, and the operators that raise them.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from feedpipe import errors

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = os.path.realpath(ROOT / "pipes")
FILE = ROOT / "docs" / "_site" / "errors.json"
LEAST_WORDS = 5
MOST_SAMPLES = 6  # texts of one place, which differ in values only

Raised = tuple[str, str, int]  # the class, and the module and the line that raise it

_samples: dict[Raised, set[str]] = defaultdict(set)
_init = errors.FeedpipeError.__init__
_warn_explicit = warnings.warn_explicit

# What differs between two users, whoever they are: values, numbers, paths and URLs.
_VALUE = re.compile(
    r"(?<=but got: ).*"
    r"|(?<![=\w])'[^']*'|(?<![=\w])\"[^\"]*\""
    r"|\b\w+://\S+|(?<![\w`])/[\w./-]+"
    r"|(?<![\w.])(?<!>= )(?<!<= )(?<!> )(?<!< )-?\d(?:[\d,.]*\d)?\b"  # a bound is part of a rule
    r"|\b0x[0-9a-f]+\b|\b[0-9a-f]{12,}\b",
)


def _recording_init(self: errors.FeedpipeError, message: str = "") -> None:
    _init(self, message)
    _record(type(self), str(message))


def _recording_warn(message: Warning | str, category: Any, *arguments: Any, **named: Any) -> None:
    kind = type(message) if isinstance(message, Warning) else category
    if issubclass(kind, (errors.PlanWarning, errors.StateWarning, errors.WorkerWarning)):
        _record(kind, str(message))
    _warn_explicit(message, category, *arguments, **named)


def _record(kind: type[BaseException], message: str) -> None:
    place = _place(sys._getframe(2))
    public = next(base for base in kind.__mro__ if base.__module__ == errors.__name__)
    samples = _samples[(public.__name__, *place)]
    if place[0]:
        samples.add(message.partition("\n")[0])


def _place(frame: FrameType | None) -> tuple[str, int]:
    """The module and the line that raise an error, below the functions that check arguments for others."""
    while frame is not None:
        file = os.path.realpath(frame.f_code.co_filename)
        if file.startswith(PACKAGE):
            module = os.path.relpath(file, PACKAGE)
            if module not in ("errors.py", os.path.join("core", "checks.py")):
                return module, frame.f_lineno
        frame = frame.f_back
    return "", 0


def pytest_configure() -> None:
    errors.FeedpipeError.__init__ = _recording_init  # type: ignore[method-assign]
    warnings.warn_explicit = _recording_warn


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the texts of a process of pytest-xdist."""
    for *raised, texts in getattr(node, "workeroutput", {}).get("errors", ()):
        _samples[tuple(raised)].update(texts)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["errors"] = [[*raised, sorted(texts)] for raised, texts in _samples.items()]
        return
    modules: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for (kind, module, _), texts in _samples.items():
        for text in templates(texts):
            modules[kind][text].add(module)
    listed = {
        kind: {text: sorted(modules[kind][text]) for text in sorted(modules[kind], key=str.lower)}
        for kind in sorted(modules)
    }
    FILE.write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def templates(texts: set[str]) -> set[str]:
    """The template of the texts of one place, or one for each text if they have too little in common."""
    if not texts:
        return set()
    common = template(sorted(texts, key=lambda text: (len(text), text))[:MOST_SAMPLES])
    return (
        {common}
        if common.replace("…", "").count(" ") >= LEAST_WORDS
        else {template([text]) for text in sorted(texts)[:MOST_SAMPLES]}
    )


def template(texts: Iterable[str]) -> str:
    """What several texts of one place have in common, with "…" for what differs.

    >>> template(["`size` must be >= 1 but got: 0", "`size` must be >= 1 but got: 'a'"])
    '`size` must be >= 1 but got: …'
    >>> template(["there is no column `a` in x.csv", "there is no column `b` in y.csv"])
    'there is no column … in …'
    """
    first, *others = texts
    common = first.split(" ")
    for text in others:
        blocks = SequenceMatcher(None, common, text.split(" "), autojunk=False).get_matching_blocks()
        parts = [common[block.a : block.a + block.size] for block in blocks]
        gaps = [
            ["…"] if block.a > end_a or block.b > end_b else []
            for block, (end_a, end_b) in zip(
                blocks, [(0, 0), *((block.a + block.size, block.b + block.size) for block in blocks)], strict=False
            )
        ]
        common = list(chain.from_iterable(gap + part for gap, part in zip(gaps, parts, strict=True)))
    return re.sub(r"…(?:[ ,]+…)+", "…", _VALUE.sub("…", " ".join(common)))
