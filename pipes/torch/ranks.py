"""The ranks of process groups and device meshes, and messages between them."""

from __future__ import annotations

import atexit
import ctypes
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import torch
from torch import distributed
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from ..core.process import differences_in_words, ranks_in_words
from ..errors import ArgumentError, ArgumentTypeError, RankError

Group: TypeAlias = "ProcessGroup | DeviceMesh"
_c10d: Any = distributed.distributed_c10d  # the members and meshes of groups have no public functions

DEFAULT_TIMEOUT = timedelta(minutes=30)
"""The default of torch's own groups, for a backend without one."""

log = logging.getLogger("feedpipe")


class Members(NamedTuple):
    """The ranks of a group, and the number of this process among them."""

    ranks: list[int]
    rank: int


def members(group: Group | None) -> Members:
    """The ranks of a process group, of a device mesh of one dimension, or of the whole job.

    Raises:
        ArgumentTypeError: `group` is neither.
        ArgumentError: it is a mesh of several dimensions, this process does not belong to it, or it has ended.
    """
    if isinstance(group, DeviceMesh) and group.ndim != 1:
        raise ArgumentError(
            f'`group` must be a mesh of one dimension but has {group.ndim}; give one of them, such as `mesh["dp"]`'
        )
    try:
        process_group = _process_group(group)
        if process_group is None:
            raise _no_member()
        ranks, rank = distributed.get_process_group_ranks(process_group), distributed.get_rank(process_group)
    except (ArgumentError, ArgumentTypeError):
        raise
    except (ValueError, RuntimeError, KeyError) as error:
        raise ArgumentError(
            "`group` must be a group of this job, but torch does not know it any more: it was destroyed"
        ) from error
    if rank < 0:
        raise _no_member()
    return Members(ranks, rank)


def _process_group(group: Group | None) -> ProcessGroup | None:
    """The process group; None if this process does not belong to it."""
    if isinstance(group, DeviceMesh):
        return None if group.get_coordinate() is None else group.get_group()
    process_group: object = distributed.group.WORLD if group is None else group
    if process_group == _c10d.GroupMember.NON_GROUP_MEMBER:  # what `new_group` gives to those who are left out
        return None
    if not isinstance(process_group, ProcessGroup):
        raise ArgumentTypeError(f"`group` must be a process group or a device mesh but got: {group!r}")
    return process_group


def _no_member() -> ArgumentError:
    return ArgumentError(
        "`group` must have this process as a member, because the loader takes its rank from it; make the loader on "
        "the members only, or give the group of this process"
    )


def mesh_dimensions() -> list[str]:
    """The dimensions of the device mesh of this job, if it has several."""
    groups: list[ProcessGroup] = list(_c10d._world.pg_map)
    names = {name for group in groups if (name := group.group_desc).startswith("mesh_") and group.size() > 1}
    return sorted(name.removeprefix("mesh_").removeprefix("dim_") for name in names) if len(names) > 1 else []


def timeout_of(group: Group | None) -> timedelta:
    """The timeout of the operations of a group to which this process belongs."""
    process_group: Any = _process_group(group)
    backends = [process_group._get_backend(device) for device in process_group._device_types]
    timeouts = [getattr(getattr(backend, "options", None), "_timeout", None) for backend in backends]
    return max((timeout for timeout in timeouts if isinstance(timeout, timedelta)), default=DEFAULT_TIMEOUT)


# Messages between ranks


PATIENCE_SECONDS = 60.0
"""The time after which the log says for whom a rank waits."""
REASON_SECONDS = 60.0
"""The time that a rank waits for the reason of a failure that another has announced."""
CONNECT_SECONDS = 120.0
"""The most time that ranks that have all come take to connect."""
MEET_SECONDS = 5.0
"""The time that a rank that fails early gives the others to learn where it leaves the reason."""
POLL_SECONDS = 0.2
"""The time between two checks of a rank that waits."""
FIRST_PAUSE_SECONDS = 0.001
"""The first pause between two checks for a key; each is twice as long as the one before."""
NO_TIMEOUT = timedelta(days=100)
"""The timeout of gloo, which counts from the beginning of an exchange; ours counts from the wait for its result."""

MAX_TOPIC = 200
"""The most bytes of a topic in an error."""
MAX_NUMBERS = 7
"""The most numbers of an exchange, beside its topic."""

