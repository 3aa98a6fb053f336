"""What a list of ten million paths costs the workers: memory of each, and a later start."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload

OURS = "feedpipe, shuffled"
TORCH = "torch DataLoader, fork, shuffled"
MEGABYTES = 50
SECONDS = 1.0

CONTESTANTS = (
    Contestant(OURS, "memory_feedpipe:measure", arguments={"way": "shuffled"}, ours=True),
    Contestant("feedpipe, in order", "memory_feedpipe:measure", arguments={"way": "in_order"}, ours=True),
    Contestant(TORCH, "memory_dataloader:measure", "torch"),
)


def _judge(results: Results) -> list[Verdict]:
    if not results.have(OURS):
        return []
    ours = results.summaries[OURS]
    verdicts = []
    for name, figure in (("proportional", "pss_more"), ("unique", "uss_more")):
        more = ours.median(figure)
        verdicts.append(Verdict(f"{name} set: less than {MEGABYTES} MB more", f"{more:.0f} MB", more < MEGABYTES))
    later = ours.median("start_more")
    return [*verdicts, Verdict(f"starts less than {SECONDS:g} s later", f"{later:.2f} s", later < SECONDS)]


WORKLOAD = Workload(
    name="memory",
    title="the larger of 2 workers with a list of paths, over one with a list of empty strings",
    contestants=CONTESTANTS,
    columns=(
        Column.median("PSS at start, MB more", "pss_at_start_more"),
        Column.median("PSS after the sample", "pss_more"),
        Column.median("USS at start", "uss_at_start_more"),
        Column.median("USS after the sample", "uss_more"),
        Column.median("other processes", "others_more"),
        Column.median("shared files, once", "files_more"),
        Column.median("start, s", "start", 2),
        Column.median("start, s later", "start_more", 2),
    ),
    judge=_judge,
    baseline=TORCH,
    metric="start",
    rounds=3,
    arguments={"paths": 10_000_000, "sample": 20_000},
    quick={"paths": 500_000},
)
