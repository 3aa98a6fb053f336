"""The gallery: Python files in the percent format, run cell by cell; their pages show what the cells print and draw.

`# %% [markdown]` begins text in comments, `# %%` begins code, as in VS Code, PyCharm and jupytext.
`python -m docs._site.gallery FILE OUTPUT` runs a file in an empty folder and writes its page as JSON.
"""

from __future__ import annotations

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
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "gallery"
INK = "#123457"  # the colour of text and axes in a figure, which becomes that of the page's text


class GalleryError(Exception):
    """The code of a file of the gallery fails."""


class Cell(NamedTuple):
    """A part of a file, and the line on which it begins."""

    is_text: bool
    content: str
    line: int


class Page(NamedTuple):
    """What a file gave: its heading, its first paragraph, the page as Markdown, and its last figure as SVG."""

    title: str
    lead: str
    text: str
    picture: str


def pages(names: list[str], cache: Path) -> Iterator[tuple[str, Page]]:
    """Yield the name and the page of each file, which runs again if it or the package has changed."""
    code = [Path(__file__), *sorted((ROOT / "pipes").rglob("*.py"))]
    package = hashlib.sha256(b"".join(path.read_bytes() for path in code)).digest()
    for name in names:
        digest = hashlib.sha256(package + (FOLDER / f"{name}.py").read_bytes()).hexdigest()
        made = cache / f"{name}-{digest[:16]}.json"
        if not made.exists():
            for old in cache.glob(f"{name}-*.json"):
                old.unlink()
            run_apart(FOLDER / f"{name}.py", made)
        yield name, Page(**json.loads(made.read_text(encoding="utf-8")))


def run_apart(path: Path, output: Path) -> None:
    """Run a file in a process of its own, with one thread for each library."""
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-W", "error", "-m", "docs._site.gallery", str(path), str(output)]
    environment = {**os.environ, "MPLBACKEND": "svg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise GalleryError(f"docs/gallery/{path.name} fails:\n{done.stderr.strip()}")


def cells(text: str) -> list[Cell]:
    """Divide a file at its marks."""
    head, *parts = re.split(r"^# %%(.*)\n", text, flags=re.MULTILINE)
    line = head.count("\n") + 2
    found: list[Cell] = []
    for mark, body in zip(parts[::2], parts[1::2], strict=True):
        is_text = mark.strip() == "[markdown]"
        content = re.sub(r"^# ?", "", body, flags=re.MULTILINE) if is_text else body
        found.append(Cell(is_text, content.strip("\n"), line + len(body) - len(body.lstrip("\n"))))
        line += body.count("\n") + 1
    return found


def run(path: Path) -> Page:
    """Run a file in an empty folder."""
    import matplotlib

    inks = ["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"]
    style: dict[str, Any] = {**dict.fromkeys(inks, INK), "axes.facecolor": "none", "svg.fonttype": "none"}
    style |= {"svg.hashsalt": path.stem, "axes.spines.right": False, "axes.spines.top": False}
    matplotlib.rcParams.update(style)  # type: ignore[arg-type]  # the names of settings are literals in its stubs
    text = path.read_text(encoding="utf-8")
    # So an error names the file and its line, and so do feedpipe's messages.
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    namespace: dict[str, object] = {"__name__": "__main__"}
    parts: list[str] = []
    pictures: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(cells(text)):
            if cell.is_text:
                parts.append(cell.content)
                continue
            program = compile("\n" * (cell.line - 1) + cell.content, str(path), "exec", dont_inherit=True)
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(program, namespace)
            parts.append(f"```python\n{cell.content}\n```")
            if printed := output.getvalue().rstrip():
                parts.append(f"```text\n{printed}\n```")
            pictures += (drawn := list(_figures(f"{path.stem}-{number}")))
            parts += [f'<div class="fp-figure">{svg}</div>' for svg in drawn]
    title, lead = parts[0].split("\n\n")[:2]
    text = "\n\n".join([*parts, f"Download: {{download}}`{path.name}`"])
    return Page(title.removeprefix("# "), " ".join(lead.split()), text + "\n", pictures[-1])


def _figures(name: str) -> Iterator[str]:
    """Close the open figures, and yield each as SVG in the colours of the page."""
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        figure = plt.figure(number)
        label = figure.get_suptitle() or next((axes.get_title() for axes in figure.axes if axes.get_title()), "figure")
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
        svg = stream.getvalue()
        svg = " ".join(svg[svg.index("<svg") :].replace(INK, "currentColor").split())
        svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-{number}-", svg)
        yield svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(label, quote=True)}" ', 1)
    plt.close("all")


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(run(Path(sys.argv[1]))._asdict()), encoding="utf-8")
