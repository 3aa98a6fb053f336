"""The guide on pictures: its code is run, and what it draws becomes part of the page, or a page beside it.

The line `<!-- NAME.svg -->` becomes the picture, and `<!-- NAME.html -->` a link to the page.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = "guides/pictures.md"


class PictureError(Exception):
    """The code of the guide fails, or draws a picture for which it has no place."""


def shown(text: str, folder: Path) -> str:
    """Return the text of the guide with its pictures; the pages that it writes go into `folder`."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "train.py").write_text(code, encoding="utf-8")
        done = subprocess.run([sys.executable, "train.py"], cwd=place, capture_output=True, text=True)
        if done.returncode:
            raise PictureError(f"the code of {PAGE} fails:\n{done.stderr}")
        drawn = {path.name: path.read_text(encoding="utf-8") for path in place.iterdir() if path.suffix != ".py"}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in sorted(drawn.items()):
        mark = f"<!-- {name} -->"
        if mark not in text:
            raise PictureError(f"{PAGE} draws {name}, and has no line {mark}")
        if name.endswith(".svg"):
            text = text.replace(mark, f'<div class="fp-diagram">{" ".join(content.split())}</div>')
        else:
            (folder / name).write_text(content, encoding="utf-8")
            text = text.replace(mark, f'<p><a href="{html.escape(name)}">Open this page: {html.escape(name)}</a></p>')
    return text
