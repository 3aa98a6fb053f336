"""What it costs that a loader counts what its threads do."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Summary, Verdict, Workload

LIMIT, LIMIT_OF_BARE_ROWS = 0.01, 0.02
"""Of the CPU time of an epoch."""


def _contestant(name: str, pipe: str) -> Contestant:
    return Contestant(name, "seeing_feedpipe:measure", arguments={"pipe": pipe}, ours=True)


BARE = "bare rows"
CONTESTANTS = (
    _contestant(BARE, "rows"),
    _contestant("arrays, a map in Python, batch, collate", "python"),
    _contestant("columns, shuffle, batch(256), collate", "columns"),
    _contestant("images of 12 KiB, shuffle, batch(64), collate", "images"),
    _contestant("ten maps, batch", "deep"),
    _contestant("Parquet, window, batch, collate", "parquet"),
    _contestant("JSON lines, map, filter, batch", "jsonl"),
)


def _limit(each: Summary) -> float:
    return LIMIT_OF_BARE_ROWS if each.contestant.name == BARE else LIMIT


def _judge(results: Results) -> list[Verdict]:
    """By the median of the ratios of neighbours: two epochs, one with counting and one without, in either order."""
    return [
        Verdict.at_most(
            1 + _limit(each),
            f"{name}: at most {_limit(each):.0%} of CPU time",
            [figures["ratio"] for figures in each.figures],
            4,
        )
        for name, each in results.summaries.items()
    ]


WORKLOAD = Workload(
    name="seeing",
    title="counting what threads do, against epochs without",
    contestants=CONTESTANTS,
    columns=(
        Column("CPU ms of an epoch without", lambda each: f"{each.median('seconds') * 1e3:.1f}"),
        Column.median("pairs", "pairs"),
        Column("more with", lambda each: f"{each.median('ratio') - 1:+.2%}"),
        Column("quartiles of pairs", lambda each: f"{each.median('low') - 1:+.1%} to {each.median('high') - 1:+.1%}"),
        Column("control", lambda each: f"{each.median('control') - 1:+.2%}"),
        Column("blocks measured", lambda each: f"{each.median('measured'):.0%}"),
    ),
    judge=_judge,
    baseline=BARE,
    rounds=5,
    arguments={"seconds": 8.0},
    quick={"seconds": 1.0},
)
