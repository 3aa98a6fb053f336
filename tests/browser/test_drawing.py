"""Pages of `draw()` as a user meets them: mouse, keyboard, widths, colours, hostile names. Screenshots are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from playwright.sync_api import Page

import feedpipe as fp

from .browser import HOSTILE, Browser, assert_fits, assert_readable, screenshot


def slow(row: dict[str, object]) -> dict[str, object]:
    sum(range(5000))
    return row


def merged() -> fp.Pipe[object]:
    """A fork, a merge of three, audio and images, and a place of division in each branch."""
    pixels = (np.linspace(0, 1, 28)[:, None] * np.linspace(0, 1, 28) * 255).astype(np.uint8)
    images = fp.from_arrays({"image": pixels[None].repeat(64, 0), "label": np.arange(64) % 10})
    sound = np.sin(np.arange(16_000) / 300).astype(np.float32) * np.linspace(0, 1, 16_000, dtype=np.float32)
    audio = fp.from_sequence([{"audio": sound, "words": "one <b>two</b>"}] * 8)
    first = images.shuffle().map(slow).filter(lambda row: row["label"] != 3)
    return first.mix(images.map(slow).repeat(), audio.shuffle(), weights=[3, 1, 1]).batch(4)  # type: ignore[arg-type]


def hostile() -> fp.Pipe[object]:
    def function(row: object) -> object:
        return {HOSTILE: HOSTILE}

    def raises(row: object) -> object:
        raise ValueError(HOSTILE)

    function.__qualname__ = raises.__qualname__ = HOSTILE
    return fp.from_sequence([HOSTILE] * 3).map(function).map(raises)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    paths = {
        name: folder / f"{name}.html" for name in ("merged", "hostile", "run", "branches", "different", "notebook")
    }
    merged().draw(paths["merged"], samples=2, workers=2)
    hostile().draw(paths["hostile"], samples=1)
    chain = fp.from_arrays({"x": np.zeros((256, 28, 28), np.uint8)}).shuffle().map(slow).batch(4)
    with fp.Loader(chain) as loader:
        for _ in range(2):
            list(loader)
        loader.draw(paths["run"], samples=1)
        shown = [loader._repr_html_(), merged()._repr_html_(), hostile()._repr_html_()]
    paths["notebook"].write_text(f"<!doctype html><html lang=en><title>notebook</title>{''.join(shown)}", "utf-8")
    branches = [fp.from_sequence(range(at + 1)).map(abs).filter(bool) for at in range(333)]
    branches[0].concat(*branches[1:]).draw(paths["branches"])
    kinds = [branch.map(abs) if at % 2 else branch.enumerate() for at, branch in enumerate(branches[:12])]
    kinds[0].concat(*kinds[1:]).draw(paths["different"])  # type: ignore[arg-type]
    return paths


def panels(tab: Page) -> list[str]:
    """The titles of the panels that are shown."""
    return [title.inner_text() for title in tab.locator("aside section:not([hidden]) h2").all()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["merged", "hostile", "run", "branches", "different", "notebook"])
def test_a_page_fits_at_all_widths(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    assert_fits(browser.open(pages[name], scheme=scheme), f"draw-{name}-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["merged", "run", "branches"])
def test_text_can_be_read(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    assert_readable(browser.open(pages[name], scheme=scheme), ".fp :is(h1, h2, h3, p, td, th, code, pre span, small)")


def test_each_operator_by_mouse(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["merged"], width=1920)
    nodes = tab.locator(".node")
    assert nodes.count() == 10 and len(panels(tab)) == 1
    for place in range(nodes.count()):
        nodes.nth(place).click()
        title = nodes.nth(place).locator("title").text_content()
        assert panels(tab) == [title]
        assert nodes.nth(place).get_attribute("aria-pressed") == "true"
    assert tab.locator(".node.on").count() == 1


def test_each_operator_by_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["merged"])

    def focused() -> str:
        return str(tab.evaluate("document.activeElement.querySelector('title').textContent"))

    tab.keyboard.press("Tab")
    assert focused() == ".batch(4)"  # the box that is shown first
    tab.keyboard.press("Home")
    assert focused().startswith("from_arrays")
    tab.keyboard.press("Enter")
    assert panels(tab) == [focused()]
    tab.keyboard.press("End")
    tab.keyboard.press(" ")
    assert panels(tab) == [".batch(4)"]
    tab.keyboard.press("ArrowUp")
    assert focused() == ".mix(weights=[3, 1, 1])"
    tab.keyboard.press("ArrowUp")
    row = {focused()}
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
        row.add(focused())
    assert row == {".filter(merged.<locals>.<lambda>)", ".repeat()", ".shuffle()"}
    tab.keyboard.press("ArrowDown")
    assert focused() == ".mix(weights=[3, 1, 1])"
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    assert focused() == ".batch(4)"  # there is nothing below


def test_a_screen_reader_hears_names_and_counts(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["run"])
    buttons = tab.get_by_role("button")
    assert buttons.count() == 4
    assert tab.get_by_role("button", name=".map(slow), 256 indexed").count() == 1
    assert "% of the work" in (buttons.nth(2).get_attribute("aria-label") or "")
    assert tab.get_by_role("group", name="graph of 4 operators, from from_arrays").count() == 1


def test_hostile_text_is_text(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["hostile"])
    assert tab.locator("img").count() == 0 and tab.locator("script").count() == 1
    tab.locator(".node").nth(1).click()
    assert "<img src=x onerror" in tab.locator("aside section:not([hidden])").inner_text()
    tab.locator(".node").nth(2).click()
    assert "ValueError" in tab.locator("aside section:not([hidden])").inner_text()


def test_the_samples_have_pictures(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["merged"])
    tab.locator(".node").nth(0).click()
    images = tab.locator("aside section:not([hidden]) img")
    assert images.count() == 2
    assert all(images.nth(place).evaluate("image => image.naturalWidth") == 28 for place in range(2))


def test_a_page_without_script_shows_all_panels(browser: Browser, pages: dict[str, Path]) -> None:
    context = browser.process.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(pages["run"].as_uri())
    assert tab.locator("aside section").count() == 4
    assert all(section.is_visible() for section in tab.locator("aside section").all())
    context.close()


def test_print_shows_all_panels(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["run"])
    tab.emulate_media(media="print")
    assert all(section.is_visible() for section in tab.locator("aside section").all())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_svg_is_an_image(browser: Browser, tmp_path: Path, scheme: Literal["light", "dark"]) -> None:
    for name, pipe in (("merged", merged()), ("hostile", hostile())):
        pipe.draw(tmp_path / f"{name}.svg")
        page = tmp_path / f"{name}.html"
        page.write_text(f"<!doctype html><html lang=en><title>svg</title><img src={name}.svg>")
        tab = browser.open(page, scheme=scheme)
        assert tab.evaluate("document.images[0].naturalWidth") > 300
        screenshot(tab, f"svg-{name}-{scheme}")
