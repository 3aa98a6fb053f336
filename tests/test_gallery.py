"""The pages of the gallery run, and show what they print and draw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .support.site import assemble, gallery

PROGRAM = """# %% [markdown]
# # Title
#
# Words with `code`.

# %%
import matplotlib.pyplot as plt

print("one", 1)
figure, axis = plt.subplots()
axis.set_title("A < B")

# %% [markdown]
# ## Next
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", assemble.GALLERY)
def test_a_page_runs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    gallery.run_apart(gallery.FOLDER / f"{name}.py", tmp_path / "page.json")
    page = json.loads((tmp_path / "page.json").read_text())
    assert "/tmp/" not in page["text"]


@pytest.mark.parametrize("name", assemble.GALLERY)
def test_a_page_resumes_and_proves_it(name: str) -> None:
    cells = gallery.cells((gallery.FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    code = [cell.content for cell in cells if not cell.is_text]
    assert cells[0].content.startswith("# ") and cells[-1].content.startswith("## Next")
    assert any(".load_state_dict(" in part for part in code) and "\nassert " in code[-1]


@pytest.mark.slow
def test_a_page_has_outputs_and_figures(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(PROGRAM)
    gallery.run_apart(tmp_path / "good.py", tmp_path / "good.json")
    page = gallery.Page(**json.loads((tmp_path / "good.json").read_text()))
    assert (page.title, page.lead) == ("Title", "Words with `code`.")
    assert "```text\none 1\n```" in page.text
    assert '<div class="fp-figure"><svg role="img" aria-label="A &lt; B"' in page.text
    assert "currentColor" in page.text and gallery.INK not in page.text

    (tmp_path / "bad.py").write_text(PROGRAM.replace('print("one", 1)', "1 / 0"))
    with pytest.raises(gallery.GalleryError, match=r'(?s)bad\.py fails:.*bad\.py", line 9, in <module>.*ZeroDivision'):
        gallery.run_apart(tmp_path / "bad.py", tmp_path / "bad.json")
