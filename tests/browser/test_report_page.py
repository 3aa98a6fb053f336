"""The page of a report, and what notebooks show, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from playwright.sync_api import Page

import feedpipe as fp

from ..support.seeing import Report
from .browser import HOSTILE, Browser, assert_fits, assert_readable, screenshot
from .test_drawing import slow

# A notebook that is not trusted drops these.
SANITIZED = "document.querySelectorAll('style, svg, script').forEach(element => element.remove())"


def hostile(row: object) -> object:
    return row


hostile.__qualname__ = HOSTILE


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    paths = {name: folder / f"{name}.html" for name in ("one", "ranks", "hostile", "empty", "notebook")}
    images = fp.from_arrays({"image": np.zeros((512, 28, 28), np.uint8), "label": np.arange(512) % 10})
    with fp.Loader(images.shuffle().map(slow).batch(8), workers=1) as loader:
        list(loader)
        list(loader)
        one = loader.report()
    one.save(paths["one"])
    ranks = [one.ranks[0]._replace(rank=rank, world_size=4) for rank in range(4)]
    Report(ranks).save(paths["ranks"])
    with fp.Loader(images.map(hostile).batch(8)) as loader:
        loader.report().save(paths["empty"])
        list(loader)
        loader.report().save(paths["hostile"])
    rows = fp.from_arrays({"image": np.zeros((9, 28, 28), np.uint8), "label": np.arange(9)}).batch(9)[0]
    stats = fp.fit(images.select("label"), {"label": fp.stats.counts()}, progress=False)
    profile = fp.profile(images.select("label"), progress=False)
    shown = [value._repr_html_() for value in (one, rows, images.head(3), stats, profile, images.map(hostile))]
    paths["notebook"].write_text(f"<!doctype html><html lang=en><title>notebook</title>{''.join(shown)}", "utf-8")
    return paths


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["one", "ranks", "hostile", "empty", "notebook"])
def test_a_page_fits_at_all_widths(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    assert_fits(browser.open(pages[name], scheme=scheme), f"report-{name}-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["ranks", "notebook"])
def test_text_can_be_read(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    assert_readable(browser.open(pages[name], scheme=scheme), ".fp :is(h1, h2, h3, p, td, th, code, small, output)")


def span(tab: Page) -> tuple[int, int]:
    """The microseconds that the timeline shows."""
    begin, end = str(tab.locator("canvas").get_attribute("data-shown")).split()
    return int(begin), int(end)


def test_the_timeline_zooms_by_keys_and_buttons(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["one"])
    begin, end = span(tab)
    assert begin == 0 and end > 1000
    canvas = tab.locator("canvas")
    canvas.focus()
    tab.keyboard.press("+")
    low, high = span(tab)
    assert high - low == pytest.approx(end / 2, abs=2) and low == pytest.approx(end / 4, abs=2)
    tab.keyboard.press("ArrowRight")
    assert span(tab)[0] == pytest.approx(low + end / 8, abs=3)
    tab.keyboard.press("ArrowLeft")
    assert span(tab)[0] == pytest.approx(low, abs=3)
    tab.keyboard.press("-")
    assert span(tab) == (begin, end)
    tab.get_by_role("button", name="zoom in").click()
    tab.get_by_role("button", name="zoom in").click()
    assert span(tab)[1] - span(tab)[0] == pytest.approx(end / 4, abs=3)
    tab.get_by_role("button", name="show all").click()
    assert span(tab) == (begin, end)


def test_the_timeline_is_dragged_and_read_by_mouse(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["one"])
    tab.locator("canvas").scroll_into_view_if_needed()
    place = tab.locator("canvas").bounding_box()
    assert place is not None
    whole = span(tab)
    x, y = place["x"] + place["width"] / 2, place["y"] + 31
    tab.mouse.dblclick(x, y)
    low, high = span(tab)
    assert high - low == pytest.approx((whole[1] - whole[0]) / 2, abs=3)
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 100, y)
    tab.mouse.up()
    assert span(tab)[0] > low
    texts = set()
    for part in range(1, 40):
        tab.mouse.move(place["x"] + 150 + part * (place["width"] - 150) / 40, y)
        texts.add(tab.locator("output").inner_text())
    assert any(text.startswith("consumer: ") for text in texts)


def test_the_timeline_is_drawn(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["one"])
    colours = tab.evaluate(
        """() => {
          const canvas = document.querySelector('canvas');
          const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let at = 0; at < data.length; at += 4) seen.add(data.slice(at, at + 4).join());
          return seen.size;
        }"""
    )
    assert colours > 3


def test_the_operators_are_explored(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["one"])
    assert "% of the work" in tab.locator(".node.on").get_attribute("aria-label")  # type: ignore[operator]
    tab.locator(".node").nth(0).click()
    assert tab.locator("aside section:not([hidden]) h2").inner_text().startswith("from_arrays(")


def test_a_notebook_that_is_not_trusted_shows_tables_and_images(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["notebook"])
    tab.evaluate(SANITIZED)
    images = tab.locator("img")
    assert images.count() >= 8 + 3 + 1
    assert all(image.is_visible() and image.evaluate("image => image.naturalWidth") for image in images.all())
    assert tab.locator("table").count() >= 5
    assert tab.get_by_text("Too short to say").first.is_visible()
    screenshot(tab, "notebook-not-trusted")
