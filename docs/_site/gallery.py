"""The gallery: Python files in the percent format, run cell by cell; their pages have what the cells gave.

`# %% [markdown]` begins text in comments, `# %%` begins code. VS Code, PyCharm, Spyder and jupytext open such a file as
a notebook. The output of a cell is what it prints, and its figures.

`python -m docs._site.gallery FILE OUTPUT` runs a file in an empty folder and writes its page as JSON.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import html
import io
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "gallery"

# The pages in the order of the gallery. A file that is missing here ends the build.
ORDER = (
    *("image_folders", "captions", "speech", "video_clips", "pretraining_mix", "instruction_tuning"),
    *("time_series", "parquet_table", "postgresql", "click_log", "recommender", "k_fold"),
    *("curriculum", "spot_instance", "uneven_ranks", "s3_cache"),
)

MOST_LINES = 120  # of code
MOST_SECONDS = 10  # of CPU
WIDEST_LINE = 88  # columns; a longer one would be cut by the window
INK = "#123457"  # the colour of text and axes in a figure, which becomes that of the page's text

STYLE = {
    **dict.fromkeys(["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"], INK),
    "axes.facecolor": "none",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
}
COLOURS = ("#e0752f", "#3f8fd2", "#3fa66b", "#a566c9", "#c2a11b")


class GalleryError(Exception):
    """A file of the gallery that breaks a rule, or whose code fails."""


class Cell(NamedTuple):
    """A part of a file, and the line on which its text begins."""

    is_text: bool
    content: str
    line: int


class Page(NamedTuple):
    """What a file gave.

    Attributes:
        title: the heading.
        lead: the first paragraph, as Markdown.
        text: the page, as Markdown.
        picture: the last figure, as SVG.
        notebook: the cells without outputs, as a notebook of Jupyter.
    """

    title: str
    lead: str
    text: str
    picture: str
    notebook: str


def pages(cache: Path) -> Iterator[tuple[str, Page]]:
    """Yield the name and the page of each file, which is run again if it or the package has changed."""
    files = {path.stem: path for path in FOLDER.glob("*.py")}
    if files.keys() != set(ORDER):
        raise GalleryError(f"`ORDER` in docs/_site/gallery.py and docs/gallery/ differ in {files.keys() ^ set(ORDER)}")
    code = [Path(__file__), *sorted((ROOT / "pipes").rglob("*.py"))]
    package = hashlib.sha256(b"".join(path.read_bytes() for path in code)).digest()
    for name in ORDER:
        if broken := broken_rules(files[name].read_text(encoding="utf-8")):
            raise GalleryError(f"docs/gallery/{name}.py breaks a rule: {'; '.join(broken)}")
        digest = hashlib.sha256(package + files[name].read_bytes()).hexdigest()
        made = cache / f"{name}-{digest[:16]}.json"
        if not made.exists():
            for old in cache.glob(f"{name}-*.json"):
                old.unlink()
            run_apart(files[name], made)
        yield name, Page(**json.loads(made.read_text(encoding="utf-8")))


def run_apart(path: Path, output: Path) -> None:
    """Run a file in a process of its own, with one thread for each library."""
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-W", "error", "-m", "docs._site.gallery", str(path), str(output)]
    environment = {**os.environ, "MPLBACKEND": "svg", "OMP_NUM_THREADS": "1"}
    before = os.times()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    seconds = os.times().children_user - before.children_user
    if done.returncode != 0:
        raise GalleryError(f"docs/gallery/{path.name} fails:\n{done.stderr.strip()}")
    if seconds > MOST_SECONDS:
        output.unlink()
        raise GalleryError(f"docs/gallery/{path.name} takes {seconds:.0f} s of CPU; at most {MOST_SECONDS} are allowed")


def cells(text: str) -> list[Cell]:
    """Divide a file at its marks."""
    head, *parts = re.split(r"^# %%(.*)\n", text, flags=re.MULTILINE)
    line = head.count("\n") + 1
    found: list[Cell] = []
    for mark, body in zip(parts[::2], parts[1::2], strict=True):
        line += 1
        if mark.strip() == "[markdown]":
            words = [row.removeprefix("#").removeprefix(" ") for row in body.splitlines() if row.startswith("#")]
            found.append(Cell(True, "\n".join(words).strip(), line))
        else:
            blank = len(body) - len(body.lstrip("\n"))
            found.append(Cell(False, body.strip("\n"), line + blank))
        line += body.count("\n")
    return found


def broken_rules(text: str) -> list[str]:
    """Return what a file lacks of that which each page of the gallery has."""
    parts = cells(text)
    code = [cell.content for cell in parts if not cell.is_text]
    lines = [line for part in code for line in part.splitlines() if line.strip()]
    wide = [line for line in lines if len(line) > WIDEST_LINE]
    rules = {
        "it begins with a cell of text whose first line is a title": bool(
            parts and parts[0].is_text and parts[0].content.startswith("# ")
        ),
        "its first cell says **You need** and **It takes**": bool(
            parts and re.search(r"\*\*You need\*\*.+\*\*It takes\*\*", parts[0].content, re.DOTALL)
        ),
        f"it has at most {MOST_LINES} lines of code, not {len(lines)}": len(lines) <= MOST_LINES,
        f"its code has at most {WIDEST_LINE} columns: {wide}": not wide,
        "its code has a figure": any("plt.subplots" in part for part in code),
        "its code resumes: `load_state_dict`": any(".load_state_dict(" in part for part in code),
        "its last cell of code has an `assert`": bool(code and re.search(r"^assert ", code[-1], re.MULTILINE)),
        "it ends with a cell of text, ## Next": bool(parts and parts[-1].content.startswith("## Next")),
    }
    return [rule for rule, holds in rules.items() if not holds]


def operators_of(text: str) -> set[str]:
    """Return the names that the code calls as methods or functions of feedpipe, such as `batch`."""
    code = "\n".join(cell.content for cell in cells(text) if not cell.is_text)
    calls = (node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    return {function.attr for function in calls if isinstance(function, ast.Attribute)}


def run(path: Path) -> Page:
    """Run a file in an empty folder."""
    import matplotlib

    settings = {**STYLE, "svg.hashsalt": path.stem, "axes.prop_cycle": matplotlib.cycler(color=COLOURS)}
    matplotlib.rcParams.update(settings)
    text = path.read_text(encoding="utf-8")
    # So an error names the file and its line, and so do feedpipe's messages, which name the user's line.
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    namespace: dict[str, object] = {"__name__": "__main__"}
    parts: list[str] = []
    pictures: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(cells(text)):
            if cell.is_text:
                parts.append(cell.content)
                continue
            parts.append(f"```python\n{cell.content}\n```")
            if output := _output(cell, path, namespace):
                parts.append(f"```text\n{output.rstrip()}\n```")
            for svg in _figures(f"{path.stem}-{number}"):
                parts.append(f'<div class="fp-figure">{svg}</div>')
                pictures.append(svg)
    title, lead = parts[0].split("\n\n")[:2]
    downloads = f"Download: {{download}}`{path.name}` · {{download}}`{path.stem}.ipynb`"
    return Page(
        title.removeprefix("# "),
        " ".join(lead.split()),
        "\n\n".join([*parts, downloads]) + "\n",
        pictures[-1].replace('id="', 'id="card-').replace('href="#', 'href="#card-').replace("url(#", "url(#card-"),
        _notebook(cells(text)),
    )


def _output(cell: Cell, path: Path, namespace: dict[str, object]) -> str:
    program = compile("\n" * (cell.line - 1) + cell.content, str(path), "exec", dont_inherit=True)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(program, namespace)
    return output.getvalue()


def _figures(name: str) -> Iterator[str]:
    """Close the open figures, and yield each as SVG in the colours of the page."""
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        figure = plt.figure(number)
        label = figure.get_suptitle() or next((axes.get_title() for axes in figure.axes if axes.get_title()), "")
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
        svg = stream.getvalue()
        svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
        # An id is that of one figure: several stand in one page.
        svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-{number}-", svg)
        label = html.escape(label or "the figure of the code above", quote=True)
        yield " ".join(svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).split())
    plt.close("all")


def _notebook(parts: list[Cell]) -> str:
    """Without outputs: they are on the page."""
    written: list[dict[str, object]] = []
    for number, cell in enumerate(parts):
        kind = "markdown" if cell.is_text else "code"
        entry: dict[str, object] = {"id": f"cell-{number}", "cell_type": kind, "metadata": {}}
        written.append(entry | {"source": cell.content.splitlines(keepends=True)})
        if not cell.is_text:
            written[-1] |= {"execution_count": None, "outputs": []}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": written, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(run(Path(sys.argv[1]))._asdict()), encoding="utf-8")
