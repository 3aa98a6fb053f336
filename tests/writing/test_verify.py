from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import feedpipe as fp
from feedpipe.errors import DataError, SourceError


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    pipe = fp.from_sequence(range(30)).map(lambda i: {"__key__": str(i), "cls": i})
    return fp.write_tar(pipe, tmp_path / "out", rows_per_file=10)


def test_files_that_are_right(manifest: str) -> None:
    fp.verify(manifest)
    fp.verify(Path(manifest))


def test_other_bytes(manifest: str) -> None:
    for name in ("part-00001.tar", "part-00002.tar"):
        path = Path(manifest).with_name(name)
        data = bytearray(path.read_bytes())
        data[512] ^= 1
        path.write_bytes(data)
    message = (
        r"2 of 3 files are not as .*_manifest.jsonl says: .*part-00001.tar has other content: its checksum is [0-9a-f]*"
    )
    with pytest.raises(DataError, match=message) as error:
        fp.verify(manifest)
    assert "test_verify.py" in str(error.value)


def test_other_sizes(manifest: str) -> None:
    path = Path(manifest).with_name("part-00001.tar")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"1 of 3 files .*part-00001.tar has 20479 bytes and should have 20480"):
        fp.verify(manifest)


def test_a_missing_file(manifest: str) -> None:
    Path(manifest).with_name("part-00000.tar").unlink()
    Path(manifest).with_name("part-00001.tar").write_text("")
    with pytest.raises(SourceError, match=r"2 of 3 files .*part-00000.tar is not there"):
        fp.verify(manifest)


@pytest.mark.parametrize("path", ["../secret.tar", "a/../../secret.tar", "/etc/passwd", "memory://secret.tar", ".."])
def test_a_manifest_of_a_writer_names_no_file_outside_of_its_folder(manifest: str, path: str) -> None:
    head, first, *rest = Path(manifest).read_text().splitlines()
    entry = json.dumps({**json.loads(first), "path": path})
    Path(manifest).write_text("\n".join([head, entry, *rest]))
    (Path(manifest).parent.parent / "secret.tar").write_bytes(b"")
    with pytest.raises(DataError, match=f"is damaged: '{re.escape(path)}' is not in the folder of the manifest"):
        fp.verify(manifest)
