"""Each functional name of torchdata 0.9 that has a counterpart gives the same output as ours for the same input."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import re
import tarfile
import warnings
from collections.abc import Callable, Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES

import feedpipe as fp

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it says that it will be removed
    import torchdata.datapipes.iter as td
    from torchdata.datapipes.map import SequenceWrapper

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "from-datapipes.md"
Theirs = Callable[[], Iterable[Any]]
Ours = Callable[[], Iterable[Any]]

NUMBERS = list(range(12))
PAIRS = [(n, n * n) for n in NUMBERS]
TEXTS = ["x" * (1 + n * 7 % 5) for n in NUMBERS]
ROWS = [{"x": n, "y": n / 2} for n in NUMBERS]


def theirs(items: Iterable[Any] = NUMBERS) -> Any:
    return td.IterableWrapper(items)


def ours(items: Any = NUMBERS) -> fp.Pipe[Any]:
    return fp.from_sequence(items)


def table() -> fp.Pipe[Any]:
    return fp.from_table(pa.Table.from_pylist(ROWS))


def of_two(pipes: Iterable[Iterable[Any]]) -> list[list[Any]]:
    first, second = pipes
    return [list(first), list(second)]


async def tenfold(row: int) -> int:
    return 10 * row


def rank_of(pipe: Any, rank: int, world_size: int) -> list[Any]:
    torch.utils.data.graph_settings.apply_sharding(pipe, world_size, rank, SHARDING_PRIORITIES.DISTRIBUTED)
    return list(pipe)


def all_ranks(pipe: fp.Pipe[Any]) -> list[Any]:
    return [row for rank in range(3) for row in fp.Loader(pipe, rank=rank, world_size=3, even=None)]


IN_ORDER: dict[str, tuple[Theirs, Ours]] = {
    "add_index": (
        lambda: theirs([{"a": n} for n in NUMBERS]).add_index(),
        lambda: ours([{"a": n} for n in NUMBERS]).enumerate().map(lambda pair: {**pair[1], "index": pair[0]}),
    ),
    "async_map_batches": (
        lambda: theirs().async_map_batches(tenfold, batch_size=4),
        lambda: ours().map(tenfold, concurrency=4),
    ),
    "batch": (lambda: theirs().batch(5), lambda: ours().batch(5)),
    "collate": (lambda: theirs().batch(4).collate(), lambda: ours().batch(4).collate()),
    "concat": (lambda: theirs().concat(theirs("ab")), lambda: ours().concat(ours("ab"))),
    "cycle": (lambda: theirs().cycle(2), lambda: ours().repeat(2)),
    "demux": (
        lambda: of_two(theirs().demux(2, lambda n: n % 2)),
        lambda: of_two(ours().route(lambda n: n % 2, 2)),
    ),
    "drop": (lambda: theirs(ROWS).drop("y"), lambda: table().drop("y")),
    "enumerate": (lambda: theirs("abc").enumerate(starting_index=5), lambda: ours("abc").enumerate(5)),
    "filter": (lambda: theirs().filter(lambda n: n % 3 == 0), lambda: ours().filter(lambda n: n % 3 == 0)),
    "flatmap": (lambda: theirs().flatmap(range), lambda: ours().flat_map(range)),
    "flatten": (
        lambda: theirs([(1, (2, 3)), (4, (5, 6))]).flatten(),
        lambda: ours([(1, (2, 3)), (4, (5, 6))]).unnest(),
    ),
    "fork": (lambda: of_two(theirs().fork(2)), lambda: of_two(ours().fork(2))),
    "groupby": (
        lambda: theirs().groupby(lambda n: n // 4, group_size=4),
        lambda: ours().group_by(lambda n: n // 4, size=4),
    ),
    "header": (lambda: theirs().header(5), lambda: ours().take(5)),
    "in_memory_cache": (lambda: theirs().in_memory_cache(), lambda: ours().filter(lambda n: True).load()),
    "map": (lambda: theirs().map(str), lambda: ours().map(str)),
    "map_batches": (
        lambda: theirs().map_batches(lambda batch: [10 * n for n in batch], batch_size=4),
        lambda: ours().map_batches(lambda batch: [10 * n for n in batch], 4),
    ),
    "mux": (
        lambda: theirs().mux(theirs("abcdefghijkl")),
        lambda: ours().round_robin(ours("abcdefghijkl"), stop="first"),
    ),
    "mux_longest": (lambda: theirs().mux_longest(theirs("abc")), lambda: ours().round_robin(ours("abc"))),
    "prefetch": (lambda: theirs().prefetch(3), lambda: ours().prefetch(3)),
    "repeat": (lambda: theirs().repeat(3), lambda: ours().flat_map(lambda n: [n] * 3)),
    "round_robin_demux": (
        lambda: of_two(theirs().round_robin_demux(2)),
        lambda: of_two(
            ours().enumerate().route(lambda pair: pair[0] % 2, 2)[k].map(lambda pair: pair[1]) for k in (0, 1)
        ),
    ),
    "rows2columnar": (
        lambda: theirs(ROWS).batch(4).rows2columnar(),
        lambda: table().batch(4).map_columns(dict).map(lambda rows: {k: v.tolist() for k, v in rows.columns.items()}),
    ),
    "slice": (lambda: theirs(ROWS).slice(["x"]), lambda: table().select("x")),
    "threadpool_map": (lambda: theirs().threadpool_map(str), lambda: ours().map(str, concurrency=4)),
    "to_map_datapipe": (
        lambda: [theirs(PAIRS).to_map_datapipe()[n] for n in NUMBERS],
        lambda: [ours(PAIRS).filter(lambda pair: True).load()[n][1] for n in NUMBERS],
    ),
    "unbatch": (lambda: theirs().batch(4).unbatch(), lambda: ours().batch(4).unbatch()),
    "unzip": (lambda: of_two(theirs(PAIRS).unzip(2)), lambda: of_two(ours(PAIRS).map(itemgetter(k)) for k in (0, 1))),
    "zip": (lambda: theirs().zip(theirs("abcdefghijkl")), lambda: ours().zip(ours("abcdefghijkl"))),
    "zip_longest": (
        lambda: theirs().zip_longest(theirs("abc"), fill_value=0),
        lambda: ours().zip(ours("abc").concat(ours([0]).repeat())),
    ),
    "zip_with_iter": (
        lambda: theirs(PAIRS).zip_with_iter(theirs(PAIRS[::-1]), lambda pair: pair[0], lambda pair: pair[0]),
        lambda: ours(PAIRS).zip_by_key(ours(PAIRS[::-1]), key=lambda pair: pair[0]),
    ),
    "zip_with_map": (
        lambda: theirs().zip_with_map(SequenceWrapper([str(n) for n in NUMBERS]), lambda n: n),
        lambda: ours().map(lambda n: (n, [str(n) for n in NUMBERS][n])),
    ),
}

SHUFFLED: dict[str, tuple[Theirs, Ours]] = {
    "bucketbatch": (
        lambda: (n for batch in theirs(TEXTS).bucketbatch(4) for n in batch),
        lambda: ours(TEXTS).bucket_by_length(4, len).unbatch(),
    ),
    "in_batch_shuffle": (
        lambda: (sorted(batch) for batch in theirs().batch(4).in_batch_shuffle()),
        lambda: ours().batch(4).map(lambda batch, rng: sorted(rng.permutation(batch).tolist()), rng=True),
    ),
    "max_token_bucketize": (
        lambda: (text for batch in theirs(TEXTS).max_token_bucketize(10) for text in batch),
        lambda: ours(TEXTS).batch_by_size(10, len).unbatch(),
    ),
    "random_split": (
        lambda: (n for part in theirs().random_split({"a": 0.5, "b": 0.5}, seed=0) for n in part),
        lambda: (n for part in ours().split({"a": 0.5, "b": 0.5}).values() for n in part),
    ),
    "sharding_filter": (
        lambda: (n for rank in range(3) for n in rank_of(theirs().sharding_filter(), rank, 3)),
        lambda: all_ranks(ours().shard_by_rank()),
    ),
    "sharding_round_robin_dispatch": (
        lambda: theirs().sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING),
        lambda: fp.Loader(ours().dispatch(), workers=2),
    ),
    "shuffle": (lambda: theirs().shuffle(), lambda: ours().shuffle()),
    "shuffled_flatmap": (
        lambda: theirs().shuffled_flatmap(range),
        lambda: ours().flat_map(range).shuffle(window=100),
    ),
}

FILES: dict[str, tuple[Callable[[Path], Iterable[Any]], Callable[[Path], Iterable[Any]]]] = {
    "decompress": (
        lambda at: (data.read() for _, data in td.FileLister(str(at), "*.bz2").open_files("b").decompress()),
        lambda at: fp.list_files(at / "a.txt.bz2").open_files().map(lambda file: file.open().read()),
    ),
    "list_files": (
        lambda at: sorted(td.IterableWrapper([str(at)]).list_files("*.txt")),
        lambda at: fp.list_files(at, pattern="*.txt").map(lambda file: str(file)),
    ),
    "list_files_by_fsspec": (
        lambda at: sorted(td.IterableWrapper([f"file://{at}"]).list_files_by_fsspec(masks="*.txt")),
        lambda at: fp.list_files(at, pattern="*.txt").map(lambda file: f"file://{file}"),
    ),
    "lines_to_paragraphs": (
        lambda at: (
            text for _, text in td.FileLister(str(at), "a.txt").open_files("r").readlines().lines_to_paragraphs()
        ),
        lambda at: (
            fp.read_bytes(at / "a.txt").flat_map(lambda row: re.split(r"\n\n+", row["bytes"].decode().strip())).map(str)
        ),
    ),
    "load_from_bz2": (
        lambda at: (data.read() for _, data in td.FileLister(str(at), "*.bz2").open_files("b").load_from_bz2()),
        lambda at: fp.list_files(at / "a.txt.bz2").open_files().map(lambda file: file.open().read()),
    ),
    "load_from_tar": (
        lambda at: (data.read() for _, data in td.FileLister(str(at), "*.tar").open_files("b").load_from_tar()),
        lambda at: fp.read_tar(at / "a.tar").map(lambda row: row["txt"]),
    ),
    "load_from_xz": (
        lambda at: (data.read() for _, data in td.FileLister(str(at), "*.xz").open_files("b").load_from_xz()),
        lambda at: fp.read_bytes(at / "a.txt.xz").map(lambda row: row["bytes"]),
    ),
    "open_files": (
        lambda at: (data.read() for _, data in td.FileLister(str(at), "a.txt").open_files("b")),
        lambda at: fp.list_files(at / "a.txt").open_files().map(lambda file: file.open().read()),
    ),
    "open_files_by_fsspec": (
        lambda at: (data.read() for _, data in td.IterableWrapper([f"file://{at}/a.txt"]).open_files_by_fsspec("rb")),
        lambda at: fp.list_files(at / "a.txt").open_files().map(lambda file: file.open().read()),
    ),
    "parse_csv": (
        lambda at: td.FileLister(str(at), "a.csv").open_files("r").parse_csv(skip_lines=1),
        lambda at: fp.read_csv(at / "a.csv").map(lambda row: [str(value) for value in row.values()]),
    ),
    "parse_csv_as_dict": (
        lambda at: td.FileLister(str(at), "a.csv").open_files("r").parse_csv_as_dict(),
        lambda at: fp.read_csv(at / "a.csv", schema={"x": "string", "y": "string"}),
    ),
    "parse_json_files": (
        lambda at: (value for _, value in td.FileLister(str(at), "a.json").open_files("b").parse_json_files()),
        lambda at: fp.read_bytes(at / "a.json").map(lambda row: json.loads(row["bytes"])),
    ),
    "read_from_stream": (
        lambda at: (data for _, data in td.FileLister(str(at), "a.txt").open_files("b").read_from_stream()),
        lambda at: fp.list_files(at / "a.txt").open_files().parse_bytes().map(lambda row: row["bytes"]),
    ),
    "readlines": (
        lambda at: (line for _, line in td.FileLister(str(at), "a.txt").open_files("r").readlines()),
        lambda at: fp.read_lines(at / "a.txt"),
    ),
    "routed_decode": (
        lambda at: (row["txt"] for row in [{"txt": text} for text in ("one", "two")]),
        lambda at: fp.read_tar(at / "a.tar").decode().map(lambda row: row["txt"]),
    ),
    "shard_expand": (
        lambda at: sorted(td.IterableWrapper([f"{at}/a-{{0..1}}.shard"]).shard_expand()),
        lambda at: fp.list_files(f"{at}/a-{{0..1}}.shard").map(str),
    ),
    "webdataset": (
        lambda at: (
            data.read()
            for row in td.FileLister(str(at), "*.tar").open_files("b").load_from_tar().webdataset()
            for key, data in row.items()
            if key == ".txt"
        ),
        lambda at: fp.read_tar(at / "a.tar").map(lambda row: row["txt"]),
    ),
}

NOT_COMPARED = {
    "load_from_tfrecord": "ours has tests with the files of another package",
    "extract": "the old name of decompress",
    "load_from_zip": "ours reads rows, not members; tests/storage/test_archives.py has these URLs",
    "set_length": "says a length that need not be true",
    "dataframe": "needs torcharrow",
    "load_parquet_as_df": "needs torcharrow",
    "on_disk_cache": "has no counterpart yet",
    "end_caching": "has no counterpart yet",
    "list_files_by_ais": "needs a server of AIStore",
    "load_files_by_ais": "needs a server of AIStore",
    "list_files_by_s3": "needs a build of torchdata with the SDK of AWS; ours has tests of its own",
    "load_files_by_s3": "needs a build of torchdata with the SDK of AWS; ours has tests of its own",
    "list_files_by_iopath": "needs iopath, which has no release for this Python",
    "open_files_by_iopath": "needs iopath, which has no release for this Python",
    "read_from_http": "needs a network",
    "read_from_remote": "needs a network",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("files")
    (at / "a.txt").write_bytes(b"one\ntwo\n\nthree\n")
    (at / "a.txt.bz2").write_bytes(bz2.compress(b"one\ntwo\n"))
    (at / "a.txt.xz").write_bytes(lzma.compress(b"one\ntwo\n"))
    (at / "a.csv").write_bytes(b"x,y\n1,2\n3,4\n")
    (at / "a.json").write_bytes(b'{"x": [1, 2]}')
    for number in range(2):
        (at / f"a-{number}.shard").touch()
    with tarfile.open(at / "a.tar", "w") as tar:
        for name, data in (("0.txt", b"one"), ("1.txt", b"two")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return at


def plain(value: Any) -> Any:
    """An element without the types that say how a library holds it."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, fp.Rows)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode()
    return value


