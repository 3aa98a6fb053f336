from __future__ import annotations

import threading

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

import feedpipe as fp
from feedpipe.errors import MissingError
from feedpipe.testing import check_operator


@pytest.fixture
def folder(tmp_path):
    for n in range(20):
        (tmp_path / f"{n:02d}.txt").write_bytes(b"%d" % n * n)
    return tmp_path


@pytest.fixture
def far(folder):
    """A file system that counts as remote."""
    return DirFileSystem(str(folder), LocalFileSystem())


def rows(folder, count=20):
    return [{"path": f"{folder}/{n:02d}.txt", "bytes": b"%d" % n * n} for n in range(count)]


@pytest.mark.parametrize("streamed", [False, True])
def test_law(folder, streamed):
    paths = fp.list_files(folder)
    files = (paths.filter(lambda path: True) if streamed else paths).open_files()
    assert check_operator(files.parse_bytes()) == rows(folder)


@pytest.mark.parametrize("streamed", [False, True])
def test_files_before_a_missing_one_come_first(folder, streamed):
    paths = fp.list_files(folder)
    pipe = (paths.filter(lambda path: True) if streamed else paths).open_files().parse_bytes()
    len(paths)
    got = []
    elements = iter(pipe)
    got.append(next(elements))
    (folder / "05.txt").unlink()
    for _ in range(2):
        with pytest.raises(MissingError, match=r"05\.txt is not there(.|\n)*test_bytes\.py:\d+"):
            got.extend(elements)
    assert got == rows(folder)[:5]


def test_remote_files_are_fetched_several_at_a_time(far):
    together = threading.Barrier(8, timeout=60)

    class Slow(DirFileSystem):
        def _open(self, *arguments, **options):
            together.wait()
            return super()._open(*arguments, **options)

    slow = Slow(far.path, far.fs)
    files = fp.list_files([f"/{n:02d}.txt" for n in range(16)], filesystem=slow).open_files(filesystem=slow)
    assert [row["bytes"] for row in files.parse_bytes().batch(16)[0]] == [b"%d" % n * n for n in range(16)]
