"""`Report`: what the threads of a loader did, as numbers, a table and a verdict."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.checks import check_int
from ..core.saving import write_text
from ..core.times import IN_WORDS, SlotTimes, StepTimes, SystemTimes, Table, TimeSpan
from ..errors import CallSite, DataError
from .verdict import Bottleneck, KnownOperator, OperatorWork, RankTimes, RankView, Verdict, verdict_of

if TYPE_CHECKING:
    from ..core.times import Event, State

VERSION = 3
"""Of the file of a report."""


@dataclass(frozen=True)
class OperatorTimes:
    """What one operator did, in all threads.

    Attributes:
        name: its key, as `map-1`.
        operator: its call, as code.
        where: the line that put it into the chain.
        rows: those that have left it; about, unless all blocks were measured.
        seconds: its own time, without its inputs, and with its waits for storage and for its calls.
        share: the part of the time of all operators.
        cpu: the part of its time on a CPU.
        waits: the part of its time in which it waited for storage or for its calls.
        skipped: rows that failed, in the last epoch.
        retried: calls that were repeated because they had failed.
        hits, misses: rows found in its cache, and rows that were not.
        costs: of the rows that it has balanced, on each rank; empty if it balances none.
        measured: the part of the blocks that were measured.
    """

    name: str
    operator: str
    where: CallSite | None
    rows: int
    seconds: float
    share: float
    cpu: float
    waits: float
    skipped: int
    retried: int
    hits: int
    misses: int
    costs: tuple[int, ...]
    measured: float

    @property
    def notes(self) -> str:
        """What has happened to rows, in words."""
        counts = {"skipped": self.skipped, "retried": self.retried, "hits": self.hits, "misses": self.misses}
        notes = [f"{number:,} {name}" for name, number in counts.items() if number]
        if self.costs:
            ranks = " on ranks" if len(self.costs) > 1 else ""
            notes.append(f"costs{ranks}: {', '.join(f'{cost:,}' for cost in self.costs)}")
        return ", ".join(notes)


@dataclass(frozen=True)
class ThreadTimes:
    """What one thread did after its start, or several of one name.

    Attributes:
        name: "consumer", which runs the loop, "worker 0", or what the thread makes ahead.
        rank: of its job.
        seconds: its time; of several threads, the sum.
        states: the part of its time in each state, such as "operator", "worker" or "loop"; together they are 1.
        cpu, delayed: the part of its time on a CPU, and waiting for one; None if the system does not tell.
    """

    name: str
    rank: int
    seconds: float
    states: dict[State, float]
    cpu: float | None
    delayed: float | None


class Report:
    """What a loader has done so far: who worked, who waited, and who holds the training loop back.

    `print(report)` is the verdict, and a table. `loader.report()` makes a report, and `fp.gather_report(loader)` one of
    all ranks. Times begin with the first element: what comes before is `start_seconds`.

    Attributes:
        ranks: what each rank has counted.
    """

    def __init__(self, ranks: Sequence[RankTimes]) -> None:
        self.ranks = list(ranks)
        self._views = [RankView(rank) for rank in ranks]
        self._verdict: Verdict | None = None

    @property
    def verdict(self) -> str:
        """Who holds the training loop back, in words."""
        text = self._judged.text
        return f"{text[0].upper()}{text[1:]}."

    @property
    def bottleneck(self) -> Bottleneck | None:
        """Who holds the training loop back; None if it does not wait for data, or if the run was too short."""
        return self._judged.bottleneck

    @property
    def waiting(self) -> float:
        """The part of its time that the loop waits for data, from 0 to 1; of several ranks, of all their time."""
        waited = sum(view.waited_ns for view in self._views)
        return waited / max(1, waited + sum(view.loop_ns for view in self._views))

    @property
    def dry(self) -> float | None:
        """The part of the steps whose data came after the GPU had run dry; None without `device=` on a GPU."""
        dry, steps = (sum(counts) for counts in zip(*(view.device_steps for view in self._views), strict=True))
        return dry / steps if steps else None

    @property
    def step_seconds(self) -> float:
        """The mean time that the loop takes for a step, without the wait for data."""
        return sum(view.loop_ns for view in self._views) / max(1, self.steps) / 1e9

    @property
    def start_seconds(self) -> float:
        """The time to the first element; of several epochs, the mean, and of several ranks, the longest."""
        return max(rank.steps.start_ns / max(1, rank.steps.epochs) for rank in self.ranks) / 1e9

    @property
    def steps(self) -> int:
        """The elements taken after the first one of each epoch; of several ranks, the sum."""
        return sum(view.steps for view in self._views)

    @property
    def waits(self) -> list[int]:
        """How many steps waited so long, by powers of two; see `StepTimes`."""
        return [sum(counts) for counts in zip(*(rank.steps.waits for rank in self.ranks), strict=True)]

    @property
    def operators(self) -> list[OperatorTimes]:
        """The operators, in the order of the graph."""
        known: dict[str, KnownOperator] = {op.name: op for rank in self.ranks for op in rank.operators}
        work: dict[str, OperatorWork] = {}
        for view in self._views:
            for name, own in view.work.items():
                work[name] = work.get(name, OperatorWork()).plus(own)
        total = sum(own.total for own in work.values())
        return [self._operator(op, work.get(op.name, OperatorWork()), total) for op in known.values()]

    @property
    def threads(self) -> list[ThreadTimes]:
        """The threads of all processes of the loader."""
        tables = [(rank.rank, table) for rank in self.ranks for table in rank.tables]
        return [_thread(table, rank) for rank, table in sorted(tables, key=lambda pair: (pair[0], pair[1].thread))]

    def forecast(self, *, workers: int | None = None, concurrency: int | None = None) -> float:
        """The part of its time that the loop would wait with other numbers, from 0 to 1; of several ranks, the most.

        It knows how long a step takes, and how much work an element is. More workers share the work; where a step
        would still take less than its data, the loop waits for the rest.

        Args:
            workers: the number of worker processes or threads; by default as many as there are.
            concurrency: of the operator with most of the work.
        """
        if workers is not None:
            check_int("workers", workers, least=0)
        if concurrency is not None:
            check_int("concurrency", concurrency, least=1)
        return max(view.forecast(workers, concurrency) for view in self._views)

    def metrics(self) -> dict[str, float]:
        """Plain numbers by name, for TensorBoard's `add_scalars`, `wandb.log` or Lightning's `log_dict`."""
        values: dict[str, float] = {
            "feedpipe/waiting": self.waiting,
            "feedpipe/steps": float(self.steps),
            "feedpipe/step_seconds": self.step_seconds,
            "feedpipe/start_seconds": self.start_seconds,
        }
        if self.dry is not None:
            values["feedpipe/dry"] = self.dry
        for percent in (50, 95, 99):
            values[f"feedpipe/wait_seconds_p{percent}"] = percentile(self.waits, percent / 100)
        for operator in self.operators:
            values[f"feedpipe/{operator.name}/seconds"] = operator.seconds
            values[f"feedpipe/{operator.name}/rows"] = float(operator.rows)
            values[f"feedpipe/{operator.name}/share"] = operator.share
        return values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file.

        Args:
            path: ends in .html, for a page in one file, which loads nothing; in .json, for `Report.load`; or in
                .trace.json, for a trace for Perfetto and Chrome, which has the last spans of each thread.

        Raises:
            ArgumentError: it has another ending, or its folder does not exist.
        """
        name = os.fspath(path)
        if name.endswith(".html"):
            from .report_page import report_page

            text = report_page(self)
        elif name.endswith(".trace.json"):
            from .trace import trace_of

            text = json.dumps(trace_of(self.ranks))
        else:
            text = json.dumps({"feedpipe_report": VERSION, "ranks": [_plain_rank(rank) for rank in self.ranks]})
        write_text(path, text, endings=(".html", ".json"))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Report:
        """Read a report that `save` has written.

        Raises:
            DataError: the file holds no report.
            OSError: it cannot be read.
        """
        try:
            content = json.loads(Path(path).read_text())
            if content["feedpipe_report"] != VERSION:
                raise ValueError(f"it is of version {content['feedpipe_report']!r}, and this is version {VERSION}")
            return Report([_rank_of(rank) for rank in content["ranks"]])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{os.fspath(path)} holds no report of a loader: {error}") from None

    def __str__(self) -> str:
        """The verdict, and a table of operators and threads."""
        lines = [self.verdict]
        lines += [*_aligned(self._operator_lines(), range(2, 6)), *_aligned(self._thread_lines(), range(1, 3))]
        lines.append(f"{self.start_seconds:.2g} s to the first element, then {self.steps:,} steps")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from .report_page import report_fragment

        return report_fragment(self)

    @property
    def _judged(self) -> Verdict:
        if self._verdict is None:
            self._verdict = verdict_of(self._views)
        return self._verdict

    def _operator(self, op: KnownOperator, own: OperatorWork, total: float) -> OperatorTimes:
        rows = 0.0
        seen = measured = 0
        events: dict[Event, int] = {"hits": 0, "misses": 0, "retries": 0}
        costs = tuple(sum(table.events.get(("cost", op.name), 0) for table in rank.tables) for rank in self.ranks)
        for table in (table for rank in self.ranks for table in rank.tables):
            for event in events:
                events[event] += table.events.get((event, op.name), 0)
            slot = table.slots.get(("operator", op.name))
            if slot is not None:
                # A thread that has only rows of incomplete groups produces none.
                rows += slot.rows * table.rows / table.measured_rows if table.measured_rows else slot.rows
                seen, measured = seen + table.blocks, measured + table.measured_blocks
        return OperatorTimes(
            name=op.name,
            operator=op.code,
            where=op.where,
            rows=round(rows),
            seconds=own.total / 1e9,
            share=own.total / total if total else 0.0,
            cpu=own.cpu_share,
            waits=(own.storage + own.calls) / own.total if own.total else 0.0,
            skipped=sum(rank.skipped.get(op.name, 0) for rank in self.ranks),
            retried=events["retries"],
            hits=events["hits"],
            misses=events["misses"],
            costs=costs if any(costs) else (),
            measured=measured / seen if seen else 0.0,
        )

    def _operator_lines(self) -> list[list[str]]:
        lines = [["operator", "line", "rows", "seconds", "share", "on a CPU", ""]]
        for op in self.operators:
            rows = f"{'' if op.measured == 1 else 'about '}{op.rows:,}"
            where = "" if op.where is None else str(op.where)
            line = [_shortened(op.operator), where, rows, f"{op.seconds:.2f}", f"{op.share:.0%}", f"{op.cpu:.0%}"]
            lines.append([*line, op.notes])
        return lines

    def _thread_lines(self) -> list[list[str]]:
        lines = [["thread", "seconds", "on a CPU", "what it did"]]
        for thread in self.threads:
            name = thread.name if len(self.ranks) == 1 else f"rank {thread.rank}, {thread.name}"
            states = sorted(thread.states.items(), key=lambda item: -item[1])
            did = ", ".join(f"{IN_WORDS[state]} {share:.0%}" for state, share in states if share >= 0.005)
            lines.append([name, f"{thread.seconds:.2f}", "" if thread.cpu is None else f"{thread.cpu:.0%}", did])
        return lines


