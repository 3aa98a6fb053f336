"""Listings that are kept in a manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError, SourceError

from ..support.core import walk
from ..support.engine import resolve
from ..support.sources import list_files
from ..support.storage import Manifest, manifest_schema, write_manifest


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a folder `data` in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / "data" / name).write_text(name)
    return tmp_path


def identity(pipe: fp.Pipe[str]) -> Any:
    return resolve(pipe).op.identity()


def test_files_are_listed_once(here: Path) -> None:
    first = list(fp.list_files("data", pattern="*.txt", manifest="m.jsonl"))
    assert first == [f"{here}/data/a.txt", f"{here}/data/b.txt"]
    (here / "data" / "later.txt").write_text("")
    (here / "data" / "a.txt").unlink()
    assert list(fp.list_files("data", pattern="*.txt", manifest="m.jsonl")) == first
    (here / "m.jsonl").unlink()
    assert len(fp.list_files("data", pattern="*.txt", manifest="m.jsonl")) == 2


def test_the_log_names_an_index_for_a_large_manifest(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(list_files, "MAX_FILES_OF_MANIFEST", 2)
    for _ in range(2):
        assert len(fp.list_files("data", manifest="m.jsonl")) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "m.jsonl has 3 files, and each process reads all of it; `fp.index` makes an index, of which it reads a part"
    ] * 2
    assert len(fp.list_files("data/*.txt", manifest="n.jsonl")) == 2
    assert len(caplog.records) == 2


def test_the_manifest_says_what_it_is(here: Path) -> None:
    len(fp.list_files("data/*.txt", manifest=here / "m.jsonl"))
    head, *files = map(json.loads, (here / "m.jsonl").read_text().splitlines())
    assert head["made_by"] == "list_files"
    assert head["call"] == "list_files('data/*.txt')"
    assert files[0] == {"path": f"{here}/data/a.txt", "bytes": 5}


def test_the_identity_does_not_depend_on_the_manifest(here: Path) -> None:
    without = identity(fp.list_files("data"))
    assert identity(fp.list_files("data", manifest="m.jsonl")) == without
    assert identity(fp.list_files("data", manifest="m.jsonl")) == without


def test_sizes_are_kept(here: Path) -> None:
    pipe = fp.list_files("data", manifest="m.jsonl")
    len(pipe)
    for path in fp.list_files("data", manifest="m.jsonl"):
        assert path.size == 5  # type: ignore[attr-defined]
    (here / "data" / "a.txt").write_text("longer")
    with pytest.raises(SourceError, match=r"a\.txt has changed since it was listed"):
        list(fp.list_files("data", manifest="m.jsonl").open_files().parse_lines())


@pytest.mark.parametrize(
    ("paths", "options"),
    [("data/*", {}), ("data", {"pattern": "*.txt"}), ("data", {"recursive": True}), (["data", "data"], {})],
)
def test_a_manifest_of_another_call(here: Path, paths: Any, options: dict[str, Any]) -> None:
    len(fp.list_files("data", manifest="m.jsonl"))
    with pytest.raises(ArgumentError, match=r"m\.jsonl was made by `list_files\('data'\)`, and this is `list") as error:
        len(fp.list_files(paths, manifest="m.jsonl", **options))
    assert "test_cached_listing.py" in str(error.value)


def test_the_same_call_from_another_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = list(fp.list_files("data/", manifest="m.jsonl"))
    assert list(fp.list_files(here / "data", manifest="m.jsonl")) == first
    (here / "other").mkdir()
    monkeypatch.chdir(here / "other")
    assert list(fp.list_files(here / "data", manifest="../m.jsonl")) == first
    with pytest.raises(ArgumentError, match=r"was made by `list_files\('data/'\)`, .* perhaps from another folder"):
        len(fp.list_files("data", manifest="../m.jsonl"))


def test_on_another_file_system() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/known/a.txt", b"1\n")
    try:
        assert list(fp.list_files("memory://known/*.txt", manifest="memory://known/_m.jsonl")) == [
            "memory://known/a.txt"
        ]
        paths = fp.list_files("/known", filesystem=memory, manifest="/known/_n.jsonl")
        assert list(paths) == ["/known/a.txt"]
        memory.pipe("/known/b.txt", b"2\n")
        assert list(fp.list_files("memory://known/*.txt", manifest="memory://known/_m.jsonl")) == [
            "memory://known/a.txt"
        ]
        assert len(fp.list_files("/known", filesystem=memory, manifest="/known/_n.jsonl")) == 1
    finally:
        memory.rm("/known", recursive=True)


def test_a_failed_listing_writes_no_manifest(here: Path) -> None:
    with pytest.raises(SourceError, match="none is not there"):
        len(fp.list_files("none", manifest="m.jsonl"))
    assert not (here / "m.jsonl").exists()


def test_a_damaged_manifest_is_not_replaced(here: Path) -> None:
    (here / "m.jsonl").write_text("{")
    with pytest.raises(DataError, match=r"m\.jsonl is no manifest(.|\n)*test_cached_listing\.py"):
        len(fp.list_files("data", manifest="m.jsonl"))


def test_the_manifest_of_a_writer(here: Path) -> None:
    pipe = fp.from_sequence(range(30)).map(lambda i: {"id": i})
    manifest = fp.write_parquet(pipe, "out", rows_per_file=10)
    paths = [f"out/part-0000{k}.parquet" for k in range(3)]
    for folder in ("out", "out/", here / "out"):
        assert list(fp.list_files(folder, manifest=manifest)) == paths
    assert identity(fp.list_files("out", manifest=manifest)) == identity(fp.list_files("out"))
    (here / "out" / "part-99999.parquet").write_bytes(b"not of this run")
    assert list(fp.list_files("out", manifest=manifest)) == paths
    for options in ({"paths": "data"}, {"paths": "out/*"}, {"paths": "out", "pattern": "*.parquet"}):
        with pytest.raises(ArgumentError, match=r"was made by `write_parquet`, and stands for all .* its folder 'out'"):
            len(fp.list_files(**options, manifest=manifest))  # type: ignore[arg-type]


def test_digests_of_many_files_agree(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("storage.listing", "sources.list_files"):
        monkeypatch.setattr(f"feedpipe.{module}.BATCH_FILES", 4)
    manifest = fp.write_parquet(fp.from_sequence(range(10)).map(lambda i: {"id": i}), "out", rows_per_file=1)
    assert identity(fp.list_files("out", manifest=manifest)) == identity(fp.list_files("out"))


def test_the_manifest_of_a_writer_that_wrote_nothing(here: Path) -> None:
    manifest = "out/_manifest.jsonl"
    (here / "out").mkdir()
    # Earlier versions wrote such manifests.
    write_manifest(Manifest("write_parquet", manifest_schema().empty_table()), manifest)
    with pytest.raises(SourceError, match=r"names no file: `write_parquet` wrote no row"):
        len(fp.list_files("out", manifest=manifest))


def test_no_password_is_kept(here: Path) -> None:
    pipe = fp.list_files("s3://user:secret@bucket/*.csv", manifest="m.jsonl")
    with pytest.raises(ArgumentError, match="`manifest` would keep the password in `paths`") as error:
        len(pipe)
    assert "secret" not in str(error.value)
    assert not (here / "m.jsonl").exists()


READERS = ("read_arrow", "read_bytes", "read_csv", "read_jsonl", "read_lines", "read_parquet", "read_tar")


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_files_takes_a_manifest(here: Path, reader: str) -> None:
    pipe: fp.Pipe[Any] = getattr(fp, reader)("data", pattern="*.txt", manifest=here / "m.jsonl")
    source = next(node for node in walk(pipe) if not node.inputs)
    assert source.op.call() == f"list_files('data', pattern='*.txt', manifest={str(here / 'm.jsonl')!r})"