Interrupt: TypeAlias = Callable[[], None]
"""Called now and then while a rank waits; raises an error to end the wait."""


def _never() -> None:
    """Does not interrupt a wait."""


def side_group(group: Group | None = None) -> SideGroup | None:
    """The side group of a process group, made once; None if the job has no store or torch has no gloo.

    Args:
        group: a group that this process belongs to; by default all ranks of the job.
    """
    store = _c10d._get_default_store()
    if store is None or not distributed.is_gloo_available():
        return None
    ranks, rank = members(group)
    kept = _side_groups.get(tuple(ranks))
    if kept is None or kept.store is not store:  # the job may have ended one process group and made another
        kept = _side_groups[tuple(ranks)] = SideGroup(store, ranks, rank, timeout_of(group).total_seconds())
    return kept


class SideGroup:
    """Exchanges small messages between the ranks of a process group, over gloo and the store of the group.

    Its gloo group is its own, whatever the backend of the job: exchanges neither wait for the collectives of the
    training loop nor disturb them. The ranks connect at their first exchange. All make the same exchanges in the same
    order. Each exchange carries its topic, so that ranks whose topics differ get an error instead of a wrong message.
    All waits raise a `RankError` if a rank has ended, does not come within the timeout, or is at another place; they
    call `interrupt` now and then.

    Attributes:
        rank: the number of this rank among the members.
        world_size: the number of members.
        store: the store of the job.
        timeout: the seconds that a rank waits for the others.
        topic: of the last exchange to which all ranks came.
        left: the names of possible failures of the runs that this rank has left, since it last looked for them.
    """

    def __init__(self, store: Any, members: Sequence[int], rank: int, timeout: float) -> None:
        self.rank = rank
        self.world_size = len(members)
        self.store = store
        self.timeout = timeout
        self.topic = "the beginning"
        name = (
            "-".join(map(str, members))
            if len(members) <= 8
            else f"{len(members)}-{crc32(bytes(str(members), 'ascii'))}"
        )
        self._meeting = Meeting(_c10d.PrefixStore(f"feedpipe/{name}", store), rank, self.world_size)
        self._gloo: Any = None
        self._connections = 0  # also those after failures
        self._exchanges = 0  # that have begun
        self._loaders = 0
        self.left: list[str] = []
        self._lock = threading.RLock()  # several loaders may use the group, in several threads

    @property
    def _store(self) -> Any:
        """The part of the store for this group; None before the first rank has told it."""
        return self._meeting.store

    def number_of_new_loader(self) -> int:
        """The number of one more loader that uses the group. Loaders begin in the same order on all ranks."""
        with self._lock:
            self._loaders += 1
            return self._loaders

    def roll_call(self, name: str, interrupt: Interrupt = _never) -> list[int]:
        """Waits until all ranks have come to the place of this name. Returns the ranks that have not come in time."""
        wait = _Wait(self, name, lambda: self._without(f"{name}/", "here"))
        try:
            if not _wait_until(self._meeting.look, wait.is_over, interrupt):
                return wait.absent()
            self._store.set(f"{name}/{self.rank}", "here")
            if self._store.add(f"{name}/count", 1) == self.world_size:
                self._store.set(f"{name}/complete", "yes")
            complete = [f"{name}/complete"]
            if not _wait_until(lambda: self._meeting.look() and self._store.check(complete), wait.is_over, interrupt):
                return wait.absent()
        except distributed.DistNetworkError as error:
            raise RankError(
                f"the store of the process group does not answer, so its host has ended: {error}"
            ) from error
        return []

    def announce(self, name: str, text: str, *, meet: bool = False) -> None:
        """Leaves a text for all ranks. `meet` gives those that this one has not met a few seconds to come."""
        is_over = _deadline(min(MEET_SECONDS, self.timeout) if meet else 0.0)
        try:
            if _wait_until(self._meeting.look, is_over):
                self._store.set(name, text)
                _wait_until(lambda: self._meeting.look() and self._meeting.is_complete, is_over)
        except RuntimeError:  # the job ends, and nobody needs the text
            return

    def announced(self, name: str, *, wait: bool = False) -> str | None:
        """The text that a rank has left, if any. `wait` waits a minute for it."""
        store = self._store
        if store is None:
            return None  # nobody has met this rank, so nobody has a text for it
        try:
            there = _wait_until(lambda: store.check([name]), _deadline(REASON_SECONDS if wait else 0.0))
            return store.get(name).decode() if there else None
        except RuntimeError:  # the host of the store may end before other ranks; they have all that they need
            return None

    def failed_without_us(self) -> list[str]:
        """The names of the failures of other ranks in runs that this one had left.

        The others connect again after a failure, so this rank does too.
        """
        left, self.left = self.left, []
        failed = [name for name in left if self.announced(name) is not None]
        if failed:
            self.disconnect()
        return failed

    def post(self, topic: str, numbers: Sequence[int] = (), interrupt: Interrupt = _never) -> GroupExchange:
        """Begins an exchange of a few whole numbers, without waiting for the others."""
        assert len(numbers) <= MAX_NUMBERS, "an exchange has room for few numbers"
        padding = [0] * (MAX_NUMBERS - len(numbers))
        message = torch.tensor([crc32(topic.encode()), *numbers, *padding], dtype=torch.int64)
        answers = torch.zeros(self.world_size, 1 + MAX_NUMBERS, dtype=torch.int64)
        with self._lock:
            work = self._connected(interrupt).allgather([list(answers.unbind())], [message])
            self._exchanges += 1
            place = f"{self._connections}.{self._exchanges}"
        return GroupExchange(self, topic, place, len(numbers), work, answers)

    def gather(
        self, topic: str, message: bytes, interrupt: Interrupt = _never, *, receiver: int | None = None
    ) -> list[bytes]:
        """The messages of all ranks, in order of rank; with `receiver`, only that rank gets them.

        One rank collects them, so that none is padded.
        """
        with self._lock:
            exchange = self.post(topic, [len(message)], interrupt)
            sizes = [size for (size,) in exchange.result(interrupt)]
            collector = receiver or 0
            sent = [len(message) if rank == collector else 0 for rank in range(self.world_size)]
            received = sizes if self.rank == collector else [0] * self.world_size
            collected = torch.zeros(sum(received), dtype=torch.uint8)
            exchange.wait(self._gloo.alltoall_base(collected, _tensor(message), received, sent), interrupt)
            if receiver is None and any(sizes):
                everything = collected if self.rank == collector else torch.zeros(sum(sizes), dtype=torch.uint8)
                exchange.wait(self._gloo.broadcast([everything], distributed.BroadcastOptions()), interrupt)
                collected = everything
        if receiver not in (None, self.rank):
            return []
        return [_bytes(part) for part in torch.split(collected, sizes)]

    def broadcast(self, topic: str, message: bytes | None, interrupt: Interrupt = _never) -> bytes:
        """The message of the first rank; the other ranks pass None."""
        with self._lock:
            exchange = self.post(topic, [len(message or b"")], interrupt)
            size = exchange.result(interrupt)[0][0]
            content = _tensor(message) if message else torch.zeros(size, dtype=torch.uint8)
            if size:
                exchange.wait(self._gloo.broadcast([content], distributed.BroadcastOptions()), interrupt)
        return _bytes(content)

    def line(self) -> Line:
        """A connection of its own for messages of the first rank. All ranks call it together."""
        return Line(self, self._connect(f"line {self.number_of_new_loader()}"))

    def all_bytes(self, content: torch.Tensor) -> tuple[Any, list[torch.Tensor]]:
        """Begins an exchange of tensors of one size; its end fills the tensors of all ranks."""
        answers = [torch.zeros_like(content) for _ in range(self.world_size)]
        return self._gloo.allgather([answers], [content]), answers

    def wait(self, work: Any, topic: str, place: str, interrupt: Interrupt) -> None:
        """Waits for an exchange, or a part of it; `place` identifies the exchange, and `topic` says what it is for."""
        wait: _Wait | None = None
        try:
            while True:
                has_ended = work.is_completed()  # before the wait: it may end while the error of a time-out is raised
                try:
                    work.wait(timedelta(seconds=POLL_SECONDS))
                    self.topic = topic
                    return
                except RuntimeError as error:
                    interrupt()  # what a rank says of itself is better than what its connection says
                    if has_ended:
                        raise RankError("another rank has ended, or cannot be reached any more") from error
                    if wait is None:
                        self.announce(f"waits/{self.rank}", place)
                        wait = _Wait(self, topic, lambda: self._without("waits/", place))
                    if wait.is_over():
                        raise self._timeout_error(topic, wait.absent()) from error
        except BaseException:
            self.disconnect()
            raise

    def disconnect(self) -> None:
        """Drops the connections; the next exchange makes new ones. After a failure, all ranks do so."""
        with self._lock:
            if self._gloo is not None:
                # Its end would wait for exchanges that others may never join, so it lasts as long as the process.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._gloo))
                self._connections += 1
                self._exchanges = 0
            self._gloo = None

    def is_first(self, name: str) -> bool:
        """Whether this rank is the first to ask."""
        return self.rank == 1 if self._store is None else bool(self._store.add(name, 1) == 1)

    def _without(self, prefix: str, text: str) -> list[int]:
        """The other ranks whose announcement with this prefix is not `text`; the first rank, before it has answered."""
        if self._store is None:
            return [0]
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        return [rank for rank in others if self.announced(f"{prefix}{rank}") != text]

    def _timeout_error(self, topic: str, absent: Sequence[int]) -> RankError:
        who = ranks_in_words(absent) if absent else "another rank"
        return RankError(
            f'{who} of {self.world_size} did not come to "{topic}" within {self.timeout:g} seconds, the timeout of the '
            f'process group; the last place to which all ranks came is "{self.topic}"; a rank that takes no more '
            "elements of an epoch must drop its iterator, close the loader or begin the next epoch; if it works for so "
            "long between two elements, give `init_process_group` a longer `timeout`"
        )

    def _connected(self, interrupt: Interrupt) -> Any:
        if self._gloo is None:
            self._gloo = self._connect(f"connection {self._connections}", interrupt)
        return self._gloo

    def _connect(self, place: str, interrupt: Interrupt = _never) -> Any:
        """A gloo group of all ranks, which come to this place together."""
        if missing := self.roll_call(place, interrupt):
            raise RankError(
                f"{ranks_in_words(missing)} of {self.world_size} cannot be reached: not there after "
                f"{self.timeout:g} seconds"
            )
        store = _c10d.PrefixStore(place, self._store)
        seconds = min(self.timeout, CONNECT_SECONDS)
        try:
            gloo = _c10d.ProcessGroupGloo(store, self.rank, self.world_size, timeout=timedelta(seconds=seconds))
        except RuntimeError as error:
            self._connections += 1
            raise RankError(
                f"the {self.world_size} ranks came together, but could not connect within {seconds:g} seconds: one "
                "has ended, or its address cannot be reached"
            ) from error
        gloo._set_default_timeout(NO_TIMEOUT)
        return gloo


