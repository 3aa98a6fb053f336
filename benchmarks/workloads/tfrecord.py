"""Records of a TFRecord file: rows, and batches of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload

RECORDS = 40_000
TIMES = 1.8
ROWS, BATCHES, PEER = "feedpipe, rows", "feedpipe, batches of 256", "tfrecord 1.14, rows"

CONTESTANTS = (
    Contestant(ROWS, "tfrecord_feedpipe:measure", arguments={"batched": False}, ours=True),
    Contestant(BATCHES, "tfrecord_feedpipe:measure", arguments={"batched": True}, ours=True),
    Contestant(PEER, "tfrecord_package:measure", "tfrecord"),
)


def check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if found["complete"] and found["records_read"] == arguments["records"]:
        return None
    return f"not each record once: {found['records_read']} of {arguments['records']}"


def _judge(results: Results) -> list[Verdict]:
    if not results.have(ROWS, PEER):
        return []
    ratios = results.round_ratios(PEER, ROWS)
    return [Verdict.at_least(TIMES, f"rows: at least {TIMES} times the package's", ratios)]


WORKLOAD = Workload(
    name="tfrecord",
    title="five features of a TFRecord file, one process; only feedpipe checks the checksums",
    contestants=CONTESTANTS,
    columns=(Column("records a second", lambda each: f"{1 / each.median():,.0f}"),),
    judge=_judge,
    baseline=PEER,
    metric="seconds_each",
    rounds=7,
    arguments={"records": RECORDS},
    check=check,
    prepare=lambda folder, _: made(folder, "tfrecord_tasks:make", {"records": RECORDS}),
)
