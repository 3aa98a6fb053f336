"""No secret of a URL, and no control character, is in a text that somebody may see."""

from __future__ import annotations

import json
import logging
import re
import string
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError, FeedpipeError, Origin, SourceError, redacted, shown_path, warn

SECRET = "hunter2S3cr3t"
PRINTABLE = st.text(string.ascii_letters + string.digits + string.punctuation, max_size=4)
ENCODED = st.text(string.ascii_letters + string.digits + "%+/=-_.~", max_size=4)
HOST = st.sampled_from(["host", "bucket", "127.0.0.1:9000", "[::1]:9000", "storage.example.com"])
PATH = st.sampled_from(["", "/", "/a.csv", "/folder/a@2x.csv", "/year=2024/*.csv"])
FRAMES: list[Callable[[str], str]] = [
    str,
    repr,
    lambda url: json.dumps({"file": url, "n": 1}, separators=(",", ":")),
    lambda url: f"cannot read {url} and {url!r}: no.",
    lambda url: repr(["a@b", url, "https://other/c?region=x"]),
]


@given(
    st.sampled_from(["s3", "https", "postgresql", "grpc+tls", "zip://a::s3"]),
    st.tuples(PRINTABLE, PRINTABLE, st.booleans()),
    HOST,
    PATH,
    st.lists(st.tuples(st.sampled_from(["token", "sig", "X-Amz-Signature", "secret_key", "x"]), ENCODED), max_size=2),
    st.sampled_from(FRAMES),
)
def test_no_text_shows_a_secret(
    scheme: str,
    user: tuple[str, str, bool],
    host: str,
    path: str,
    options: list[tuple[str, str]],
    frame: Callable[[str], str],
) -> None:
    before, after, is_password = user
    assume("'" not in before + after or '"' not in before + after)  # else `repr` escapes the secret
    name = f"u:{before}{SECRET}{after}" if is_password else SECRET
    assume(not is_password or not before.split("/")[0].isdigit())  # a port
    query = "&".join(["region=x", *(f"{option}={value}{SECRET}{value}" for option, value in options)])
    url = f"{scheme}://{name}@{host}{path}?{query}"
    text = redacted(frame(url))
    assert SECRET not in text and SECRET not in shown_path(url)
    assert redacted(text) == text
    if "@" not in path:
        assert f"***@{host}{path}?region=x" in shown_path(url)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/a@b:c@d",
        "http://localhost:9000/a@2x.png?version=3",
        "s3://bucket/year=202?/month=?/*.csv",
        "s3://bucket/a.csv?region=eu-west-1&endpoint_override=http://localhost:9000",
        "/data/a:b@c?token=1",
        "file:///data/a?token=1",
        "one of postgresql://, sqlite:// or duckdb://",
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert redacted(text) == text


URLS = [
    f"memory://{SECRET}@folder/a.csv",
    f"memory://u:x@{SECRET}@folder/a.csv",
    f"memory://u:ab/{SECRET}@folder/a.csv",
    f"memory://folder/a.csv?token={SECRET}",
    f"memory://folder/a.csv?X-Amz-Signature={SECRET}&X-Amz-Credential=a",
    f"s3://bucket/a.csv?access_key=k&secret_key={SECRET}&regoin=x",
    f"s3://key:ab/{SECRET}@bucket/a.csv",
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("cause", [False, True])
def test_a_pipe_shows_no_secret(url: str, cause: bool, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = fp.read_csv(url)
    texts = [repr(pipe), repr(fp.Loader(pipe)), repr(fp.File(url)), repr(Origin(url, 3)), str(Origin(url, 3))]
    for action in (pipe.explain, lambda: list(pipe), lambda: fp.File(url).open(), lambda: fp.verify(url)):
        with pytest.raises(FeedpipeError) as error:
            action()
        texts.append("".join(traceback.format_exception(error.value)) if cause else str(error.value))
    texts.append(capsys.readouterr().out)
    assert not [text for text in texts if SECRET in text]


@pytest.mark.parametrize(
    "uri", [f"postgresql://u:a/{SECRET}@127.0.0.1:1/db", f"postgresql://u:a@{SECRET}@127.0.0.1:1/db"]
)
def test_a_query_shows_no_secret(uri: str) -> None:
    class Driver:
        def connect(self, uri: str) -> Any:
            raise RuntimeError(f"no host or port among {re.split('[/@:]', uri)}")

    pipe = fp.read_sql("SELECT 1 AS id", uri, driver=Driver())
    with pytest.raises(SourceError) as error:
        list(pipe)
    for text in (repr(pipe), "".join(traceback.format_exception(error.value))):
        assert SECRET not in text


def test_messages_have_no_control_characters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = "a\x1b[31m\nforged line\x9b\u202e.csv"
    (tmp_path / name).write_text("x\n1\nno\n")
    with pytest.raises(DataError) as error:
        list(fp.read_csv(tmp_path / name, schema={"x": "int64"}))
    with pytest.raises(SourceError) as missing:
        fp.File(f"{tmp_path}/none{name}").open()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn(f"{name} of s3://k:{SECRET}@bucket", UserWarning)
    with caplog.at_level(logging.INFO, "feedpipe"):
        logging.getLogger("feedpipe").info("%s has %d rows", f"{name} of s3://k:{SECRET}@bucket", 3)
    (record,) = caplog.records
    assert record.getMessage().endswith(".csv of s3://***@bucket has 3 rows")
    for text in (str(error.value), str(missing.value), str(caught[0].message), record.getMessage()):
        assert r"a\x1b[31m" in text and text.replace("\n", "").isprintable() and SECRET not in text
    for text in (str(error.value), str(missing.value)):
        assert r"\nforged line" in text and "\nforged" not in text
