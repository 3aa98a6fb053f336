"""Puts the pages of the site together: those that people write, the reference from docstrings, and the sidebar.

`python -m docs._site.assemble FOLDER` writes them as Markdown into FOLDER, for Sphinx.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import operators
from .docstrings import DocstringError

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

# The sidebar: titles of its parts, and their pages in order. A page of docs/ that is missing here ends the build.
SIDEBAR: Mapping[str, tuple[str, ...]] = {
    "Start": ("start",),
    "Guides": (
        *("elements", "recipes", "epochs-and-state", "errors", "workers", "services", "ranks"),
        *("storage", "databases", "formats", "writing", "statistics"),
        *("trainers", "dataloader", "ray", "migrating"),
    ),
    "Reference": ("reference", "reference/operators/index", *(f"reference/{page}" for page in operators.GROUPS)),
    "Internals": (
        *("architecture", "design", "operators", "benchmarks", "scaling"),
        *("internals/contributing", "internals/changelog"),
    ),
}

# Files outside of docs/ that are pages too, and their places in the site.
OTHER_PAGES = {"CONTRIBUTING.md": "internals/contributing.md", "CHANGELOG.md": "internals/changelog.md"}

# Plans of the project are not for its users.
LEFT_OUT = ("plan", "_site")


def main(folder: Path) -> None:
    """Write all pages; those that the last run wrote and this one did not are removed."""
    pages = dict(written_pages())
    pages |= operators.pages({})
    pages["index.md"] += sidebar()
    operators.write(folder, pages)
    for path in folder.rglob("*.*"):
        if path.relative_to(folder).as_posix() not in pages:
            path.unlink()


def written_pages() -> Iterator[tuple[str, str]]:
    """Yield the place in the site and the text of each page that people write."""
    places = {
        path.relative_to(ROOT).as_posix(): path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob("*.md")
        if path.relative_to(DOCS).parts[0] not in LEFT_OUT
    } | OTHER_PAGES
    for name, place in places.items():
        yield place, relinked((ROOT / name).read_text(encoding="utf-8"), name, places)


def relinked(text: str, name: str, places: Mapping[str, str]) -> str:
    """Let links lead to the places in the site; a link to a file of the repository that is no page becomes its text."""

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found.groups(default="")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        if not (ROOT / file).exists():
            return found[0]  # a generated page, or a fault that Sphinx finds
        if file not in places:
            return words
        return f"[{words}]({posixpath.relpath(places[file], posixpath.dirname(places[name]) or '.')}{anchor})"

    return re.sub(r"\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)", link, text)


def sidebar() -> str:
    """The table of contents of the whole site, for the end of the first page."""
    parts = (
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])
        for caption, pages in SIDEBAR.items()
    )
    return "".join(parts)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except DocstringError as error:
        sys.exit(f"{os.path.basename(__file__)}: {error}")
