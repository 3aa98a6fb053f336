"""`read_sql` with a MariaDB Galera cluster of two nodes."""

from __future__ import annotations

import datetime
import decimal
import faulthandler
import itertools
import json
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import SourceError

from ..servers.galera import Galera

COUNT = 5_000
ALL = list(range(1, COUNT + 1))
SYNC = ["SET SESSION wsrep_sync_wait = 1"]


@pytest.fixture(scope="module")
def cluster(galera: Galera) -> Galera:
    faulthandler.cancel_dump_traceback_later()  # on a busy machine, two nodes begin slowly
    galera.run(
        0,
        "use test; create table points (id int primary key, x double, amount decimal(10, 2), at datetime(6), b blob,"
        "n text)"
        f"; insert into points select seq, seq / 2, seq / 4, '2024-01-01 00:00:00.000001', x'00ff', null"
        f" from seq_1_to_{COUNT}",
    )
    return galera


def points(uri: Any, **options: Any) -> fp.Pipe[Any]:
    options = {"partition_on": "id", "partitions": 8, "session": SYNC} | options
    return fp.read_sql("SELECT * FROM points", uri, **options)


def ids(some: Any) -> list[int]:
    return [row["id"] for row in some]


def test_ranges_are_read_from_both_nodes(cluster: Galera) -> None:
    def connections(number: int) -> int:
        return int(cluster.run(number, "show global status like 'Connections'").split()[1])

    before = [connections(number) for number in range(2)]
    pipe = points(cluster.uris)
    assert len(pipe) == COUNT
    assert ids(pipe) == ALL
    assert all(connections(number) - before[number] > 4 for number in range(2))
    assert next(iter(pipe)) == {
        "id": 1,
        "x": 0.5,
        "amount": decimal.Decimal("0.25"),
        "at": datetime.datetime(2024, 1, 1, 0, 0, 0, 1),
        "b": b"\x00\xff",
        "n": None,
    }


def test_rows_that_another_node_has_just_written(cluster: Galera) -> None:
    cluster.run(0, "create table test.fresh (id int primary key)")
    for number in range(30):
        cluster.run(0, f"insert into test.fresh values ({number})")
        pipe = fp.read_sql("SELECT * FROM fresh", cluster.uris[1], partition_on="id", session=SYNC)
        assert len(pipe) == number + 1


@pytest.mark.parametrize("taken", [1, 624, 625, 3_333])
def test_resume(cluster: Galera, taken: int) -> None:
    loader = fp.Loader(points(cluster.uris))
    start = ids(itertools.islice(loader, taken))
    resumed = fp.Loader(points(cluster.uris[::-1]))
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert start + ids(resumed) == ALL


def test_a_node_that_dies_in_the_middle(cluster: Galera) -> None:
    pipe = points(cluster.uris)
    assert len(pipe) == COUNT
    elements = iter(pipe)
    start = ids(itertools.islice(elements, 1_000))
    cluster.kill(1)
    try:
        assert start + ids(elements) == ALL
        assert ids(points(cluster.uris[::-1])) == ALL
        with pytest.raises(SourceError, match="the connection to .* has failed: .*refused"):
            list(points(cluster.uris[1]))
    finally:
        cluster.restart(1)
    assert ids(points(cluster.uris[1])) == ALL
