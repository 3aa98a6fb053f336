"""Whether Parquet files of any size are read in flat memory: of this process and its two workers together."""

from __future__ import annotations

from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload

GIGABYTES = 4.0
GROWTH = 1.1

_TARGET = "parquet_memory_feedpipe:measure"

CONTESTANTS = (
    Contestant("feedpipe, in order", _TARGET, arguments={"window": 0}, ours=True),
    Contestant("feedpipe, window of 100,000", _TARGET, arguments={"window": 100_000}, ours=True),
)


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for name, each in results.summaries.items():
        growth = each.median("second_half") / each.median("first_half")
        title = f"{name}: the second half of the pass takes no more than {GROWTH} times the first"
        verdicts.append(Verdict(title, f"{growth:.2f}", growth <= GROWTH))
    return verdicts


WORKLOAD = Workload(
    name="parquet-memory",
    title="the proportional sets of a process and its 2 workers, reading 4 GB of Parquet",
    contestants=CONTESTANTS,
    columns=(
        Column.median("MB at a twentieth", "first"),
        Column.median("most, first half", "first_half"),
        Column.median("most, second half", "second_half"),
        Column.median("at the end", "last"),
        Column.median("seconds", "seconds"),
    ),
    judge=_judge,
    baseline=CONTESTANTS[0].name,
    rounds=1,
    arguments={"gigabytes": GIGABYTES},
    prepare=lambda folder, _: made(folder, "parquet_memory_feedpipe:make", {"gigabytes": GIGABYTES}),
)