def _thread(table: Table, rank: int) -> ThreadTimes:
    states: dict[State, float] = {}
    for (state, _), slot in table.slots.items():
        if slot.ns:
            states[state] = states.get(state, 0.0) + slot.ns / max(1, table.wall_ns)
    system = table.system
    return ThreadTimes(
        name=table.thread if table.threads == 1 else f"{table.thread} ({table.threads})",
        rank=rank,
        seconds=table.wall_ns / 1e9,
        states=states,
        cpu=system.cpu_ns / system.observed_ns if system.observed_ns else None,
        delayed=system.delayed_ns / system.observed_ns if system.observed_ns else None,
    )


def percentile(counts: Sequence[int], part: float) -> float:
    """The seconds below which this part of the counts is; `StepTimes` explains the counts."""
    left = part * sum(counts)
    for place, count in enumerate(counts):
        left -= count
        if left <= 0 and count:
            return 0.0 if not place else 2 ** (place - 0.5) / 1e9
    return 0.0


def _shortened(code: str) -> str:
    return code if len(code) <= 48 else f"{code[:45]}..."


def _aligned(lines: Sequence[Sequence[str]], numbers: Container[int]) -> list[str]:
    """The cells of a table in columns; those of the columns `numbers` end at one place."""
    columns = [
        [text.rjust(width) if place in numbers else text.ljust(width) for text in column]
        for place, column in enumerate(zip(*lines, strict=True))
        for width in [max(map(len, column))]
    ]
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


