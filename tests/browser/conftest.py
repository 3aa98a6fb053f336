"""A real browser, without a network: the environment of `make test-browser` has its driver, Debian has the browser."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

collect_ignore_glob: list[str] = []
if importlib.util.find_spec("playwright"):
    from .browser import Browser
else:
    collect_ignore_glob.append("test_*.py")


@pytest.fixture(scope="session")
def browsers() -> Iterator[Browser]:
    """One process of the browser for all tests."""
    with Browser.start() as browser:
        yield browser


@pytest.fixture
def browser(browsers: Browser) -> Iterator[Browser]:
    """Opens tabs; fails the test if a page of one asks for anything but files, or complains in its console."""
    yield browsers
    faults = browsers.close_tabs()
    assert not faults, "\n".join(faults)
