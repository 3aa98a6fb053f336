"""Rows one by one, of files that lie far: the next ones are on their way, and nothing else changes."""

from __future__ import annotations

import gc
import io
import itertools
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import MissingError, RowError
from feedpipe.extensions import START, Context
from feedpipe.testing import check_operator, same

from ..storage.remote_store import RemoteStore
from ..support.core import OneRow, Pacing, ProcessContext
from ..support.engine import ahead as readahead
from ..support.engine import bind, resolve
from ..support.storage import remote, tasks

COUNT = 40
TOGETHER = 16


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a failed run of another test holds until garbage is collected is not these tests' concern."""
    budget, runs = tasks.Budget(tasks.BUDGET_BYTES), set[object]()
    monkeypatch.setattr(tasks, "budget", budget)
    monkeypatch.setattr(readahead, "_reading", runs)
    yield
    settle()
    assert not runs
    assert budget.acquire(tasks.BUDGET_BYTES, needed=False)


def settle(*names: str) -> None:
    """Waits for threads that end by themselves: those of fetches, when nothing more is asked of them."""
    while running := [thread for thread in threading.enumerate() if thread.name in {"feedpipe-fetch", *names}]:
        for thread in running:
            with suppress(RuntimeError):  # it has not quite begun
                thread.join(30)
    gc.collect()


def array(*shape: int) -> bytes:
    data = io.BytesIO()
    np.save(data, np.arange(np.prod(shape)).reshape(shape))
    return data.getvalue()


def image(shade: int) -> bytes:
    data = io.BytesIO()
    PIL.Image.new("L", (2, 2), shade).save(data, "png")
    return data.getvalue()


