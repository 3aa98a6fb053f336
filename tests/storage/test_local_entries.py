"""Entries that are no files: an error says what they are, and nothing waits for them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

import feedpipe as fp
from feedpipe.errors import MissingError, SourceError

KINDS = {
    "fifo": "is a named pipe, and only files",
    "socket": "is a socket",
    "loop": "is a link that leads back to itself",
    "gone": "is a link to a file that is not there",
}


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in KINDS:
        (tmp_path / name).mkdir()
    os.mkfifo("fifo/x")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("socket/x")
    os.symlink("x", "loop/x")
    os.symlink("nothing", "gone/x")
    return tmp_path


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("given", ["itself", "its folder", "a glob", "open_files"])
def test_the_error_says_what_an_entry_is(odd: Path, name: str, given: str) -> None:
    path = {"its folder": name, "a glob": f"{name}/*"}.get(given, f"{name}/x")
    pipe = fp.from_sequence([path]).open_files().parse_bytes() if given == "open_files" else fp.read_bytes(path)
    with pytest.raises(SourceError, match=rf"(?s)^{name}/x {KINDS[name]}.*\n  at .*py:") as info:
        list(pipe)
    assert isinstance(info.value, MissingError) == (name == "gone")


@pytest.mark.parametrize("given", ["itself", "its folder", "open_files"])
def test_a_name_that_is_not_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = "data/" + os.fsdecode(b"caf\xe9")
    Path("data").mkdir()
    Path(path).write_text("x")
    given_path = "data" if given == "its folder" else path
    pipe = fp.from_sequence([path]).open_files().parse_bytes() if given == "open_files" else fp.read_bytes(given_path)
    with pytest.raises(SourceError, match=r"data/caf\\udce9 has a name that is not UTF-8"):
        list(pipe)


def test_a_local_name_that_looks_like_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("colon:x.txt").write_text("hello")
    for paths in ("colon:x.txt", "*.txt", "."):
        assert [row["bytes"] for row in fp.read_bytes(paths)] == [b"hello"]
    with pytest.raises(MissingError, match=r"^bc:d is not there"):
        len(fp.read_bytes("bc:d"))