class Line:
    """Messages of the first rank of a group, which waits for none of the others."""

    def __init__(self, side: SideGroup, gloo: Any) -> None:
        self._side = side
        self._gloo = gloo
        self._pending: list[Any] = []

    def send(self, message: bytes) -> None:
        """Begins to send a message to all other ranks."""
        self._pending = [work for work in self._pending if not work.is_completed()]
        for content in (torch.tensor([len(message)]), _tensor(message)):
            self._pending.append(self._gloo.broadcast([content], distributed.BroadcastOptions()))

    def receive(self, topic: str) -> bytes:
        """The next message."""
        size = self._filled(torch.zeros(1, dtype=torch.int64), topic)
        return _bytes(self._filled(torch.zeros(int(size), dtype=torch.uint8), topic))

    def _filled(self, content: torch.Tensor, topic: str) -> torch.Tensor:
        work = self._gloo.broadcast([content], distributed.BroadcastOptions())
        self._side.wait(work, topic, topic, _never)
        return content


class Meeting:
    """Finds a part of the store that is new: a job that was started again on the same store has left its keys there.

    Each rank leaves a random token. The first rank answers each token with its own, which names the part. A rank takes
    only the answer to its own token, so it meets no rank of an earlier start.

    Attributes:
        store: the part; None before the first rank has answered.
        is_complete: whether this rank and those that it must answer know the part.
    """

    def __init__(self, store: Any, rank: int, world_size: int) -> None:
        self.is_complete = False
        self._shared = store
        self._rank = rank
        self._world_size = world_size
        self._token = secrets.token_hex(8)
        self._tokens = 0  # that were left, by this rank, or answered, by the first
        self._lock = threading.Lock()
        self.store: Any = _c10d.PrefixStore(self._token, store) if rank == 0 else None

    def look(self) -> bool:
        """Whether this rank knows the part. The first rank, which chooses it, answers those that have come."""
        with self._lock:
            if self.is_complete:
                return True
            return self._answer() if self._rank == 0 else self._ask()

    def _answer(self) -> bool:
        tokens = self._shared.get("tokens").decode().split() if self._shared.check(["tokens"]) else []
        if new := tokens[self._tokens :]:
            self._shared.multi_set([f"answer to {token}" for token in new], [self._token] * len(new))
            self._tokens = len(tokens)
        self.is_complete = self.store.add("met", 0) == self._world_size - 1
        return True

    def _ask(self) -> bool:
        if not self._tokens:
            self._shared.append("tokens", f"{self._token} ")
            self._tokens = 1
        answer = f"answer to {self._token}"
        if self._shared.check([answer]):
            self.store = _c10d.PrefixStore(self._shared.get(answer).decode(), self._shared)
            self.store.add("met", 1)
            self.is_complete = True
        return self.is_complete


