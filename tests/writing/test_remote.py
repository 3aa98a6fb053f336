"""Writing, manifests and listings on remote storage: S3, HDFS, and a file system in memory."""

from __future__ import annotations

from typing import Any

import pytest
from pyarrow import fs

import feedpipe as fp
from feedpipe.errors import ArgumentError

from ..servers.hdfs import Hdfs
from ..servers.s3 import S3


def rows() -> fp.Pipe[dict[str, object]]:
    return fp.from_sequence(range(3000)).map(lambda i: {"__key__": f"{i:06}", "cls": i, "txt": f"{i}\n" * 20})


def check(folder: str, filesystem: object = None) -> None:
    """Checks that written files can be read, verified and overwritten."""
    table = rows().map(lambda row: {"id": row["cls"], "text": row["txt"]})
    manifest = fp.write_parquet(table, folder, rows_per_file=1100, filesystem=filesystem)
    fp.verify(manifest, filesystem=filesystem)
    assert list(fp.read_parquet(folder, filesystem=filesystem)) == list(table)
    assert len(fp.list_files(folder, filesystem=filesystem)) == 3
    with pytest.raises(ArgumentError, match="holds a run: `overwrite=True` removes it"):
        fp.write_tar(rows(), folder, filesystem=filesystem)
    assert fp.write_tar(rows(), folder, file_size="2MB", filesystem=filesystem, overwrite=True) == manifest
    fp.verify(manifest, filesystem=filesystem)
    assert all(".tar" in path for path in fp.list_files(folder, filesystem=filesystem)), "the earlier run is gone"
    back = fp.read_tar(folder, filesystem=filesystem).decode()
    assert [row["cls"] for row in back] == list(range(3000))


def check_index(paths: str, manifest: str, filesystem: object = None) -> None:
    """Checks that the first listing makes an index, and the next one reads it."""
    first = list(fp.list_files(paths, manifest=manifest, filesystem=filesystem))
    assert fp.index(paths, manifest, filesystem=filesystem).number == 1
    assert list(fp.list_files(paths, manifest=manifest, filesystem=filesystem)) == first


@pytest.mark.slow
def test_s3(s3: S3) -> None:
    s3.put("writing", {"x": b""})
    check("s3://writing/url")
    check("s3://writing/options?region=us-east-1")
    check("writing/system", s3.filesystem())
    check_index("s3://writing/url/*.tar", "s3://writing/listing.index")
    check_index("writing/system/*.tar", "writing/another.index", s3.filesystem())


FAILING: set[int] = set()


def with_inverse(row: dict[str, Any]) -> dict[str, object]:
    return {"x": row["txt"], "inverse": 1 / (0 if row["cls"] in FAILING else 1)}


def test_a_failed_run_goes_on_on_s3(s3: S3) -> None:
    s3.put("failing", {"x": b""})
    pipe = rows().map(with_inverse)
    names = [f"part-0000{k}.parquet" for k in range(6)]

    def written() -> list[str]:
        infos = s3.filesystem().get_file_info(fs.FileSelector("failing/out", recursive=True))
        return sorted(info.base_name for info in infos)

    FAILING.add(2100)
    with pytest.raises(fp.RowError):
        fp.write_parquet(pipe, "s3://failing/out", rows_per_file=500)
    assert written()[1:] == names[:4] and written()[0].startswith("_unfinished-00004-")
    FAILING.clear()
    manifest = fp.write_parquet(pipe, "s3://failing/out", rows_per_file=500)
    assert written() == ["_manifest.jsonl", *names]
    fp.verify(manifest)
    assert list(fp.read_parquet("s3://failing/out")) == list(pipe)


@pytest.mark.slow
@pytest.mark.hdfs
def test_hdfs(hdfs: Hdfs, worker_id: str) -> None:
    check(f"{hdfs.url}/{worker_id}/writing/url")
    check(f"/{worker_id}/writing/system", fs.HadoopFileSystem("127.0.0.1", hdfs.port))
    check_index(f"{hdfs.url}/{worker_id}/writing/url/*.tar", f"{hdfs.url}/{worker_id}/listing.index")
