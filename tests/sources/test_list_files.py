from __future__ import annotations

from pathlib import Path

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, SourceError, StateError
from feedpipe.testing import check_operator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "c.csv", "_done"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_law(folder):
    assert check_operator(fp.list_files(folder)) == [f"{folder}/{name}" for name in ("a.txt", "b.txt", "c.csv")]


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
    assert "another loader: what `list_files()` lists has changed, by names or sizes" in str(error.value)
