"""`trace_of`: what threads did, as a trace for Perfetto and Chrome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .verdict import RankTimes

_PROCESSES_OF_RANK = 2**20
"""Process numbers of one rank begin at a multiple of this: the machines of a job may use a number twice."""


def trace_of(ranks: Sequence[RankTimes]) -> dict[str, Any]:
    """The last spans of each thread that ran for 0.1 ms or longer, as complete events on a track of the thread.

    All processes have one clock, that of their machines; it begins with the first of these spans.
    """
    starts = [table.clock + span.since for rank in ranks for table in rank.tables for span in table.spans]
    start = min(starts, default=0)  # a float has too few digits for microseconds since 1970
    events: list[dict[str, Any]] = []
    for rank in ranks:
        code = {op.name: op.code for op in rank.operators}
        for track, table in enumerate(rank.tables):
            process = rank.rank * _PROCESSES_OF_RANK + table.process
            place = {"pid": process, "tid": track}
            name = f"rank {rank.rank}, process {table.process}" if rank.world_size > 1 else f"process {table.process}"
            events.append({"ph": "M", "name": "process_name", **place, "args": {"name": name}})
            events.append({"ph": "M", "name": "thread_name", **place, "args": {"name": table.thread}})
            for span in table.spans:
                of = code.get(span.of, span.of)
                events.append(
                    {
                        "ph": "X",
                        "name": of if span.state == "operator" else f"{span.state} {of}".rstrip(),
                        "cat": span.state,
                        "ts": (table.clock + span.since - start) / 1000,
                        "dur": span.ns / 1000,
                        **place,
                    }
                )
    return {"traceEvents": events, "displayTimeUnit": "ms"}
