from __future__ import annotations

import io
import tarfile

import pytest

import feedpipe as fp
from feedpipe.testing import check_operator


@pytest.fixture
def folder(tmp_path):
    for part in range(4):
        with tarfile.open(tmp_path / f"{part}.tar", "w") as tar:
            for n in range(5 * part, 5 * part + 5):
                member = tarfile.TarInfo(f"{n}.txt")
                member.size = 3
                tar.addfile(member, io.BytesIO(b"%03d" % n))
    return tmp_path


def test_law(folder):
    rows = check_operator(fp.read_tar(folder, pattern="*.tar"))
    assert rows == [{"__key__": str(n), "txt": b"%03d" % n} for n in range(20)]
    check_operator(fp.read_tar(folder).shuffle(window=6).decode())


def test_every_argument_arrives(folder):
    (folder / "deep").mkdir()
    (folder / "0.tar").rename(folder / "deep" / "0.dat")
    pipe = fp.read_tar(folder, pattern="*.dat", recursive=True, compression=None, path_column="from")
    assert [row["from"] for row in pipe] == [str(folder / "deep" / "0.dat")] * 5
    assert repr(fp.read_tar("a")) == "fp.list_files('a').open_files().parse_tar()"


@pytest.mark.slow
def test_workers_and_resume(folder):
    pipe = fp.read_tar(folder).decode().shuffle(window=4).batch(2)
    with fp.Loader(pipe, workers=2, shards=2) as loader:
        whole = [list(batch) for batch in loader]
        assert sorted(row["txt"] for batch in whole for row in batch) == [f"{n:03d}" for n in range(20)]
        loader.set_epoch(0)
        elements = iter(loader)
        begun = [list(next(elements)) for _ in range(3)]
        state = loader.state_dict()
    with fp.Loader(pipe, workers=2, shards=2) as loader:
        loader.load_state_dict(state)
        assert begun + [list(batch) for batch in loader] == whole