class GroupExchange:
    """An exchange that has begun."""

    def __init__(self, group: SideGroup, topic: str, place: str, count: int, work: Any, answers: torch.Tensor) -> None:
        self._group = group
        self._topic = topic
        self._place = place
        self._count = count
        self._work = work
        self._answers = answers

    def result(self, interrupt: Interrupt = _never) -> list[list[int]]:
        """The numbers of all ranks, in order of rank."""
        self.wait(self._work, interrupt)
        answers: list[list[int]] = self._answers.tolist()
        if any(answer[0] != answers[0][0] for answer in answers):
            self._raise_topics(interrupt)
        return [answer[1 : 1 + self._count] for answer in answers]

    def wait(self, work: Any, interrupt: Interrupt = _never) -> None:
        """Waits for a part of the exchange."""
        self._group.wait(work, self._topic, self._place, interrupt)

    def _raise_topics(self, interrupt: Interrupt) -> None:
        """Raises an error with the topic of each rank. All ranks come here, because all have the same answers."""
        work, topics = self._group.all_bytes(_tensor(self._topic.encode()[:MAX_TOPIC].ljust(MAX_TOPIC)))
        self.wait(work, interrupt)
        raise RankError(
            "the ranks are not at the same place: "
            + differences_in_words([_bytes(topic).decode(errors="replace").strip() for topic in topics])
            + "; all ranks must iterate the same loaders in the same order, and take as many elements of each"
        )


