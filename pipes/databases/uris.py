"""URIs of databases: their parts, and how errors show them without a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)


def scheme_of(uri: str) -> str:
    return uri.partition("://")[0].lower()


def file_of(uri: str) -> str:
    """The path of a database that is a file: all that follows `://`; an absolute one may begin with several slashes."""
    return re.sub("^//+", "/", uri.partition("://")[2])


def sqlite_uri(uri: str, mode: str) -> str:
    """The address of a SQLite file, as SQLite takes it; `mode` is "ro", or "rwc" to make a file that is not there.

    Raises:
        FileNotFoundError: there is no file to read. SQLite itself does not say so.
    """
    path = file_of(uri)
    if mode == "ro" and not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path!r}")
    return f"file:{path}?mode={mode}"


def shown_uri(uri: str) -> str:
    """The URI without user, password and options."""
    place = urlsplit(uri)
    host = place.netloc.rpartition("@")[2]
    return f"{place.scheme}://{'***@' if '@' in place.netloc else ''}{host}{place.path}"


def without_secrets(text: str, uri: str) -> str:
    """A text of a driver, in which no secret of the URI is left."""
    text = text.replace(uri, shown_uri(uri))
    for secret in sorted(set(_secrets(uri)), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return text


def _secrets(uri: str) -> Iterator[str]:
    place = urlsplit(uri)
    user = place.netloc.rpartition("@")[0]
    password = user.partition(":")[2]
    options = [value for name, value in parse_qsl(place.query) if _SECRET_NAME.search(name)]
    for secret in (password, unquote(password), *options):
        if secret:
            yield secret
