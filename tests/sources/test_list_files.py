from __future__ import annotations

import pickle
from pathlib import Path

import fsspec
import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, RowError, SourceError, StateError
from feedpipe.extensions import Context
from feedpipe.testing import check_operator

from ..support.engine import bind, resolve


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "c.csv", "_done"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_law(folder):
    assert check_operator(fp.list_files(folder)) == [f"{folder}/{name}" for name in ("a.txt", "b.txt", "c.csv")]


def test_length_and_index(folder):
    pipe = fp.list_files(folder, pattern="*.txt")
    assert len(pipe) == 2
    assert pipe[-1] == f"{folder}/b.txt"
    assert list(pipe[1:]) == [f"{folder}/b.txt"]
    stage = bind(resolve(pipe))
    assert stage.rows(np.array([1, 0, 1]), Context()) == [pipe[1], pipe[0], pipe[1]]


def test_nothing_is_listed_before_the_first_look(tmp_path):
    pipe = fp.list_files(tmp_path / "later").map(str.upper)
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "a").write_text("")
    assert len(pipe) == 1
    (tmp_path / "later" / "b").write_text("")
    assert len(pipe) == 1, "listed once for a pipe"


def test_a_resolved_listing_travels(folder):
    node = pickle.loads(pickle.dumps(resolve(fp.list_files(folder))))
    for path in folder.iterdir():
        path.unlink()
    assert len(bind(resolve(node)).rows(range(3), Context())) == 3


def test_the_identity_does_not_depend_on_the_root(tmp_path):
    identities = []
    for root in ("one", "two"):
        (tmp_path / root).mkdir()
        (tmp_path / root / "a.txt").write_text("x")
        identities.append(resolve(fp.list_files(tmp_path / root)).op.identity())
    assert identities[0] == identities[1]
    assert identities[0]["files"] == 1


def test_shown_as_code():
    assert repr(fp.list_files("data")) == "fp.list_files('data')"
    pipe = fp.list_files([Path("a"), "b"], pattern="*.csv", recursive=True, filesystem=fsspec.filesystem("memory"))
    assert "fp.list_files(['a', 'b'], pattern='*.csv', recursive=True, filesystem=<MemoryFileSystem>)" in repr(pipe)


def test_a_missing_folder_names_the_line(tmp_path):
    pipe = fp.list_files(tmp_path / "none")
    with pytest.raises(
        SourceError, match=r"none is not there: no file or folder(.|\n)*test_list_files\.py:\d+"
    ) as error:
        list(pipe)
    assert isinstance(error.value, FileNotFoundError)


def test_an_error_downstream_names_the_file(folder):
    with pytest.raises(RowError, match=r"on .*b\.txt"):
        list(fp.list_files(folder).map(lambda path: 1 // (not path.endswith("b.txt"))))


@pytest.mark.parametrize(
    ("paths", "options", "kind", "message"),
    [
        ([], {}, SourceError, "`paths` is an empty list"),
        (3, {}, ArgumentTypeError, "`paths` must be a path or a list of paths but got: 3"),
        (fp.from_sequence(["a"]), {}, ArgumentTypeError, r"but got a pipe.*as in `pipe.open_files"),
        ("a", {"pattern": "a/*.csv"}, ArgumentError, "`pattern` must be a glob for a file's name"),
        ("a", {"pattern": 3}, ArgumentTypeError, "`pattern` must be a string but got: 3"),
        ("a", {"filesystem": "s3"}, ArgumentTypeError, "`filesystem` must be a file system of pyarrow or fsspec"),
    ],
)
def test_arguments(paths, options, kind, message):
    with pytest.raises(kind, match=message) as error:
        fp.list_files(paths, **options)
    assert "test_list_files.py" in str(error.value)


def test_a_state_of_other_files_says_so(folder):
    state = fp.Loader(fp.list_files(folder)).state_dict()
    (folder / "c.csv").write_text("longer")
    with pytest.raises(StateError) as error:
        fp.Loader(fp.list_files(folder)).load_state_dict(state)
    assert "another loader: what `list_files()` lists has changed, by names or sizes; `strict" in str(error.value)
