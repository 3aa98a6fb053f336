"""Pages and notebooks: what `draw` and reports show as HTML, and that data is never markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feedpipe as fp

HOSTILE = "</code><script>alert(1)</script><img src=x onerror='alert(2)'>\"><u>&amp;{}\u202e"


class Parsed(HTMLParser):
    """A page: its tags, its attributes, and its text; it fails if an element is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("br", "meta"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: str) -> Parsed:
    """A page or a part of a notebook, which must load and run nothing."""
    found = Parsed(page)
    assert not {"script", "img", "iframe", "link", "object", "a", "u"} & {*found.tags}
    assert not [name for name, _ in found.attributes if name in ("src", "href") or name.startswith("on")]
    assert "\u202e" not in page
    return found


def drawn(pipe: fp.Pipe[Any], folder: Path, **options: int) -> Parsed:
    pipe.draw(folder / "pipe.html", **options)
    return parsed((folder / "pipe.html").read_text(encoding="utf-8"))


def augment(row: dict[str, object]) -> dict[str, object]:
    return row


def images(count: int = 8) -> fp.Pipe[Any]:
    return fp.from_arrays({"image": np.zeros((count, 28, 28), np.uint8), "label": np.arange(count)})


def test_a_page_has_lengths_lines_and_places_of_division(tmp_path: Path) -> None:
    page = drawn(images().map(augment).filter(bool).batch(2), tmp_path, workers=2)
    assert page.attributes.count(("class", "box")) == 4
    assert re.search(r"map\(augment\) 8 indexed · .*test_drawing.py:\d+", page.text)
    assert "divided here among 1 shard, by index" in page.text
    assert "A plan; nothing has run" in page.text and "resume: runs again at most 2 rows of" in page.text


def test_branches_are_nested_and_a_shared_one_is_drawn_once(tmp_path: Path) -> None:
    some = images().shuffle()
    page = drawn(some.zip(some.map(augment)), tmp_path)
    assert page.attributes.count(("class", "side")) == 1
    assert page.text.count("shuffle()") == 2 and page.text.count("drawn above") == 1
    assert "and 93 more" in drawn(images().concat(*[images()] * 100), tmp_path).text
    chain = images()
    for _ in range(120):
        chain = chain.map(augment)
    assert drawn(chain, tmp_path).attributes.count(("class", "box")) == 121


def test_what_a_user_writes_is_text_and_never_markup(tmp_path: Path) -> None:
    secret = "s3://user:geheim@bucket/" + HOSTILE
    page = drawn(fp.from_sequence([HOSTILE]).concat(fp.read_lines([secret])), tmp_path)
    assert "<script>alert(1)</script>" in page.text and "geheim" not in page.text
    rows = fp.from_sequence([{HOSTILE: HOSTILE, "bytes": HOSTILE.encode()}] * 3)
    with fp.Loader(rows.map(augment)) as loader:
        assert len(list(loader)) == 3
        assert "from_sequence" in parsed(loader._repr_html_()).text


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    stats = fp.fit(images().select("label"), {"label": fp.stats.mean_std()}, progress=False)
    loader = fp.Loader(images())
    for save, name in (
        (images().draw, "x.html"),
        (loader.report().save, "x.html"),
        (loader.report().save, "x.json"),
        (loader.report().save, "x.trace.json"),
        (stats.save, "x.json"),
    ):
        with pytest.raises(fp.errors.ArgumentError, match=f"there is no folder {re.escape(str(missing))}"):
            save(missing / name)
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_a_page(tmp_path: Path) -> None:
    with fp.Loader(images(64).map(augment).batch(2), fp.Threads(1)) as loader:
        assert len(list(loader)) == 32
        report = loader.report()
    report.save(tmp_path / "report.html")
    page = parsed((tmp_path / "report.html").read_text(encoding="utf-8"))
    for part in (
        report.verdict,
        "map(augment)",
        "worker 0",
        "consumer",
        "50% wait less than",
        "share of the work",
        "31 steps",
    ):
        assert part in page.text
    assert "Ranks" not in page.text
    assert "map(augment)" in parsed(report._repr_html_()).text


def test_a_notebook_shows_a_pipe_without_reading_or_listing(tmp_path: Path) -> None:
    pipe = fp.read_lines(tmp_path / "none" / "*.txt").map(len)
    assert "map(len)" in pipe._repr_html_()


def test_names_and_arguments_that_went_say_what_to_do_instead() -> None:
    with pytest.raises(AttributeError, match="SUMMARIZE"):
        fp.profile  # noqa: B018
    with pytest.raises(AttributeError, match=r"report\(\)\.metrics\(\)"):
        fp.metrics  # noqa: B018
    with pytest.raises(fp.errors.ArgumentTypeError, match=r"no argument `record`; `fp\.replay"):
        fp.Loader(images(), record="runs")  # type: ignore[call-arg]
    with pytest.raises(fp.errors.ArgumentTypeError, match=r"no argument `samples`; `pipe\.head"):
        images().draw(samples=2)  # type: ignore[call-arg]