# Reports as text


def packed_rank(rank: RankTimes) -> bytes:
    """What a rank has counted, as JSON."""
    return json.dumps(_plain_rank(rank)).encode()


def unpacked_rank(text: bytes) -> RankTimes:
    return _rank_of(json.loads(text))


def _plain_rank(rank: Any) -> Any:
    """Plain JSON, in which the values of a named tuple are a list."""
    tables = [table._replace(slots=[*table.slots.items()], events=[*table.events.items()]) for table in rank.tables]
    return rank._replace(tables=tables)


def _rank_of(plain: Any) -> RankTimes:
    *counts, operators, skipped, steps, tables = plain
    known = [KnownOperator(name, code, where and CallSite(*where), calls) for name, code, where, calls in operators]
    *sums, waits = steps
    tables = [_table_of(table) for table in tables]
    return RankTimes._make([*counts, known, skipped, StepTimes._make([*sums, tuple(waits)]), tables])


def _table_of(plain: Any) -> Table:
    *counts, system, slots, events, spans = plain
    read_slots = {(state, of): SlotTimes(*numbers) for (state, of), numbers in slots}
    read_events = {(event, of): number for (event, of), number in events}
    return Table._make([*counts, SystemTimes(*system), read_slots, read_events, [TimeSpan(*span) for span in spans]])
