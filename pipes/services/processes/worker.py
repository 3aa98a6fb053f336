"""A worker's life: it runs orders until its owner is gone."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from ...core.block_size import OneRow
from ...core.code import value_code
from ...core.context import ProcessResources
from ...core.cursor import START
from ...core.graph import Node, sent
from ...core.rows import BlockRows
from ...engine.global_seeds import seed_process
from ...errors import LimitError
from ...plan.plan import Part, Plan
from ..base import ShardEnd, Step
from ..round_robin import DEFAULT, run_shards
from ..transport.arena import Arena
from ..transport.bundle import bundled, unbundled
from ..transport.channel import Channel, GoneError, Head
from ..transport.class_registry import adopt
from ..transport.graph_file import read_parcel
from ..transport.packing import Packed, Packer
from ..transport.remote_error import packed_failure
from .crash_note import CrashNote
from .dispatch_client import Dispatched
from .parent_watch import end_with_owner
from .prefetch_limit import Backlog
from .protocol import Begin, Order, Place, Terms, plan_of

Init = Callable[[int], object]


class _StopError(Exception):
    """The owner wants no more of this run."""


def serve(control: int, parcel: int, *others: int) -> None:
    """Runs orders that come through `control` until its other end is gone.

    Args:
        control: a socket.
        parcel: the graph.
        others: the arena, where to write stacks, and a socket of the dispatcher, as far as there are such.
    """
    end_with_owner(control)
    faulthandler.enable()
    with socket.socket(fileno=control) as end, contextlib.suppress(GoneError):
        # What a user's function forks would keep the connection open, and hide the end of this process.
        os.register_at_fork(after_in_child=end.close)
        _Worker(Channel(end), parcel, list(others)).live()


class _Worker:
    def __init__(self, channel: Channel, parcel: int, others: list[int]) -> None:
        self._channel = channel
        message = channel.receive()
        assert message is not None, "a channel that waits gives a message"
        self._begin = cast("Begin", message.head)
        arena = self._begin.arena
        self._arena = Arena(others.pop(0), arena, self._begin.held) if arena else None
        if self._begin.stacks:
            faulthandler.register(signal.SIGUSR1, others.pop(0))
        dispatcher = Channel(socket.socket(fileno=others.pop(0))) if self._begin.dispatched else None
        self._dispatched = None if dispatcher is None else Dispatched(dispatcher)
        self._parcel = parcel
        self._packer = Packer()
        self._order: Order | None = None
        self._backlog = Backlog(self._begin.prefetch)
        self._plan: tuple[Terms, Plan] | None = None

    def live(self) -> None:
        number = self._begin.number
        doing = "reading its pipe"
        try:
            content, classes = read_parcel(self._parcel)
            self._root, init = cast("tuple[Node, Init | None]", content)
            adopt(classes)
            self._packer = Packer(classes, self._root.call_site)
            if init is not None:
                doing = f"`init={value_code(init)}`"
                init(number)
        except BaseException as error:
            self._fail(("broken", doing), error)
            return
        self._channel.send(("ready",))
        while True:
            order, self._order = self._order, None
            try:
                if order is None:
                    self._listen(wait=True)
                else:
                    self._run(order)
            except _StopError:
                pass
            except GoneError:
                raise
            except BaseException as error:
                self._fail(("failed", cast("Order", order).run), error)

    def _run(self, order: Order) -> None:
        plan = self._planned(order)
        seed_process(_seed(order))
        mode = DEFAULT
        if order.careful and self._arena is not None:
            mode = mode._replace(block_sizes=OneRow, threads=False, note=CrashNote(self._arena))
        if self._dispatched is not None:
            mode = mode._replace(dispatched=partial(self._dispatched.rows, order.run))
        shared = ProcessResources()
        steps = run_shards(plan, self._parts(plan, order), order.epoch, mode, shared)
        try:
            while True:
                self._listen_all()
                item = next(steps, None)
                if item is None:
                    return
                self._send(order.run, item)
                del item  # the next one is made where this one was
        finally:
            steps.close()
            shared.close()
            shared.join()

    def _planned(self, order: Order) -> Plan:
        if self._plan is None or self._plan[0] != order.terms:
            self._plan = order.terms, plan_of(sent(self._root), order.terms)
        return self._plan[1]

    def _parts(self, plan: Plan, order: Order) -> list[Part]:
        if order.leftovers is not None:
            rows = {shard: cast("BlockRows", unbundled(*one)) for shard, one in order.leftovers.items()}
            tail = plan.tail(order.position, rows)
            return [] if tail is None else [tail]
        parts = plan.parts(order.position, order.worker, order.workers)
        return [replace(part, at=START.advance(order.given)) for part in parts] if plan.indexed else parts

    def _listen_all(self) -> None:
        """Takes what the owner has to say, and waits while it has enough elements."""
        while self._listen(wait=self._backlog.is_full()):
            pass

    def _listen(self, *, wait: bool) -> bool:
        """Takes one message from the owner, if there is one."""
        message = self._channel.receive(wait=wait)
        if message is None:
            return False
        head = message.head
        if isinstance(head, Order):
            self._order, self._backlog.waiting = head, head.waiting
            raise _StopError
        if head[0] == "stop":
            raise _StopError
        _, count, offsets = cast("tuple[str, int, list[int]]", head)
        self._backlog.took(count)
        for offset in offsets:
            cast("Arena", self._arena).free(offset)
        return True

    def _send(self, run: int, item: Step | ShardEnd) -> None:
        if isinstance(item, Step):
            packed = self._packer.pack(item.element)
            places = self._room([region.nbytes for region in packed.regions])
            self._backlog.made(sum(packed.sizes))
            self._pass(("step", run, item.shard, item.cursor, places, packed.sizes), packed, places)
        elif item.rows is None:
            self._channel.send(("ended", run, item.shard, item.leftover, (), ()))
        else:
            packed = self._packer.pack(item.rows)
            self._pass(("ended", run, item.shard, item.leftover, (), packed.sizes), packed)

    def _pass(self, head: Head, packed: Packed, places: Sequence[Place] = ()) -> None:
        if self._arena is None or not places:
            self._channel.send(head, bundled(packed))
            return
        for region, place in zip(packed.regions, places, strict=True):
            region.write(self._arena.region(*place))
        self._channel.send(head, [packed.stream])

    def _room(self, sizes: list[int]) -> list[Place]:
        """Where regions of such `sizes` go; nowhere where they travel with their message.

        While the consumer has yet to take elements, room will come. Once it has taken all, it is the one who keeps the
        memory, and to wait would be to wait forever.
        """
        if not sizes or self._arena is None:
            return []
        size = sum(sizes)
        if size > self._arena.room:
            raise LimitError(
                f"an element of {size / 2**20:.1f} MiB does not fit into the {self._arena.room / 2**20:.1f} MiB that "
                "`memory` leaves each worker; allow more, use fewer workers, or make smaller batches"
            )
        while (offsets := self._arena.reserve(sizes)) is None and self._backlog.waiting:
            self._listen(wait=True)
        return [] if offsets is None else list(zip(offsets, sizes, strict=True))

    def _fail(self, head: Head, error: BaseException) -> None:
        packed = packed_failure(error, f"worker {self._begin.number}, process {os.getpid()}", self._packer)
        self._pass((*head, packed.sizes), packed)


def _seed(order: Order) -> int:
    """The seed of the global generators: of this worker in this epoch."""
    words = repr((order.terms.seed, order.epoch, order.terms.rank, order.worker)).encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "little")
