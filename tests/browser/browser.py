"""Chromium without a network, driven by Playwright: what the tests of pages share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from playwright import sync_api

TIMEOUT = 15_000  # milliseconds, for anything that a test waits for; a page takes a tenth of a second

MIN_CONTRAST = 4.5  # of WCAG 2.1, 1.4.3


CONTRASTS = Path(__file__).with_name("contrasts.js").read_text(encoding="utf-8").strip().removesuffix(";")


def program() -> str:
    """Return the path of the browser: `$CHROMIUM`, else the first of Debian's two on the path.

    Without one the test is skipped, but in CI it fails.
    """
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if not path:
        reason = "there is no Chromium: install Debian's chromium-headless-shell, or set $CHROMIUM"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return path


class Browser:
    """A browser, and the tabs that the current test has opened."""

    def __init__(self, process: sync_api.Browser) -> None:
        self.process = process
        self.tabs: list[sync_api.Page] = []
        self.faults: list[str] = []

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[Browser]:
        """Start the browser; its sandbox needs rights that a container does not have."""
        path = program()
        with sync_api.sync_playwright() as playwright:
            process = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            yield cls(process)
            process.close()

    def open(
        self, path: Path, *, width: int = 1280, scheme: Literal["light", "dark"] = "light", query: str = ""
    ) -> sync_api.Page:
        """Open a file in a tab of its own, with nothing that another tab has left behind."""
        context = self.process.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            offline=True,
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(TIMEOUT)
        tab = context.new_page()
        tab.on("request", lambda request: self._note_request(request.url))
        tab.on("console", lambda message: self._note(message.text) if message.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: self._note(str(error)))
        self.tabs.append(tab)
        tab.goto(path.as_uri() + query)
        return tab

    def close_tabs(self) -> list[str]:
        """Close the tabs, and return what their pages did wrong."""
        for tab in self.tabs:
            tab.context.close()
        faults, self.tabs, self.faults = self.faults, [], []
        return faults

    def _note_request(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:")):
            self._note(f"asks for {url}")

    def _note(self, fault: str) -> None:
        self.faults.append(f"{self.tabs[-1].url}: {fault}")


def overhang(tab: sync_api.Page) -> int:
    """Return the number of pixels by which the page is wider than the window."""
    return int(tab.evaluate("document.scrollingElement.scrollWidth - innerWidth"))


class Contrast(NamedTuple):
    """An element with text of its own, and the contrast of the text with what is behind it."""

    ratio: float
    text: str
    kind: str


def contrasts(tab: sync_api.Page, selector: str) -> list[Contrast]:
    """Return the contrasts of the elements that have text of their own."""
    return [Contrast(*contrast) for contrast in tab.evaluate(CONTRASTS, selector)]


def assert_readable(tab: sync_api.Page, selector: str) -> None:
    """Texts of these elements have enough contrast, and there are texts."""
    texts = contrasts(tab, selector)
    assert len(texts) > 5
    assert [text for text in texts if text.ratio < MIN_CONTRAST] == []