class _Wait:
    """The wait of a rank for those that are absent from a place. After a while, one of those that wait logs it."""

    def __init__(self, group: SideGroup, place: str, absent: Callable[[], list[int]]) -> None:
        self.absent = absent
        self._group = group
        self._place = place
        self._since = time.monotonic()
        self._has_logged = False

    def is_over(self) -> bool:
        """Whether the timeout of the process group has passed."""
        seconds, group = time.monotonic() - self._since, self._group
        if seconds > PATIENCE_SECONDS and not self._has_logged:
            self._has_logged = True
            if group.is_first(f"patience/{self._place}"):
                ranks = f"{ranks_in_words(self.absent())} of {group.world_size}"
                log.warning('the others wait for %s at "%s", up to %g seconds', ranks, self._place, group.timeout)
        return seconds > group.timeout


def _wait_until(is_there: Callable[[], bool], is_over: Callable[[], bool], interrupt: Interrupt = _never) -> bool:
    """Whether something comes before the time is over. A `wait` of a store that times out makes torch warn."""
    pause = FIRST_PAUSE_SECONDS
    while not is_there():
        interrupt()
        if is_over():
            return False
        time.sleep(pause)
        pause = min(2 * pause, POLL_SECONDS)
    return True


def _deadline(seconds: float) -> Callable[[], bool]:
    """A function that says whether this time has passed since now."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


_side_groups: dict[tuple[int, ...], SideGroup] = {}


def _tensor(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.zeros(0, dtype=torch.uint8)


def _bytes(content: torch.Tensor) -> bytes:
    return content.numpy().tobytes()


@atexit.register
def _disconnect_all() -> None:
    """Lets a process end without a wait for others."""
    for group in _side_groups.values():
        group.disconnect()
