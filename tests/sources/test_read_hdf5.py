"""`read_hdf5`: datasets in chunks or not, compressed or not, in one file or many, in many processes."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, MissingError
from feedpipe.testing import check_operator, same

from ..loading.resumes import result_in_fork
from ..support.examples import examples

X, Y = np.arange(84.0).reshape(21, 2, 2), np.arange(21)


def write(path: Path, options: Any = None, first: int = 0, stop: int = 21) -> Path:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("train/x", data=X[first:stop], **(options or {}))
        file.create_dataset("y", data=Y[first:stop])
    return path


NAMES = {"x": "train/x", "y": "y"}
OPTIONS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (4, 1, 2)},
    "compressed": {"chunks": (5, 2, 2), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "that may grow": {"maxshape": (None, 2, 2), "chunks": (30, 2, 2)},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_table(tmp_path: Path, options: dict[str, Any]) -> None:
    pipe = fp.read_hdf5(write(tmp_path / "a.h5", options), NAMES)
    rows = check_operator(pipe)
    assert same(rows, list(fp.from_arrays({"x": X, "y": Y})))
    assert type(rows[3]["y"]) is int and not rows[3]["x"].flags.writeable
    check_operator(pipe.shuffle().batch(4).collate())
    assert pipe.batch(4).collate()[1]["x"].tolist() == X[4:8].tolist()
    assert sorted(row["y"] for row in pipe.shuffle()) == list(range(21))


@pytest.mark.parametrize("dtype", ["|u1", "|b1", "<f2", ">f8", "<i4", ">i2", "<c16", "|S2"])
@pytest.mark.parametrize("shape", [(21,), (21, 2), (0, 3), (4, 0)])
def test_types_and_shapes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    import h5py

    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/b"] = array
    rows = list(fp.read_hdf5(tmp_path / "a.h5", ["a/b"]))
    assert same(rows, list(fp.from_arrays({"a/b": array.astype(array.dtype.newbyteorder("="))})))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(15))
def test_files_are_joined_wherever_they_and_their_chunks_end(tmp_path: Path, sizes: list[int], chunk: int) -> None:
    edges = np.minimum(np.cumsum([0, *sizes]), 21).tolist()
    paths = []
    for k, (first, stop) in enumerate(pairwise(edges)):
        options = {"chunks": (chunk, 2, 1)} if stop - first >= chunk else {}
        paths.append(write(tmp_path / f"{k}.h5", options, first, stop))
    pipe = fp.read_hdf5(paths, NAMES)
    end = edges[-1]
    assert same(check_operator(pipe, samples=3), list(fp.from_arrays({"x": X[:end], "y": Y[:end]})))
    assert sorted(row["y"] for row in pipe.shuffle()) == list(range(end))


def test_a_chunk_is_read_once_while_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import h5py

    pipe = fp.read_hdf5(write(tmp_path / "a.h5", {"chunks": (5, 2, 2)}), ["train/x"])
    read: list[Any] = []
    real = h5py.Dataset.__getitem__
    monkeypatch.setattr(h5py.Dataset, "__getitem__", lambda self, key: read.append(key) or real(self, key))
    assert len(list(pipe.shuffle())) == len(list(pipe)) == 21
    assert sorted((part.start, part.stop) for part in read) == [(0, 5), (5, 10), (10, 15), (15, 20), (20, 21)]


def test_a_forked_process_opens_a_file_that_was_open_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import h5py

    pipe = fp.read_hdf5(write(tmp_path / "a.h5", {"chunks": (4, 2, 2), "compression": "gzip"}), NAMES)
    assert pipe[3]["y"] == 3
    opened: list[object] = []
    real = h5py.File
    monkeypatch.setattr(h5py, "File", lambda *args, **options: opened.append(args) or real(*args, **options))
    in_fork = result_in_fork(lambda: ([row["x"].tolist() for row in pipe], len(opened)))
    assert in_fork == (X.tolist(), 1)
    assert ([row["x"].tolist() for row in pipe], len(opened)) == (X.tolist(), 0)


def test_broken_files(tmp_path: Path) -> None:
    import h5py

    path = write(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        file["text"] = ["a", "bc"]
        file["fields"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        file["single"] = 3.5
        file["none"] = h5py.Empty("f4")
        file["short"] = [1]
    for names, message in {
        "z": r"a\.h5 has no dataset 'z'; there are ",
        "train": "has a group, and no dataset, 'train'; did you mean 'train/x'",
        "text": r"dataset 'text' holds values of varying length",
        "fields": r"dataset 'fields' has dtype \|V12, and a column holds",
        "single": "dataset 'single' must have an axis",
        "none": "dataset 'none' is empty",
    }.items():
        with pytest.raises(DataError, match=message) as caught:
            len(fp.read_hdf5(path, [names]))
        assert __file__ in str(caught.value)
    with pytest.raises(DataError, match=r"'y' has 21 rows \(.*a\.h5, dataset 'y'\) and 'short' 1"):
        len(fp.read_hdf5(path, ["y", "short"]))
    (tmp_path / "b.h5").write_bytes(path.read_bytes()[:900])
    (tmp_path / "c.h5").write_bytes(b"hello")
    for name in ("b", "c"):
        with pytest.raises(DataError, match=rf"{name}\.h5 is no HDF5 file, or is damaged: "):
            len(fp.read_hdf5(tmp_path / f"{name}.h5", ["y"]))


def test_arguments(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    for datasets, error, message in (
        ("y", ArgumentTypeError, "`datasets` must be a list of names, or a dict, but got: 'y'"),
        ([], ArgumentError, "`datasets` must hold at least one column but got: {}"),
        (["y", "y"], ArgumentError, "must name each dataset once"),
        ({"y": 3}, ArgumentTypeError, "must hold names of datasets but got: 3"),
        ({3: "y"}, ArgumentTypeError, "must have names of columns but got: 3"),
    ):
        with pytest.raises(error, match=message) as caught:
            fp.read_hdf5(path, datasets)  # type: ignore[arg-type]
        assert __file__ in str(caught.value)
    with pytest.raises(MissingError, match="none is not there"):
        len(fp.read_hdf5(tmp_path / "none", ["y"]))
    assert repr(fp.read_hdf5("a.h5", ["y"])) == "fp.read_hdf5('a.h5', {'y': 'y'})"


ENDS = """
import io, sys
from fsspec.implementations.memory import MemoryFileSystem
import feedpipe as fp
from feedpipe.errors import SourceError

