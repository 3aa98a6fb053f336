from __future__ import annotations

import pickle
from pathlib import Path

import fsspec
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, RowError, SourceError
from feedpipe.testing import check_operator


@pytest.mark.parametrize("streamed", [False, True])
def test_law(streamed):
    source = fp.from_sequence(["a.csv", Path("b.csv"), "c.csv"])
    pipe = (source.filter(lambda path: True) if streamed else source).open_files()
    assert check_operator(pipe) == [fp.File("a.csv"), fp.File("b.csv"), fp.File("c.csv")]


def test_length_and_index():
    pipe = fp.from_sequence(["a", "b"]).open_files(compression=None)
    assert len(pipe) == 2
    assert pipe[1] == fp.File("b", compression=None)


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


def test_shown_as_code():
    pipe = fp.from_sequence(["a"]).open_files(compression="gzip", filesystem=fsspec.filesystem("memory"))
    assert ".open_files(compression='gzip', filesystem=<MemoryFileSystem>)" in repr(pipe)
    assert repr(fp.from_sequence(["a"]).open_files()).endswith(".open_files()")


@pytest.mark.parametrize("streamed", [False, True])
def test_paths_before_another_element_come_first(streamed):
    source = fp.from_sequence(["a", 3, "b"])
    rows = iter((source.filter(lambda path: True) if streamed else source).open_files())
    assert next(rows) == fp.File("a")
    with pytest.raises(ArgumentTypeError, match=r"`open_files` takes paths but got: 3\n  at .*test_open_files\.py"):
        next(rows)


def test_an_error_downstream_names_the_file(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    with pytest.raises(RowError, match=r"on .*b\.txt"):
        list(fp.list_files(tmp_path).open_files().map(lambda file: 1 // (not file.path.endswith("b.txt"))))


def test_arguments():
    with pytest.raises(ArgumentError, match="`compression` must be one of"):
        fp.from_sequence(["a"]).open_files(compression="rar")
    with pytest.raises(ArgumentTypeError, match="`filesystem` must be"):
        fp.from_sequence(["a"]).open_files(filesystem="s3")


def test_a_handle_knows_the_size_that_was_listed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    files = fp.list_files(tmp_path).shuffle().open_files()
    assert files[0].listed == 5
    assert pickle.loads(pickle.dumps(files[0])) == files[0]
    assert fp.from_sequence([str(tmp_path / "a.txt")]).open_files()[0].listed is None
