from __future__ import annotations

import pickle
from pathlib import Path

import fsspec
import pytest

import feedpipe as fp
from feedpipe.errors import SourceError
from feedpipe.testing import check_operator


@pytest.mark.parametrize("streamed", [False, True])
def test_law(streamed):
    source = fp.from_sequence(["a.csv", Path("b.csv"), "c.csv"])
    pipe = (source.filter(lambda path: True) if streamed else source).open_files()
    assert check_operator(pipe) == [fp.File("a.csv"), fp.File("b.csv"), fp.File("c.csv")]


def test_nothing_is_opened_before_it_is_read(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    (file,) = fp.list_files(tmp_path).open_files()
    (tmp_path / "a.txt").unlink()
    with pytest.raises(SourceError, match=r"a\.txt is not there: it was removed since it was listed"):
        file.open()


def test_an_explicit_file_system():
    memory = fsspec.filesystem("memory")
    memory.pipe("/open_files/a.txt", b"hello")
    pipe = fp.list_files("/open_files", filesystem=memory).open_files(filesystem=memory)
    assert [file.open().read() for file in pipe] == [b"hello"]
    assert ".open_files(filesystem=<MemoryFileSystem>)" in repr(pipe)
    memory.rm("/open_files", recursive=True)


def test_a_handle_knows_the_size_that_was_listed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    files = fp.list_files(tmp_path).shuffle().open_files()
    assert files[0].listed == 5
    assert pickle.loads(pickle.dumps(files[0])) == files[0]
    assert fp.from_sequence([str(tmp_path / "a.txt")]).open_files()[0].listed is None
