"""Manifests: they are read as they were written, and a damaged one is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.errors import DataError

from ..support.storage import Manifest, manifest_schema, read_manifest, write_manifest

FILES = [
    {"path": "part-00000.parquet", "bytes": 12, "rows": 3, "sha256": "ab"},
    {"path": 'odd "name"\n\\é.tar', "bytes": 0, "rows": 0, "sha256": "cd"},
    {"path": "of unknown size.csv", "bytes": None, "rows": None, "sha256": None},
]


def manifest(files: list[dict[str, Any]] = FILES, by: str = "write_tar", **details: Any) -> Manifest:
    return Manifest(by, pa.Table.from_pylist(files, manifest_schema()), details)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "m.jsonl")
    write_manifest(manifest(digest="x"), path)
    read = read_manifest(path)
    assert read.files.to_pylist() == FILES
    assert (read.made_by, read.details) == ("write_tar", {"digest": "x"})
    assert [json.loads(line) for line in Path(path).read_text().splitlines()][2:] == [
        FILES[1], {"path": "of unknown size.csv"},
    ]  # fmt: skip
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.jsonl"]


HEAD = '{"format": "feedpipe manifest", "version": 1, "made_by": "write_tar", "files": 1}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no manifest: its first line must be JSON whose `format` is 'feedpipe manifest'"),
        ("id,x\n1,2\n", "is no manifest"),
        ('{"path": "a"}\n', "is no manifest"),
        ("[1]\n", "is no manifest"),
        ("[" * 50_000 + "\n", "is no manifest"),
        (HEAD.replace('"version": 1', '"version": 2'), "is a manifest of version 2; this feedpipe reads version 1"),
        (HEAD.replace('"write_tar"', "3"), "is damaged: its first line must have `made_by`"),
        (HEAD.replace('"files": 1', '"files": true'), "is damaged: its first line must have `made_by`"),
        (HEAD, "is damaged: it has 0 files, and its first line says 1"),
        (HEAD + '{"path": "a"}\n{"path": "b"}\n', "is damaged: it has 2 files, and its first line says 1"),
        (HEAD + '{"path": "a"', "is damaged: JSON parse error"),
        (HEAD + '{"path": "a", "bytes": "many"}\n', "is damaged: JSON parse error"),
        (HEAD + '{"path": "a", "bytes": 1.5}\n', "is damaged: Failed to convert JSON to int64"),
        (HEAD + '{"path": "a", "colour": 1}\n', "is damaged: JSON parse error: unexpected field"),
        (HEAD + '{"bytes": 1}\n', "is damaged: each line must have a `path`"),
    ],
)
def test_damaged_manifests_and_other_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.jsonl").write_text(text)
    with pytest.raises(DataError, match="m.jsonl") as error:
        read_manifest(str(tmp_path / "m.jsonl"))
    assert message in str(error.value)


@given(st.data())
def test_damage_is_an_error_or_changes_values(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("damage") / "m.jsonl"
    write_manifest(manifest(), str(path))
    whole = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole) - 2)) :]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        read = read_manifest(str(path))
    except DataError:
        return
    assert len(read.files) == 3
    read.files.to_pylist()
