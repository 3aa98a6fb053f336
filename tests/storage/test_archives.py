"""Files in zip archives, read in place."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

import feedpipe as fp
from feedpipe.errors import MissingError, SourceError


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "a.zip"
    table, image = io.BytesIO(), io.BytesIO()
    parquet.write_table(pa.table({"x": range(100)}), table, row_group_size=30)
    Image.fromarray(np.full((4, 4, 3), 7, np.uint8)).save(image, "png")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(3):
            file.writestr(f"text/{number}.txt", "".join(f"{number} {line}\n" for line in range(50)))
        file.writestr("a.csv", "x\n1\n2\n")
        file.writestr("b.csv.gz", gzip.compress(b"x\n3\n"))
        file.writestr("a.parquet", table.getvalue())
        file.writestr("pets/cat/1.png", image.getvalue())
    return str(path)


LINES = [f"{number} {line}" for number in range(3) for line in range(50)]


def test_globs_folders_and_names(archive: str) -> None:
    files = [f"zip://text/{number}.txt::{archive}" for number in range(3)]
    for paths in ("text/*.txt", "text", "**/*.txt", "text/{0..2}.txt"):
        assert list(fp.list_files(f"zip://{paths}::{archive}")) == files
    assert list(fp.list_files(f"zip://::{archive}", pattern="*.csv")) == [f"zip://a.csv::{archive}"]
    assert len(fp.list_files(f"zip://::{archive}", recursive=True)) == 7


def test_every_kind_of_file(archive: str) -> None:
    assert list(fp.read_lines(f"zip://text::{archive}")) == LINES
    assert list(fp.read_csv(f"zip://*.csv*::{archive}")) == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert [row["x"] for row in fp.read_parquet(f"zip://a.parquet::{archive}")] == list(range(100))
    (row,) = fp.read_images(f"zip://pets::{archive}")
    assert row["label_name"] == "cat" and row["image"].shape == (4, 4, 3) and (row["image"] == 7).all()
    assert fp.read_bytes(f"zip://text/0.txt::{archive}")[0]["bytes"].splitlines()[1] == b"0 1"


def test_a_file_system_of_fsspec(archive: str) -> None:
    assert list(fp.read_lines("text", filesystem=fsspec.filesystem("zip", fo=archive))) == LINES


def test_a_resume_on_several_shards(archive: str) -> None:
    def loader(rank: int) -> fp.Loader[str]:
        return fp.Loader(fp.read_lines(f"zip://text::{archive}"), rank=rank, world_size=2, shards=4, even=None)

    seen = []
    for rank in range(2):
        first = loader(rank)
        elements = iter(first)
        seen += [next(elements) for _ in range(20)]
        second = loader(rank)
        second.load_state_dict(first.state_dict())
        rest = list(elements)
        assert list(second) == rest
        seen += rest
    assert sorted(seen) == sorted(LINES)


@pytest.mark.slow
def test_workers(archive: str) -> None:
    with fp.Loader(fp.read_lines(f"zip://text::{archive}").shuffle(window=10), workers=2) as loader:
        assert sorted(loader) == sorted(LINES)


def test_what_is_not_there(archive: str, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"zip://c\.csv::.*a\.zip is not there"):
        list(fp.read_csv(f"zip://c.csv::{archive}"))
    with pytest.raises(SourceError, match=r"no\.zip' cannot be opened as an archive: .*No such file"):
        list(fp.read_csv(f"zip://a.csv::{tmp_path}/no.zip"))
    with pytest.raises(SourceError, match=r"must name its archive, as in 'zip://file\.csv::archive\.zip'"):
        list(fp.read_csv("zip://a.csv"))
    (tmp_path / "b.zip").write_text("no archive")
    with pytest.raises(SourceError, match=r"b\.zip' cannot be opened as an archive: File is not a zip file"):
        list(fp.read_csv(f"zip://a.csv::{tmp_path}/b.zip"))
