"""What `loader.state_dict()` after every batch costs."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload

LIMIT = 0.02


def _contestant(name: str, pipe: str, workers: int = 0) -> Contestant:
    return Contestant(name, "state_feedpipe:measure", arguments={"pipe": pipe, "workers": workers}, ours=True)


CONTESTANTS = (
    _contestant("overhead's chain", "rows"),
    _contestant("from_arrays, shuffle, batch, collate", "arrays"),
    _contestant("overhead's chain, 2 workers", "rows", workers=2),
)


def _judge(results: Results) -> list[Verdict]:
    """By the time inside the calls, less what reading the clock costs.

    Whole passes cannot tell 2 % on a busy machine: the control, two equal passes, shows how far off.
    """
    return [
        Verdict(
            f"{name}: state_dict() under {LIMIT:.0%}",
            f"{each.median('share'):.1%}",
            each.median("share") < LIMIT,
        )
        for name, each in results.summaries.items()
    ]


WORKLOAD = Workload(
    name="state",
    title="loader.state_dict() after every batch, against a pass without",
    contestants=CONTESTANTS,
    columns=(
        Column("ms without", lambda each: f"{each.median('seconds') * 1e3:.0f}"),
        Column("ms with", lambda each: f"{each.median('seconds_with') * 1e3:.0f}"),
        Column.median("with/without", "ratio", 3),
        Column.median("control", "control", 3),
        Column.median("batches", "calls"),
        Column(
            "microseconds a call",
            lambda each: f"{each.median('in_calls') / each.median('calls') * 1e6:.1f}",
        ),
        Column("share in calls", lambda each: f"{each.median('share'):.1%}"),
        Column.median("bytes of JSON", "bytes"),
    ),
    judge=_judge,
    baseline="overhead's chain",
    rounds=5,
    arguments={"rows": 500_000, "seed": 0},
    quick={"rows": 60_000},
)
