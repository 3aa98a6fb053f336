"""Faults on the way to a real S3 server, and their errors; `tests/readers` tests them with every reader."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyarrow import fs, parquet

import feedpipe as fp
from feedpipe.errors import DataError, MissingError, SourceError

from ..servers.proxy import Fault, Proxy
from ..servers.s3 import S3
from ..support.storage import filesystem as retry
from ..support.storage import remote

pytestmark = pytest.mark.slow

ROWS = 20_000
LINES = "".join(f"{row}\n" for row in range(ROWS)).encode()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without a pause, though pyarrow's client pauses itself; files of some hundred KiB take some requests."""
    monkeypatch.setattr(retry, "_policy", retry.RetryPolicy(sleep=lambda seconds, cancellation: None))
    monkeypatch.setattr(remote, "FIRST_REQUEST_BYTES", 2**12)
    monkeypatch.setattr(remote, "MAX_REQUEST_BYTES", 2**15)


@pytest.fixture
def server(s3: S3) -> S3:
    sink = io.BytesIO()
    table = pa.table({"a": pa.array(range(ROWS)), "b": [str(row) for row in range(ROWS)]})
    parquet.write_table(table, sink, row_group_size=4000, use_dictionary=False)
    s3.put("faults", {f"text/{name}.txt": LINES for name in "abc"} | {"table.parquet": sink.getvalue()})
    return s3


def client(server: S3, proxy: Proxy) -> fs.S3FileSystem:
    """A client that does not retry itself, so that feedpipe makes all attempts."""
    return server.filesystem(proxy.endpoint, retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1))


@pytest.fixture
def proxy(server: S3) -> Iterator[Proxy]:
    with Proxy(server.endpoint) as proxy:
        yield proxy


@pytest.mark.parametrize(
    "fault",
    [
        Fault("busy", share=0.2, method=None),
        Fault("cut", share=0.2, after=1000),
        Fault("reset", share=0.2, after=1000),
        Fault("stall", turns=1, after=1000, part="b.txt"),
    ],
    ids=lambda fault: fault.kind,
)
def test_transient_faults(server: S3, proxy: Proxy, fault: Fault, caplog: pytest.LogCaptureFixture) -> None:
    proxy.faults = [fault]
    rows = list(fp.read_lines("faults/text", filesystem=client(server, proxy)))
    assert rows == 3 * [str(row) for row in range(ROWS)]
    if fault.kind != "stall":
        table = list(fp.read_parquet("faults/table.parquet", filesystem=client(server, proxy)))
        assert table == [{"a": row, "b": str(row)} for row in range(ROWS)]
    assert proxy.counts[fault.kind] > 0
    assert retry._policy.counts.total() > 0
    assert [record.levelno for record in caplog.records if record.name == "feedpipe"][:1] == [logging.WARNING]


def test_a_permanent_fault(server: S3, proxy: Proxy) -> None:
    """It begins within the second file."""
    run = iter(fp.read_lines("faults/text", filesystem=client(server, proxy)))
    rows = [next(run)]
    proxy.faults = [Fault("cut", after=10, part="b.txt", turns=None)]
    with pytest.raises(
        SourceError,
        match=r"faults/text/b\.txt cannot be read after byte 32768: transferred a partial file; 6 attempts in",
    ) as error:
        for row in run:
            rows.append(row)
    assert not isinstance(error.value, (DataError, MissingError))
    # The rows of the first file come first, then those of the second that were read before the error.
    assert len(rows) >= ROWS
    assert rows == (2 * [str(row) for row in range(ROWS)])[: len(rows)]


@pytest.mark.parametrize("size", [10, 50_000])
def test_an_object_that_becomes_shorter(server: S3, proxy: Proxy, size: int) -> None:
    server.put("faults", {"long.txt": 10 * LINES})
    with fp.File("faults/long.txt", filesystem=client(server, proxy)).open() as stream:
        stream.read(10)
        server.put("faults", {"long.txt": LINES[:size]})
        with pytest.raises(SourceError, match=r"faults/long\.txt (has changed while|cannot be read after byte \d+)"):
            stream.read()


def test_how_many_requests_a_file_takes(server: S3, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    proxy.latency = 0.01
    filesystem = client(server, proxy)
    paths = [f"faults/text/{name}.txt" for name in "abc"]
    proxy.counts.clear()
    assert len(list(fp.from_sequence(paths).open_files(filesystem=filesystem).parse_lines())) == 3 * ROWS
    assert proxy.counts["HEAD"] <= 6 and proxy.counts["GET"] == 3
