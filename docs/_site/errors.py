"""The pages of errors: what people wrote about the texts that users meet most, and a list of all texts of each class.

`make errors` records the texts while the tests run: `errors.json`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from feedpipe import errors

from . import operators

FOLDER = "reference/errors"
TEXTS = Path(__file__).with_name("errors.json")
LEAST_WORDS = 4  # of a message, without which nobody would find it
OF_USERS = ("RowError",)  # messages of functions of users

Texts = Mapping[str, Mapping[str, list[str]]]  # the modules that raise a text, by class and text


def texts() -> Texts:
    """Return the recorded texts, in which "…" stands for what differs."""
    return json.loads(TEXTS.read_text(encoding="utf-8"))


def pages(written: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page.

    Args:
        written: the texts of the pages that people write, by path.
    """
    places = _places()
    lines = [_INTRODUCTION, "| class | if |", "| --- | --- |"]
    for kind, listed in texts().items():
        path = f"{FOLDER}/{kind}.md"
        about = " ".join((inspect.getdoc(getattr(errors, kind)) or "").partition("\n\n")[0].split())
        lines.append(f"| [`{kind}`]({kind}.md) | {about} |")
        head = written.get(path) or f"# `{kind}`\n\n{about}"
        yield path, head if kind in OF_USERS else f"{head}\n\n{_table(listed, places)}"
    yield f"{FOLDER}/index.md", "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *texts(), "```", ""])


_INTRODUCTION = """\
# Errors A to Z

Every error that feedpipe raises itself, by class. Search for words of its message. "…" stands for what differs: names,
numbers, paths. A message says the rule, its reason and what to type; the pages say more of those that users meet most.
"""


def explained(page: str) -> list[str]:
    """Return the texts that a written page explains: its quotations."""
    return re.findall(r"^> (.*)$", page, re.MULTILINE)


def is_recorded(text: str, kind: str) -> bool:
    """Whether a text stands for one that was recorded of a class; "…" is any words, on both sides."""
    pattern = ".*".join(re.escape(part.strip()) for part in text.split("…"))
    return any(re.search(pattern, recorded) for recorded in texts()[kind])


def _table(listed: Mapping[str, list[str]], places: Mapping[str, list[str]]) -> str:
    lines = ["## All messages", "", "| message | raised by |", "| --- | --- |"]
    for text, modules in listed.items():
        if len(re.findall(r"\w{2,}", text)) < LEAST_WORDS:
            continue
        names = dict.fromkeys(name for module in modules for name in places.get(module, ()))
        links = ", ".join(f"[`{name}`](../operators/{name}.md)" for name in list(names)[:6])
        lines.append(f"| {_cell(text)} | {links} |")
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    """A message as Markdown: its code stays code, and nothing else is markup."""
    parts = re.split(r"(`[^`]+`)", text)
    parts[::2] = [re.sub(r"([\\\[\]*_<>$~&#`])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts).replace("|", "\\|")


def _places() -> dict[str, list[str]]:
    """Return the names of the operators and sources of each module."""
    names: dict[str, list[str]] = {}
    for entry in operators.entries():
        module = inspect.unwrap(entry.function).__module__.removeprefix("feedpipe.").replace(".", "/")
        names.setdefault(f"{module}.py", []).append(entry.name)
    return names
