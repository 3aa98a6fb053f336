"""Reading from a real S3 server: as from the local disk, in listings of many pages, and with errors."""

from __future__ import annotations

import io
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyarrow import parquet

import feedpipe as fp
from feedpipe.errors import MissingError, SourceError

from ..servers.proxy import Proxy, Request
from ..servers.s3 import S3
from ..support.storage import filesystem as retry
from .naming import FILES, Place, check_names, check_workers

BUCKET = "data"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.local(tmp_path_factory.mktemp("here"))


@pytest.fixture(params=["environment", "options", "filesystem"])
def there(request: pytest.FixtureRequest, s3: S3, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The same files in a bucket, and the ways to name the server."""
    s3.put(BUCKET, {f"tree/{name}": data for name, data in FILES.items()})
    if request.param == "environment":
        return Place(f"s3://{BUCKET}/tree")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    if request.param == "options":
        return Place(f"s3://{BUCKET}/tree", f"?endpoint_override={quote('http://' + s3.endpoint, safe='')}")
    return Place(f"{BUCKET}/tree", options={"filesystem": s3.filesystem()})


def test_files_are_named_as_on_the_local_disk(here: Place, there: Place) -> None:
    check_names(here, there)


@pytest.mark.slow
@pytest.mark.parametrize("there", ["options", "filesystem"], indirect=True)
def test_two_workers(here: Place, there: Place) -> None:
    check_workers(here, there)


def test_listings_of_many_pages(s3: S3) -> None:
    names = [f"part-{i:05}.txt" for i in range(2500)]
    s3.put("many", {f"parts/{name}": b"" for name in names} | {"parts/z/last.txt": b"last\n"})
    expected = [f"s3://many/parts/{name}" for name in names]
    assert list(fp.list_files("s3://many/parts")) == expected
    assert list(fp.list_files("s3://many/parts/*")) == expected
    assert list(fp.list_files("many/parts", recursive=True, filesystem=s3.filesystem())) == [
        *(f"many/parts/{name}" for name in names), "many/parts/z/last.txt",
    ]  # fmt: skip
    assert list(fp.read_lines("s3://many/**/last.txt")) == ["last"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://data/none.csv", "^s3://data/none.csv is not there: no file or folder has that name"),
        ("s3://data/none/*.csv", r"s3://data/none/\*.csv is not there"),
        ("s3://nosuchbucket/a.csv", "^s3://nosuchbucket/a.csv is not there: there is no bucket 'nosuchbucket'"),
        ("s3://nosuchbucket/*.csv", r"s3://nosuchbucket/\*.csv is not there"),
    ],
)
def test_missing_files(s3: S3, path: str, message: str) -> None:
    s3.put(BUCKET, {"a.csv": b"x\n1\n"})
    with pytest.raises(MissingError, match=message):
        list(fp.read_csv(path))


Requests = Callable[[Callable[..., Any]], Counter[str]]


@pytest.fixture
def requests(s3: S3) -> Iterator[Requests]:
    """Counts the requests of an epoch of the 100 files of 20 folders."""
    table = io.BytesIO()
    parquet.write_table(pa.table({"x": [1, 2]}), table)
    s3.put("folders", {f"tree/{k % 20:02}/{k:03}.parquet": table.getvalue() for k in range(100)})
    s3.put("folders", {"tree/_hidden/a.parquet": b"", "tree/07/.hidden.parquet": b"", "tree/07/notes.txt": b""})
    counts: Counter[str] = Counter()

    def requests(read: Callable[..., Any]) -> Counter[str]:
        counts.clear()
        assert len(list(fp.Loader(read("folders/tree/**/*.parquet", filesystem=filesystem)))) in (100, 200)
        return Counter(counts)

    def count(request: Request) -> None:
        counts["LIST" if "list-type" in request.target else request.method] += 1

    with Proxy(s3.endpoint, before=count) as proxy:
        filesystem = s3.filesystem(proxy.endpoint)
        yield requests


def test_a_recursive_listing_makes_a_request_for_a_thousand_files(s3: S3, requests: Requests) -> None:
    assert requests(fp.list_files) == {"HEAD": 1, "LIST": 2}  # the HEAD, and a LIST, look for a file of that name
    names = [f"s3://folders/tree/{k:02}/{k + 20 * i:03}.parquet" for k in range(20) for i in range(5)]
    assert list(fp.list_files("s3://folders/tree", pattern="*.parquet", recursive=True)) == names
    assert list(fp.list_files("s3://folders/tree/0?/**/*1.parquet")) == [name for name in names if "/01/" in name]
    assert list(fp.list_files("s3://folders/tree/**/_hidden/*")) == ["s3://folders/tree/_hidden/a.parquet"]


def parquet_bytes(first: int, rows: int = 100, **options: Any) -> bytes:
    stream = io.BytesIO()
    values = pa.table({"x": pa.array(range(first, first + rows), pa.int64())})
    parquet.write_table(values, stream, compression="none", use_dictionary=False, **options)
    return stream.getvalue()


@pytest.mark.parametrize(("shards", "again"), [(1, 0), (8, 20)])  # all shards of a file may have ended for now
def test_row_groups_in_any_order_look_their_file_up_when_it_is_opened_and_after_the_last_one(
    s3: S3, shards: int, again: int
) -> None:
    s3.put("groups", {f"{k:03}.parquet": parquet_bytes(10 * k, 10, row_group_size=2) for k in range(100)})
    with Proxy(s3.endpoint) as proxy:
        pipe = fp.read_parquet("groups", filesystem=s3.filesystem(proxy.endpoint)).shuffle(window=10)
        assert sorted(row["x"] for row in fp.Loader(pipe, shards=shards)) == list(range(1000))
        assert (
            0 <= proxy.counts["HEAD"] - (1 + 100) <= 100 + again
        )  # a file of several requests, whether it is still the same


@pytest.mark.parametrize("statistics", [True, False])
def test_a_file_that_is_written_again_after_its_listing(s3: S3, statistics: bool) -> None:
    old, new = (parquet_bytes(first, write_statistics=statistics) for first in (1000, 2000))
    assert len(old) == len(new)
    s3.put("again", {"a.parquet": old}, age=60)
    pipe = fp.read_parquet("s3://again/a.parquet")
    assert len(pipe) == 100
    s3.put("again", {"a.parquet": new})
    if statistics:  # the footers differ
        with pytest.raises(SourceError, match="s3://again/a.parquet has changed since its footer was read"):
            list(pipe)
    else:
        assert [row["x"] for row in pipe] == list(range(2000, 2100))


def test_a_footer_that_pyarrow_does_not_know_all_of(s3: S3, tmp_path: Path) -> None:
    whole = parquet_bytes(0)
    length = int.from_bytes(whole[-8:-4], "little")
    footer = whole[-8 - length : -9] + b"\x05\xd0\x0f\x02\0"  # and a number in the field 1000
    foreign = whole[: -8 - length] + footer + len(footer).to_bytes(4, "little") + whole[-4:]
    (tmp_path / "tree").mkdir()
    for name, data in {"whole": whole, "foreign": foreign}.items():
        s3.put(name, {"a.parquet": data})
        (tmp_path / "tree" / "a.parquet").write_bytes(data)
        loader = fp.Loader(fp.read_parquet(str(tmp_path / "tree")).batch(10))
        next(iter(loader))
        with Proxy(s3.endpoint) as proxy:
            there = fp.Loader(fp.read_parquet(name, filesystem=s3.filesystem(proxy.endpoint)).batch(10))
            there.load_state_dict(loader.state_dict())  # the footers are the same
            assert sum(map(len, there)) == 90
            assert proxy.counts["HEAD"] == 1 + 1 + (name == "foreign")


def test_with_an_index_a_parquet_file_is_looked_up_once(s3: S3, requests: Requests, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()

    def count(request: Request) -> None:
        counts["LIST" if "list-type" in request.target else request.method] += 1

    with Proxy(s3.endpoint, before=count) as proxy:
        options = f"?scheme=http&endpoint_override={quote(proxy.endpoint, safe='')}"

        def epoch() -> Counter[str]:
            counts.clear()
            index = str(tmp_path / "local.index")
            pipe = fp.read_parquet(f"s3://folders/tree/**/*.parquet{options}", manifest=index)
            assert len(list(fp.Loader(pipe.shuffle(window=10)))) == 200
            return Counter(counts)

        assert epoch()["LIST"] == 2  # makes the index
        assert epoch() == {"HEAD": 100, "GET": 100}  # the process has kept the footers; else one more GET of each


def test_a_server_that_is_not_there(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_policy", retry.RetryPolicy(max_attempts=1))
    with Proxy(s3.endpoint) as proxy:
        gone = proxy.endpoint
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{gone}")
    with pytest.raises(
        SourceError, match="s3://data/a.csv cannot be looked up: could not connect to server; 1 attempts"
    ) as e:
        list(fp.read_csv("s3://data/a.csv"))
    assert not isinstance(e.value, MissingError)


def test_secrets_in_urls_are_not_shown(s3: S3, capsys: pytest.CaptureFixture[str]) -> None:
    s3.put("secrets", {"a.txt": b"1\n2\n", "b.parquet": b"nothing"})
    root = "s3://testing:s3cret@secrets"
    pipe = fp.read_lines(f"{root}/a.txt")
    loader = fp.Loader(pipe)
    assert next(iter(loader)) == "1"
    pipe.explain()
    shown = [repr(fp.File(f"{root}/a.txt")), str(pipe), capsys.readouterr().out, str(loader.state_dict())]
    assert "s3://***@secrets/a.txt" in shown[2]
    for failing in (
        lambda: list(fp.read_lines(f"{root}/none")),
        lambda: list(fp.read_lines(f"{root}/*.csv")),
        lambda: list(fp.read_parquet(f"{root}/b.parquet")),
        lambda: fp.File(f"{root}/none").open(),
        lambda: fp.File(f"{root}/none").size(),
        lambda: list(fp.read_csv(f"{root}/a.txt", schema={"x": "int64"})),
        lambda: list(fp.read_lines(f"{root}/a.txt?regoin=x")),
        lambda: list(pipe.map(lambda row: 1 // 0)),
    ):
        with pytest.raises(fp.errors.FeedpipeError) as error:
            failing()
        shown.append("".join(traceback.format_exception(error.value)))
    assert not [text for text in shown if "s3cret" in text]
