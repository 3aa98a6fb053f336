"""Puts the pages of the site together, for Sphinx: those of docs/, the reference and the gallery.

`python -m docs._site.assemble FOLDER` writes Markdown into FOLDER/source; FOLDER/gallery keeps what programs printed.
"""

from __future__ import annotations

import html
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import gallery, reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

# The sidebar: titles of its parts, and their pages in order. Sphinx names a page that is missing here.
SIDEBAR: Mapping[str, str] = {
    "Start": "start/install start/picture start/choose start/first-pipe start/files start/train start/in-200-lines",
    "Gallery": "gallery/index",
    "Data": "guides/elements guides/recipes guides/statistics guides/rows-that-fail guides/remote guides/cache "
    "guides/listings guides/databases guides/writing",
    "Training": "guides/ranks-and-resume guides/change-a-run guides/workers guides/ray guides/trainers guides/slow "
    "guides/how-fast",
    "Coming from": "guides/dataloader guides/from-datapipes guides/coming-from",
    "Reference": f"reference/operators/index {' '.join(f'reference/{page}' for page in reference.GROUPS)} "
    "reference/errors reference/command-line reference/formats",
    "Your own parts": "internals/operators internals/sources-services",
    "Internals": "internals/architecture internals/design internals/division-and-states internals/formats-and-storage "
    "internals/benchmarks internals/scaling",
    "The project": "internals/stability internals/changelog internals/contributing internals/security",
}
GALLERY = [
    "image_folders",
    "video_clips",
    "pretraining_mix",
    "instruction_tuning",
    "time_series",
    "equal_work",
    "full_shuffle",
    "replicas",
    "parquet_table",
    "postgresql",
    "spot_instance",
    "changed_run",
    "prediction",
]

# Files outside of docs/ that are pages too, and their places in the site.
OTHER_PAGES = {f"{name}.md": f"internals/{name.lower()}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")}


def main(folder: Path) -> None:
    """Write all pages; those that the last run wrote and this one did not are removed."""
    source = folder / "source"
    pages = dict(written_pages())
    pages |= gallery_files(dict(gallery.pages(GALLERY, folder / "gallery")))
    pages |= reference.pages()
    pages["start/in-200-lines.md"] = in_200_lines(pages)
    pages["index.md"] += "".join(toctree(pages.split(), caption) for caption, pages in SIDEBAR.items())
    for name, text in pages.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in source.rglob("*.*"):
        if path.relative_to(source).as_posix() not in pages:
            path.unlink()


def in_200_lines(pages: Mapping[str, str]) -> str:
    """Return what a coding agent needs, in one page: patterns, training, mistakes and names; it is llms.txt, too."""
    names = ("start/choose", "start/train", "reference/errors", "reference/operators/index")
    text = "".join(pages[f"{name}.md"].replace("\n#", "\n##").replace("# ", "\n## ", 1) + "\n" for name in names)
    text = re.sub(r"</?[a-z][^>\n]*>|```\{toctree\}.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return "# feedpipe in 200 lines\n" + re.sub(r"\n{3,}", "\n\n", text)


def gallery_files(shown: Mapping[str, gallery.Page]) -> Iterator[tuple[str, str]]:
    """Yield the pages of the gallery with their programs, and the page of cards that leads to them."""
    cards: list[str] = []
    for name, page in shown.items():
        yield f"gallery/{name}.md", page.text
        yield f"gallery/{name}.py", (gallery.FOLDER / f"{name}.py").read_text(encoding="utf-8")
        lead = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(page.lead, quote=False))
        picture = re.sub(
            r'(id="|url\(#|href="#)', r"\g<1>card-", page.picture.replace('role="img"', 'aria-hidden="true"')
        )
        cards.append(
            f'<a class="fp-card" href="{name}.html"><div>{picture}</div><strong>{html.escape(page.title)}</strong>'
            f"<span>{lead}</span></a>"
        )
    lead = "Whole programs on small data that they make themselves. Each trains a model, stops, and resumes."
    text = f'# Gallery\n\n{lead}\n\n<div class="fp-cards">{"".join(cards)}</div>\n{toctree(shown)}'
    yield "gallery/index.md", text


def written_pages() -> Iterator[tuple[str, str]]:
    """Yield the place in the site and the text of each page that people write."""
    own = {
        path.relative_to(ROOT).as_posix(): path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob("*.md")
        if path.parent.name != "plan"
    }
    places = own | OTHER_PAGES
    for name, place in places.items():
        title, _, rest = (ROOT / name).read_text(encoding="utf-8").partition("\n\n")
        text = f"{title}\n\n{reference.aliases(place.removesuffix('.md'))}{rest}"
        yield place, relinked(inlined(text, (ROOT / name).parent), name, places)


def inlined(text: str, folder: Path) -> str:
    """Put SVG pictures into the page, so that they have its colours; as files they have those of the system."""

    def picture(found: re.Match[str]) -> str:
        svg = (folder / found[1]).read_text(encoding="utf-8")
        svg = re.sub(r"svg\.\S+ \{ color: .*?\}|@media .*?\} \}", "", svg)
        return f'<div class="fp-figure">{" ".join(svg.split())}</div>'

    return re.sub(r"^!\[[^\]]*\]\((\S+\.svg)\)$", picture, text, flags=re.MULTILINE)


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


def toctree(pages: Iterator[str] | Mapping[str, object] | list[str], caption: str = "") -> str:
    """Return what gives pages their places in the sidebar."""
    option = f":caption: {caption}\n" if caption else ""
    listed = "\n".join(pages)
    return f"\n```{{toctree}}\n:hidden:\n{option}\n{listed}\n```\n"


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except gallery.GalleryError as error:
        sys.exit(f"make docs: {error}")
