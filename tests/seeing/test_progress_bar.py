"""The line of `fp.progress`, and of operations that run a pipe."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp

from ..support.core import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Takes what is written to stderr; each count is shown. No fixture: pytest sets `sys.stderr` after these."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress_bar, "SECONDS", 0.0)
    return stream


def lines(stream: io.StringIO) -> list[str]:
    """Without the spaces with which tqdm covers the rest of a longer line."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", stream.getvalue()) if line.strip()]


def small_blocks() -> fp.Pipe[Any]:
    return fp.from_sequence(range(40)).filter(lambda n: n % 2)


def test_a_loader_of_known_length(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    loader = fp.Loader(fp.from_sequence(range(6)).batch(2))
    shown = fp.progress(loader)
    assert len(shown) == 3
    assert list(shown) == [[0, 1], [2, 3], [4, 5]]
    first, *_, last = lines(terminal)
    assert first.startswith("epoch 0:   0%|")
    assert " 3/3 [" in last
    assert "rows/s, waits " in last
    assert last.endswith("% for data]")
    assert list(fp.progress(loader, title="train")) == [[0, 1], [2, 3], [4, 5]]
    assert lines(terminal)[-1].startswith("train: 100%")


def test_a_stream_has_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    loader = fp.Loader(small_blocks())
    shown = fp.progress(loader)
    with pytest.raises(TypeError):
        len(shown)
    assert list(shown) == list(range(1, 40, 2))
    estimates = [int(total) for total in re.findall(r"/~(\d+) \[", terminal.getvalue())]
    assert estimates[-1] == 20
    assert re.search(r"~\d+%\|", terminal.getvalue())
    assert re.search(r"<~\d\d:\d\d", terminal.getvalue())
    assert "100%|" in lines(terminal)[-1]
    assert " 20/20 [" in lines(terminal)[-1]


def test_only_the_first_rank_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    assert list(fp.progress(fp.Loader(fp.from_sequence(range(4)), rank=1, world_size=2))) == [1, 3]
    assert not lines(terminal)
    assert list(fp.progress(fp.Loader(fp.from_sequence(range(4)), rank=0, world_size=2))) == [0, 2]
    assert lines(terminal)


def folders_of_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten files in folders of two. Each listing takes longer than the time after which it shows that."""
    from ..support.storage import listing

    monkeypatch.setattr(listing, "LISTING_SECONDS", 1e-9)
    for number in range(10):
        path = folder / f"{number // 2}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\n")
    return folder


def test_a_listing_shows_its_files_folder_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    assert len(fp.list_files(folders_of_files(tmp_path, monkeypatch), recursive=True)) == 10
    counts = [int(count) for count in re.findall(r"list_files: (\d+) files", terminal.getvalue())]
    assert counts[:5] == [2, 4, 6, 8, 10]


@pytest.mark.parametrize("form", ["stream", "indexed", "pipe"])
def test_progress_shows_the_first_listing_in_a_log_too(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folders_of_files(tmp_path, monkeypatch)
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress_bar, "SECONDS_OF_LOG", 0.0)
    paths = str(folder / "**" / "*.txt")
    pipe: fp.Pipe[Any] = fp.read_bytes(paths) if form == "indexed" else fp.read_lines(paths)
    assert sum(1 for _ in fp.progress(pipe if form == "pipe" else fp.Loader(pipe))) == 10
    shown = lines(log)
    assert shown[0].startswith("list_files: ")
    assert "list_files: 10 files" in log.getvalue()
    assert not shown[-1].startswith("list_files")
    other = fp.read_lines(str(folder / "*" / "*.txt"))
    log.truncate(0)
    assert len(list(fp.Loader(other))) == 10
    assert len(list(fp.progress(fp.Loader(other, rank=1, world_size=2, even=None)))) == 5
    assert not log.getvalue()
