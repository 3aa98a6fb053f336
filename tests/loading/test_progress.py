"""`Loader.progress`: the share of the epoch that a rank has taken. Random chains are in `test_chains.py`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp

ROWS = 100
SIZES = (1, 3, 2, 6)  # of the files, in units of ROWS


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("progress")
    for number, size in enumerate(SIZES):
        rows = [{"n": n, "text": "x" * (n % 50)} for n in range(size * ROWS)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{number}.jsonl").write_text(text)
        (folder / f"{number}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        (folder / f"{number}.csv").write_text("n,text\n" + "".join(f"{row['n']},{row['text']}\n" for row in rows))
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{number}.parquet", row_group_size=ROWS)
    return folder


def odd(row: Any) -> bool:
    return bool(row["n"] % 2)


def readers(files: Path) -> dict[str, fp.Pipe[Any]]:
    return {
        "jsonl": fp.read_jsonl(files / "*.jsonl"),
        "gzip": fp.read_jsonl(files / "*.jsonl.gz"),
        "csv": fp.read_csv(files / "*.csv"),
        "parquet": fp.read_parquet(files / "*.parquet"),
    }


def shares_of(loader: fp.Loader[Any]) -> list[float]:
    shares = [loader.progress, *(loader.progress for _ in loader), loader.progress]
    assert all(share is not None for share in shares)
    return [share for share in shares if share is not None]


def check(shares: list[float]) -> None:
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert all(one <= other <= 1.0 for one, other in pairwise(shares))


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize("reader", ["jsonl", "gzip", "csv", "parquet"])
def test_it_rises_from_0_to_1_and_each_state_has_it(files: Path, reader: str) -> None:
    pipe = readers(files)[reader].filter(odd).shuffle(window=100).batch(4)
    loader = fp.Loader(pipe, seed=2)
    seen = [(loader.progress, loader.state_dict()) for _ in islice(loader, 140)]
    check(shares_of(fp.Loader(pipe, seed=2)))
    for share, state in seen[::40]:
        resumed = fp.Loader(pipe, seed=2)
        resumed.load_state_dict(json.loads(json.dumps(state)))
        assert resumed.progress == share


@pytest.mark.parametrize("reader", ["jsonl", "parquet"])
def test_it_follows_the_bytes_or_rows_of_files(files: Path, reader: str) -> None:
    pipe = readers(files)[reader]
    loader = fp.Loader(pipe if pipe.length is None else pipe.filter(lambda row: True))
    errors = [abs((loader.progress or 0.0) - taken / (sum(SIZES) * ROWS)) for taken, _ in enumerate(loader, 1)]
    assert max(errors) < 0.1


def test_a_rank_of_another_number_of_ranks_goes_on(files: Path) -> None:
    pipe = fp.read_parquet(files / "*.parquet").filter(odd).shuffle(window=50)
    before = [fp.Loader(pipe, rank=rank, world_size=2, even=None, shards=4, seed=1) for rank in range(2)]
    for loader in before:
        assert len(list(islice(loader, 200))) == 200
    after = fp.Loader(pipe, rank=0, world_size=1, shards=4, seed=1)
    after.load_state_dict([loader.state_dict() for loader in before])
    shares = shares_of(after)
    assert 0.1 < shares[0] < 0.8
    check([0.0, *shares])


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize("ranks", [1, 3, 4, 6])
def test_ranks_that_only_complete_groups_have_read_all(ranks: int) -> None:
    pipe = fp.from_sequence(range(20)).filter(lambda n: n >= 0).shuffle(window=4).batch(4)
    before = [fp.Loader(pipe, rank=rank, world_size=2, shards=6, even=None) for rank in range(2)]
    for loader in before:
        next(iter(loader))
    states = [loader.state_dict() for loader in before]
    after = [fp.Loader(pipe, rank=rank, world_size=ranks, even=None) for rank in range(ranks)]
    for loader in after:
        loader.load_state_dict(states)
        assert loader.progress is not None and 0 <= loader.progress <= 1


def test_it_is_none_if_the_end_is_not_known() -> None:
    endless = fp.Loader(fp.from_sequence(range(3)).filter(lambda n: True).repeat())
    assert endless.progress is None
    assert next(iter(endless)) == 0
    assert endless.progress is None
    endless.close()

    def rows() -> Iterator[int]:
        yield from range(3)

    source = fp.Loader(fp.from_iterable(rows))
    assert [source.progress for _ in source] == [None] * 3
    assert source.progress == 1.0
