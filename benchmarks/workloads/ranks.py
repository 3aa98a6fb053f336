"""What it costs two ranks to agree on the end of an epoch whose length is not known."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload

LIMIT = 0.02


def _contestant(batch: int) -> Contestant:
    return Contestant(f"batches of {batch} rows", "ranks_feedpipe:measure", arguments={"batch": batch}, ours=True)


CONTESTANTS = (_contestant(256), _contestant(4096))


def _judge(results: Results) -> list[Verdict]:
    """By CPU time, which tells more than wall time on a busy machine; the control shows how far off it is."""
    return [
        Verdict(
            f"{name}: agreement under {LIMIT:.0%}",
            f"{each.median('cpu_agreeing') - 1:.1%}",
            each.median("cpu_agreeing") < 1 + LIMIT,
        )
        for name, each in results.summaries.items()
    ]


WORKLOAD = Workload(
    name="ranks",
    title="two ranks that agree on the end of an epoch, against the same two with `even=None`",
    contestants=CONTESTANTS,
    columns=(
        Column("ms a pass", lambda each: f"{each.median('wall') * 1e3:.0f}"),
        Column.median("batches", "batches"),
        Column.median("wall, agreeing", "wall_agreeing", 3),
        Column.median("wall, control", "wall_control", 3),
        Column.median("CPU, agreeing", "cpu_agreeing", 3),
        Column.median("CPU, control", "cpu_control", 3),
    ),
    judge=_judge,
    baseline="batches of 256 rows",
    metric="wall",
    rounds=3,
    arguments={"rows": 1_000_000},
    quick={"rows": 400_000},
)
