"""Ours beside a loop by hand that shuffles as deeply; each row of the table is a goal."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..harness import made
from ..model import Column, Contestant, Results, Summary, Verdict, Workload


class Goal(NamedTuple):
    """A case, and the largest ratios of ours to the loop.

    Attributes:
        one, eight: with one shard and with eight.
        pipe: `for x in pipe`, without a loader.
    """

    arguments: dict[str, Any]
    one: float
    eight: float | None
    pipe: float | None = None


def _table(groups: str, batch: int, *, shuffled: bool = True) -> dict[str, Any]:
    return {"case": groups, "batch": batch, "shuffled": shuffled}


GOALS = {
    "ints": Goal({"case": "ints"}, 1.0, 1.0, 0.75),
    "dicts": Goal({"case": "dicts"}, 1.1, 1.1),
    "Parquet in order, batches of 4,096": Goal(_table("few", 4096, shuffled=False), 1.1, None),
    "Parquet, row groups of 10,000, batches of 1,024": Goal(_table("many", 1024), 1.05, 1.15),
    "Parquet, row groups of 10,000, batches of 4,096": Goal(_table("many", 4096), 1.05, 1.15),
    "Parquet, row groups of 100,000, batches of 1,024": Goal(_table("few", 1024), 1.05, 1.25),
    "Parquet, row groups of 100,000, batches of 4,096": Goal(_table("few", 4096), 1.05, 1.25),
}


def _ratios(each: Summary, name: str) -> list[float]:
    """Of the medians, in each round of the benchmark, to those of the loop that shuffles as deeply."""
    peer = "deep" if name == "eight" and "deep_median" in each.figures[0] else "loop"
    return [figures[f"{name}_median"] / figures[f"{peer}_median"] for figures in each.figures]


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for title, goal in GOALS.items():
        if results.have(title):
            summary = results.summaries[title]
            limits = {"one": goal.one, "eight": goal.eight, "pipe": goal.pipe}
            words = {"one": "one shard", "eight": "eight shards", "pipe": "without a loader"}
            for name, limit in limits.items():
                if limit is not None:
                    target = f"{title}, {words[name]}: at most {limit} of the loop"
                    verdicts.append(Verdict.at_most(limit, target, _ratios(summary, name)))
    return verdicts


def _times(title: str, name: str) -> Column:
    def text(each: Summary) -> str:
        if f"{name}_min" not in each.figures[0]:
            return ""
        return f"{each.median(f'{name}_min'):.0f}, {each.median(f'{name}_median'):.0f}"

    return Column(title, text)


WORKLOAD = Workload(
    name="shuffle",
    title="ns of CPU a row on one core, minimum and median of interleaved passes, beside a loop by hand",
    contestants=tuple(
        Contestant(title, "shuffle_by_hand:measure", arguments=goal.arguments, ours=True)
        for title, goal in GOALS.items()
    ),
    columns=(
        _times("loop by hand", "loop"),
        _times("as deep as eight shards", "deep"),
        _times("one shard", "one"),
        _times("eight shards", "eight"),
        _times("without a loader", "pipe"),
    ),
    judge=_judge,
    baseline="ints",
    metric="one_median",
    rounds=3,
    arguments={"rows": 1_500_000, "rounds": 7},
    quick={"rounds": 2},
    prepare=lambda folder, _: made(folder, "shuffle_by_hand:make", {"rows": 1_500_000}),
)
