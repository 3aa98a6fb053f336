"""Values that are kept for each file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import feedpipe as fp

from ..support.storage import FileValues, open_version
from .remote_store import RemoteStore


def cache(budget: int) -> FileValues[bytes]:
    return FileValues(budget, len)


def reading(calls: list[str], name: str, size: int = 1) -> Callable[[], bytes]:
    return lambda: calls.append(name) or b"x" * size  # type: ignore[func-returns-value]


def test_a_value_is_read_once_for_each_version() -> None:
    calls: list[str] = []
    kept = cache(100)
    file = fp.File("a")
    for version in (1, 1, 2, 2, 1):
        kept.get(file, version, reading(calls, f"version {version}"))
    kept.get(fp.File("a", filesystem=object()), 1, reading(calls, "elsewhere"))
    assert calls == ["version 1", "version 2", "version 1", "elsewhere"]


def test_the_values_used_last_are_kept_within_the_budget() -> None:
    calls: list[str] = []
    kept = cache(10)
    for name in ("a", "b", "a", "c", "a", "b", "c"):
        kept.get(fp.File(name), 1, reading(calls, name, size=4))
    assert calls == ["a", "b", "c", "b", "c"]
    kept.get(fp.File("large"), 1, reading(calls, "large", size=99))
    kept.get(fp.File("large"), 1, reading(calls, "large", size=99))  # the newest stays whatever its size
    kept.get(fp.File("c"), 1, reading(calls, "c", size=4))
    kept.get(fp.File("b"), 1, reading(calls, "b", size=4))
    kept.get(fp.File("c"), 1, reading(calls, "c", size=4))
    assert calls[5:] == ["large", "c", "b"]


def test_an_error_is_not_kept() -> None:
    kept = cache(10)

    def fail() -> bytes:
        raise OSError("gone")

    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            kept.get(fp.File("a"), 1, fail)
    assert kept.get(fp.File("a"), 1, lambda: b"x") == b"x"


@pytest.mark.parametrize("fails", [False, True])
def test_one_of_several_threads_reads(fails: bool) -> None:
    kept = cache(10)
    begun, go = threading.Event(), threading.Event()
    calls: list[str] = []
    results: list[object] = []

    def slow() -> bytes:
        calls.append("first")
        begun.set()
        go.wait(60)
        if fails:
            raise OSError("the stream of the first thread was closed")
        return b"x"

    def run(read: Callable[[], bytes]) -> None:
        try:
            results.append(kept.get(fp.File("a"), 1, read))
        except OSError:
            results.append("failed")

    first = threading.Thread(target=run, args=(slow,))
    first.start()
    begun.wait(60)
    second = threading.Thread(target=run, args=(reading(calls, "second"),))
    second.start()
    go.set()
    first.join()
    second.join()
    assert sorted(map(str, results)) == (["b'x'", "failed"] if fails else ["b'x'", "b'x'"])
    assert calls == (["first", "second"] if fails else ["first"])


def test_the_version_of_a_local_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")

    def version() -> object:
        stream, version = open_version(fp.File(str(path)))
        stream.close()
        return version

    first = version()
    assert version() == first
    other = tmp_path / "b"
    other.write_bytes(b"two")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    os.replace(other, path)  # of the same size and time
    assert version() != first


def test_a_file_that_is_replaced_while_it_is_opened_has_a_version_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    real = fp.File.open

    def replacing(file: fp.File, *rest: None) -> object:
        stream = real(file, *rest)
        (tmp_path / "b").write_bytes(b"two")
        os.replace(tmp_path / "b", path)
        return stream

    monkeypatch.setattr(fp.File, "open", replacing)
    versions = []
    for _ in range(2):
        stream, version = open_version(fp.File(str(path)))
        stream.close()
        versions.append(version)
    monkeypatch.undo()
    stream, version = open_version(fp.File(str(path)))
    stream.close()
    assert len({*versions, version}) == 3


def test_the_version_of_a_remote_file() -> None:
    store = RemoteStore({"a": b"one"})
    file = fp.File("a", filesystem=store.filesystem)
    versions = []
    for data in (b"one", b"one", b"three"):
        store.files["a"] = data
        stream, version = open_version(file)
        stream.close()
        versions.append(version)
    assert versions[0] == versions[1] != versions[2]
