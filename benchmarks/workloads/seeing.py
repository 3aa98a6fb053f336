"""What it costs that a loader counts what its threads do."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Summary, Verdict, Workload

LIMIT, LIMIT_OF_BARE_ROWS = 0.01, 0.02
"""Of the CPU time of an epoch whose blocks take `BLOCK_SECONDS` or more."""
BLOCK_SECONDS = 5e-4
LIMIT_OF_BLOCK, LIMIT_OF_EPOCH = 5e-6, 50e-6
"""Seconds of CPU time, for a block that takes less, and for an epoch of one."""


def _contestant(name: str, pipe: str) -> Contestant:
    return Contestant(name, "seeing_feedpipe:measure", arguments={"pipe": pipe}, ours=True)


BARE = "bare rows"
CONTESTANTS = (
    _contestant("an epoch of one element", "element"),
    _contestant(BARE, "rows"),
    _contestant("arrays, a map in Python, batch, collate", "python"),
    _contestant("columns, shuffle, batch(256), collate", "columns"),
    _contestant("images of 12 KiB, shuffle, batch(64), collate", "images"),
    _contestant("ten maps, batch", "deep"),
    _contestant("Parquet, window, batch, collate", "parquet"),
    _contestant("JSON lines, map, filter, batch", "jsonl"),
)


def _limit(each: Summary) -> tuple[float, str]:
    """The limit as a part of the CPU time, and in words."""
    if each.contestant.name == BARE:
        return LIMIT_OF_BARE_ROWS, f"{LIMIT_OF_BARE_ROWS:.0%} of CPU time"
    seconds, blocks = each.median("seconds"), each.median("blocks")
    if blocks == 1:
        return LIMIT_OF_EPOCH / seconds, f"{LIMIT_OF_EPOCH * 1e6:.0f} us"
    if seconds / blocks < BLOCK_SECONDS:
        return LIMIT_OF_BLOCK * blocks / seconds, f"{LIMIT_OF_BLOCK * 1e6:.0f} us a block"
    return LIMIT, f"{LIMIT:.0%} of CPU time"


def _judge(results: Results) -> list[Verdict]:
    """By the median of the ratios of neighbours: two epochs, one with counting and one without, in either order."""
    verdicts: list[Verdict] = []
    for name, each in results.summaries.items():
        limit, words = _limit(each)
        ratios = [figures["ratio"] for figures in each.figures]
        verdicts.append(Verdict.at_most(1 + limit, f"{name}: at most {words}", ratios, 4))
    return verdicts


WORKLOAD = Workload(
    name="seeing",
    title="counting what threads do, against epochs without",
    contestants=CONTESTANTS,
    columns=(
        Column("CPU ms of an epoch without", lambda each: f"{each.median('seconds') * 1e3:.1f}"),
        Column.median("blocks", "blocks"),
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
