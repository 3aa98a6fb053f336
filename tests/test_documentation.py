"""All code that a reader can copy runs: in README.md, in docs/ and in docstrings. Links of documents lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import linecache
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from feedpipe import errors

from .support.site import assemble, reference

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "pipes"

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)``` *$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of Python, and the line of its file on which the code begins."""

    code: str
    line: int
    run: bool


def python_blocks(text: str) -> Iterator[Block]:
    """Yield the fences marked `python`; those marked `python no-run` are only compiled."""
    for fence in FENCE.finditer(text):
        language, *options = fence["info"].split() or [""]
        if language != "python":
            continue
        assert options in ([], ["no-run"]), f"unknown mark on a fence: {fence['info']!r}"
        indent = fence["indent"]
        code = "".join(line.removeprefix(indent) for line in fence["code"].splitlines(keepends=True))
        yield Block(code, text.count("\n", 0, fence.start("code")) + 1, not options)


# tests/clients imports them, in its environment.
NEED_CLIENTS = "feedpipe.lightning", "feedpipe.services.cluster", "feedpipe.transformers"


def modules() -> list[str]:
    """Name every module of the package without importing any."""
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    names = (".".join(("feedpipe", *path.parts)).removesuffix(".__init__") for path in paths)
    return sorted(name for name in names if not name.endswith(".__main__") and not name.startswith(NEED_CLIENTS))


DOCUMENTS = sorted(path for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")) if path.exists())
MOST_BYTES = 220 * 1024


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in DOCUMENTS])
def test_code_in_document_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of one file run in order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    # So an error names the document and its line, and so do feedpipe's messages, which name the user's line.
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    namespace = {"__name__": "__main__"}
    for block in python_blocks(text):
        program = compile("\n" * (block.line - 1) + block.code, str(path), "exec", dont_inherit=True)
        if block.run:
            exec(program, namespace)


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of one module run in an empty folder, with nothing but what they import."""
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=options)
    report: list[str] = []
    for example in doctest.DocTestFinder().find(module, name, globs={}):
        runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("name", ["docs/internals/architecture.md", "docs/internals/design.md", "CONTRIBUTING.md"])
def test_files_named_in_documents_exist(name: str) -> None:
    """Paths of modules are relative to the repository or to the package."""
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = {path for path in re.findall(r"`([\w./]+\.(?:py|md))`", text) if "/" in path}
    assert paths
    assert not [path for path in paths if not (ROOT / path).exists() and not (PACKAGE / path).exists()]


def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    """Between documents, from the gallery, and from docstrings, which name pages as seen from docs/."""
    generated = {path for path, _ in reference.pages()} | {
        f"gallery/{name}.md" for name in [*assemble.GALLERY, "index"]
    }
    broken: list[str] = []
    others = [ROOT / name for name in assemble.OTHER_PAGES] + [ROOT / "tests" / "README.md"]
    for path in [*DOCUMENTS, *others, *ROOT.glob("docs/gallery/*.py"), *PACKAGE.rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        base = ROOT / "docs" if PACKAGE in path.parents else path.parent
        for target, anchor in re.findall(r"\]\((?!\w+:)([\w./-]*\.\w+)?(?:#([\w-]+))?\)", text):
            if not target and not anchor:
                continue
            file = (base / target).resolve() if target else path
            known = file.exists() or file.relative_to(ROOT / "docs").as_posix() in generated
            if not known or (anchor and file.exists() and anchor not in anchors(file)):
                broken.append(f"{path.relative_to(ROOT)}: {target}#{anchor}")
        named = re.findall(r"\bdocs/[\w/-]+\.md", text)
        broken += [f"{path.relative_to(ROOT)}: {name}" for name in named if not (ROOT / name).exists()]
    assert broken == []


def test_every_page_is_in_the_sidebar() -> None:
    listed = [page for pages in assemble.SIDEBAR.values() for page in pages.split()]
    written = {place.removesuffix(".md") for place, _ in assemble.written_pages()} - {"index"}
    assert len(listed) == len(set(listed))
    assert written <= set(listed)
    assert {path.stem for path in ROOT.glob("docs/gallery/*.py")} == set(assemble.GALLERY)


def test_every_error_is_explained() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and name.endswith("Error")}
    raised -= {"UnfitError"}  # which operators turn into others
    assert [name for name in raised if f"`{name}`" not in page] == []


def test_documents_stay_small() -> None:
    """What is longer is read by nobody: merge pages, and say each thing once."""
    others = [ROOT / name for name in (*assemble.OTHER_PAGES, "tests/README.md")]
    kept = [path for path in DOCUMENTS if path.parent.name != "plan"]  # plans go when their work is done
    assert sum(path.stat().st_size for path in [*kept, *others]) <= MOST_BYTES
