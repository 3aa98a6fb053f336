"""`feedpipe.compat.DataLoader` against torch's, with the same datasets and settings, in one environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload

TITLES = {
    "fashion": "Fashion-MNIST, rows of arrays",
    "tensors": "Fashion-MNIST, tensors",
    "jpeg": "JPEG files",
    "tokens": "tokens",
}
WORKERS = (0, 1, 2)
SMALL = ("fashion", "tensors")
TIMES = 3  # on small items with workers


def _name(library: str, work: str) -> str:
    return f"{library}: {TITLES[work]}"


CONTESTANTS = tuple(
    Contestant(_name(library, work), f"dataloader_{library}:measure", arguments={"work": work}, ours=library != "torch")
    for work in TITLES
    for library in ("feedpipe", "torch")
)


def check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    return f"{found['differing']} values of the first batches differ from torch's" if found["differing"] else None


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for work, title in TITLES.items():
        ours, peer = _name("feedpipe", work), _name("torch", work)
        for workers in WORKERS if results.have(ours, peer) else ():
            figures = (results.summaries[name].figures for name in (peer, ours))
            ratios = [
                one[f"workers_{workers}"] / other[f"workers_{workers}"] for one, other in zip(*figures, strict=True)
            ]
            least = TIMES if workers and work in SMALL else 1
            verdicts.append(
                Verdict.at_least(least, f"{title}, {workers} workers: at least {least} times torch's", ratios)
            )
    return verdicts


WORKLOAD = Workload(
    name="dataloader",
    title="feedpipe.compat.DataLoader and torch's: batches of 64, shuffled, workers kept",
    contestants=CONTESTANTS,
    columns=tuple(
        Column(
            f"us a batch, {workers} workers",
            lambda each, figure=f"workers_{workers}": f"{each.median(figure) * 1e6:.0f}",  # type: ignore[misc]
        )
        for workers in WORKERS
    ),
    judge=_judge,
    baseline="",
    metric="workers_2",
    rounds=5,
    arguments={"batches": 600},
    quick={"batches": 100},
    check=check,
    prepare=lambda folder, _: made(folder, "jpeg_tasks:make", {"images": 512}),
)
