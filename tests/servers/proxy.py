"""An HTTP proxy between a client and a server of the tests, which makes faults."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NamedTuple


class Request(NamedTuple):
    """A request of a client.

    Attributes:
        target: path and query.
        bytes: the `Range` header, such as "bytes=0-99"; empty for the whole body.
        turn: how often the same request was made before.
    """

    method: str
    target: str
    bytes: str
    turn: int


@dataclass(frozen=True)
class Fault:
    """A fault of some requests.

    Attributes:
        kind: "busy" answers with status 503. The others pass on `after` bytes of the body; then "cut" closes the
            connection, "reset" closes it with a TCP reset, and "stall" sends nothing until the client gives up.
        share: of the requests that fail. The request, its turn and `seed` decide which, so timing does not matter.
        turns: only requests that were made fewer times than this before; with 1, the second attempt succeeds.
        method: only requests with this method; None for all.
        part: only targets that contain this.
    """

    kind: Literal["busy", "cut", "reset", "stall"]
    share: float = 1.0
    turns: int | None = None
    after: int = 0
    method: str | None = "GET"
    part: str = ""
    seed: int = 0

    def strikes(self, request: Request) -> bool:
        if (self.method or request.method) != request.method or self.part not in request.target:
            return False
        if self.turns is not None and request.turn >= self.turns:
            return False
        digest = hashlib.blake2b(repr((self.seed, *request)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.share * 2**64


class Proxy:
    """Passes requests on to a server, except for its `faults`, which may change at any time.

    Args:
        upstream: host and port of the server.
        faults: the first one that strikes counts.
        latency: seconds before each answer.
        before: a thread calls it with each request before the proxy passes it on, for example to replace an object.

    Attributes:
        endpoint: host and port of the proxy.
        counts: "requests", "GET" and so on, "connections", "bytes" of bodies to the client, and faults by kind.
    """

    def __init__(
        self,
        upstream: str,
        *faults: Fault,
        latency: float = 0.0,
        before: Callable[[Request], object] = lambda request: None,
    ) -> None:
        self.faults = list(faults)
        self.latency = latency
        self.before = before
        self.counts: Counter[str] = Counter()
        self._host, _, port = upstream.partition(":")
        self._port = int(port)
        self._turns: Counter[tuple[str, str, str]] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.StreamWriter] = set()
        self._ends = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.endpoint = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._loop.add_reader(self._socket, self._accept)
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Closes all connections, and waits for their tasks."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._ends = True
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._tasks)
        await self._loop.shutdown_default_executor()

    def _accept(self) -> None:
        """Accepts a client. An `asyncio.Server` would forget the sockets that it accepts while it closes."""
        with suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = self._socket.accept()
            task = self._loop.create_task(self._client(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _client(self, client: socket.socket) -> None:
        self.counts["connections"] += 1
        # Either side may close its connection; the client notices if the server closes too early.
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            async with self._connect(sock=client) as (reader, writer):
                while await self._exchange(reader, writer):
                    pass

    @asynccontextmanager
    async def _connect(self, **options: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """An `asyncio.open_connection` that is closed at the end."""
        reader, writer = await asyncio.open_connection(**options)
        self._open.add(writer)
        if self._ends:
            writer.transport.abort()
        try:
            yield reader, writer
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self._open.remove(writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Passes on one request and its answer; returns whether another one may follow."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        key = method, target, _header(head, "range")
        request = Request(*key, self._turns[key])
        self._turns[key] += 1
        self.counts.update(("requests", method))
        if _header(head, "expect"):  # the client waits for this answer before it sends the body
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = _without(head, "expect")
        body = await _body(reader, head)
        await self._loop.run_in_executor(None, self.before, request)
        await asyncio.sleep(self.latency)
        fault = next((fault for fault in self.faults if fault.strikes(request)), None)
        if fault is not None and fault.kind == "busy":
            self.counts["busy"] += 1
            writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n")
            return True
        async with self._connect(host=self._host, port=self._port) as (server, to_server):
            to_server.write(_without(head, "connection")[:-2] + b"Connection: close\r\n\r\n" + body)
            answer = await server.readuntil(b"\r\n\r\n")
            length = 0 if method == "HEAD" else int(_header(answer, "content-length") or -1)
            if answer.split(b" ", 2)[1] in (b"204", b"304"):
                length = 0
            # Without a length, the body ends with the connection.
            writer.write(_without(answer, "connection") if length >= 0 else answer)
            struck = await self._pass_on(server, writer, length, fault)
        if struck == "reset":  # closing without waiting for unsent data sends a reset
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        elif struck == "stall":
            await reader.read()  # until the client hangs up
        return not struck and length >= 0

    async def _pass_on(
        self, server: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int, fault: Fault | None
    ) -> str:
        """Passes on a body up to its end or to the fault; returns the kind of the fault."""
        passed = 0
        while passed != length:
            size = 2**18 if length < 0 else min(2**18, length - passed)
            if fault is not None:
                size = min(size, fault.after - passed)
                if not size:
                    self.counts[fault.kind] += 1
                    return fault.kind
            data = await server.read(size)
            if not data and length >= 0:
                raise ConnectionResetError  # the server itself has closed too early
            if not data:
                break
            passed += len(data)
            self.counts["bytes"] += len(data)
            writer.write(data)
            await writer.drain()
        return ""


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """Reads the body of a request, with the heads of its chunks if it has any."""
    if not _header(head, "transfer-encoding"):
        return await reader.readexactly(int(_header(head, "content-length") or 0))
    parts = []
    size = -1
    while size:
        parts.append(await reader.readuntil(b"\r\n"))
        size = int(parts[-1].partition(b";")[0], 16)
        if size:
            parts.append(await reader.readexactly(size + 2))
    while parts[-1] != b"\r\n":  # trailers after the last chunk
        parts.append(await reader.readuntil(b"\r\n"))
    return b"".join(parts)


def _header(head: bytes, name: str) -> str:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name.encode():
            return value.strip().decode()
    return ""


def _without(head: bytes, name: str) -> bytes:
    lines = head.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.lower().startswith(name.encode() + b":"))
