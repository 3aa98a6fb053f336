"""Batches of rows of other lengths: what the slowest rank of a step has to do, and what it costs to balance that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import Column, Contestant, Results, Verdict, Workload

PLAIN, BALANCED, BY_SIZE = "batch(8)", "batch(8, balance=)", "batch_by_size(2048, among=64)"
MICROSECONDS, SLOWEST = 2.0, 1.02

CONTESTANTS = (
    Contestant(PLAIN, "balance_feedpipe:measure", arguments={"way": "batch"}, ours=True),
    Contestant(BALANCED, "balance_feedpipe:measure", arguments={"way": "balance"}, ours=True),
    Contestant(BY_SIZE, "balance_feedpipe:measure", arguments={"way": "by size"}, ours=True),
)


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    return None if found["whole"] else "rows are missing, or came twice"


def _judge(results: Results) -> list[Verdict]:
    if not results.have(PLAIN, BALANCED):
        return []
    plain, balanced = (results.summaries[name].figures for name in (PLAIN, BALANCED))
    extra = [(one["seconds_each"] - other["seconds_each"]) * 1e6 for one, other in zip(balanced, plain, strict=True)]
    return [
        Verdict.at_most(MICROSECONDS, f"balance: at most {MICROSECONDS:g} us more for a row", extra),
        Verdict.at_most(
            SLOWEST,
            f"balance: the slowest of 64 ranks has at most {SLOWEST - 1:.0%} more than the mean",
            [each["slowest_64"] for each in balanced],
            3,
        ),
    ]


WORKLOAD = Workload(
    name="balance",
    title="8 rows of log-normal length in a batch, shuffled, by CPU time",
    contestants=CONTESTANTS,
    columns=(
        Column("us a row", lambda each: f"{each.median('seconds_each') * 1e6:.2f}"),
        Column.median("slowest of 8 ranks / mean", "slowest_8", 3),
        Column.median("slowest of 64 ranks / mean", "slowest_64", 3),
    ),
    judge=_judge,
    baseline=PLAIN,
    metric="seconds_each",
    rounds=5,
    arguments={"count": 200_000},
    quick={"count": 40_000},
    check=_check,
)
