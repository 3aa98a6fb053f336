"""What a docstring of the package says, by its parts: summary, picture, facts, text and sections."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import NamedTuple

SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Source", "Example")
FACTS = ("Element", "Order", "Length", "Indexed", "State", "Memory")

_KEYS = rf"(?:{'|'.join(FACTS)})(?:(?:, | and )(?:{'|'.join(fact.lower() for fact in FACTS)}))*"
_FACT = re.compile(rf"(?P<keys>{_KEYS})(?P<verb>:| is| are|(?= if )) ")
_SENTENCE = re.compile(r"(?<=[.])\s+(?=[A-Z])")
_HEADING = re.compile(r"(?P<name>[A-Z]\w*):(?P<rest>.*)")
_ENTRY = re.compile(r"(?P<names>\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*):\s+(?P<text>.*)")


class DocstringError(ValueError):
    """A docstring that is not in the form of the others."""


class Docstring(NamedTuple):
    """The parts of a docstring.

    Attributes:
        summary: the first sentence.
        diagram: the line that `diagrams` draws, or "".
        facts: what holds of the rows, by the names in `FACTS`.
        text: the paragraphs outside of sections, as Markdown.
        entries: the words on each name, for the sections `Args`, `Attributes` and `Raises`.
        sections: the text of the other sections.
    """

    summary: str
    diagram: str
    facts: dict[str, str]
    text: list[str]
    entries: dict[str, dict[str, str]]
    sections: dict[str, str]


def read(documented: object, name: str) -> Docstring:
    """Read the docstring of a function or class, which messages call `name`."""
    try:
        return _read(inspect.getdoc(documented) or "")
    except DocstringError as error:
        raise DocstringError(f"{name}: {error}") from None


def _read(docstring: str) -> Docstring:
    paragraphs, sections = _split(docstring)
    if not paragraphs[0]:
        raise DocstringError("there is no docstring")
    diagram, facts, text = "", {}, []
    for paragraph in paragraphs[1:]:
        if paragraph.startswith("    "):
            if " -> " in paragraph and not diagram:
                diagram = paragraph.strip()
            else:
                text.append(f"```text\n{textwrap.dedent(paragraph)}\n```")
        elif not facts and _FACT.match(paragraph):
            facts = _facts(" ".join(paragraph.split()))
        else:
            text.append(paragraph)
    named = {key: _entries(value) for key, value in sections.items() if key in ("Args", "Attributes", "Raises")}
    others = {key: value for key, value in sections.items() if key not in named}
    return Docstring(" ".join(paragraphs[0].split()), diagram, facts, text, named, others)


def _split(docstring: str) -> tuple[list[str], dict[str, str]]:
    """Separate the paragraphs from the sections. A section ends with its indentation; text may follow."""
    paragraphs: list[str] = []
    sections: dict[str, str] = {}
    for block in re.split(r"\n\s*\n", docstring.strip("\n")):
        found = _HEADING.match(block)
        if found and found["name"] in SECTIONS:
            name = found["name"]
            if name in sections:
                raise DocstringError(f"section `{name}` comes twice")
            body = block.partition("\n")[2]
            if found["rest"].strip() and name not in ("Source", "Returns", "Yields"):
                raise DocstringError(f"section `{name}` begins on a line of its own")
            sections[name] = "\n".join(filter(None, [found["rest"].strip(), textwrap.dedent(body)]))
        elif found and found["name"] not in FACTS and not found["rest"].strip():
            raise DocstringError(f"unknown section `{found['name']}`; there are {', '.join(SECTIONS)}")
        elif block.startswith("    ") and sections and name == "Example":
            sections[name] += "\n\n" + textwrap.dedent(block)
        else:
            paragraphs.append(block)
    return paragraphs, sections


def _facts(paragraph: str) -> dict[str, str]:
    """Divide sentences such as `Order and length are the input's.` among the facts."""
    facts: dict[str, str] = {}
    last = ""
    for sentence in _SENTENCE.split(paragraph):
        found = _FACT.match(sentence)
        if not found:
            facts[last] += f" {sentence}"
            continue
        keys = [key.capitalize() for key in re.split(r", | and ", found["keys"])]
        if twice := facts.keys() & keys:
            raise DocstringError(f"fact `{min(twice)}` comes twice")
        words, remark = sentence[found.end() :], ""
        if len(keys) > 1:  # what follows a semicolon is said once
            words, _, remark = words.partition("; ")
        facts |= dict.fromkeys(keys, words.removesuffix(".") + ".")
        last = keys[-1]
        if remark.startswith("indexed "):
            facts["Indexed"] = remark.removeprefix("indexed ")
        elif remark == "streamed.":
            facts["Indexed"] = "no; streamed."
        elif remark:
            facts[keys[0]] = f"{words}; {remark}"
    if found := re.match(
        r"(?P<length>[^;,.]+)[;,] (?P<kind>indexed|streamed)(?P<rest>[;.].*)", facts.get("Length", "")
    ):
        facts["Length"] = found["length"] + found["rest"]
        facts.setdefault("Indexed", "yes." if found["kind"] == "indexed" else "no; streamed.")
    return {key: facts[key] for key in FACTS if key in facts}


def _entries(section: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    names = ""
    for line in section.splitlines():
        found = _ENTRY.match(line)
        if found:
            names = found["names"]
            entries[names] = found["text"]
        elif names and line.startswith("    "):
            entries[names] += " " + line.strip()
        else:
            raise DocstringError(f"`name: words` is expected, but there is {line!r}")
    return entries
