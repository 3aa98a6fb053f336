"""The documentation site as a reader meets it: links, search, themes, widths, keyboard. `make docs` builds it first."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

import pytest

from .browser import Browser, assert_readable, overhang

SITE = Path(os.environ.get("FEEDPIPE_SITE", Path(__file__).parents[2] / ".site" / "dev")).resolve()
PAGES = sorted(path for path in SITE.rglob("*.html") if path.parent.name not in ("_static", "_modules"))

Scheme = Literal["light", "dark"]

# What a reader types, and a page that is among the first five then.
SEARCHES = {
    "batch": "reference/operators/batch",
    "drop_last": "reference/operators/batch",
    "shuffle window": "reference/operators/shuffle",
    "interleave_datasets": "reference/operators/mix",
    "ImageFolder": "reference/operators/read_images",
    "webdataset": "reference/operators/read_tar",
    "hugging face": "reference/operators/from_dataset",
    "collate_fn": "reference/operators/collate",
    "random_split": "reference/operators/split",
    "postgresql": "gallery/postgresql",
    "StateError": "reference/errors",
    "state_dict": "reference/loader",
    "skip bad rows": "guides/rows-that-fail",
    "lightning": "guides/trainers",
    "ray cluster": "guides/ray",
    "out of memory": "guides/workers",
    "num_workers": "guides/workers",
    "resume after crash": "guides/ranks-and-resume",
    "torchrun": "guides/ranks-and-resume",
    "set_epoch": "guides/ranks-and-resume",
    "IterableDataset": "guides/dataloader",
    "slow dataloader": "guides/slow",
    "millions of files": "guides/listings",
    "install": "start/install",
}


class Links(HTMLParser):
    """Where a page leads to, what it loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given.get("id", ""), given.get("name", "")}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loads += [given[name] for name in ("src", "srcset") if name in given]
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(given["href"])


def test_every_link_leads_somewhere() -> None:
    pages = {path: Links(path) for path in PAGES}
    assert len(pages) > 100
    broken = []
    for path, page in pages.items():
        assert not [load for load in page.loads if urlsplit(load).scheme in ("http", "https")]
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else {""}
            if not target.exists() or unquote(parts.fragment) not in anchors | {""}:
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert not broken, "\n".join(broken[:20])


def test_pages_fit_into_the_window(browser: Browser) -> None:
    tab = browser.open(SITE / "index.html")
    wide = []
    for path in PAGES:
        tab.goto(path.as_uri())
        for width in (1280, 390):
            tab.set_viewport_size({"width": width, "height": 900})
            if (pixels := overhang(tab)) > 0:
                wide.append(f"{path.relative_to(SITE)} is {pixels} pixels wider than {width}")
    assert not wide, "\n".join(wide)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "page", ["reference/operators/mix.html", "guides/ranks-and-resume.html", "start/first-pipe.html"]
)
def test_text_can_be_read(browser: Browser, page: str, scheme: Scheme) -> None:
    assert_readable(
        browser.open(SITE / page, scheme=scheme), "article :is(p, li, td, th, h1, h2, code, pre, pre span, text)"
    )


def test_a_page_has_the_colours_of_the_system(browser: Browser) -> None:
    def brightness(scheme: Scheme) -> int:
        colour = browser.open(SITE / "index.html", scheme=scheme).evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        return sum(map(int, colour[4:-1].split(",")))

    assert brightness("light") > 600 and brightness("dark") < 150


def test_the_theme_can_be_chosen(browser: Browser) -> None:
    tab = browser.open(SITE / "index.html")
    assert tab.evaluate("document.body.dataset.theme") == "auto"
    tab.click(".theme-toggle-content")
    chosen = tab.evaluate("document.body.dataset.theme")
    assert chosen in ("light", "dark")
    tab.goto((SITE / "start" / "first-pipe.html").as_uri())
    assert tab.evaluate("document.body.dataset.theme") == chosen


def test_searches_find_their_pages(browser: Browser) -> None:
    tab = browser.open(SITE / "search.html")
    missed = []
    for words, page in SEARCHES.items():
        tab.goto(f"{(SITE / 'search.html').as_uri()}?q={quote(words)}")
        tab.wait_for_function("/found|did not match/.test(document.querySelector('.search-summary')?.innerText)")
        found = tab.eval_on_selector_all("#search-results li a", "all => all.map(a => new URL(a.href).pathname)")
        first = [Path(unquote(link)).relative_to(SITE).with_suffix("").as_posix() for link in found[:5]]
        if page not in first:
            missed.append(f"{words}: {first}")
    assert not missed, "\n".join(missed)


def test_the_keyboard_reaches_the_search(browser: Browser) -> None:
    tab = browser.open(SITE / "start" / "first-pipe.html")
    tab.keyboard.press("/")
    tab.keyboard.type("drop_last")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#search-results li a")


def test_a_phone_has_a_menu_with_the_search(browser: Browser) -> None:
    tab = browser.open(SITE / "index.html", width=390)
    outside = "document.querySelector('.sidebar-search').getBoundingClientRect().right <= 0"
    assert tab.evaluate(outside)
    tab.click("label[for=__navigation]:visible >> nth=0")
    tab.wait_for_function(f"!({outside})")
    tab.fill(".sidebar-search", "drop_last")
    tab.press(".sidebar-search", "Enter")
    tab.wait_for_selector("#search-results li a")


def test_code_is_copied_without_prompts_and_outputs(browser: Browser) -> None:
    tab = browser.open(SITE / "reference/operators/batch.html")
    example = tab.locator(".highlight-pycon, .highlight-default:has(.gp)").first
    example.hover()
    example.locator("button.copybtn").click()
    tab.wait_for_selector("button.copybtn.success")
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("import feedpipe as fp\nlist(fp.from_sequence(range(5)).batch(2))")
    assert ">>>" not in copied and "[[0, 1]" not in copied