@pytest.mark.parametrize("name", IN_ORDER)
def test_same_in_order(name: str) -> None:
    make_theirs, make_ours = IN_ORDER[name]
    expected = plain(list(make_theirs()))
    assert plain(list(make_ours())) == expected and expected


@pytest.mark.parametrize("name", SHUFFLED)
def test_same_up_to_order(name: str) -> None:
    make_theirs, make_ours = SHUFFLED[name]
    expected = sorted(map(repr, plain(list(make_theirs()))))
    assert sorted(map(repr, plain(list(make_ours())))) == expected and expected


@pytest.mark.parametrize("name", FILES)
def test_same_from_files(name: str, folder: Path) -> None:
    make_theirs, make_ours = FILES[name]
    expected = plain(list(make_theirs(folder)))
    assert plain(list(make_ours(folder))) == expected and expected


def test_each_name_is_compared_or_says_why_not() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("\n## DataPipes of torchdata")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \| (.*?) ?\|", page, re.MULTILINE)
    counterparts = {name: ours for names, ours in cells for name in re.findall(r"`(\w+)`", names)}
    names = {name for name in td.IterDataPipe.functions if not name.startswith("_")}
    compared = {*IN_ORDER, *SHUFFLED, *FILES}
    assert compared <= names
    unexplained = {name for name in names - compared - NOT_COMPARED.keys() if counterparts.get(name, name)}
    assert not unexplained, "neither compared, nor a row of the page without a counterpart"
