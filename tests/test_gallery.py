"""The pages of the gallery run, and keep to their rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .support.site import assemble, gallery

GOOD = """# %% [markdown]
# # Title
#
# Words with `code`.
#
# **You need** nothing. **It takes** a second.

# %%
import matplotlib.pyplot as plt

print("one", 1)
figure, axis = plt.subplots()
axis.plot([1, 2])
axis.set_title("A < B")

# %% [markdown]
# ## Resume

# %%


def load(loader):
    loader.load_state_dict({})
    loader.pipe.batch(3)


assert True

# %% [markdown]
# ## Next
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", gallery.ORDER)
def test_a_page_runs_within_its_time(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    gallery.run_apart(gallery.FOLDER / f"{name}.py", tmp_path / "page.json")
    page = json.loads((tmp_path / "page.json").read_text())
    assert "/tmp/" not in page["text"]


@pytest.mark.parametrize("name", gallery.ORDER)
def test_a_page_keeps_to_the_rules(name: str) -> None:
    assert gallery.broken_rules((gallery.FOLDER / f"{name}.py").read_text(encoding="utf-8")) == []


def test_all_files_have_a_place() -> None:
    assert {path.stem for path in gallery.FOLDER.glob("*.py")} == set(gallery.ORDER)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("# # Title", "# Title", "whose first line is a title"),
        ("**It takes**", "It takes", "its first cell says"),
        ('print("one", 1)', 'print("one", 1)\n' * 121, "at most 120 lines of code, not 129"),
        ('"one", 1', '"one", 1' + " " * 80, "at most 88 columns"),
        ("plt.subplots", "plt.figure", "has a figure"),
        (".load_state_dict", ".load_state", "its code resumes"),
        ("assert True", "print(True)", "has an `assert`"),
        ("## Next", "## Then", "ends with a cell of text"),
    ],
)
def test_a_page_that_breaks_a_rule_is_refused(old: str, new: str, rule: str) -> None:
    assert gallery.broken_rules(GOOD) == []
    [broken] = gallery.broken_rules(GOOD.replace(old, new))
    assert rule in broken


def test_cells_have_their_lines() -> None:
    text, code, *_, end = gallery.cells(GOOD)
    assert (text.is_text, text.line, text.content.splitlines()[0]) == (True, 2, "# Title")
    assert (code.is_text, code.line) == (False, 9)
    assert GOOD.splitlines()[code.line - 1] == code.content.splitlines()[0] == "import matplotlib.pyplot as plt"
    assert end.content == "## Next"


def test_operators_are_found() -> None:
    assert {"batch", "load_state_dict"} <= gallery.operators_of(GOOD)


@pytest.mark.slow
class TestRun:
    def test_a_page_has_outputs_figures_and_downloads(self, tmp_path: Path) -> None:
        (tmp_path / "good.py").write_text(GOOD)
        gallery.run_apart(tmp_path / "good.py", tmp_path / "good.json")
        page = gallery.Page(**json.loads((tmp_path / "good.json").read_text()))
        assert (page.title, page.lead) == ("Title", "Words with `code`.")
        assert "```text\none 1\n```" in page.text
        assert '<div class="fp-figure"><svg role="img" aria-label="A &lt; B"' in page.text
        assert "currentColor" in page.text and gallery.INK not in page.text
        assert "{download}`good.py` · {download}`good.ipynb`" in page.text
        kinds = [cell["cell_type"] for cell in json.loads(page.notebook)["cells"]]
        assert kinds == ["markdown", "code", "markdown", "code", "markdown"]
        files = dict(assemble.gallery_files({"image_folders": page}))
        assert 'href="image_folders.html"' in files["gallery/index.md"]
        assert "Words with <code>code</code>." in files["gallery/index.md"]

    def test_an_error_names_the_file_and_its_line(self, tmp_path: Path) -> None:
        (tmp_path / "bad.py").write_text(GOOD.replace("assert True", "assert 1 == 2"))
        line = GOOD.splitlines().index("assert True") + 1
        with pytest.raises(gallery.GalleryError, match=rf"(?s)bad\.py fails:.*bad\.py\", line {line}, in <module>"):
            gallery.run_apart(tmp_path / "bad.py", tmp_path / "bad.json")

    def test_a_page_that_takes_too_long_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gallery, "MOST_SECONDS", 0.01)
        (tmp_path / "slow.py").write_text(GOOD)
        with pytest.raises(gallery.GalleryError, match=r"slow\.py takes \d+ s of CPU; at most 0\.01 are allowed"):
            gallery.run_apart(tmp_path / "slow.py", tmp_path / "slow.json")
        assert not (tmp_path / "slow.json").exists()
