"""The page of a profile in a browser: pictures of all kinds of columns, hostile names and values, many columns."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp

from .browser import HOSTILE, Browser, assert_fits, assert_readable


def usual(rows: int = 600) -> fp.Pipe[Any]:
    rng = np.random.default_rng(0)
    numbers = range(rows)
    return fp.from_table(
        pa.table(
            {
                "price": [1e12, *rng.lognormal(3, 1, rows - 1)],
                "city": [["Rome", "Oslo", "Lima", None][n % 4] for n in numbers],
                "when": [f"2024-01-{1 + n % 28:02}" for n in numbers],
                "day": [datetime.date(2024, 1, 1 + n % 28) for n in numbers],
                "text": [" ".join(["word"] * (1 + n % 40)) + str(n) for n in numbers],
                "tags": [["a"] * (n % 7) for n in numbers],
                "photo": pa.FixedShapeTensorArray.from_numpy_ndarray(rng.integers(0, 256, (rows, 20, 30, 3), np.uint8)),
                "jpeg": [b"\xff\xd8\xff not one"] * rows,
                "id": list(numbers),
                "copy": list(numbers),
                "same": [1] * rows,
                "empty": pa.nulls(rows),
                "label": [n % 3 for n in numbers],
            }
        )
    )


def hostile() -> fp.Pipe[Any]:
    names = [HOSTILE, "<img src=x onerror='window.harm=1'>", "x" * 400, "\u202e\x00name", ""]
    return fp.from_sequence([dict.fromkeys(names, HOSTILE * (1 + n % 3)) for n in range(40)])


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("profiles")
    pipes = {
        "usual": usual(),
        "hostile": hostile(),
        "many": fp.from_sequence([{f"column {k}": n * k for k in range(200)} for n in range(50)]),
        "images": fp.from_arrays({"image": np.arange(3000, dtype=np.uint8).reshape(30, 10, 10)}).batch(5),
        "none": fp.from_sequence([]),
    }
    paths = {name: folder / f"{name}.html" for name in [*pipes, "notebook"]}
    for name, pipe in pipes.items():
        profile = fp.profile(pipe, progress=False)
        profile.to_html(paths[name])
        if name == "usual":
            text = f"<!doctype html><html lang=en><title>notebook</title>{profile._repr_html_()}"
            paths["notebook"].write_text(text, encoding="utf-8")
    return paths


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["usual", "hostile", "many", "images", "none", "notebook"])
def test_a_profile_fits_at_all_widths(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    tab = browser.open(pages[name], scheme=scheme)
    assert_fits(tab, f"profile-{name}-{scheme}")
    assert tab.locator("script").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_a_profile_can_be_read(
    browser: Browser, pages: dict[str, Path], scheme: Literal["light", "dark"]
) -> None:
    assert_readable(browser.open(pages["usual"], scheme=scheme), ".fp :is(h1, h3, p, td, code, small, span)")


def test_each_kind_of_column_has_its_picture(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["usual"], width=1400)
    cards = {card.locator("h3").inner_text().split()[0]: card for card in tab.locator("section").all()}
    assert [*cards] == [
        "price",
        "city",
        "when",
        "day",
        "text",
        "tags",
        "photo",
        "jpeg",
        "id",
        "copy",
        "same",
        "empty",
        "label",
    ]
    assert cards["price"].get_by_role("img", name="histogram of numbers of price").locator("rect").count() > 5
    assert cards["city"].locator("tr").count() == 3
    day = cards["day"].get_by_role("img", name="histogram of dates of day")
    assert day.locator("rect").count() == 28
    assert "from 2024-01-01 to 2024-01-02" in day.inner_html()
    assert cards["text"].get_by_role("img", name="histogram of lengths of text").count() == 1
    assert cards["tags"].get_by_role("img", name="histogram of lengths of tags").count() == 1
    assert cards["photo"].locator("img").count() == 3
    assert "has the values of the column 'id'" in cards["copy"].inner_text()
    assert "outliers" in cards["price"].inner_text()
    height = tab.evaluate("document.documentElement.scrollHeight")
    assert height < 1300, "thirteen columns are about one screen"
    assert tab.get_by_text("need Pillow").count() == cards["jpeg"].get_by_text("(no thumbnail)").count() > 0
