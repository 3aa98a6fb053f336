"""`hf://` URLs, with a server of the tests that speaks the hub's API."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.errors import MissingError, SourceError

from ..servers.hub import Hub, Repository
from ..support.storage import filesystem

huggingface_hub = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")

TOKEN = "hf_" + "s3cr3t" * 5


@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    server = Hub()
    yield server
    server.close()


@pytest.fixture
def hub(server: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Hub:
    """The server, to which `hf://` URLs lead; it has counted nothing yet."""
    monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, server.endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "home" / "token"))
    server.requests.clear()
    server.tokens.clear()
    server.answers.clear()
    return server


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which take no time here."""
    made: list[float] = []
    monkeypatch.setattr(filesystem, "_policy", without_pauses(made))
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", made.append)
    return made


def without_pauses(made: list[float]) -> filesystem.RetryPolicy:
    return filesystem.RetryPolicy(sleep=lambda seconds, cancellation: made.append(seconds), draw=lambda: 0.5)


def repository(hub: Hub, name: str, files: dict[str, bytes], token: str | None = None) -> str:
    made = hub.repositories[name] = Repository(token)
    return made.commit(files)


def parquet(numbers: range) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [*numbers]}), sink, row_group_size=50)
    return sink.getvalue()


def npy(array: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


FILES = {
    "README.md": b"# Data",
    "data/a.parquet": parquet(range(100)),
    "data/b.parquet": parquet(range(100, 200)),
    "text/a.txt": b"one\ntwo\n",
    "text/deep/b.txt": b"three\n",
    "arrays/x.npy": npy(np.arange(50)),
    "tokens/a.bin": np.arange(41, dtype="<u2").tobytes(),
}


def test_every_kind_of_reader(hub: Hub) -> None:
    sha = repository(hub, "org/all", FILES)
    root = "hf://datasets/org/all"
    assert [row["x"] for row in fp.read_parquet(f"{root}/data/*.parquet")] == [*range(200)]
    assert list(fp.read_lines(f"{root}/text", recursive=True)) == ["one", "two", "three"]
    assert list(fp.read_lines(f"{root}@main/text/*.txt")) == ["one", "two"]
    assert [int(x) for x in fp.read_numpy(f"{root}@{sha}/arrays/x.npy").shuffle().head(50)] != [*range(50)]
    windows = fp.read_tokens(f"{root}/tokens/a.bin", dtype="uint16", length=9, step=8)
    assert sorted(int(row["tokens"][0]) for row in windows.shuffle()) == [0, 8, 16, 24, 32]
    assert [row["bytes"] for row in fp.read_bytes(f"{root}/README.md")] == [b"# Data"]
    assert list(fp.list_files(f"{root}/text")) == [f"{root}@{sha}/text/a.txt"]


def test_a_listing_is_made_once_and_names_its_commit(hub: Hub) -> None:
    repository(hub, "org/once", FILES)
    loader = fp.Loader(fp.read_parquet("hf://datasets/org/once/data").shuffle(window=50).batch(10), workers=2)
    assert sorted(x for batch in loader for x in batch["x"].tolist()) == [*range(200)]
    # The folder above tells that it is one; the repository is looked up for its commit, and by the file system.
    assert (hub.requests["tree"], hub.requests["info"]) == (2, 2)
    assert sorted(x for batch in loader for x in batch["x"].tolist()) == [*range(200)]
    assert (hub.requests["tree"], hub.requests["info"]) == (2, 2)


def test_a_job_reads_one_commit_whatever_is_pushed(hub: Hub) -> None:
    repository(hub, "org/moving", {"a.txt": b"old 1\n" * 20})
    pipe = fp.read_lines("hf://datasets/org/moving/a.txt")
    loader = fp.Loader(pipe)
    batches = iter(loader)
    assert next(batches) == "old 1"
    hub.repositories["org/moving"].commit({"a.txt": b"new 2\n" * 20})
    assert [next(batches) for _ in range(19)] == ["old 1"] * 19
    assert list(loader) == ["old 1"] * 20  # the next epoch, too
    assert list(fp.read_lines("hf://datasets/org/moving/a.txt")) == ["new 2"] * 20  # a new pipe


def test_many_pages(hub: Hub) -> None:
    repository(hub, "org/pages", {f"d{n % 3}/{n:04}.txt": b"%d\n" % n for n in range(450)})
    assert sorted(map(int, fp.read_lines("hf://datasets/org/pages", recursive=True))) == [*range(450)]


@pytest.mark.parametrize("kind", ["info", "tree", "file"])
@pytest.mark.parametrize("headers", [{"Retry-After": "7"}, {"RateLimit": '"api";r=0;t=7'}])
def test_a_limit_is_waited_for(hub: Hub, pauses: list[float], kind: str, headers: dict[str, str]) -> None:
    repository(hub, "org/limited", {"text/a.txt": b"one\ntwo\n"})
    hub.answers[kind] = [(429, headers)] * 2
    assert list(fp.read_lines("hf://datasets/org/limited/text/*.txt")) == ["one", "two"]
    assert len(pauses) == 2 and all(7 <= pause <= 8.5 for pause in pauses)
    assert not hub.answers[kind]


def test_a_limit_that_stays_is_an_error(hub: Hub, pauses: list[float]) -> None:
    repository(hub, "org/closed", {"a.txt": b"one\n"})
    hub.answers["info"] = [(429, {"Retry-After": "30"})] * 99
    with pytest.raises(SourceError, match=r"hf://datasets/org/closed.*limits requests \(status 429\); 6 attempts in"):
        list(fp.read_lines("hf://datasets/org/closed/a.txt"))
    assert len(pauses) == 5 and min(pauses) > 30


def test_a_token_opens_a_private_repository_and_is_shown_nowhere(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, pauses: list[float]
) -> None:
    caplog.set_level(logging.DEBUG)
    repository(hub, "org/private", {"a.txt": b"one\ntwo\n"}, TOKEN)
    url = "hf://datasets/org/private/a.txt"
    with pytest.raises(SourceError, match="the hub has no such repository, or it is private, and HF_TOKEN must hold"):
        list(fp.read_lines(url))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.answers["file"] = [(503, {})]
    pipe = fp.read_lines(url)
    loader = fp.Loader(pipe)
    iterator = iter(loader)
    assert next(iterator) == "one"
    shown = [repr(pipe), str(pipe.explain()), json.dumps(loader.state_dict()), caplog.text]
    assert hub.tokens == {None, TOKEN}
    hub.repositories["org/private"].token = "another"
    with pytest.raises(SourceError) as caught:
        list(fp.read_lines("hf://datasets/org/private/b.txt"))
    cause: BaseException | None = caught.value
    while cause is not None:
        shown.append(f"{cause!r} {cause}")
        cause = cause.__cause__ or cause.__context__
    hub.repositories["org/private"].token = TOKEN
    given = fp.read_lines("datasets/org/private/a.txt", filesystem=huggingface_hub.HfFileSystem(token=TOKEN))
    assert TOKEN not in "".join([*shown, repr(given), str(given.explain())])


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("org/none/a.txt", SourceError, "the hub has no such repository"),
        ("org/some@v9/a.txt", SourceError, "the repository has no such revision"),
        ("org/some/b.txt", MissingError, r"b\.txt is not there"),
        ("org/some/*.csv", SourceError, "matches no file"),
    ],
)
def test_what_the_hub_lacks(hub: Hub, path: str, kind: type[SourceError], message: str) -> None:
    repository(hub, "org/some", {"a.txt": b"one\n"})
    with pytest.raises(kind, match=message) as caught:
        list(fp.read_lines(f"hf://datasets/{path}"))
    assert __file__ in str(caught.value)


def test_a_gated_repository(hub: Hub) -> None:
    repository(hub, "org/gated", {"a.txt": b"one\n"})
    hub.answers["info"] = [(403, {"X-Error-Code": "GatedRepo"})]
    with pytest.raises(SourceError, match="is gated: accept its terms on its page, and set HF_TOKEN"):
        list(fp.read_lines("hf://datasets/org/gated/a.txt"))


def test_offline_mode(hub: Hub, monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(SourceError, match="HF_HUB_OFFLINE forbids requests to the hub"):
        list(fp.read_lines("hf://datasets/org/offline/a.txt"))
    assert not pauses
