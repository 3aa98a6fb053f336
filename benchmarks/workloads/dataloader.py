"""`feedpipe.compat.DataLoader` against torch's, with the same datasets and settings, in one environment.

Grain and SPDL stand beside them. Grain has no API for a dataset of tensors; SPDL has none without workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..harness import made
from ..model import HERE, Column, Contestant, Results, Summary, Verdict, Workload

TITLES = {
    "fashion": "Fashion-MNIST, rows of arrays",
    "tensors": "Fashion-MNIST, tensors",
    "jpeg": "JPEG files",
    "tokens": "tokens",
}
LIBRARIES = {"feedpipe": HERE, "torch": HERE, "grain": "grain", "spdl": "spdl"}
"""The environments of the libraries."""
WORKERS = (0, 1, 2)
SMALL = ("fashion", "tensors")
TIMES = 3  # on small items with workers


def _name(library: str, work: str) -> str:
    return f"{library}: {TITLES[work]}"


CONTESTANTS = tuple(
    Contestant(
        _name(library, work), f"dataloader_{library}:measure", environment, {"work": work}, ours=library == "feedpipe"
    )
    for work in TITLES
    for library, environment in LIBRARIES.items()
    if (library, work) != ("grain", "tensors")
)


def check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    return (
        f"{found['differing']} values of the first batches differ from those of the rows"
        if found["differing"]
        else None
    )


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


def _column(workers: int) -> Column:
    figure = f"workers_{workers}"

    def text(each: Summary) -> str:
        return f"{each.median(figure) * 1e6:.0f}" if figure in each.figures[0] else "-"

    return Column(f"us a batch, {workers} workers", text)


WORKLOAD = Workload(
    name="dataloader",
    title="feedpipe.compat.DataLoader beside torch's, Grain and SPDL: batches of 64, shuffled",
    contestants=CONTESTANTS,
    columns=tuple(map(_column, WORKERS)),
    judge=_judge,
    baseline="",
    metric="workers_2",
    rounds=5,
    arguments={"batches": 600},
    quick={"batches": 100},
    check=check,
    prepare=lambda folder, _: made(folder, "jpeg_tasks:make", {"images": 512}),
)
