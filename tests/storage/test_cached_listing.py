"""Listings that are kept in an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError, SourceError

from ..support.core import walk


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a folder `data` in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / "data" / name).write_text(name)
    return tmp_path


def test_files_are_listed_once(here: Path) -> None:
    first = list(fp.list_files("data", pattern="*.txt", manifest="m.index"))
    assert first == [f"{here}/data/a.txt", f"{here}/data/b.txt"]
    (here / "data" / "later.txt").write_text("")
    (here / "data" / "a.txt").unlink()
    assert list(fp.list_files("data", pattern="*.txt", manifest="m.index")) == first
    assert fp.index("data", "m.index", pattern="*.txt").number == 2
    assert len(fp.list_files("data", pattern="*.txt", manifest="m.index")) == 2


@pytest.mark.parametrize(
    ("paths", "options"),
    [("data/*", {}), ("data", {"pattern": "*.txt"}), ("data", {"recursive": True}), (["data", "data"], {})],
)
def test_an_index_of_another_call(here: Path, paths: Any, options: dict[str, Any]) -> None:
    len(fp.list_files("data", manifest="m.index"))
    with pytest.raises(ArgumentError, match=r"m\.index was made by `list_files\('data'\)`, and this is `list") as error:
        len(fp.list_files(paths, manifest="m.index", **options))
    assert "test_cached_listing.py" in str(error.value)


def test_a_failed_listing_makes_no_index(here: Path) -> None:
    with pytest.raises(SourceError, match="none is not there"):
        len(fp.list_files("none", manifest="m.index"))
    assert not (here / "m.index").exists()


def test_a_damaged_index_is_not_replaced(here: Path) -> None:
    (here / "m.index").mkdir()
    (here / "m.index" / "v1.parquet").write_text("{")
    with pytest.raises(DataError, match=r"m\.index is damaged(.|\n)*test_cached_listing\.py"):
        len(fp.list_files("data", manifest="m.index"))


READERS = ("read_arrow", "read_bytes", "read_csv", "read_jsonl", "read_lines", "read_parquet", "read_tar")


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_files_takes_a_manifest(here: Path, reader: str) -> None:
    pipe: fp.Pipe[Any] = getattr(fp, reader)("data", pattern="*.txt", manifest=here / "m.index")
    source = next(node for node in walk(pipe) if not node.inputs)
    assert source.op.call() == f"list_files('data', pattern='*.txt', manifest={str(here / 'm.index')!r})"
