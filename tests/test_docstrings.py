"""Operators and sources say what holds of their rows, and every public name has an entry in the reference."""

from __future__ import annotations

import inspect
import re

import pytest

import feedpipe as fp

from .support.cli import families
from .support.site import assemble, reference

ENTRIES = {name: function for _, listed in families() for name, _, function in listed if inspect.isfunction(function)}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_docstring_is_complete(name: str) -> None:
    text = inspect.getdoc(ENTRIES[name]) or ""
    for fact in ("element", "order", "length", "state"):
        assert re.search(rf"\b{fact}\b", text, re.IGNORECASE), fact
    assert "Example:\n" in text and ">>> " in text
    arguments = re.search(r"^Args:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    described = re.findall(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", arguments[1], re.MULTILINE) if arguments else []
    names = {one.strip().lstrip("*") for each in described for one in each.split(",")}
    assert names == {*inspect.signature(ENTRIES[name]).parameters} - {"pipe"}


def test_every_public_name_has_an_entry() -> None:
    grouped = {name for _, names in reference.GROUPS.values() for name in names.split()}
    listed = {
        *fp.__all__,
        *(f"{module.__name__[9:]}.{name}" for module in (fp.media, fp.stats) for name in module.__all__),
    }
    listed = {name for name in listed if name[-4:] != "Info"}  # results of the functions of media
    elsewhere = {"operator", *(name for name in fp.__all__ if hasattr(fp.errors, name))}  # they have pages of their own
    assert listed - ENTRIES.keys() - grouped == elsewhere
    pages = dict(reference.pages())
    assert {f"reference/operators/{name}.md" for name in ENTRIES} <= pages.keys()
    assert "## `feedpipe ops`" in pages["reference/command-line.md"]


def test_links_lead_to_the_places_in_the_site() -> None:
    places = {"docs/index.md": "index.md", "CHANGELOG.md": "internals/changelog.md"}
    text = "[a](../CHANGELOG.md#x) [b](../Makefile) [c](https://example.org) [d](#here) [e](reference/batch.md)"
    assert assemble.relinked(text, "docs/index.md", places) == (
        "[a](internals/changelog.md#x) b [c](https://example.org) [d](#here) [e](reference/batch.md)"
    )
