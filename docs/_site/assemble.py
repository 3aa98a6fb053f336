"""Puts the pages of the site together: those that people write, the reference from docstrings, and the sidebar.

`python -m docs._site.assemble FOLDER` writes them as Markdown into FOLDER/source, for Sphinx, and whole pages of HTML
into FOLDER/extra. What the gallery gave is kept in FOLDER/gallery.
"""

from __future__ import annotations

import html
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import errors, gallery, operators
from .docstrings import DocstringError

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

# The sidebar: titles of its parts, and their pages in order. A page of docs/ that is missing here ends the build.
SIDEBAR: Mapping[str, tuple[str, ...]] = {
    "Start": tuple(f"start/{page}" for page in ("install", "picture", "choose", "first-pipe", "files", "train")),
    "Gallery": ("gallery/index",),
    "Guides: data": tuple(
        f"guides/{page}"
        for page in (
            *("elements", "recipes", "recipes-training", "recipes-layouts", "statistics", "rows-that-fail"),
            *(
                "remote",
                "cache",
                "files-that-change",
                "millions-of-files",
                "databases",
                "tfrecord-mds-delta",
                "writing",
                "fast-files",
            ),
        )
    ),
    "Guides: training": tuple(
        f"guides/{page}"
        for page in (
            *(
                "slow",
                "tune",
                "how-fast",
                "epochs",
                "resume",
                "refused-states",
                "workers",
                "services",
            ),
            *("ranks", "ranks-streams", "ranks-files", "ranks-resume", "trainers", "dataloader", "ray"),
        )
    ),
    "Guides: coming from": tuple(
        f"guides/from-{library}" for library in ("datapipes", "nodes", "tfdata", "grain", "webdataset")
    ),
    "Reference": (
        *("reference/operators/index", *(f"reference/{page}" for page in operators.GROUPS)),
        *("reference/errors/index", "reference/command-line", "reference/formats", "reference/left-out"),
    ),
    "Your own parts": tuple(f"internals/{page}" for page in ("extend", "contract", "sources-services")),
    "Internals": tuple(
        f"internals/{page}"
        for page in (
            *("architecture", "design", "blocks-and-cursors", "sharding", "loader-and-state", "services", "processes"),
            *("storage", "formats", "turned-out", "benchmarks", "scaling"),
        )
    ),
    "The project": tuple(f"internals/{page}" for page in ("stability", "changelog", "contributing", "security")),
}

# What readers type who know other libraries, by guide. Operators have theirs in `operators.ALIASES`.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "guides/dataloader": (
        "IterableDataset",
        "pin_memory",
        "persistent_workers",
        "worker_init_fn",
        "StatefulDataLoader",
    ),
    "guides/epochs": ("set_epoch", "manual_seed", "deterministic", "reproducible"),
    "guides/ranks": ("DistributedSampler", "torchrun", "DDP", "FSDP", "multi-GPU", "distributed training"),
    "guides/ranks-streams": ("shuffle buffer",),
    "guides/recipes-layouts": ("COCO", "safetensors"),
    "guides/recipes-training": ("compare two runs", "TensorBoard"),
    "guides/remote": ("GCS", "Azure", "fsspec"),
    "guides/resume": ("checkpoint", "resume after crash", "load_state_dict"),
    "guides/slow": ("slow dataloader", "GPU utilization", "bottleneck", "profiler"),
    "guides/tfrecord-mds-delta": ("mosaicml streaming", "StreamingDataset"),
    "guides/workers": ("num_workers", "out of memory", "OOM", "multiprocessing", "DataLoader worker is killed"),
}

# Files outside of docs/ that are pages too, and their places in the site.
OTHER_PAGES = {f"{name}.md": f"internals/{name.lower()}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")}

# Plans of the project are not for its users.
LEFT_OUT = ("plan", "_site")


def main(folder: Path) -> None:
    """Write all pages; those that the last run wrote and this one did not are removed."""
    source = folder / "source"
    shown = dict(gallery.pages(folder / "gallery"))
    pages = dict(written_pages())
    pages |= gallery_files(shown)
    pages |= operators.pages(uses(shown))
    pages |= errors.pages(pages)
    pages["index.md"] += toctrees(SIDEBAR)
    operators.write(source, pages)
    for path in source.rglob("*.*"):
        if path.relative_to(source).as_posix() not in pages:
            path.unlink()


def gallery_files(shown: Mapping[str, gallery.Page]) -> Iterator[tuple[str, str]]:
    """Yield the pages of the gallery with what they offer for download, and the page of cards that leads to them."""
    cards: list[str] = []
    for name, page in shown.items():
        yield f"gallery/{name}.md", page.text
        yield f"gallery/{name}.ipynb", page.notebook
        yield f"gallery/{name}.py", (gallery.FOLDER / f"{name}.py").read_text(encoding="utf-8")
        lead = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(page.lead, quote=False))
        picture = page.picture.replace('role="img"', 'aria-hidden="true"')
        cards.append(
            f'<a class="fp-card" href="{name}.html"><div>{picture}</div><strong>{html.escape(page.title)}</strong>'
            f"<span>{lead}</span></a>"
        )
    text = [
        "# Gallery",
        "Whole programs on small data that they make themselves, with all that they print and draw. Each trains a "
        "model, stops, and resumes.",
        f'<div class="fp-cards">{"".join(cards)}</div>',
        toctrees({"": tuple(shown)}),
    ]
    yield "gallery/index.md", "\n\n".join(text)


def uses(shown: Mapping[str, gallery.Page]) -> dict[str, dict[str, str]]:
    """Return the titles of the gallery pages that use an operator, by its name and by the path of the page."""
    found: dict[str, dict[str, str]] = {}
    for name, page in shown.items():
        for operator in gallery.operators_of((gallery.FOLDER / f"{name}.py").read_text(encoding="utf-8")):
            found.setdefault(operator, {})[f"gallery/{name}.md"] = page.title
    return found


def written_pages() -> Iterator[tuple[str, str]]:
    """Yield the place in the site and the text of each page that people write."""
    places = {
        path.relative_to(ROOT).as_posix(): path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob("*.md")
        if path.relative_to(DOCS).parts[0] not in LEFT_OUT
    } | OTHER_PAGES
    for name, place in places.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if aliases := ALIASES.get(place.removesuffix(".md")):
            text = text.replace("\n", f"\n\n{operators.index_entries(aliases)}\n", 1)
        yield place, relinked(inlined(text, (ROOT / name).parent), name, places)


def inlined(text: str, folder: Path) -> str:
    """Put SVG pictures into the page, so that they have its colours; as files they have those of the system."""

    def picture(found: re.Match[str]) -> str:
        svg = (folder / found[1]).read_text(encoding="utf-8")
        svg = re.sub(r"svg\.\S+ \{ color: .*?\}|@media .*?\} \}", "", svg)
        return f'<div class="fp-diagram">{" ".join(svg.split())}</div>'

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


def toctrees(parts: Mapping[str, tuple[str, ...]]) -> str:
    """Return what gives pages their places in the sidebar, in parts with titles."""
    lines: list[str] = []
    for caption, pages in parts.items():
        lines += ["", "```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages, "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (DocstringError, gallery.GalleryError) as error:
        sys.exit(f"make docs: {error}")
