"""Batches without a key twice, packs of two columns, and small batches as tensors, by CPU time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import Column, Contestant, Results, Verdict, Workload

PLAIN = "batch(256)"
#: By the name of a row: the way, and the most microseconds that a row, a document or a batch may take.
LIMITS: dict[str, tuple[str, float | None]] = {
    PLAIN: ("batch", None),
    "batch(256, distinct=), a row": ("distinct 256", 1.0),
    "batch(2048, distinct=), a row": ("distinct 2048", 1.0),
    "batch(256, distinct=), a key in 38 % of the rows": ("distinct, frequent", 66.0),
    "pack of two columns, a document of rows": ("pack rows", 20.0),
    "pack of two columns, a document of a table": ("pack table", 20.0),
    "batch(64) and collate, a batch of one column": ("collate", 10.0),
}


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if not found["whole"]:
        return "rows are missing, or came twice"
    return f"{found['twice']} rows have a key that their batch has already" if found["twice"] else None


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for name, (_, limit) in LIMITS.items():
        if limit is not None and results.have(name):
            each = [figures["seconds_each"] * 1e6 for figures in results.summaries[name].figures]
            verdicts.append(Verdict.at_most(limit, f"{name}: at most {limit:g} us", each))
    return verdicts


WORKLOAD = Workload(
    name="groups",
    title="pairs of documents in batches, documents in packs, small batches as tensors, by CPU time",
    contestants=[
        Contestant(name, "groups_feedpipe:measure", arguments={"way": way}, ours=True)
        for name, (way, _) in LIMITS.items()
    ],
    columns=(Column("us each", lambda each: f"{each.median() * 1e6:.2f}"),),
    judge=_judge,
    baseline=PLAIN,
    metric="seconds_each",
    rounds=5,
    arguments={"count": 200_000},
    quick={"count": 20_000},
    check=_check,
)