class Faulty(MemoryFileSystem):
    protocol, cachable, left = "faulty", False, sys.maxsize

    def _open(self, path, mode="rb", **options):
        return FaultyFile(super()._open(path, mode, **options))

class FaultyFile(io.RawIOBase):
    def __init__(self, file):
        self.file = file
        self.seek, self.tell = file.seek, file.tell

    def readable(self):
        return True

    seekable = readable

    def readinto(self, memory):
        Faulty.left -= 1
        if Faulty.left < 0:
            raise OSError(5, "broken")
        return self.file.readinto(memory)

MemoryFileSystem().pipe_file("/a.h5", open(sys.argv[1], "rb").read())
pipe = fp.read_hdf5("/a.h5", ["x"], filesystem=Faulty())
Faulty.left = int(sys.argv[2])
errors, rows = [], None
try:
    rows = len(list(pipe))
except SourceError as error:
    errors.append(error)
print(rows, len(errors))
"""


@pytest.mark.slow
@pytest.mark.parametrize("reads", [0, 1, 2, 4, 1000])
def test_the_process_ends_though_a_remote_file_or_its_error_is_kept(tmp_path: Path, reads: int) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100_000).reshape(-1, 10), chunks=(100, 10))
    command = [sys.executable, "-W", "ignore", "-c", ENDS, str(tmp_path / "a.h5"), str(reads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == (["10000", "0"] if reads == 1000 else ["None", "1"])
