"""Local copies of remote files."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, SourceError

from ..servers.s3 import S3
from ..support.storage import BLOCK_BYTES
from ..support.storage import file_cache as cache_folder
from .remote_store import RemoteStore

RANDOM = np.random.default_rng(0)


def content(blocks: float, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(int(blocks * BLOCK_BYTES))


def read(store: RemoteStore, cache: fp.FileCache, path: str = "a") -> bytes:
    with fp.File(path, filesystem=store.filesystem, compression=None, cache=cache.renewed()).open() as stream:
        return stream.read()


def fetched(store: RemoteStore) -> int:
    """The bytes that were read from the store since the last call."""
    total = sum(end - begin for _, begin, end in store.requests)
    store.requests.clear()
    return total


@pytest.fixture
def cache(tmp_path: Path) -> fp.FileCache:
    return fp.FileCache(tmp_path / "copies")


def copies(cache: fp.FileCache) -> list[Path]:
    return sorted(Path(cache.folder).glob("??/*"))


def test_a_file_is_fetched_once_by_all_pipes_and_workers(cache: fp.FileCache) -> None:
    lines = [f"{i:9}" for i in range(60_000)]
    store = RemoteStore({"a": "\n".join(lines).encode()})
    pipe = fp.read_lines("a", filesystem=store.filesystem, cache=cache)
    assert list(pipe) == lines
    assert len(store.files["a"]) <= fetched(store) < 1.5 * len(store.files["a"])  # ranges share a few blocks
    store.before = lambda path, begin, end: pytest.fail("it is in the cache")
    assert list(pipe) == lines
    assert list(fp.read_lines("a", filesystem=store.filesystem, cache=cache)) == lines


PARTS = st.tuples(
    st.integers(0, 10 * BLOCK_BYTES),
    st.integers(0, 3 * BLOCK_BYTES),
    st.sampled_from(["keep", "flip", "cut", "remove"]),
    st.floats(0, 1, exclude_max=True),
)


@given(st.lists(PARTS, max_size=8))
def test_parts_in_any_order_with_any_damage(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[int, int, str, float]]
) -> None:
    """Whatever was read before, and whatever happens to the copy, the bytes are those of the file."""
    cache = fp.FileCache(tmp_path_factory.mktemp("copies"))
    store = RemoteStore({"a": content(9.5)})
    whole = store.files["a"]
    for start, size, damage, place in parts:
        with fp.File("a", filesystem=store.filesystem, compression=None, cache=cache.renewed()).open() as stream:
            stream.seek(start)
            assert stream.read(size) == whole[start : start + size]
        for path in copies(cache):
            copy = bytearray(path.read_bytes())
            if damage == "flip" and copy:
                copy[int(place * len(copy))] ^= 1 << int(place * 1000) % 8
                path.write_bytes(copy)
            elif damage == "cut":
                os.truncate(path, int(place * len(copy)))
            elif damage == "remove":
                path.unlink()


def test_columns_of_a_parquet_file_are_kept_in_part(cache: fp.FileCache, tmp_path: Path) -> None:
    table = pa.table({"x": np.arange(50_000), "y": RANDOM.random(50_000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10_000)
    store = RemoteStore({"a.parquet": (tmp_path / "a.parquet").read_bytes()})
    for columns, some in ((["x"], True), (["x"], False), (["x", "y"], True), (["y"], False)):
        pipe = fp.read_parquet("a.parquet", columns=columns, filesystem=store.filesystem, cache=cache)
        assert pipe.to_table().equals(table.select(columns))
        assert (fetched(store) > 0) == some, columns


def test_a_damaged_block_is_fetched_again(cache: fp.FileCache) -> None:
    store = RemoteStore({"a": content(6)})
    read(store, cache)
    (path,) = copies(cache)
    copy = bytearray(path.read_bytes())
    copy[-3 * BLOCK_BYTES] ^= 1
    path.write_bytes(copy)
    fetched(store)
    assert read(store, cache) == store.files["a"]
    assert fetched(store) == BLOCK_BYTES
    assert read(store, cache) == store.files["a"]
    assert fetched(store) == 0


class DatedStore(RemoteStore):
    """A store that tells when a file was written."""

    written = 1

    def _info(self, path: str) -> pa.fs.FileInfo:
        info = super()._info(path)
        return pa.fs.FileInfo(path, info.type, size=info.size, mtime_ns=self.written)


def test_a_file_that_has_changed_is_fetched_anew(cache: fp.FileCache) -> None:
    store = DatedStore({"a": content(3)})
    read(store, cache)
    store.files["a"], store.written = content(3, seed=1), 2  # of the same size
    assert read(store, cache) == store.files["a"]
    store.files["a"], store.written = content(2), 3
    assert read(store, cache) == store.files["a"]
    assert len(copies(cache)) == 3


def test_copies_are_removed_in_the_order_of_their_last_use(cache: fp.FileCache, tmp_path: Path) -> None:
    store = RemoteStore({name: content(10, seed) for seed, name in enumerate("abcd")})
    small = fp.FileCache(cache.folder, limit=35 * BLOCK_BYTES)
    path_of: dict[str, Path] = {}
    for now, name in enumerate("abacd"):
        before = {*copies(small)}
        read(store, small, name)
        path_of |= dict.fromkeys([name] * (name not in path_of), *({*copies(small)} - before))
        os.utime(path_of[name], (now, now))
    fetched(store)
    for name, again in (("d", False), ("a", False), ("b", True)):
        assert read(store, small, name) == store.files[name]
        assert (fetched(store) > 0) == again, name
    assert sum(path.stat().st_blocks * 512 for path in copies(small)) <= 35 * BLOCK_BYTES


def test_a_cache_that_keeps_nothing_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = RemoteStore({f"{i}": content(3, i) for i in range(4)})
    small = fp.FileCache(tmp_path / "copies", limit=2 * BLOCK_BYTES)
    pipe = fp.read_bytes([*store.files], filesystem=store.filesystem, cache=small)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert {row["path"]: row["bytes"] for row in pipe} == store.files
    (record,) = caplog.records
    assert re.search(r"keeps nothing of files such as \d: they are larger than its `limit`", record.getMessage())
    assert copies(small) == []


def test_only_its_owner_may_read_a_cache(cache: fp.FileCache) -> None:
    read(RemoteStore({"a": content(2)}), cache)
    folder = Path(cache.folder)
    entries = [folder, *folder.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in entries if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in entries if path.is_file()} == {0o600}


def test_a_small_disk_that_is_really_full(caplog: pytest.LogCaptureFixture) -> None:
    folder = Path("/dev/full")
    if not folder.exists():
        pytest.skip("this system has no /dev/full")
    store = RemoteStore({"a": content(3)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_folder.CacheFolder, "open", lambda self, key: os.open(folder, os.O_RDWR))
        cache = fp.FileCache(os.path.join(os.environ.get("TMPDIR", "/tmp"), f"feedpipe-full-{os.getpid()}"))
        assert read(store, cache) == store.files["a"]
    assert "No space left on device" in caplog.text


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RemoteStore({"a": b"x"})
    pipe = fp.read_bytes("a", filesystem=store.filesystem, cache=fp.FileCache(tmp_path / "file"))
    with pytest.raises(SourceError, match=r"the folder .*file of a `FileCache` cannot be written to: .*give a folder"):
        list(pipe)


def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="`folder` must be the path of a local folder but got: 's3://a/b'"):
        fp.FileCache("s3://a/b")
    with pytest.raises(ArgumentTypeError, match="`folder` must be a path but got: 3"):
        fp.FileCache(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`limit` must be a size such as \"1GiB\" but got: 'much'"):
        fp.FileCache(tmp_path, limit="much")
    with pytest.raises(ArgumentTypeError, match=r"`cache` must be a `FileCache`, such as .* but got: '/copies'"):
        fp.list_files("a").open_files(cache="/copies")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="`cache` must be a `FileCache`"):
        fp.read_images("a", cache=True)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="`cache` must be a `FileCache`"):
        fp.read_numpy("a.npy", cache=True)  # type: ignore[arg-type]


def test_a_cache_is_no_part_of_a_state(cache: fp.FileCache) -> None:
    store = RemoteStore({"a": b"\n".join(b"%d" % i for i in range(100))})
    loader = fp.Loader(fp.read_lines("a", filesystem=store.filesystem, cache=cache))
    expected = list(loader)
    other = fp.Loader(fp.read_lines("a", filesystem=store.filesystem))
    elements = iter(other)
    for _ in range(10):
        next(elements)
    resumed = fp.Loader(fp.read_lines("a", filesystem=store.filesystem, cache=cache))
    resumed.load_state_dict(json.loads(json.dumps(other.state_dict())))
    assert list(resumed) == expected[10:]


def _fill(folder: str, files: dict[str, bytes], kill_after: int | None = None) -> None:
    store = RemoteStore(files)

    def before(path: str, begin: int, end: int) -> None:
        if kill_after is not None and len(store.requests) == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    store.before = before
    cache = fp.FileCache(folder, limit=60 * BLOCK_BYTES)
    for _ in range(3):
        for name, expected in files.items():
            assert read(store, cache, name) == expected


@pytest.fixture
def files() -> dict[str, bytes]:
    return {f"{i}": content(10.5, i) for i in range(8)}


def _processes(count: int, *arguments: object) -> Iterator[int | None]:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_fill, args=arguments) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        yield process.exitcode


def test_processes_fill_one_cache_that_is_too_small(cache: fp.FileCache, files: dict[str, bytes]) -> None:
    assert [*_processes(3, str(cache.folder), files)] == [0, 0, 0]
    assert sum(path.stat().st_blocks * 512 for path in copies(cache)) <= 70 * BLOCK_BYTES


def test_a_process_that_is_killed_leaves_a_valid_cache(cache: fp.FileCache, files: dict[str, bytes]) -> None:
    assert [*_processes(1, str(cache.folder), files, 7)] == [-signal.SIGKILL]
    assert copies(cache)
    store = RemoteStore(files)
    for name, expected in files.items():
        assert read(store, cache, name) == expected
    assert fetched(store) < sum(map(len, files.values()))


@pytest.mark.slow
def test_s3(cache: fp.FileCache, s3: S3) -> None:
    data = {f"{i}.txt": b"\n".join(b"%d %d" % (i, j) for j in range(2_000)) for i in range(3)}
    s3.put("copies", data)
    expected = list(fp.read_lines("s3://copies/*.txt"))
    pipe = fp.read_lines("s3://copies/*.txt", cache=cache)
    loader = fp.Loader(pipe, fp.MultiProcess(2))
    assert sorted(loader) == sorted(expected)
    before = sum(path.stat().st_blocks for path in copies(cache))
    assert len(copies(cache)) == 3
    assert sorted(loader) == sorted(expected)
    assert sum(path.stat().st_blocks for path in copies(cache)) == before
    s3.put("copies", {"0.txt": data["0.txt"].replace(b"7", b"8")})  # of the same size, with another ETag
    changed = list(fp.read_lines("s3://copies/*.txt", cache=cache))
    assert changed == list(fp.read_lines("s3://copies/*.txt")) != expected
    assert len(copies(cache)) == 4
