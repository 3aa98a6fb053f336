"""A small server that speaks the part of the Hugging Face hub's HTTP API that reading needs."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

PAGE = 100
"""Entries of a page of a listing."""
_COMMITS = itertools.count(1)  # no two are alike, because the client keeps what it knows of a commit


@dataclass
class Repository:
    """The commits of a data set, the last one last: the files of each by path."""

    token: str | None = None
    commits: dict[str, Mapping[str, bytes]] = field(default_factory=dict)

    def commit(self, files: Mapping[str, bytes]) -> str:
        sha = f"{next(_COMMITS):040x}"
        self.commits[sha] = dict(files)
        return sha

    def files(self, revision: str) -> Mapping[str, bytes] | None:
        return self.commits.get([*self.commits][-1] if revision == "main" else revision)


class Hub:
    """A running server.

    Attributes:
        repositories: by name, such as "org/name".
        requests: how many came, by kind: "info", "tree" or "file".
        answers: those that the next requests of a kind get in place of the right one: a status, and headers.
        tokens: those that came with requests.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: Counter[str] = Counter()
        self.answers: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.tokens: set[str | None] = set()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[Hub]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        found = ((kind, pattern.fullmatch(url.path)) for kind, pattern in _PATHS.items())
        kind, match = next(((kind, match) for kind, match in found if match), ("", None))
        if match is None:
            return self.refuse(404, "EntryNotFound")
        self.hub.requests[kind] += 1
        token = self.headers.get("authorization", "").removeprefix("Bearer ") or None
        self.hub.tokens.add(token)
        if self.hub.answers.get(kind):
            status, headers = self.hub.answers[kind].pop(0)
            return self.answer(status, b"{}", headers)
        repository = self.hub.repositories.get(match["name"])
        if repository is None or repository.token not in (None, token):
            return self.refuse(401, "RepoNotFound")
        revision = unquote(match["revision"] or "main")
        files = repository.files(revision)
        if files is None:
            return self.refuse(404, "RevisionNotFound")
        if kind == "info":
            sha = next(sha for sha in repository.commits if repository.commits[sha] is files)
            return self.send({"id": match["name"], "sha": sha, "private": False, "tags": [], "siblings": []})
        path = unquote(match["path"] or "")
        if kind == "tree":
            options = parse_qs(url.query)
            return self.tree(files, path, options.get("recursive") == ["true"], int(options.get("cursor", ["0"])[0]))
        return self.file(files, path)

    def tree(self, files: Mapping[str, bytes], path: str, recursive: bool, cursor: int) -> None:
        prefix = path + "/" if path else ""
        entries: dict[str, dict[str, object]] = {}
        for name, data in files.items():
            inner = name.removeprefix(prefix).split("/")
            if not name.startswith(prefix):
                continue
            for depth in range(1, len(inner) if recursive else min(2, len(inner))):
                folder = prefix + "/".join(inner[:depth])
                entries[folder] = {"type": "directory", "path": folder, "oid": "0" * 40, "size": 0}
            if recursive or len(inner) == 1:
                entries[name] = {"type": "file", "path": name, "oid": "0" * 40, "size": len(data)}
        if not entries:
            return self.refuse(404, "EntryNotFound")
        page = [entries[name] for name in sorted(entries)][cursor : cursor + PAGE]
        more = (
            f"{self.hub.endpoint}{urlsplit(self.path).path}?recursive={str(recursive).lower()}&cursor={cursor + PAGE}"
        )
        self.send(page, {"Link": f'<{more}>; rel="next"'} if cursor + PAGE < len(entries) else {})

    def file(self, files: Mapping[str, bytes], path: str) -> None:
        if path not in files:
            return self.refuse(404, "EntryNotFound")
        data, status = files[path], 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if wanted is not None:
            first = int(wanted[1])
            data, status = data[first : int(wanted[2]) + 1 if wanted[2] else None], 206
        self.answer(status, data, {})

    def send(self, value: object, headers: Mapping[str, str] = {}) -> None:
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

    def answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


_PATHS = {
    "tree": re.compile(r"/api/datasets/(?P<name>[^/]+/[^/]+)/tree/(?P<revision>[^/]+)(?:/(?P<path>.*))?"),
    "info": re.compile(r"/api/datasets/(?P<name>[^/]+/[^/]+)(?:/revision/(?P<revision>[^/]+))?"),
    "file": re.compile(r"/datasets/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.*)"),
}
