"""Lines from objects on a real S3 server (moto), as it is and with 50 ms before each answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.servers.proxy import Proxy
from tests.servers.s3 import S3

from ..contestants.s3_tasks import BUCKET, content
from ..model import Column, Contestant, Results, Verdict, Workload

OBJECTS = 40
LATENCY = 0.05
SHARE = 0.8

_PLACES = {False: "", True: ", 50 ms"}
OURS = "feedpipe"

CONTESTANTS = tuple(
    Contestant(who + _PLACES[latency], target, where, {"latency": latency, **more}, ours=who == OURS)
    for latency in _PLACES
    for who, target, where, more in (
        (OURS, "s3_feedpipe:measure", "here", {}),
        ("pyarrow by hand", "s3_pyarrow:measure", "here", {"threads": 1}),
        ("pyarrow by hand, 16 threads", "s3_pyarrow:measure", "here", {"threads": 16}),
        ("s3fs by hand", "s3_s3fs:measure", "s3fs", {}),
    )
)


def prepare(folder: Path, stack: ExitStack) -> Mapping[str, Any]:
    server = S3.start(folder / "server.log")
    stack.callback(server.process.close)
    server.put(BUCKET, {f"{number:03d}.txt": content(number) for number in range(OBJECTS)})
    # Through a proxy both times: what that costs is no part of the latency.
    near, far = (stack.enter_context(Proxy(server.endpoint, latency=latency)) for latency in (0.0, LATENCY))
    return {"endpoint": near.endpoint, "slow": far.endpoint}


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    slow = OURS + _PLACES[True]
    if results.have(OURS, slow):
        shares = results.round_ratios(OURS, slow)
        title = f"with 50 ms of latency at least {SHARE} of what there is without"
        verdicts.append(Verdict.at_least(SHARE, title, shares))
    return verdicts


WORKLOAD = Workload(
    name="s3",
    title=f"lines from {OBJECTS} objects of 8 MiB, one process",
    contestants=CONTESTANTS,
    columns=(
        Column("MB/s", lambda each: f"{each.median('megabytes') / each.median():.0f}"),
        Column("of ours", lambda each: f"{1 / each.ratio:.2f}" if each.ratios else "-"),
    ),
    judge=_judge,
    baseline=OURS,
    rounds=5,
    arguments={"objects": OBJECTS},
    quick={"objects": 8},
    prepare=prepare,
)