def tar(name: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo(f"{name}.txt")
        member.size = len(name)
        archive.addfile(member, io.BytesIO(name.encode()))
    return data.getvalue()


def arrow(name: str, form: Callable[..., Any]) -> bytes:
    data = io.BytesIO()
    with form(data, pa.schema({"name": pa.string()})) as writer:
        writer.write(pa.record_batch({"name": [name]}))
    return data.getvalue()


def read_bytes(place: RemoteStore, count: int = COUNT) -> fp.Pipe[Any]:
    place.files |= {f"bytes/{n:02d}.txt": b"%d" % n for n in range(count)}
    return fp.read_bytes("bytes", filesystem=place.filesystem)


def read_images(place: RemoteStore) -> fp.Pipe[Any]:
    place.files |= {f"images/a/{n:02d}.png": image(n) for n in range(COUNT)}
    return fp.read_images("images", filesystem=place.filesystem)


def read_numpy(place: RemoteStore) -> fp.Pipe[Any]:
    place.files |= {"x.npy": array(COUNT, 3), "y.npy": array(COUNT)}
    return fp.read_numpy({"x": "x.npy", "y": "y.npy"}, filesystem=place.filesystem)


def read_tokens(place: RemoteStore) -> fp.Pipe[Any]:
    place.files |= {"x.bin": bytes(range(2 * COUNT + 1))}
    return fp.read_tokens("x.bin", dtype="uint8", length=3, step=2, filesystem=place.filesystem)


def read_streamed(place: RemoteStore) -> fp.Pipe[Any]:
    read_bytes(place)
    paths = fp.list_files("bytes", filesystem=place.filesystem).filter(lambda path: True)
    return paths.open_files(filesystem=place.filesystem).parse_bytes()


PIPES: dict[str, Callable[[RemoteStore], fp.Pipe[Any]]] = {
    "bytes": read_bytes,
    "streamed": read_streamed,
    "images": read_images,
    "numpy": read_numpy,
    "tokens": read_tokens,
    "shuffled": lambda place: read_bytes(place).shuffle(),
    "mapped, then shuffled": lambda place: read_bytes(place).decode().map(str).shuffle(),
    "shuffled, then mapped": lambda place: read_images(place).shuffle().map(lambda row: row["path"]),
    "numpy, shuffled": lambda place: read_numpy(place).shuffle().map(str),
    "files shuffled": lambda place: (
        fp.list_files([row["path"] for row in read_bytes(place)], filesystem=place.filesystem)
        .shuffle()
        .open_files(filesystem=place.filesystem)
        .parse_bytes()
    ),
    "a part": lambda place: read_bytes(place, 3 * COUNT).skip(2).slice(1, None, 2).take(COUNT),
    "repeated": lambda place: read_bytes(place).shuffle().repeat(2),
    "one after another": lambda place: (
        fp.from_sequence(range(5)).concat(read_bytes(place), fp.from_sequence(range(50))).enumerate()
    ),
    "after a filter": lambda place: read_bytes(place).shuffle().filter(lambda row: True),
    "in another thread": lambda place: read_bytes(place).shuffle().prefetch(2),
}


def one_by_one(pipe: fp.Pipe[Any], place: RemoteStore) -> tuple[list[Any], list[tuple[str, int, int]]]:
    """The rows, read without a thread, and the first of the requests that were made for each."""
    stage = bind(resolve(pipe))
    rows: list[Any] = []
    first: list[tuple[str, int, int]] = []
    before = 0
    for block in stage.blocks(START, Context(pacing=Pacing(OneRow), process=ProcessContext(threads=False))):
        rows += block.rows
        first += place.requests[before : before + 1]
        before = len(place.requests)
    return rows, first


@pytest.mark.parametrize("name", PIPES)
def test_sixteen_rows_are_fetched_at_a_time(name: str) -> None:
    place = RemoteStore({})
    pipe = PIPES[name](place)
    rows, requests = one_by_one(pipe, place)
    together = threading.Barrier(TOGETHER, timeout=60)
    waiting = set(requests[10 : 10 + TOGETHER])
    assert len(waiting) == TOGETHER

    def wait(*request: Any) -> None:
        if request in waiting:
            waiting.remove(request)
            together.wait()

    place.before = wait
    assert same(list(pipe), rows)
    assert not waiting


class Gated(RemoteStore):
    """Sixteen of its files are opened together, or none; each process has a copy."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(files)
        self.together = threading.Barrier(TOGETHER, timeout=60)

    def __reduce__(self) -> tuple[Any, ...]:
        return Gated, (self.files,)

    def open_input_file(self, path: str) -> pa.NativeFile:
        if 10 <= int(path[-6:-4]) < 10 + TOGETHER:
            self.together.wait()
        return super().open_input_file(path)


def test_sixteen_rows_are_fetched_at_a_time_in_a_worker() -> None:
    place = Gated({})
    pipe = read_bytes(place).map(lambda row: row["bytes"])
    with fp.Loader(pipe, workers=1) as loader:
        assert list(loader) == [b"%d" % n for n in range(COUNT)]


@pytest.mark.parametrize("name", ["bytes", "images", "shuffled", "mapped, then shuffled"])
def test_the_first_row_takes_one_request(name: str) -> None:
    place = RemoteStore({})
    rows = iter(PIPES[name](place))
    next(rows)
    assert len(place.requests) == 1
    next(rows)
    assert len(place.requests) > 1


@pytest.mark.parametrize("name", [name for name in PIPES if name != "after a filter"])
def test_law(name: str) -> None:
    place = RemoteStore({})
    pipe = PIPES[name](place)
    assert same(check_operator(pipe, samples=2), one_by_one(pipe, place)[0])


@pytest.mark.parametrize("number", [0, 1, 2, 12, COUNT - 1])
@pytest.mark.parametrize("name", ["bytes", "streamed"])
def test_an_error_comes_after_the_rows_before_it(name: str, number: int) -> None:
    place = RemoteStore({})
    pipe = PIPES[name](place)
    paths = [row["path"] for row in pipe]
    del place.files[paths[number]]
    got: list[Any] = []
    elements = iter(pipe)
    for _ in range(2):
        with pytest.raises(MissingError, match=rf"{number:02d}\.txt is not there(.|\n)*test_readahead\.py:\d+"):
            got.extend(row["path"] for row in elements)
    assert got == paths[:number]


def test_functions_before_the_files_are_called_once_and_fail_in_their_turn() -> None:
    place = RemoteStore({f"{n}.txt": b"%d" % n for n in range(30)})
    called: list[int] = []

    def path(number: int) -> str:
        called.append(number)
        if number == 20:
            raise ValueError("no such number")
        return f"{number}.txt"

    files = fp.from_sequence(range(30)).map(path).open_files(filesystem=place.filesystem)
    got: list[Any] = []
    with pytest.raises(RowError, match="no such number"):
        got.extend(row["bytes"] for row in files.parse_bytes())
    assert got == [b"%d" % n for n in range(20)]
    # The failing row is tried again to raise its error, and once more by itself if it was in a block with another.
    assert called in ([*range(21), 20], [*range(21), 20, 20])


FILES: dict[str, tuple[Callable[[str], bytes], Callable[[fp.Pipe[fp.File]], fp.Pipe[Any]]]] = {
    "tar": (tar, lambda files: files.parse_tar()),
    "Arrow file": (partial(arrow, form=pa.ipc.new_file), lambda files: files.parse_arrow()),
    "Arrow stream": (partial(arrow, form=pa.ipc.new_stream), lambda files: files.parse_arrow()),
    "bytes": (str.encode, lambda files: files.filter(lambda file: True).parse_bytes()),
}


@pytest.mark.parametrize("name", FILES)
def test_the_next_files_are_begun_while_one_is_read(name: str) -> None:
    encode, parse = FILES[name]
    names = [f"{n:02d}" for n in range(COUNT)]
    place = RemoteStore({f"files/{name}": encode(name) for name in names})
    files = fp.list_files("files", filesystem=place.filesystem).open_files(filesystem=place.filesystem)
    expected = list(parse(files))
    stage = bind(resolve(parse(files)))
    together = threading.Barrier(TOGETHER, timeout=60)
    waiting = {f"files/{name}" for name in names[10 : 10 + TOGETHER]}

    def wait(path: str, begin: int, end: int) -> None:
        if path in waiting:
            waiting.remove(path)
            together.wait()

    place.before = wait
    rows = [row for block in stage.blocks(START, Context()) for row in block.rows]
    assert rows == expected and len(rows) == COUNT
    settle()
    assert place.open == 0


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("name", ["bytes", "streamed", "shuffled", "images", "numpy", "in another thread"])
def test_a_run_that_is_ended_early_leaves_nothing_open(name: str, dropped: bool) -> None:
    place = RemoteStore({})
    pipe = PIPES[name](place)
    if dropped:
        elements = iter(pipe)
        assert len([next(elements) for _ in range(3)]) == 3
        del elements
    else:
        with fp.Loader(pipe) as loader:
            assert len(list(itertools.islice(loader, 3))) == 3
    settle("feedpipe-prefetch")
    assert place.open == 0


@pytest.mark.parametrize("name", ["bytes", "streamed", "shuffled"])
def test_large_files_stay_within_the_budget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size, most, room = 2**13, 2**10, 2**13
    monkeypatch.setattr(remote, "FIRST_REQUEST_BYTES", most)
    monkeypatch.setattr(remote, "MAX_REQUEST_BYTES", most)
    monkeypatch.setattr(tasks, "budget", tasks.Budget(room))
    place = RemoteStore({})
    pipe = PIPES[name](place)
    place.files |= {path: bytes(size) for path in place.files}
    taken = 0
    for block in bind(resolve(pipe)).blocks(START, Context(pacing=Pacing(OneRow))):
        taken += len(block)
        assert [len(row["bytes"]) for row in block.rows] == [size]
        if taken in (1, 2, 12, 30):
            settle()
            assert sum(end - begin for _, begin, end in place.requests) <= taken * size + room
    assert taken == COUNT
