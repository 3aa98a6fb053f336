"""Windows of series, folds whose groups stay whole, and duplicates left out, by CPU time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import Column, Contestant, Results, Verdict, Workload

PLAIN = "sliding(24)"
#: By the name of a row: the way, and the most microseconds that a row of the input may take.
LIMITS: dict[str, tuple[str, float | None]] = {
    PLAIN: ("windows, no key", None),
    "sliding(24, key=), series one after the other": ("windows", 5.8),
    "sliding(24, key=), series in turn": ("windows, interleaved", 8.4),
    "sliding(24, key=), streamed": ("windows, streamed", 7.2),
    "split(5, key=, stratify=), ten rows a group": ("folds", 3.4),
    "distinct of integers": ("distinct", 0.36),
    "distinct of texts of 35 characters": ("distinct text", 0.86),
}


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    return None if found["right"] else "windows, sizes of folds, or the number of keys are wrong"


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for name, (_, limit) in LIMITS.items():
        if limit is not None and results.have(name):
            each = [figures["seconds_each"] * 1e6 for figures in results.summaries[name].figures]
            verdicts.append(Verdict.at_most(limit, f"{name}: at most {limit:g} us", each))
    return verdicts


WORKLOAD = Workload(
    name="keys",
    title="windows of series, folds of groups, duplicates left out: CPU time of a row of the input",
    contestants=[
        Contestant(name, "keys_feedpipe:measure", arguments={"way": way}, ours=True)
        for name, (way, _) in LIMITS.items()
    ],
    columns=(Column("us a row", lambda each: f"{each.median() * 1e6:.2f}"),),
    judge=_judge,
    baseline=PLAIN,
    metric="seconds_each",
    rounds=5,
    arguments={"count": 200_000},
    quick={"count": 20_000},
    check=_check,
)
