"""The pictures of the guide are those that its code draws."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.site import pictures

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
