"""Ranks that need the same elements, as those of tensor parallelism: one of them reads for all.

On one machine, the elements travel through shared memory, packed as those of workers are. If the ranks are on several
machines, the process group carries them. Each rank counts the elements for itself, so all have the same states.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

from ..core.checks import check_torch
from ..core.ending import Ending
from ..core.process import element_memory
from ..core.system import create_shared_memory
from ..errors import ArgumentError, PlanError, RankError
from ..plan.plan import Plan, Position
from ..services.base import Executor, ReadingService, Session, ShardEnd, Step
from ..services.transport.channel import Channel, GoneError, RemoteFailure, pack_error
from ..services.transport.memory import PAGE_BYTES, Arena, Window
from ..services.transport.packing import PackedElement, Packer, unpack, unpack_body
from .ranks import RankSource

if TYPE_CHECKING:
    from ..torch.ranks import Group, SideGroup

MAX_COPIED_BYTES = 2**14
"""Smaller elements go through the socket, which takes less than to share their memory."""

_COUNTER = struct.Struct("<Q")
_BOOT = Path("/proc/sys/kernel/random/boot_id")

Place: TypeAlias = tuple[int, int]
"""Offset and bytes in shared memory."""


class Delivery(NamedTuple):
    """What the reader tells the others.

    Attributes:
        number: of messages before it.
        kind: "open" and "over" for the begin and the end of a run, "step", "ended" and "failed".
        run: the number of the run.
        place: the beginning of a run as text, or the shard and cursor of an item.
        sizes: of the parts of the packed element.
        places: those of its regions in shared memory; none if they come with the message.
    """

    number: int
    kind: str
    run: int
    place: object
    sizes: tuple[int, ...] = ()
    places: tuple[Place, ...] = ()


class Replicas:
    """Starts a service on the first rank of a group alone; the others get its elements.

    Args:
        service: of the first rank.
        group: the ranks that need the same elements.
        source: the rank of all of them among those that share the data.

    Raises:
        ArgumentError, ArgumentTypeError: `group` is no group that this process belongs to, or nobody says the rank.
    """

    def __init__(self, service: ReadingService, group: Group, source: RankSource) -> None:
        if source.group is None and not source.is_explicit:
            raise ArgumentError(
                "`replicas` must be given with `group`, or with `rank` and `world_size`, because ranks that need the "
                "same elements have one place among those that share the data"
            )
        check_torch("`replicas` is a process group")
        from ..torch.ranks import members

        self._service = service
        self._group = group
        ranks, self._rank = members(group)
        self._count = len(ranks)

    @property
    def reads(self) -> bool:
        """Whether this rank reads."""
        return self._rank == 0

    def start(self) -> Executor:
        from ..torch.ranks import side_group

        if self._count == 1:
            return self._service.start()
        side = side_group(self._group)
        if side is None:
            raise PlanError("`replicas` needs a process group with a store and torch's gloo, by which its ranks meet")
        machines = side.gather("the machines of replicas", _BOOT.read_bytes() if _BOOT.exists() else os.urandom(16))
        are_together = len({*machines}) == 1
        if not self.reads:
            return _Follower(_memory_receiver(side) if are_together else _GroupReceiver(side))
        executor = self._service.start()
        sender = (
            _memory_sender(side, element_memory(getattr(self._service, "memory", None)))
            if are_together
            else _GroupSender(side)
        )
        return _Reader(executor, sender)


class _Sender(Protocol):
    def send(self, kind: str, run: int, place: object, packed: PackedElement | None = None) -> None: ...
    def close(self) -> None: ...


class _Receiver(Protocol):
    def receive(self) -> tuple[Delivery, object]: ...
    def close(self) -> None: ...


def _start_of(position: Position, epoch: int) -> str:
    return json.dumps([repr(position), epoch])


class _Reader:
    """The executor of the rank that reads."""

    def __init__(self, executor: Executor, line: _Sender) -> None:
        self._executor = executor
        self._line = line
        self._runs = 0

    def open(self, plan: Plan, position: Position, epoch: int) -> Session:
        self._runs += 1
        self._line.send("open", self._runs, _start_of(position, epoch))
        return _ReaderRun(self._executor.open(plan, position, epoch), self._line, self._runs)

    def close(self) -> None:
        try:
            self._executor.close()
        finally:
            self._line.close()


class _ReaderRun:
    """A run whose items the others get too, before the consumer of this rank."""

    def __init__(self, session: Session, line: _Sender, run: int) -> None:
        self._session = session
        self._line = line
        self._run = run
        self._packer = Packer()
        self._items = self._sent()

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._items

    def _sent(self) -> Iterator[Step | ShardEnd]:
        items = iter(self._session)
        while True:
            try:
                item = next(items, None)
                if item is None:
                    self._line.send("over", self._run, None)
                    return
                if isinstance(item, Step):
                    packed = self._packer.pack(item.element)
                    self._line.send("step", self._run, (item.shard, item.cursor), packed)
                else:
                    rows = None if item.rows is None else self._packer.pack(item.rows)
                    self._line.send("ended", self._run, (item.shard, item.leftover), rows)
            except RankError:
                raise
            except Exception as error:
                self._line.send("failed", self._run, None, pack_error(error, "the rank that reads", self._packer))
                raise
            yield item

    def close(self) -> None:
        self._session.close()


class _Follower:
    """The executor of a rank that reads nothing."""

    def __init__(self, line: _Receiver) -> None:
        self._line = line
        self._runs = 0

    def open(self, plan: Plan, position: Position, epoch: int) -> Session:
        self._runs += 1
        return _FollowerRun(self._line, self._runs, _start_of(position, epoch))

    def close(self) -> None:
        self._line.close()


class _FollowerRun:
    """A run of the rank that reads."""

    def __init__(self, line: _Receiver, run: int, start: str) -> None:
        self._line = line
        self._run = run
        self._start = start

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        while True:
            message, element = self._line.receive()
            if message.run < self._run:  # of a run that this rank has left before its end
                continue
            match message.kind:
                case "open":
                    if message.place != self._start:
                        raise PlanError(
                            "the ranks of `replicas` must begin a run at the same place; load the same state on all"
                        )
                case "step":
                    yield Step(element, *cast("tuple[int, None]", message.place))
                case "ended":
                    yield ShardEnd(*cast("tuple[int, None]", message.place), cast("None", element))
                case "failed":
                    raise cast("RemoteFailure", element).to_exception()
                case _:
                    return

    def close(self) -> None:
        return


# Through shared memory.


def _memory_sender(side: SideGroup, memory: int) -> _MemorySender:
    """Meet the other ranks, which connect to a socket."""
    name = f"\0feedpipe-{secrets.token_hex(16)}"  # nobody else knows it
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(name)
        listener.listen(side.world_size)
        listener.settimeout(side.timeout)
        side.broadcast("the socket of replicas", name.encode())
        size = -(-memory // PAGE_BYTES) * PAGE_BYTES
        descriptor = create_shared_memory(size + PAGE_BYTES)
        ends: list[socket.socket] = []
        for _ in range(side.world_size - 1):
            end, _ = listener.accept()
            end.settimeout(None)
            socket.send_fds(end, [size.to_bytes(8, "little")], [descriptor])
            ends.append(end)
    return _MemorySender(descriptor, size, ends)


def _memory_receiver(side: SideGroup) -> _MemoryReceiver:
    name = side.broadcast("the socket of replicas", None)
    end = socket.socket(socket.AF_UNIX)
    end.connect(name)
    size, (descriptor,), _, _ = socket.recv_fds(end, 8, 1)
    return _MemoryReceiver(descriptor, int.from_bytes(size, "little"), end)


class _MemorySender:
    """Writes each element once, into memory that all ranks map, and tells each rank where.

    A counter behind the arena has the number of messages that all ranks have got. If this process is killed while it
    sends, the others stop at the same message.
    """

    def __init__(self, descriptor: int, size: int, ends: list[socket.socket]) -> None:
        self._channels = [Channel(end) for end in ends]
        self._arena = Arena(descriptor, size, ())
        self._counter = mmap.mmap(descriptor, size + PAGE_BYTES)
        self._at = size
        os.close(descriptor)
        self._sent = 0
        self._users: dict[int, int] = {}  # of a region: the ranks that still use it
        self._ending = Ending(self, partial(_close, self._channels))

    def send(self, kind: str, run: int, place: object, packed: PackedElement | None = None) -> None:
        """Send a message to all ranks."""
        try:
            self._free()
            sizes = () if packed is None else packed.sizes
            places = () if packed is None else self._written(packed, sizes[1:])
            body = [] if packed is None else [packed.stream] if places else packed.body()
            message = Delivery(self._sent, kind, run, place, sizes, places)
            for channel in self._channels:
                channel.send(tuple(message), body)
        except GoneError:
            _close(self._channels)  # the others wait for a message
            raise RankError("a rank of `replicas` has ended, so all of them stop") from None
        self._sent += 1
        _COUNTER.pack_into(self._counter, self._at, self._sent)

    def _written(self, packed: PackedElement, sizes: tuple[int, ...]) -> tuple[Place, ...]:
        """The places of the regions of an element; none if it is small, or there is no room."""
        if sum(sizes) <= MAX_COPIED_BYTES or (offsets := self._arena.reserve(sizes)) is None:
            return ()
        for offset, size, region in zip(offsets, sizes, packed.regions, strict=True):
            region.write(self._arena.region(offset, size))
            self._users[offset] = len(self._channels)
        return tuple(zip(offsets, sizes, strict=True))

    def _free(self) -> None:
        if not self._channels:
            raise GoneError
        for channel in self._channels:
            while (message := channel.receive(wait=False)) is not None:
                for offset in cast("tuple[int, ...]", message.head):
                    self._users[offset] -= 1
                    if not self._users[offset]:
                        del self._users[offset]
                        self._arena.free(offset)

    def close(self) -> None:
        self._ending()


def _close(channels: list[Channel]) -> None:
    while channels:
        channels.pop().close()


class _MemoryReceiver:
    """Makes elements of the memory that the reader has written."""

    def __init__(self, descriptor: int, size: int, end: socket.socket) -> None:
        self._end = end
        self._channel = Channel(end)
        self._window = Window(descriptor, size)
        self._counter = mmap.mmap(descriptor, size + PAGE_BYTES, prot=mmap.PROT_READ)
        self._at = size
        os.close(descriptor)
        self._ending = Ending(self, self._channel.close)

    def receive(self) -> tuple[Delivery, object]:
        """The next message, and its element."""
        try:
            if freed := self._window.take_freed():
                self._channel.post(tuple(freed))
            received = self._channel.receive()
            assert received is not None, "a channel that waits returns a message"
            message = Delivery(*cast("tuple[int, str, int, object]", received.head))
            self._await(message.number)
        except GoneError:
            raise RankError("the rank of `replicas` that reads has ended, so all of them stop") from None
        if not message.sizes:
            return message, None
        if not message.places:
            return message, unpack_body(received.body, message.sizes)
        memories = [memoryview(self._window.lease(*place)).cast("B")[: place[1]] for place in message.places]
        return message, unpack(bytes(received.body), memories)

    def _await(self, number: int) -> None:
        """Wait until all ranks have got a message, which takes the reader some microseconds.

        Raises:
            GoneError: the reader has ended before that.
        """
        while _COUNTER.unpack_from(self._counter, self._at)[0] <= number:
            try:
                if not self._end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    break
            except BlockingIOError:
                os.sched_yield()
        if _COUNTER.unpack_from(self._counter, self._at)[0] <= number:
            raise GoneError

    def close(self) -> None:
        self._ending()


# Through the process group.


class _GroupSender:
    """Sends elements to ranks on other machines. It waits for none of them: they may wait for each other."""

    def __init__(self, side: SideGroup) -> None:
        self._line = side.line()
        self._sent = 0

    def send(self, kind: str, run: int, place: object, packed: PackedElement | None = None) -> None:
        sizes = () if packed is None else packed.sizes
        body = [] if packed is None else packed.body()
        head = pickle.dumps(tuple(Delivery(self._sent, kind, run, place, sizes)), 5)
        self._line.send(b"".join([len(head).to_bytes(4, "little"), head, *body]))
        self._sent += 1

    def close(self) -> None:
        return


class _GroupReceiver:
    """Receives elements of a rank on another machine."""

    def __init__(self, side: SideGroup) -> None:
        self._line = side.line()

    def receive(self) -> tuple[Delivery, object]:
        content = memoryview(self._line.receive("an element of replicas"))
        stop = 4 + int.from_bytes(content[:4], "little")
        message = Delivery(*pickle.loads(content[4:stop]))
        return message, unpack_body(content[stop:], message.sizes) if message.sizes else None

    def close(self) -> None:
        return
