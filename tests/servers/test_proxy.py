"""The proxy makes exactly the faults that a test asks for."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from .proxy import Fault, Proxy, Request

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


def connect(proxy: Proxy) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection(proxy.endpoint, timeout=30))


def request(connection: http.client.HTTPConnection, key: str = "a", method: str = "GET") -> tuple[int, bytes]:
    connection.request(method, f"/{key}")
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_the_proxy_closes_all_connections_at_its_end(upstream: str) -> None:
    """An open socket would be a warning, and so an error; this includes sockets that have just connected."""
    for _ in range(20):
        with Proxy(upstream) as proxy:
            host, _, port = proxy.endpoint.partition(":")
            clients = [socket.create_connection((host, int(port)), timeout=30) for _ in range(3)]
        for client in clients:
            with client, suppress(ConnectionResetError):  # for a client that was not accepted yet
                assert client.recv(1) == b""


def test_passes_on_and_counts(upstream: str) -> None:
    with Proxy(upstream) as proxy, connect(proxy) as connection:
        assert request(connection) == (200, BODY)
        assert request(connection, "b") == (200, b"b")
        assert request(connection, method="HEAD") == (200, b"")
        assert request(connection, "none")[0] == 404
    assert (proxy.counts["requests"], proxy.counts["GET"], proxy.counts["HEAD"]) == (4, 3, 1)
    assert proxy.counts["connections"] == 1 and proxy.counts["bytes"] == len(BODY) + 1


def test_busy_for_some_turns(upstream: str) -> None:
    with Proxy(upstream, Fault("busy", turns=2, part="/a")) as proxy, connect(proxy) as connection:
        assert [request(connection)[0] for _ in range(4)] == [503, 503, 200, 200]
        assert request(connection, "b")[0] == 200
        assert proxy.counts["busy"] == 2


def test_a_share_is_the_same_each_time() -> None:
    requests = [Request("GET", f"/{i}", "", 0) for i in range(1000)]
    struck = [request for request in requests if Fault("busy", share=0.2).strikes(request)]
    assert 150 < len(struck) < 250
    assert struck == [request for request in requests if Fault("cut", share=0.2).strikes(request)]
    assert struck != [request for request in requests if Fault("cut", share=0.2, seed=1).strikes(request)]


def test_cut(upstream: str) -> None:
    with Proxy(upstream, Fault("cut", after=1000, turns=1)) as proxy:
        with connect(proxy) as connection, pytest.raises(http.client.IncompleteRead) as error:
            request(connection)
        assert error.value.partial == BODY[:1000]
        with connect(proxy) as connection:
            assert request(connection) == (200, BODY)
        assert proxy.counts["cut"] == 1


def test_reset(upstream: str) -> None:
    with Proxy(upstream, Fault("reset")) as proxy, connect(proxy) as connection, pytest.raises(ConnectionError):
        request(connection)


def test_stall(upstream: str) -> None:
    with Proxy(upstream, Fault("stall", after=1000)) as proxy, connect(proxy) as connection:
        connection.request("GET", "/a")
        answer = connection.getresponse()
        assert answer.read(1000) == BODY[:1000]
        assert connection.sock is not None
        connection.sock.settimeout(0.01)
        with pytest.raises(TimeoutError):
            answer.read(1)


def test_an_object_is_replaced_between_two_requests(upstream: str) -> None:
    def replace(request: Request) -> None:
        if request.turn == 1:
            Handler.objects = {"/a": b"other"}

    with Proxy(upstream, before=replace) as proxy, connect(proxy) as connection:
        assert [request(connection)[1] for _ in range(2)] == [BODY, b"other"]
