"""How costs grow with the size of the work."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Summary, Verdict, Workload

#: Above 1 by what a busy machine adds to CPU times between two sizes.
MOST = {"cpu": 1.15, "bytes": 1.05, "requests": 1.05, "memory": 1.15}


def _contestant(name: str, work: str, *sizes: int) -> Contestant:
    return Contestant(name, "scaling_feedpipe:measure", arguments={"work": work, "sizes": sizes}, ours=True)


CONTESTANTS = (
    _contestant("rows of a chain", "rows", 1_000, 30_000, 240_000),
    _contestant("files", "files", 10, 100, 800),
    _contestant("row groups of a Parquet file", "row_groups", 10, 50, 400),
    _contestant("row groups, with a window", "shuffled_row_groups", 10, 50, 400),
    _contestant("columns", "columns", 10, 300, 3_000),
    _contestant("columns, with a window", "shuffled_columns", 10, 300, 3_000),
    _contestant("operators in a chain", "operators", 2, 10, 40),
    _contestant("inputs of concat", "concat", 2, 30, 240),
    _contestant("inputs of zip", "zip", 2, 30, 240),
    _contestant("inputs of mix", "mix", 2, 100, 1_000),
    _contestant("files of interleave", "interleave", 2, 30, 240),
    _contestant("rounds of repeat", "rounds", 2, 4, 64),
    _contestant("window", "window", 100, 1_000, 10_000),
    _contestant("batch size", "batch", 10, 100, 1_000),
    _contestant("ranks", "ranks", 2, 128, 1_024),
    _contestant("shards of a rank", "shards", 8, 512, 4_096),
    _contestant("rows before a resume", "resume", 100, 2_000, 100_000),
    _contestant("state, by shards", "state", 8, 512, 4_096),
)


def _exponent(title: str, cost: str) -> Column:
    return Column(title, lambda each: f"{each.median(f'{cost}_exponent'):.2f}" if each.median(cost) else "")


def _each(summary: Summary) -> str:
    return f"{summary.median('each') * 1e6:,.1f}"


def _judge(results: Results) -> list[Verdict]:
    return [_worst(cost, results) for cost in MOST]


def _worst(cost: str, results: Results) -> Verdict:
    exponents = {
        name: summary.median(f"{cost}_exponent") for name, summary in results.summaries.items() if summary.median(cost)
    }
    name = max(exponents, key=exponents.__getitem__)
    return Verdict(
        f"{cost}: at most {MOST[cost]}",
        f"{exponents[name]:.2f} ({name})",
        all(e <= MOST[cost] for e in exponents.values()),
    )


WORKLOAD = Workload(
    name="scaling",
    title="exponents of costs: n times the work costs n to this power",
    contestants=CONTESTANTS,
    columns=(
        Column("from", lambda each: f"{each.last('from'):,}"),
        Column("to", lambda each: f"{each.last('to'):,}"),
        _exponent("CPU", "cpu"),
        _exponent("bytes", "bytes"),
        _exponent("requests", "requests"),
        _exponent("memory", "memory"),
        Column("microseconds of CPU each", _each),
    ),
    judge=_judge,
    baseline="rows of a chain",
    metric="cpu",
    rounds=1,
    check=lambda found, arguments: None,
)
