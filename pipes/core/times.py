"""`Times`: what a thread does at each moment, and what that adds up to.

A thread does one thing at a moment: one of its slots runs. So the slots of a thread sum to its time, and all that a
report says is read from them.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import add, attrgetter, sub
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from .block import Block, close

T = TypeVar("T")
clock = time.perf_counter_ns
_cpu_clock = time.thread_time_ns
_count: Callable[[Any], int] = len

SEEING = os.environ.get("FEEDPIPE_SEEING") != "0"
"""Whether anything is counted; False serves to learn what that costs."""
CONSUMER, DISPATCHER = "consumer", "dispatcher"
"""The names of the thread that runs the loop, and of the process that runs what comes before `dispatch`."""
LONG_NS = 500_000
"""What takes as long as this is kept for the timeline."""
SPANS, SPANS_SENT = 4096, 32
"""The spans that a thread keeps, and those that travel to another process with its table."""
SEND_NS = 500_000_000
"""The most time between two tables that a thread sends; at first there is less."""
BUDGET = 500
"""Of so many nanoseconds of producing, one may be spent on measuring."""
SWITCH_NS = 2000
"""The cost of a switch in a measured block, with what it drives out of the cache."""
FIRST_CREDIT_NS, MAX_CREDIT_NS = 20_000, 1_000_000
FIRST_LOOK_NS, LOOK_NS = 10_000_000, 100_000_000
"""The least time before the first look at what the system says of a thread, and between two looks."""
MAX_LOOKS = 8
"""The tries to read a thread that goes on; the last one may count a moment twice, or miss it."""
STAMP_NS = 2_000_000
"""Stamps of steps are at least so far apart, if steps take less."""

State: TypeAlias = Literal[
    "operator", "engine", "storage", "calls", "input", "worker", "consumer", "memory", "send", "receive", "ranks",
    "device", "loop",
]  # fmt: skip
"""What a thread does in a slot; see `IN_WORDS`. In blocks that are not measured, all that is no wait is "engine"."""
IN_WORDS: dict[State, str] = {
    "operator": "operators",  # their code, or what it has put off, without their inputs
    "engine": "engine",
    "storage": "waits for storage",  # or reads it, for an operator
    "calls": "waits for calls",  # that an operator makes at the same time
    "input": "waits for its input",  # from a thread that makes blocks, or the process that dispatches
    "worker": "waits for workers",
    "consumer": "waits for its consumer",  # because enough is ready
    "memory": "waits for memory",  # that the consumer has
    "send": "sends",
    "receive": "receives",
    "ranks": "waits for other ranks",
    "device": "copies to the device",
    "loop": "runs the loop",  # or anything else between two elements
}
WAITS: frozenset[State] = frozenset(("input", "worker", "consumer", "memory", "ranks"))
"""The states in which a thread waits for another one, of this loader or of that of another rank."""
Event: TypeAlias = Literal["hits", "misses", "retries", "cost", "busy", "dry"]
"""What is counted, exactly: of an operator, rows found in its cache and rows that were not, calls that were repeated
because they had failed, and the costs of the rows that it balances; of no operator, steps whose data came while a GPU
had work, and steps whose data came after it had run dry."""


class SlotTimes(NamedTuple):
    """What one slot has counted. All of it are sums, so those of several threads are added.

    Attributes:
        ns: its time after the start of the thread.
        cpu_ns, measured_ns: in measured blocks, its time on a CPU, and all of its time.
        rows: of measured blocks, those that have left the operator.
    """

    ns: int = 0
    cpu_ns: int = 0
    measured_ns: int = 0
    rows: int = 0


_NO_TIMES = SlotTimes()


class TimeSpan(NamedTuple):
    """A slot that ran for long.

    Attributes:
        state, of: the slot.
        since: when it began, by the clock of its thread.
        ns: for how long it ran.
    """

    state: State
    of: str
    since: int
    ns: int


class SystemTimes(NamedTuple):
    """What the system says of a thread. All of it are sums, as in `SlotTimes`.

    Attributes:
        observed_ns: the part of the thread's time that it is about; 0 if the system does not tell.
        cpu_ns, delayed_ns: for how long the thread had a CPU, and for how long it waited for one, also because its
            control group had used up its share of the CPUs.
        looks, looks_ns: how often the thread asked, and how long that took: microseconds, unless other threads hold the
            GIL, which each of these calls gives up for a moment.
    """

    observed_ns: int = 0
    cpu_ns: int = 0
    delayed_ns: int = 0
    looks: int = 0
    looks_ns: int = 0


class Table(NamedTuple):
    """What a thread has counted, or several of one name together.

    Attributes:
        thread: its name, such as "consumer" or "worker 2".
        process: the number of its process.
        began, until: the time of its first block, or of the loop's first element, and of this table, in nanoseconds.
        clock: what is to be added to its times for nanoseconds since 1970.
        wall_ns: the time between `began` and `until`; of several threads, the sum.
        threads: how many there are.
        blocks, rows: what it has made; of the consumer, in its own thread.
        measured_blocks, measured_rows: those of them that were measured.
        system: what the system says.
        slots: by state and by what the state is about: the name of an operator or a thread, or "".
        events: by event and the name of an operator.
        spans: the last that ran for long.
    """

    thread: str
    process: int
    began: int
    until: int
    clock: int
    wall_ns: int
    threads: int
    blocks: int
    rows: int
    measured_blocks: int
    measured_rows: int
    system: SystemTimes
    slots: dict[tuple[State, str], SlotTimes]
    events: dict[tuple[Event, str], int]
    spans: list[TimeSpan]

    def plus(self, other: Table) -> Table:
        """The table of both, which are of one name."""
        together = max(self.began, other.began) < min(self.until, other.until)
        slots = {**self.slots}
        for key, slot in other.slots.items():
            slots[key] = SlotTimes(*map(add, slots.get(key, _NO_TIMES), slot))
        return max(self, other, key=attrgetter("until"))._replace(
            began=min(self.began, other.began),
            threads=self.threads + other.threads if together else max(self.threads, other.threads),
            system=SystemTimes(*map(add, self.system, other.system)),
            slots=slots,
            events=dict(Counter(self.events) + Counter(other.events)),
            spans=[*self.spans, *other.spans][-SPANS:],
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMS},
        )


_SUMS = ("wall_ns", "blocks", "rows", "measured_blocks", "measured_rows")
"""The numbers of a table that are added."""


def joined(tables: Iterable[Table]) -> list[Table]:
    """One table of each name."""
    by_name: dict[str, Table] = {}
    for table in tables:
        other = by_name.get(table.thread)
        by_name[table.thread] = table if other is None else other.plus(table)
    return list(by_name.values())


# The times of a thread


class Slot:
    """What a thread does at some moments; `SlotTimes` explains the sums."""

    def __init__(self, state: State, of: str) -> None:
        self.state: State = state
        self.of = of
        self.ns = self.cpu_ns = self.measured_ns = self.rows = 0


class Here(threading.local):
    """What the engine knows of the thread that runs.

    Attributes:
        measured: the times of the thread while it makes a block that is measured, else None.
        run: the times of the epoch for which a service begins a run now, else None.
    """

    measured: Times | None = None
    run: EpochTimes | None = None


here = Here()


_counting = threading.Lock()


class Times:
    """The times of one thread. Other threads may read them.

    In a measured block each operator has its slot. To measure costs time, so a thread measures as many blocks as a
    budget allows, a part of its time of producing: all blocks of some milliseconds, few of those of microseconds. What
    is left over is kept for later blocks, so slow blocks among fast ones are measured. Of a block that is not measured
    only the length is noted, here and in `Clock.next`, because that costs as much as the work on a small block.

    Args:
        name: of the thread.
        run: the run that it belongs to.
        base: what it does while it makes no block.
        starts_with_block: whether its start ends with its first block.

    Attributes:
        began: the end of its start.
        made, left: the nanoseconds in which it made blocks, and when it had made the last one.
        entered: when it began a block that is not measured; 0 if it makes none.
        measure_at: it measures a block once `made` has come so far.
        blocks, rows: what it has made.
    """

    def __init__(self, name: str, run: RunTimes, base: State, *, starts_with_block: bool = True) -> None:
        self.name = name
        self._run = weakref.ref(run)
        self.blocks = self.rows = self.measured_blocks = self.measured_rows = 0
        self.events: dict[tuple[Event, str], int] = {}
        self._spans: deque[tuple[Slot, int, int]] = deque(maxlen=SPANS)
        self._slots: dict[tuple[State, str], Slot] = {}
        self._operators: dict[str, Slot] = {}
        self._base = self.slot(base)
        self._engine = self.slot("engine")
        self._slot = self._outside = self._base
        self._starts_with_block = starts_with_block
        self.is_measuring = False
        self._switches = self._cpu_since = 0
        self.made = self._made_since = self._made_measured = self.left = self.entered = 0
        self.measure_at = -BUDGET * FIRST_CREDIT_NS
        self._first_look = self._last_look = SystemTimes()
        self._ended: int | None = None
        self.began = self._since = self._look_at = clock()

    @property
    def run(self) -> RunTimes | None:
        """The run that it belongs to, while that is in use."""
        return self._run()

    def slot(self, state: State, of: str = "") -> Slot:
        slot = self._slots.get((state, of))
        if slot is None:
            slot = self._slots[state, of] = Slot(state, of)
        return slot

    def switch(self, slot: Slot) -> Slot:
        """From now on `slot` runs. Returns the one that ran."""
        now = clock()
        before = self._pass(now)
        if self.is_measuring:
            self._switches += 1
            cpu = _cpu_clock()
            before.cpu_ns += cpu - self._cpu_since
            before.measured_ns += now - self._since
            self._cpu_since = cpu
        self._since = now
        self._made_since = self.made
        self._slot = slot
        return before

    def _pass(self, now: int) -> Slot:
        """The slot that has run; what was made meanwhile is not its time."""
        slot, since = self._slot, self._since
        slot.ns += now - since - self.made + self._made_since
        self._keep_span(slot, max(since, self.left), now)
        return slot

    def _keep_span(self, slot: Slot, since: int, now: int) -> None:
        if now - since >= LONG_NS:
            self._spans.append((slot, since, now - since))

    def enter(self, now: int) -> None:
        """The thread makes a block from `now` on. It is measured if the budget allows that."""
        if self.made < self.measure_at:
            self._keep_span(self._slot, max(self._since, self.left), now)
            self.entered = now
            return
        self._outside = self._pass(now)
        self._since = now
        self._made_since = self.made
        self._slot = self._engine
        self.is_measuring = True
        self._switches = 0
        here.measured = self
        self._cpu_since = _cpu_clock()

    def leave(self, now: int, ns: int, rows: int) -> None:
        """A block that was measured, or took long, is there at `now`, after `ns`; 0 rows mean that there is none."""
        if not self.is_measuring:
            self._keep_span(self._engine, now - ns, now)
            return
        slot = self._pass(now)
        slot.cpu_ns += _cpu_clock() - self._cpu_since
        slot.measured_ns += now - self._since
        self.made += ns
        self._made_measured += ns
        self._made_since = self.made
        self._since = self.left = now
        self._slot = self._outside
        self.is_measuring = False
        here.measured = None
        credit = min(MAX_CREDIT_NS, (self.made - self.measure_at) // BUDGET) - (self._switches + 2) * SWITCH_NS
        self.measure_at = self.made - credit * BUDGET
        if rows:
            self.measured_blocks += 1
            self.measured_rows += rows
            if self._starts_with_block:
                self.begin()
        if now > self._look_at:
            self._look(now)

    def _look(self, now: int) -> None:
        self._look_at = now + LOOK_NS
        self._last_look = _look(now, self._last_look)
        if not self._first_look.looks:
            self._first_look = self._last_look

    def begin(self) -> None:
        """What was before is the start, and is not counted."""
        self._starts_with_block = False
        self._pass(now := clock())
        self._made_since = self._made_measured = self.made
        self.measure_at = min(self.measure_at, self.made)  # a first block may have cost what all others may
        self.began = self._since = now
        for slot in list(self._slots.values()):
            slot.ns = 0
        self._first_look = self._last_look = SystemTimes()
        self._look_at = now + FIRST_LOOK_NS

    def measure(self, operator: str, make: Callable[..., T], *arguments: object) -> T:
        """What `make` returns: rows or a block of an operator. Its time without inputs is that of the operator."""
        slot = self._operators.get(operator)
        if slot is None:
            slot = self._operators[operator] = self.slot("operator", operator)
        before = self.switch(slot)
        try:
            made = make(*arguments)
        finally:
            self.switch(before)
        if made is not None:
            slot.rows += _count(made)
        return made

    def call(self, operator: str, make: Callable[[], object]) -> None:
        """Make a call of an operator, in a thread that makes nothing else; each is measured."""
        self.is_measuring = True
        if self._starts_with_block:
            self.begin()
            self._cpu_since = _cpu_clock()
        before = self.switch(self.slot("operator", operator))
        try:
            make()
        finally:
            del make  # an error of the call refers to this frame, and the call to its error
            self.switch(before)
            if self._since > self._look_at:
                self._look(self._since)

    def waited(self) -> tuple[int, int]:
        """The time now, and the nanoseconds since the start in which the base did not run; while the base runs."""
        return clock(), self._since - self.began - self._base.ns + self.made - self._made_since

    @contextmanager
    def waiting(self, state: State, of: str | None = None) -> Generator[None]:
        """The thread waits meanwhile, by default for what the running operator needs."""
        if self.entered:  # a block that is not measured has no slots
            yield
            return
        before = self.switch(self.slot(state, self._slot.of if of is None else of))
        try:
            yield
        finally:
            self.switch(before)

    def count(self, event: Event, operator: str, number: int) -> None:
        with _counting:  # threads that make calls for this one count here too
            self.events[event, operator] = self.events.get((event, operator), 0) + number

    def count_data(self, dry: bool) -> None:
        """Data have come for a device, which had run dry or not."""
        self.count("dry" if dry else "busy", "", 1)

    def end(self) -> None:
        """The thread ends, or its run does."""
        if self._ended is None:
            self._pass(now := clock())
            self._made_since = self.made
            self._since = self._ended = now

    def table(self) -> Table:
        """What it has counted so far; any thread may ask."""
        looks = 0
        while True:
            looks += 1
            since, entered, made = place = self._since, self.entered, self.made  # all that changes changes one of these
            until = clock() if self._ended is None else self._ended
            running = {slot: slot.ns for slot in tuple(self._slots.values())}
            running[self._engine] += made - self._made_measured + (until - entered if entered else 0)
            if self._ended is None:
                running[self._slot] += (entered or until) - since - made + self._made_since
            spans = [TimeSpan(slot.state, slot.of, begin, ns) for slot, begin, ns in tuple(self._spans)]
            if looks == MAX_LOOKS or place == (self._since, self.entered, self.made):
                break  # else the thread has gone on meanwhile
        if self._ended is None:
            slot = self._engine if entered else self._slot
            begin = entered or max(since, self.left)
            if until - begin >= LONG_NS:
                spans.append(TimeSpan(slot.state, slot.of, begin, until - begin))
        return Table(
            self.name,
            os.getpid(),
            self.began,
            until,
            time.time_ns() - clock(),
            until - self.began,
            1,
            self.blocks,
            self.rows,
            self.measured_blocks,
            self.measured_rows,
            SystemTimes(*map(sub, self._last_look, self._first_look)),
            {
                (slot.state, slot.of): SlotTimes(max(0, ns), slot.cpu_ns, slot.measured_ns, slot.rows)
                for slot, ns in running.items()
                if ns > 0 or slot.rows
            },
            dict(self.events),
            spans,
        )


def _look(now: int, before: SystemTimes) -> SystemTimes:
    """What the system says of this thread since it began; `before` is the last answer."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)  # `open` costs three times as much
        try:
            cpu, delayed, _ = os.read(file, 64).split()
        finally:
            os.close(file)
    except (OSError, ValueError):
        return SystemTimes()
    return SystemTimes(now, int(cpu), int(delayed), before.looks + 1, before.looks_ns + clock() - now)


