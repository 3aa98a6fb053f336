"""The files that paths, folders and globs stand for, on a local, another local and a remote file system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from feedpipe.errors import SourceError

from ..support.storage import Selection

TREE = [
    "a.csv", "b.csv", "c.txt", ".hidden.csv", "_SUCCESS", "x[1].csv",
    "sub/d.csv", "sub/deep/e.csv", "sub/.cache/f.csv", "_tmp/g.csv", "zub/h.csv", "zub/deep/i.txt",
]  # fmt: skip


class UnknownFileSystem(DirFileSystem):  # type: ignore[misc]
    """A folder of this machine as a file system of an unknown type, which therefore counts as remote."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), fsspec.filesystem("file"), skip_instance_cache=True)


@pytest.fixture(params=["local", "other", "remote"])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Makes a tree of files in the current folder; returns the arguments with which it is read."""
    monkeypatch.chdir(tmp_path)
    for name in TREE:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    if request.param == "local":
        return {}
    if request.param == "remote":
        return {"filesystem": UnknownFileSystem(tmp_path)}
    return {"filesystem": fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())}


def names(paths: Any, **options: Any) -> list[str]:
    return Selection(paths, **options).listing().paths.to_pylist()


@pytest.mark.parametrize(
    ("paths", "options", "expected"),
    [
        ("data/a.csv", {}, ["a.csv"]),
        ("data", {}, ["a.csv", "b.csv", "c.txt", "x[1].csv"]),
        ("data/", {"pattern": "*.csv"}, ["a.csv", "b.csv", "x[1].csv"]),
        ("data", {"pattern": ".*"}, [".hidden.csv"]),
        ("data", {"pattern": "_*"}, ["_SUCCESS"]),
        (
            "data",
            {"pattern": "*.csv", "recursive": True},
            ["a.csv", "b.csv", "sub/d.csv", "sub/deep/e.csv", "x[1].csv", "zub/h.csv"],
        ),
        ("data/*.csv", {}, ["a.csv", "b.csv", "x[1].csv"]),
        ("data/[ab].*", {}, ["a.csv", "b.csv"]),
        ("data/[!a].csv", {}, ["b.csv"]),
        ("data/?.csv", {}, ["a.csv", "b.csv"]),
        ("data/x[1].csv", {}, ["x[1].csv"]),
        ("data/x[[]1].csv", {}, ["x[1].csv"]),
        ("data/*/*.csv", {}, ["sub/d.csv", "zub/h.csv"]),
        ("data/sub/**", {}, ["sub/d.csv", "sub/deep/e.csv"]),
        ("data/**/*.csv", {"pattern": "[de]*"}, ["sub/d.csv", "sub/deep/e.csv"]),
        ("data/**/deep/*", {}, ["sub/deep/e.csv", "zub/deep/i.txt"]),
        ("data/*/deep/**/*.txt", {}, ["zub/deep/i.txt"]),
        ("data/_tmp/*", {}, ["_tmp/g.csv"]),
        ("data/_*/*", {}, ["_tmp/g.csv"]),
        ("data/.*", {}, [".hidden.csv"]),
        ("data/_SUCCESS", {}, ["_SUCCESS"]),
        (["data/c.txt", "data/*.csv", "data/a.csv"], {}, ["c.txt", "a.csv", "b.csv", "x[1].csv", "a.csv"]),
        (["data/zub", "data/sub"], {}, ["zub/h.csv", "sub/d.csv"]),
    ],
)
def test_the_files_of_paths(tree: dict[str, Any], paths: Any, options: dict[str, Any], expected: list[str]) -> None:
    assert names(paths, **options, **tree) == [f"data/{name}" for name in expected]


@pytest.mark.parametrize(
    ("paths", "options", "message"),
    [
        ("none", {}, "none is not there: no file or folder has that name"),
        (["data/a.csv", "data/none.csv"], {}, "data/none.csv is not there"),
        ("none/*.csv", {}, r"none/\*.csv is not there, or a part of it vanished"),
        ("data", {"pattern": "*.jpg"}, r"data holds no file that matches '\*.jpg'; there are 6 others, such as"),
        ("data/*.jpg", {}, r"data/\*.jpg matches no file; there are 6 others, such as"),
        ("data/*/*.jpg", {}, r"data/\*/\*.jpg matches no file; there are 8 others"),
    ],
)
def test_paths_without_files(tree: dict[str, Any], paths: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        names(paths, **options, **tree)


def test_folders_without_files(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "root" / "one").mkdir(parents=True)
    with pytest.raises(
        SourceError, match=r"root holds no file; there are 1 folders, and `recursive=True` looks into them"
    ):
        names("root", **tree)
    with pytest.raises(SourceError, match=r"root holds no file$"):
        names("root", recursive=True, **tree)
    (tmp_path / "root" / "_x").write_text("")
    with pytest.raises(SourceError, match=r"such as '_x' \(names that begin with \. or _ are left out\)"):
        names("root", **tree)


def test_the_log_names_folders_that_are_left_out(
    tree: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "root"
    (root / "_delta_log").mkdir(parents=True)
    (root / "a.txt").write_text("")
    assert names("root", **tree) == ["root/a.txt"] and not caplog.messages
    for folder in ("one", "two"):
        (root / folder).mkdir()
        (root / folder / "b.txt").write_text("")
    assert names("root", **tree) == ["root/a.txt"]
    assert caplog.messages == ["root holds 2 folders that a listing leaves out; `recursive=True` lists their files too"]
    caplog.clear()
    assert len(names("root", recursive=True, **tree)) == 3
    assert names("root/*", **tree) == ["root/a.txt"] and not caplog.messages


def test_links(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("x")
    (tmp_path / "data" / "up").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "b.csv").symlink_to("a.csv")
    data = str(tmp_path / "data")
    assert names(data, recursive=True) == [f"{data}/a.csv", f"{data}/b.csv"]
    (tmp_path / "data" / "c.csv").symlink_to("gone.csv")
    assert names(f"{data}/a*") == [f"{data}/a.csv"]
    with pytest.raises(SourceError, match=r"c\.csv is a link to a file that is not there"):
        names(data)


@pytest.fixture
def four_folders(tmp_path: Path) -> UnknownFileSystem:
    for name in "abcd":
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "x").write_text(name)
    return UnknownFileSystem(tmp_path)


def test_a_folder_that_cannot_be_listed_is_not_empty(
    four_folders: UnknownFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = four_folders.find

    def failing(path: str, **options: Any) -> Any:
        if path.rstrip("/") == "data/c":
            raise PermissionError(13, "Permission denied", path)
        return find(path, **options)

    monkeypatch.setattr(four_folders, "find", failing)
    with pytest.raises(SourceError, match="data cannot be listed: .*ermission"):
        names("data", recursive=True, filesystem=four_folders)


@given(st.text(st.sampled_from("ab[]!-*?^\\.z"), max_size=6))
def test_any_glob_is_a_pattern(glob: str) -> None:
    import re

    from ..support.storage import _part_regex

    pattern = re.compile(_part_regex(glob, last=True))
    if not any(char in glob for char in "[]*?"):
        assert pattern.fullmatch(glob)
    if not any(char in glob for char in "[]\\^"):
        import fnmatch

        assert bool(pattern.fullmatch("abz")) == fnmatch.fnmatchcase("abz", glob)
