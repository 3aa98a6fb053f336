"""The proxy makes exactly the faults that a test asks for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from .proxy import Proxy

BODY = bytes(range(256)) * 1000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        data = self.objects.get(self.path)
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data or b"")

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    Handler.objects = {"/a": BODY, "/b": b"b"}
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_proxy_closes_all_connections_at_its_end(upstream: str) -> None:
    """An open socket would be a warning, and so an error; this includes sockets that have just connected."""
    for _ in range(20):
        with Proxy(upstream) as proxy:
            host, _, port = proxy.endpoint.partition(":")
            clients = [socket.create_connection((host, int(port)), timeout=30) for _ in range(3)]
        for client in clients:
            with client, suppress(ConnectionResetError):  # for a client that was not accepted yet
                assert client.recv(1) == b""
