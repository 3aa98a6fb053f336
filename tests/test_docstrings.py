"""The docstrings of operators and sources say all that their pages show; a page has what its docstring says."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import feedpipe as fp

from .support.site import assemble, docstrings, operators

ENTRIES = {entry.name: entry for entry in operators.entries()}
NEEDED = {"Element", "Order", "Length", "State"}


@pytest.mark.parametrize("name", ENTRIES)
class TestOperator:
    def test_says_what_holds_of_its_rows(self, name: str) -> None:
        assert docstrings.read(ENTRIES[name].function, name).facts.keys() >= NEEDED

    def test_has_an_example(self, name: str) -> None:
        assert ">>> " in docstrings.read(ENTRIES[name].function, name).sections["Example"]

    def test_describes_each_argument(self, name: str) -> None:
        entry = ENTRIES[name]
        doc = docstrings.read(entry.function, name)
        described = {one.strip().lstrip("*") for names in doc.entries.get("Args", {}) for one in names.split(",")}
        arguments = [*inspect.signature(entry.function).parameters]
        assert described == {*arguments} - {"pipe"}


def test_there_are_operators_and_sources() -> None:
    assert len(ENTRIES) > 90
    assert {"batch", "read_csv"} <= ENTRIES.keys()


def example() -> None:
    """Give a row
    of two lines.

        a b   ->   example(): b a

    Element and order are the input's; columns stay columns. Length: unknown; streamed. State: a position. It
    is small.

    A paragraph of `text`.

    Args:
        a, b: two
            things.

    Raises:
        ValueError: never.

    Source: a book.

    Example:
        >>> 1 + 1
        2
    """


def test_a_docstring_is_read_in_parts() -> None:
    doc = docstrings.read(example, "example")
    assert doc.summary == "Give a row of two lines."
    assert doc.diagram == "a b   ->   example(): b a"
    assert doc.facts == {
        "Element": "the input's; columns stay columns.",
        "Order": "the input's.",
        "Length": "unknown.",
        "Indexed": "no; streamed.",
        "State": "a position. It is small.",
    }
    assert doc.text == ["A paragraph of `text`."]
    assert doc.entries == {"Args": {"a, b": "two things."}, "Raises": {"ValueError": "never."}}
    assert doc.sections == {"Source": "a book.", "Example": ">>> 1 + 1\n2"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "there is no docstring"),
        ("A.\n\nArguments:\n    a: b", "unknown section `Arguments`"),
        ("A.\n\nArgs:\n    a: b\n\nArgs:\n    c: d", "section `Args` comes twice"),
        ("A.\n\nArgs: a", "section `Args` begins on a line of its own"),
        ("A.\n\nArgs:\n    no colon", "`name: words` is expected"),
        ("A.\n\nElement: a. Element: b.", "fact `Element` comes twice"),
    ],
)
def test_a_docstring_in_another_form_is_refused(text: str, fault: str) -> None:
    def function() -> None: ...

    function.__doc__ = text
    with pytest.raises(docstrings.DocstringError, match=f"name: {fault}"):
        docstrings.read(function, "name")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(operators.pages({"batch": {"gallery/images.html": "Images"}}))


class TestPages:
    def test_there_is_one_for_each_operator(self, pages: dict[str, str]) -> None:
        assert {f"reference/operators/{name}.md" for name in ENTRIES} < pages.keys()

    def test_one_has_the_parts_of_its_docstring(self, pages: dict[str, str]) -> None:
        page = pages["reference/operators/batch.md"]
        parts = (
            "# `batch`",
            "<svg",
            "| **Length** |",
            "| `drop_last` |",
            ">>> ",
            "| `ArgumentError` |",
            "(unbatch.md)",
        )
        assert [part for part in parts if part not in page] == []
        assert "In the gallery: [Images](../../gallery/images.html)." in page

    def test_every_public_name_has_a_place(self) -> None:
        grouped = {name for _, names in operators.GROUPS.values() for name in names}
        elsewhere = {"operator", *(name for name in fp.__all__ if hasattr(fp.errors, name))}  # they have own pages
        modules = (fp.media, fp.stats)
        listed = {*fp.__all__, *(f"{module.__name__[9:]}.{name}" for module in modules for name in module.__all__)}
        listed = {name for name in listed if name[-4:] != "Info"}  # results of the functions of media
        assert listed - ENTRIES.keys() - grouped == elsewhere

    def test_every_command_has_a_place(self, pages: dict[str, str]) -> None:
        page = pages["reference/command-line.md"]
        assert (
            "## `feedpipe ops`\n\nList all operators" in page and "`-n`, `--count`" in page and "-h" not in page.split()
        )

    def test_a_signature_is_code(self) -> None:
        assert operators.signature("pipe.repeat", fp.Pipe.repeat) == "pipe.repeat(times: int | None = None) -> Pipe[T]"


def test_links_lead_to_the_places_in_the_site() -> None:
    places = {"docs/index.md": "index.md", "CHANGELOG.md": "internals/changelog.md"}
    text = "[a](../CHANGELOG.md#x) [b](../Makefile) [c](https://example.org) [d](#here) [e](reference/batch.md)"
    assert assemble.relinked(text, "docs/index.md", places) == (
        "[a](internals/changelog.md#x) b [c](https://example.org) [d](#here) [e](reference/batch.md)"
    )


def test_a_build_writes_what_differs(tmp_path: Path) -> None:
    operators.write(tmp_path, {"a/b.md": "1", "c.md": "2"})
    before = (tmp_path / "c.md").stat().st_mtime_ns
    operators.write(tmp_path, {"a/b.md": "3", "c.md": "2"})
    assert (tmp_path / "a/b.md").read_text() == "3"
    assert (tmp_path / "c.md").stat().st_mtime_ns == before
