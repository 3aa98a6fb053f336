"""What `import feedpipe` costs in a fresh interpreter, and what its neighbours cost."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload

OURS = "feedpipe"
LIMIT = 0.35

_TARGET = "imports:measure"

CONTESTANTS = (
    Contestant(OURS, _TARGET, arguments={"module": "feedpipe"}, ours=True),
    Contestant("numpy", _TARGET, arguments={"module": "numpy"}),
    Contestant("pyarrow", _TARGET, arguments={"module": "pyarrow"}),
    Contestant("torch", _TARGET, "torch", {"module": "torch"}),
    Contestant("torch.utils.data", _TARGET, "torch", {"module": "torch.utils.data"}),
    Contestant("webdataset", _TARGET, "webdataset", {"module": "webdataset"}),
    Contestant("torchdata.nodes", _TARGET, "torchdata-0.11", {"module": "torchdata.nodes"}),
    Contestant("torchdata.datapipes.iter", _TARGET, "torchdata-0.9", {"module": "torchdata.datapipes.iter"}),
)


def _judge(results: Results) -> list[Verdict]:
    if not results.have(OURS):
        return []
    ours = results.summaries[OURS]
    seconds = ours.median()
    torch = any(each["torch"] for each in ours.figures)
    return [
        Verdict(f"import feedpipe: at most {LIMIT} s", f"{seconds:.3f} s", seconds <= LIMIT),
        Verdict("import feedpipe: without torch", "with" if torch else "without", not torch),
    ]


WORKLOAD = Workload(
    name="import",
    title="a fresh interpreter imports one module",
    contestants=CONTESTANTS,
    columns=(
        Column("ms", lambda each: f"{each.median() * 1e3:.0f}"),
        Column("of feedpipe", lambda each: f"{each.ratio:.2f}" if each.ratios else "-"),
        Column.median("modules", "modules"),
        Column.median("peak MiB", "peak_mib"),
        Column("torch loaded", lambda each: "yes" if each.last("torch") else "no"),
    ),
    judge=_judge,
    baseline=OURS,
    rounds=15,
)
