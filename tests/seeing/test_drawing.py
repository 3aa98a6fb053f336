"""`draw()` of pipes and loaders: what is shown, and what cannot be."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import feedpipe as fp
from tests.pictures.test_page import HOSTILE, Parsed
from tests.support.seeing import drawing


def shown(pipe: fp.Pipe[object], folder: Path, **options: int) -> str:
    """The page of a pipe."""
    pipe.draw(folder / "pipe.html", **options)  # type: ignore[arg-type]
    return (folder / "pipe.html").read_text(encoding="utf-8")


def augment(row: dict[str, object]) -> dict[str, object]:
    return row


def broken(row: object) -> object:
    raise ValueError("<b>the file ends early</b>")


def images(count: int = 8) -> fp.Pipe[object]:
    return fp.from_arrays({"image": np.zeros((count, 28, 28), np.uint8), "label": np.arange(count)})  # type: ignore[return-value]


def test_a_page_has_lengths_lines_and_places_of_division(tmp_path: Path) -> None:
    page = shown(images().map(augment).filter(bool).batch(2), tmp_path, workers=2)
    assert page.count('class="node"') == 4
    assert "8 indexed · test_drawing.py:" in page and "? streamed · test_drawing.py:" in page
    assert "divided here among 2 shards, by index" in page
    assert "page = shown(images().map(augment)" in page
    assert "resume: runs again at most 2 rows of" in page
    assert "first elements" not in page


def test_a_page_asks_for_nothing(tmp_path: Path) -> None:
    parsed = Parsed(shown(images().map(augment), tmp_path, samples=1))
    assert not [
        value for name, value in parsed.attributes if name in ("src", "href") and not str(value).startswith("data:")
    ]


def test_samples(tmp_path: Path) -> None:
    page = shown(images().map(augment).batch(4), tmp_path, samples=2)
    assert page.count("<h3>first elements</h3>") == 3
    assert page.count('alt="image, uint8[28, 28]"') == 2 + 2 + 2 * 4


def test_nothing_runs_without_samples(tmp_path: Path) -> None:
    calls: list[object] = []
    pipe = fp.from_sequence(range(3)).map(calls.append)
    shown(pipe, tmp_path)
    pipe._repr_html_()
    assert not calls
    shown(pipe, tmp_path, samples=2)
    assert calls == [0, 1]


def test_samples_are_those_of_epoch_0(tmp_path: Path) -> None:
    pipe = fp.from_sequence(range(1000, 2000)).concat(fp.from_sequence(range(3000, 4000)).shuffle())
    pipe = pipe.shuffle()
    page = shown(pipe, tmp_path, samples=3)
    assert all(f"<code>{value}</code>" in page for value in pipe.head(3))


def test_samples_that_raise_show_the_error(tmp_path: Path) -> None:
    page = shown(images().map(broken).batch(2), tmp_path, samples=1)
    assert page.count("&lt;b&gt;the file ends early&lt;/b&gt;") == 2
    assert 'alt="image, uint8[28, 28]"' in page  # of the source


def test_endless_sources(tmp_path: Path) -> None:
    endless = fp.from_iterable(itertools.count).shuffle(window=10).concat(fp.from_sequence(range(3)).repeat())
    page = shown(endless, tmp_path, samples=2)
    assert page.count("<h3>first elements</h3>") == 5


def test_an_element_that_never_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "SAMPLE_SECONDS", 0.2)
    endless = fp.from_iterable(itertools.count).filter(lambda number: number < 0)
    page = shown(endless.batch(2), tmp_path, samples=1)
    assert "TimeoutError: there were no more elements within" in page
    assert "not run: those of the operators before took" in page
    repeated = fp.from_sequence(range(3)).repeat().filter(lambda number: number < 0)
    assert "TimeoutError" in shown(repeated, tmp_path, samples=1)


def test_rows_of_megabytes_make_a_small_page(tmp_path: Path) -> None:
    row = {"text": "x" * 2**22, "image": np.zeros((2000, 2000, 3), np.uint8), "data": b"y" * 2**22}
    assert len(shown(fp.from_sequence([row] * 3).map(augment), tmp_path, samples=3)) < 30_000


def test_slow_samples_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "SAMPLE_SECONDS", -1.0)
    assert "not run: those of the operators before took" in shown(images(), tmp_path, samples=1)


@pytest.mark.parametrize("samples", [0, 2])
def test_a_pipe_that_cannot_run_here_is_drawn(tmp_path: Path, samples: int) -> None:
    page = shown(fp.read_parquet(tmp_path / "missing").map(augment).batch(2), tmp_path, samples=samples)
    assert "the plan cannot be made here, so this is drawn without lengths and elements" in page
    assert page.count('class="node"') > 2 and "missing" in page


def test_without_pillow_a_page_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    pipe = fp.from_sequence([{"image": b"\xff\xd8\xff", "mask": np.zeros((28, 28), np.uint8)}] * 2).map(augment)
    page = shown(pipe, tmp_path, samples=2)
    assert page.count("<p>Thumbnails of encoded images need Pillow") == 1
    assert page.count("<img") == 4  # arrays need none


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_users_does_not_become_markup(tmp_path: Path, text: str) -> None:
    def page(word: str) -> list[str]:
        row = {word: word, "image": np.zeros((8, 8), np.uint8)}
        return Parsed(shown(fp.from_sequence([word, word]).map(lambda _: row), tmp_path, samples=1)).elements

    assert page(text) == page("plain")


def test_an_error_may_not_become_markup(tmp_path: Path) -> None:
    assert "<b>the file" not in shown(images().map(broken), tmp_path, samples=1)


def test_secrets_are_hidden(tmp_path: Path) -> None:
    url = "s3://user:geheim@bucket/a.csv?secret_key=geheim"
    pipe = fp.from_sequence([url, url]).map(lambda text: {text: text})
    for page in (shown(pipe, tmp_path, samples=1), fp.from_iterable([url])._repr_html_()):
        assert "//" + "user" not in page and "key=" + "geheim" not in page


def test_thirty_operators_take_less_than_300_kb(tmp_path: Path) -> None:
    pipe: fp.Pipe[object] = images()
    lines = "\n".join(["def chain(pipe, f):", *(["    pipe = pipe.map(f)"] * 29), "    return pipe"])
    (tmp_path / "chain.py").write_text(lines)
    names: dict[str, object] = {}
    exec(compile(lines, str(tmp_path / "chain.py"), "exec"), names)
    page = shown(names["chain"](pipe, augment), tmp_path)  # type: ignore[operator]
    assert page.count('class="node"') == 30 and len(page.encode()) < 100_000


def test_a_graph_of_a_thousand_operators(tmp_path: Path) -> None:
    branches = [fp.from_sequence(range(at + 1)).map(augment).filter(bool) for at in range(333)]
    page = shown(branches[0].concat(*branches[1:]), tmp_path)
    assert page.count('class="node"') == 4
    assert "and 332 like it" in page and "from_sequence(range(0, 20))" in page
    different = [
        getattr(branch, name)(abs) for branch, name in zip(branches, itertools.cycle(["map", "filter"]), strict=False)
    ]
    assert shown(different[0].concat(*different[1:]), tmp_path).count('class="node"') == 9


def test_drawing_is_fast(tmp_path: Path) -> None:
    pipe = fp.from_sequence(range(1000))
    for _ in range(99):
        pipe = pipe.map(abs)
    times: list[float] = []
    for _ in range(5):
        begin = time.process_time()
        shown(pipe, tmp_path)
        times.append(time.process_time() - begin)
    assert min(times) < 0.2


def test_svg(tmp_path: Path) -> None:
    images().map(augment).draw(tmp_path / "pipe.svg")
    root = ElementTree.parse(tmp_path / "pipe.svg").getroot()
    assert root.get("role") == "img"
    with pytest.raises(fp.errors.ArgumentError, match=r"`path` must end in .html or .svg but got: "):
        images().draw(tmp_path / "pipe.png")


@pytest.mark.parametrize("options", [{"samples": -1}, {"world_size": 0}, {"workers": -1}, {"shards": 0}])
def test_a_number_that_is_too_small_is_an_error(options: dict[str, int]) -> None:
    (name,) = options
    with pytest.raises(fp.errors.ArgumentError, match=f"`{name}` must be >= "):
        images().draw(**options)  # type: ignore[arg-type]


def test_a_loader_shows_what_was_measured(tmp_path: Path) -> None:
    loader = fp.Loader(images(64).map(augment).batch(4))
    for _ in range(30):
        list(loader)
    loader.draw(tmp_path / "run.html", samples=1)
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert len(re.findall(r"\d+% of the work · [\d.]+[kMG]? rows/s", page)) >= 3
    assert "own time" in page and "first elements" in page and "Too short to say" in page
    loader.close()
    assert re.search(r"\d+% of the work", loader._repr_html_())


def test_a_loader_that_has_not_run(tmp_path: Path) -> None:
    fp.Loader(images().batch(2), workers=2).draw(tmp_path / "run.html")
    assert "Too short to say: 0 steps" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_notebook_needs_no_script() -> None:
    pipe = images().map(augment).batch(2)
    for value in (pipe, pipe.draw(), fp.Loader(pipe)):
        parsed = Parsed(value._repr_html_())
        assert "script" not in parsed.elements and "svg" not in parsed.elements
        assert {"img", "details", "table"} <= set(parsed.elements)
        assert not [name for name, _ in parsed.attributes if name.startswith("on")]


def test_a_notebook_lists_nothing(tmp_path: Path) -> None:
    assert "missing" in fp.read_parquet(tmp_path / "missing")._repr_html_()


def test_import_brings_no_pictures() -> None:
    code = "import sys, feedpipe; print([name for name in sys.modules if '.pictures' in name or 'drawing' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
