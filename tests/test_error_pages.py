"""The pages of errors: what people explain is what the package says."""

from __future__ import annotations

import pytest

from feedpipe import errors as public

from .record_errors import template
from .support.site import assemble, errors

WRITTEN = {path: text for path, text in assemble.written_pages() if path.startswith(f"{errors.FOLDER}/")}


@pytest.mark.parametrize("path", WRITTEN)
def test_what_is_explained_is_raised(path: str) -> None:
    kind = path.removeprefix(f"{errors.FOLDER}/").removesuffix(".md")
    assert [text for text in errors.explained(WRITTEN[path]) if not errors.is_recorded(text, kind)] == []


def test_every_class_has_a_page_with_its_messages() -> None:
    pages = dict(errors.pages(WRITTEN))
    raised = {name for name, value in vars(public).items() if isinstance(value, type) and name.endswith("Error")}
    raised -= {"FeedpipeError", "UnfitError"}  # the base, and one that operators turn into others
    assert {f"{errors.FOLDER}/{name}.md" for name in raised} <= pages.keys()
    page = pages[f"{errors.FOLDER}/StateError.md"]
    assert "> this state is of another loader" in page and "| message | raised by |" in page
    assert "](../operators/mix.md)" in pages[f"{errors.FOLDER}/ArgumentError.md"]


def test_texts_of_one_place_have_a_template() -> None:
    assert template(["`size` must be >= 1 but got: 0"]) == "`size` must be >= 1 but got: …"
    texts = ["there is no column `a` in x.csv, line 3", "there is no column `b` in y.csv, line 14"]
    assert template(texts) == "there is no column … in … line …"