@contextmanager
def waiting(state: State, of: str | None = None) -> Generator[None]:
    """This thread waits meanwhile. In blocks that are not measured, that is a part of their time."""
    if (times := here.measured) is None:
        yield
    else:
        with times.waiting(state, of):
            yield


def measured_blocks(operator: str, blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks of a streamed operator; their times are measured."""
    return _measured_blocks(operator, blocks) if SEEING else blocks


def _next(blocks: Iterator[Block]) -> Block | None:
    return next(blocks, None)


def _measured_blocks(operator: str, blocks: Iterator[Block]) -> Iterator[Block]:
    held: list[Block] = []
    try:
        while True:
            times = here.measured
            block = next(blocks, None) if times is None else times.measure(operator, _next, blocks)
            if block is None:
                return
            held.append(block)
            del block  # only the consumer holds it now
            yield held.pop()
    finally:
        close(blocks)


class Clock:
    """Counts the seconds of producing, without those of the consumer.

    Args:
        times: of the thread that produces, if it is seen.
        thread: the same, if another clock tells it when it produces.
    """

    def __init__(self, times: Times | None = None, thread: Times | None = None) -> None:
        self.times = times
        self.thread = times or thread
        self._away = 0
        self._left = 0

    def now(self) -> float:
        return (clock() - self._away) * 1e-9

    def leave(self) -> None:
        self._left = clock()

    def enter(self) -> None:
        self._away += clock() - self._left

    def next(self, blocks: Iterator[Block]) -> Block | None:
        """The next block, or None after the last one. The consumer has the time between two of them."""
        times = self.times
        block: Block | None = None
        now = clock()
        self._away += now - self._left
        if times is None:
            try:
                return next(blocks, None)
            finally:
                self._left = clock()
        if times.made >= times.measure_at or now - times.left >= LONG_NS:
            times.enter(now)
        else:
            times.entered = now
        try:
            block = next(blocks, None)
            return block
        finally:
            self._left = left = clock()
            rows = 0 if block is None else len(block.rows)
            if times.is_measuring or left - now >= LONG_NS:
                times.leave(left, left - now, rows)
            if times.entered:
                times.made += left - now
                times.left = left
                times.entered = 0
            if rows:
                times.blocks += 1
                times.rows += rows

    def waiting(self, state: State, of: str = "") -> AbstractContextManager[None]:
        """The thread waits meanwhile."""
        return nullcontext() if self.times is None else self.times.waiting(state, of)

    def count(self, event: Event, operator: str, number: int) -> None:
        """Count rows of an operator."""
        if self.thread is not None:
            self.thread.count(event, operator, number)

    def end(self) -> None:
        """The thread ends."""
        if self.times is not None:
            self.times.end()

    @property
    def name(self) -> str:
        """The name of the thread, if it is seen."""
        return "" if self.times is None else self.times.name


# The times of a run


def times_of_input(thread: Times | None, operator: str, base: State = "engine") -> Times | None:
    """The times of a thread that makes the rows of an operator for this one; None if this one is not seen."""
    if thread is None or (run := thread.run) is None:
        return None
    return run.thread(operator if thread.name == CONSUMER else f"{thread.name}, {operator}", base)


def add_tables(tables: Iterable[Table]) -> None:
    """Take the tables of another process that has sent a block to this thread; else those that come later."""
    if tables and here.measured is not None and (run := here.measured.run) is not None:
        run.add(tables)


class RunTimes:
    """The times of one run: those of its threads in this process, and the tables of other processes.

    Args:
        number: of the run.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._threads: list[Times] = []
        self._tables: dict[tuple[int, str], Table] = {}
        self._lock = threading.Lock()
        self._began = clock()
        self._send_at = 0

    def thread(self, name: str, base: State, *, starts_with_block: bool = True) -> Times:
        """The times of a thread that begins; `Times` explains the arguments."""
        times = Times(name, self, base, starts_with_block=starts_with_block)
        with self._lock:
            self._threads.append(times)
        return times

    def add(self, tables: Iterable[Table]) -> None:
        """Take the tables of another process, each instead of an earlier one of the same process, whose spans stay."""
        with self._lock:
            for table in tables:
                key = table.process, table.thread
                before = self._tables.get(key)
                if before is None:
                    self._tables[key] = table
                elif before.until < table.until:
                    first = table.spans[0].since if table.spans else table.until
                    earlier = [span for span in before.spans if span.since < first]
                    self._tables[key] = table._replace(spans=[*earlier, *table.spans][-SPANS:])

    def tables(self) -> list[Table]:
        """The tables of all threads, one for each name in each process."""
        with self._lock:
            threads, received = list(self._threads), list(self._tables.values())
        return [*joined(times.table() for times in threads), *received]

    def due(self, *, last: bool = False) -> list[Table]:
        """The tables, if it is time to send them to another process, or if they are the last; else none."""
        now = clock()
        if now < self._send_at and not last:
            return []
        self._send_at = now + min(SEND_NS, now - self._began)
        return [table._replace(spans=table.spans[-SPANS_SENT:]) for table in self.tables()]

    def end(self) -> None:
        with self._lock:
            for times in self._threads:
                times.end()


class StepTimes(NamedTuple):
    """The steps of a loop.

    Attributes:
        steps: elements taken after the first of each epoch.
        epochs: in which there was one.
        start_ns: the time to the first element of each.
        waits: how many steps waited 2 ** (i - 1) nanoseconds or more, and less than 2 ** i, at place i. Of fast steps,
            the mean of several.
    """

    steps: int = 0
    epochs: int = 0
    start_ns: int = 0
    waits: tuple[int, ...] = (0,) * 64


class EpochTimes(RunTimes):
    """The times of one epoch of a loader.

    Args:
        past: the steps of earlier epochs.

    Attributes:
        consumer: the thread that takes the elements, from its first request to the end of the epoch.
        step: the number of elements taken, when it was noted last.
        is_told: whether the service tells what the threads do; another one only has items.
    """

    def __init__(self, past: StepTimes) -> None:
        super().__init__()
        self.consumer = self.thread(CONSUMER, "loop", starts_with_block=False)
        self.step = self._first = 0
        self.is_told = False
        self._start_ns: int | None = None
        self._stride = 1
        self._stamped = self._stamped_step = self._waited = 0
        self._past = past
        self._waits = list(past.waits)

    def begin(self, step: int) -> int:
        """The first element is there, number `step` of the epoch. Returns the step to stamp next."""
        began = self.consumer.began
        self.consumer.begin()
        self._start_ns = self.consumer.began - began
        self._stamped, self.step = self.consumer.began, step
        self._first = self._stamped_step = step
        return step + 1

    def stamp(self, step: int) -> int:
        """An element is there, number `step`. Returns the step to stamp next: of fast steps, only some have stamps."""
        now, waited = self.consumer.waited()
        count = step - self._stamped_step
        ns = now - self._stamped
        self._waits[min(63, ((waited - self._waited) // count).bit_length())] += count
        if ns < STAMP_NS:
            self._stride *= 2
        elif self._stride > 1 and ns > 4 * STAMP_NS:
            self._stride //= 2
        self._stamped, self._stamped_step, self._waited, self.step = now, step, waited, step
        return step + self._stride

    @property
    def steps(self) -> StepTimes:
        """The steps of this epoch and of those before."""
        if self._start_ns is None:
            return self._past
        return StepTimes(
            self._past.steps + self.step - self._first,
            self._past.epochs + 1,
            self._past.start_ns + self._start_ns,
            tuple(self._waits),
        )

    def waiting_for(self, items: Iterator[T]) -> Iterator[T]:
        """The items of a run. If its service tells nothing, the consumer waits for workers until each has come."""
        return items if self.is_told else self._waiting_for(items)

    def _waiting_for(self, items: Iterator[T]) -> Iterator[T]:
        while True:
            with self.consumer.waiting("worker", "workers"):
                item = next(items, None)
            if item is None:
                return
            yield item
            del item  # the consumer may drop the element before it asks for the next one

    @property
    def own_steps(self) -> int:
        """The elements taken in this epoch, after the first one."""
        return self.step - self._first


def times_of_run(number: int, last: RunTimes | None) -> RunTimes | None:
    """The times of a run in a process that is asked for parts of it, one after the other; None if nothing is counted.

    Args:
        number: of the run.
        last: the times of the last run of this process.
    """
    if not SEEING:
        return None
    return last if last is not None and last.number == number else RunTimes(number)


def thread_of_worker(run: RunTimes | None, number: int) -> Times | None:
    """The times of the thread, or of the process, that is worker `number`; none if nothing is counted."""
    return None if run is None else run.thread(worker_name(number), "send")


def worker_name(number: int) -> str:
    return f"worker {number}"


@contextmanager
def opening(times: EpochTimes | None) -> Generator[None]:
    """A service begins a run for this epoch meanwhile, in this thread."""
    here.run = times
    try:
        yield
    finally:
        here.run = None


def consumer_clock() -> Clock:
    """The clock of the thread that takes the elements of the run that begins. Its caller tells when that waits."""
    if here.run is None:
        return Clock()
    here.run.is_told = True
    return Clock(here.run.consumer)


class LoaderTimes:
    """The times of a loader: of its past epochs together, without spans, and of the one that runs or ran last."""

    def __init__(self) -> None:
        self.epoch: EpochTimes | None = None
        self._steps = StepTimes()
        self._tables: list[Table] = []

    def begin(self) -> EpochTimes | None:
        """The times of an epoch that begins; None if nothing is to be counted."""
        if self.epoch is not None:
            self.epoch.end()
            past = [table._replace(spans=[]) for table in self.epoch.tables()]
            self._tables, self._steps = joined([*self._tables, *past]), self.epoch.steps
        self.epoch = EpochTimes(self._steps) if SEEING else None
        return self.epoch

    def tables(self) -> list[Table]:
        """One table of each name."""
        return joined([*self._tables, *(() if self.epoch is None else self.epoch.tables())])

    @property
    def steps(self) -> StepTimes:
        return self._steps if self.epoch is None else self.epoch.steps
