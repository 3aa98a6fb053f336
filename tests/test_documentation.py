"""All code that a reader can copy runs: in README.md, in docs/ and in docstrings. Documents name existing files."""

from __future__ import annotations

import doctest
import importlib
import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import feedpipe

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
    paths = {path for path in re.findall(r"`([\w./]+\.py)`", text) if "/" in path}
    assert paths
    assert not [path for path in paths if not (ROOT / path).exists() and not (PACKAGE / path).exists()]


# Pages that were divided or moved: their names may not be linked.
OLD_NAMES = {
    *(
        "architecture",
        "benchmarks",
        "databases",
        "dataloader",
        "design",
        "elements",
        "epochs-and-state",
        "errors",
        "formats",
    ),
    *("migrating", "operators", "ranks", "ray", "recipes", "scaling", "services", "start", "statistics", "storage"),
    *("trainers", "workers", "writing"),
}
MOST_WORDS = {ROOT.name: 700, "internals": 1500, "start": 1200, "guides": 1200, "reference": 1200, "errors": 1500}


# Reports of measurements.
EXEMPT = {"benchmarks", "scaling"}


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in DOCUMENTS])
def test_a_page_has_few_words(path: Path) -> None:
    """Code does not count. What is longer is two pages."""
    if path.parent.name not in MOST_WORDS or path.stem in EXEMPT:
        assert path.parent in (ROOT / "docs", ROOT / "docs" / "plan") or path.stem in EXEMPT
        return
    words = len(FENCE.sub("", path.read_text(encoding="utf-8")).split())
    assert words <= MOST_WORDS[path.parent.name]


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem) for path in DOCUMENTS if path.parent.name in ("start", "guides")]
)
def test_a_page_begins_with_a_question_and_the_code_that_answers_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    fence = FENCE.search(text)
    assert fence and fence["info"].split()[0] in ("python", "console")
    head = text[: fence.start()]
    assert "?" in head and len(head.split()) <= 60 and "\n## " not in head


def test_old_names_of_pages_are_not_linked() -> None:
    named = re.compile(rf"\bdocs/(?:{'|'.join(sorted(OLD_NAMES))})\.md")
    files = [
        *(path for path in DOCUMENTS if "plan" not in path.parts),
        ROOT / "CONTRIBUTING.md",
        *PACKAGE.rglob("*.py"),
        *ROOT.glob("tests/**/*.py"),
    ]
    assert [path for path in files if path != Path(__file__) and named.search(path.read_text(encoding="utf-8"))] == []


def test_the_architecture_fits_on_a_page() -> None:
    assert len((ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_blocks_are_found_with_their_lines() -> None:
    text = "a\n```python\nx = 1\n```\n- b\n  ```python no-run\n  y = 2\n  ```\n```text\nz\n```\n"
    assert list(python_blocks(text)) == [Block("x = 1\n", 3, True), Block("y = 2\n", 7, False)]


def test_modules_are_found() -> None:
    assert {"feedpipe", "feedpipe.ops", "feedpipe.pipe"} <= set(modules())
    assert sys.modules["feedpipe"] is feedpipe
