"""`File`: opening, compression, sizes and errors."""

from __future__ import annotations

import bz2
import gzip
import lzma
import pickle
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

import feedpipe as fp
from feedpipe.errors import DataError, SourceError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(b"hello\nworld\n")
    return path


def test_is_small_and_picklable(path: Path) -> None:
    file = fp.File(str(path), filesystem=fs.LocalFileSystem(), compression="gzip")
    again = pickle.loads(pickle.dumps(file))
    assert again == file
    assert len(pickle.dumps(fp.File("a"))) < 200


@pytest.mark.parametrize(
    ("ending", "codec"), [(".gz", "gzip"), (".bz2", "bz2"), (".zst", "zstd"), (".lz4", "lz4"), (".br", "brotli")]
)
def test_compression(tmp_path: Path, ending: str, codec: str) -> None:
    path = str(tmp_path / "a.csv") + ending
    with pa.CompressedOutputStream(path, codec) as stream:
        stream.write(b"hello")
    packed = Path(path).read_bytes()
    assert fp.File(path).open().read() == b"hello"
    assert fp.File(path).open(compression=None).read() == packed
    assert fp.File(path, compression=None).open().read() == packed
    plain = tmp_path / "plain"
    plain.write_bytes(packed)
    assert fp.File(str(plain)).open().read() == packed
    assert fp.File(str(plain), compression=codec).open().read() == b"hello"
    assert fp.File(str(plain)).open(compression=codec).read() == b"hello"
    assert fp.File(path).size() == len(packed)


def test_files_of_several_members(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    (tmp_path / "a.bz2").write_bytes(bz2.compress(b"one\n") + bz2.compress(b"two\n"))
    for name in ("a.gz", "a.bz2"):
        assert fp.File(str(tmp_path / name)).open().read() == b"one\ntwo\n"


@pytest.mark.parametrize("ending", [".xz", ".zip"])
def test_what_arrow_does_not_decompress(tmp_path: Path, ending: str) -> None:
    path, text = tmp_path / f"a.csv{ending}", b"".join(b"%d\n" % n for n in range(20_000))
    if ending == ".xz":
        path.write_bytes(lzma.compress(text[:50_000]) + lzma.compress(text[50_000:]))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("in/a.csv", text)
    assert fp.File(str(path)).open().read() == text
    loader = fp.Loader(fp.read_lines(path).batch(100))
    rest = iter(loader)
    first = [next(rest) for _ in range(70)]
    again = fp.Loader(fp.read_lines(path).batch(100))
    again.load_state_dict(loader.state_dict())
    assert [*first, *again] == [*first, *rest] and len(first) == 70
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"decompression failed after \d+ bytes"):
        list(fp.read_lines(path))
    if ending == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", b"")
            archive.writestr("b", b"")
        with pytest.raises(DataError, match="is a zip archive of 2 files, and only one of a single file is read"):
            list(fp.read_lines(path))


def test_a_missing_file(tmp_path: Path) -> None:
    file = fp.File(str(tmp_path / "none.txt"))
    for look in (file.open, file.size):
        with pytest.raises(SourceError, match=r"none\.txt is not there: it was removed since it was listed") as error:
            look()
        assert isinstance(error.value, FileNotFoundError)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot be opened: .* is a directory"):
        fp.File(str(tmp_path)).open()
    with pytest.raises(SourceError, match="cannot be opened: it is a folder"):
        fp.File(str(tmp_path)).size()
