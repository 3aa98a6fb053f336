"""Every reader on S3 with faults: the rows are exactly right, or an error after some of them names the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from pyarrow import fs

from feedpipe.errors import DataError, MissingError, SourceError
from feedpipe.testing import same

from ..servers.proxy import Fault, Proxy, Request
from ..servers.s3 import S3
from ..support.storage import filesystem as retry
from .cases import CASES
from .checks import READERS, Place, alike, all_files, small_requests

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def many_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the readers send many requests, and retry without a pause."""
    monkeypatch.setattr(retry, "_policy", retry.RetryPolicy(max_attempts=12, sleep=lambda seconds, cancellation: None))
    with small_requests():
        yield


@pytest.fixture
def proxy(s3: S3) -> Iterator[Proxy]:
    with Proxy(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def place(s3: S3, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A bucket behind the proxy."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{proxy.endpoint}")
    # The client must not retry itself, so that feedpipe makes all attempts.
    strategy = fs.AwsStandardS3RetryStrategy(max_attempts=1)
    return Place("faults", {"filesystem": s3.filesystem(proxy.endpoint, retry_strategy=strategy)}, "s3://faults")


@pytest.fixture(autouse=True)
def files(s3: S3, request: pytest.FixtureRequest) -> None:
    """Puts the files of the test's reader; those of all readers if it has none."""
    name = request.node.callspec.params["name"] if hasattr(request.node, "callspec") else None
    s3.put("faults", {path: data for path, data in all_files().items() if name in (None, path.partition("/")[0])})


def outcome(name: str, place: Place, meanwhile: Callable[[], object] = lambda: None) -> tuple[list, str]:
    """The rows, and the message of the error that ends them; `meanwhile` is called after the first row."""
    rows: list = []
    try:
        for row in place.read(name):
            rows.append(row)
            if len(rows) == 1:
                meanwhile()
    except (SourceError, DataError) as error:
        assert not isinstance(error, MissingError)
        return place.below(name, rows), str(error)
    return place.below(name, rows), ""


@READERS
def test_transient_faults(name: str, place: Place, proxy: Proxy) -> None:
    proxy.faults = [
        Fault("busy", share=0.15, method=None),
        Fault("cut", share=0.1, after=50, seed=1),
        Fault("reset", share=0.1, after=50, seed=2),
    ]
    rows, error = outcome(name, place)
    assert not error
    alike(rows, CASES[name].rows())
    assert proxy.counts["busy"] > 0


def test_a_stall(place: Place, proxy: Proxy) -> None:
    """The first request for the last file stalls. The client waits for seconds, so all readers run at the same time."""
    proxy.faults = [Fault("stall", after=50, part=_key(name)) for name in CASES]
    requests: Counter[str] = Counter()

    def count(request: Request) -> None:
        requests[request.target] += request.method == "GET"
        proxy.faults = [fault for fault in proxy.faults if requests[f"/faults/{fault.part}"] < 2]

    proxy.before = count
    with ThreadPoolExecutor(len(CASES)) as pool:
        outcomes = list(pool.map(lambda name: outcome(name, place), CASES))
    for name, (rows, error) in zip(CASES, outcomes, strict=True):
        assert not error
        alike(rows, CASES[name].rows())
    assert proxy.counts["stall"] > len(CASES) // 2  # if the first two requests come together, both may pass


@READERS
@pytest.mark.parametrize("kind", ["busy", "cut"])
def test_permanent_faults(name: str, kind: str, place: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_policy", replace(retry._policy, max_attempts=1))

    def begin() -> None:
        proxy.faults = [Fault(kind, after=5, method=None, part=_key(name))]

    rows, error = outcome(name, place, begin)
    alike(rows, CASES[name].rows()[: len(rows)])
    assert CASES[name].last in error


@READERS
@pytest.mark.parametrize("longer", [False, True])
@pytest.mark.parametrize("moment", ["begun", 1, 3])
def test_an_object_that_is_replaced(name: str, longer: bool, moment: Any, place: Place, s3: S3, proxy: Proxy) -> None:
    """After the first row, or before the n-th request. The rows are those before or those after, or an error tells."""
    case = CASES[name]
    requests = 0

    def put() -> None:
        s3.put("faults", {f"{name}/{case.last}": case.file(case.last, other=True) + b"\n" * longer})

    def count(request: Request) -> None:
        nonlocal requests
        if request.method == "GET" and _key(name) in request.target:
            requests += 1
            if requests == moment:
                put()

    proxy.before = count
    rows, error = outcome(name, place, put if moment == "begun" else lambda: None)
    of_one_version = any(same(rows, case.rows(other=other)[: len(rows)]) for other in (False, True))
    assert of_one_version or "has changed" in error
    assert (case.last in error) if error else len(rows) == len(case.rows())
    if longer and (moment == "begun" or requests >= moment):
        assert "has changed" in error


def _key(name: str) -> str:
    """The key of the last file of a reader, as requests have it."""
    return quote(f"{name}/{CASES[name].last}")
