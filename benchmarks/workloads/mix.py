"""Documents of two corpora, 70 to 30, and rows of thousands of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contestants.mix_tasks import WEIGHTS
from ..model import Column, Contestant, Results, Verdict, Workload

OURS, OURS_RANDOM = "feedpipe", "feedpipe, random"
SCHEDULE = "feedpipe, 200 stages"
LOOP, LOOP_RANDOM = "hand-written loop", "hand-written loop, random"
GRAIN = "Grain 0.2"
MANY, MOST = 1_000, 5_000
LONG, SHORT = "long inputs", "inputs of 10 rows"


def _of(count: int, inputs: str) -> str:
    return f"feedpipe, {count:,} {inputs}"


def _many(count: int, inputs: str) -> Contestant:
    arguments = {"inputs": count, "ends": inputs == SHORT}
    return Contestant(_of(count, inputs), "mix_inputs_feedpipe:measure", arguments=arguments, ours=True)


CONTESTANTS = (
    Contestant(OURS, "mix_feedpipe:measure", arguments={"draws": False, "stages": 0}, ours=True),
    Contestant(OURS_RANDOM, "mix_feedpipe:measure", arguments={"draws": True, "stages": 0}, ours=True),
    Contestant(SCHEDULE, "mix_feedpipe:measure", arguments={"draws": False, "stages": 200}, ours=True),
    Contestant(LOOP, "mix_handwritten:measure", arguments={"draws": False}),
    Contestant(LOOP_RANDOM, "mix_handwritten:measure", arguments={"draws": True}),
    Contestant(GRAIN, "mix_grain:measure", "grain"),
    _many(100, LONG),
    _many(MANY, LONG),
    _many(100, SHORT),
    _many(MOST, SHORT),
)


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if "in_turn" in found:
        return None if found["in_turn"] else "the rows of the inputs did not come in turn"
    if not found["in_order"]:
        return "the documents of a corpus changed their order"
    if found["first"] < 0.95 * arguments["documents"]:
        return f"only {found['first']} documents of the first corpus came"
    if abs(found["share"] - WEIGHTS[0]) > 0.02:
        return f"the share of the first corpus is {found['share']:.3f}"
    return None


def _at_most_each(results: Results, name: str, most: float, which: str) -> list[Verdict]:
    if not results.have(name):
        return []
    each = [figures["seconds_each"] * 1e6 for figures in results.summaries[name].figures]
    return [Verdict.at_most(most, f"{name}{which}: at most {most} us a row", each)]


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for ours, loop in ((OURS, LOOP), (OURS_RANDOM, LOOP_RANDOM)):
        if results.have(ours, loop):
            ratios = results.round_ratios(ours, loop)
            verdicts.append(Verdict.at_most(1.3, f"{ours}: at most 1.3 of the {loop}", ratios))
        if results.have(ours, GRAIN):
            verdicts.append(Verdict.at_least(1, f"{ours}: ahead of Grain", results.round_ratios(GRAIN, ours)))
    if results.have(SCHEDULE, OURS):
        ratios = results.round_ratios(SCHEDULE, OURS)
        verdicts.append(Verdict.at_most(2, f"{SCHEDULE}: at most 2 of fixed weights", ratios))
    for inputs, most in (100, 2), (MANY, 10):
        verdicts += _at_most_each(results, _of(inputs, LONG), most, "")
    verdicts += _at_most_each(results, _of(MOST, SHORT), 120, ", which all end")
    return verdicts


WORKLOAD = Workload(
    name="mix",
    title="documents of two corpora in memory, 70 to 30, until the first has ended; and many inputs, by CPU time",
    contestants=CONTESTANTS,
    columns=(
        Column("ns a document", lambda each: f"{each.median() * 1e9:.0f}"),
        Column("of the loop", lambda each: f"{each.ratio:.2f}" if each.ratios else "-"),
    ),
    judge=_judge,
    baseline=LOOP,
    metric="seconds_each",
    arguments={"documents": 200_000},
    quick={"documents": 20_000},
    check=_check,
)
