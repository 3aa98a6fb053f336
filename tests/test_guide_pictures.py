"""The pictures of the guide and of the README are those that their code draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.site import pictures

ROOT = Path(__file__).resolve().parent.parent

CODE = """Text.

```python
for name in ("a.svg", "b.html"):
    open(name, "w").write(f"<svg>\\n  {name}</svg>")
```
"""


def test_pictures_stand_in_the_page_and_pages_beside_it(tmp_path: Path) -> None:
    text = pictures.shown(f"{CODE}\n<!-- a.svg -->\n\n<!-- b.html -->\n", tmp_path / "guides")
    assert '<div class="fp-diagram"><svg> a.svg</svg></div>' in text and '<a href="b.html">' in text
    assert (tmp_path / "guides" / "b.html").read_text() == "<svg>\n  b.html</svg>"


def test_a_picture_needs_a_place(tmp_path: Path) -> None:
    with pytest.raises(pictures.PictureError, match=r"draws b.html, and has no line <!-- b.html -->"):
        pictures.shown(f"{CODE}\n<!-- a.svg -->\n", tmp_path)


def test_code_that_fails_ends_the_build(tmp_path: Path) -> None:
    with pytest.raises(pictures.PictureError, match=r"(?s)the code of .* fails.*ZeroDivisionError"):
        pictures.shown("```python\n1 / 0\n```\n", tmp_path)


def test_the_picture_of_the_readme_is_what_its_example_draws(tmp_path: Path) -> None:
    code, _, _ = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("with fp.Loader")
    )
    namespace: dict[str, Any] = {}
    exec(compile(code, "train.py", "exec", dont_inherit=True), namespace)
    namespace["pipe"].draw(tmp_path / "example.svg")
    drawn = (tmp_path / "example.svg").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "start" / "example.svg").read_text(encoding="utf-8") == drawn
