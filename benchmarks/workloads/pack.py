"""Documents cut into packs of 2,048 tokens, with segment and position ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contestants.pack_tasks import expected
from ..model import Column, Contestant, Results, Verdict, Workload

ROWS, COLUMNS = "feedpipe, rows", "feedpipe, a column"
LOOP = "hand-written loop"
GRAIN = "Grain 0.2, ConcatThenSplit"

CONTESTANTS = (
    Contestant(ROWS, "pack_feedpipe:measure", arguments={"way": "rows"}, ours=True),
    Contestant(COLUMNS, "pack_feedpipe:measure", arguments={"way": "columns"}, ours=True),
    Contestant(LOOP, "pack_handwritten:measure"),
    Contestant(GRAIN, "pack_grain:measure", "grain"),
)


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    right = expected(arguments["documents"])
    wrong = [f"{name} is {found[name]} and should be {value}" for name, value in right.items() if found[name] != value]
    return wrong[0] if wrong else None


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for ours in (ROWS, COLUMNS):
        if results.have(ours, LOOP):
            ratios = results.round_ratios(ours, LOOP)
            verdicts.append(Verdict.at_most(1.3, f"{ours}: at most 1.3 of the hand-written loop", ratios))
        if results.have(ours, GRAIN):
            verdicts.append(Verdict.at_least(1, f"{ours}: ahead of Grain", results.round_ratios(GRAIN, ours)))
    return verdicts


WORKLOAD = Workload(
    name="pack",
    title="documents of about 300 tokens, cut into packs of 2,048",
    contestants=CONTESTANTS,
    columns=(
        Column("million tokens a second", lambda each: f"{1e-6 / each.median():.0f}"),
        Column("of the loop", lambda each: f"{each.ratio:.2f}" if each.ratios else "-"),
    ),
    judge=_judge,
    baseline=LOOP,
    metric="seconds_each",
    arguments={"documents": 50_000},
    quick={"documents": 5000},
    check=_check,
)
