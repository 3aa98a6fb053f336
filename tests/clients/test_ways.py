"""The table of `docs/guides/trainers.md`: clients, and ways to give them a pipe, on two processes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ..support.torchrun import torchrun
from .programs import GUIDE
from .ways_job import BATCH, CLIENTS, KINDS, ROWS, WAYS, WAYS_OF_STREAMS, is_tried

DIVIDED_ALREADY = "divided the pipe among 2 ranks already.* rank=0 and world_size=1, or use .*PreparedLoader"
DIVIDES = {"Accelerate", "Accelerate, dispatched", "Trainer", "Trainer, dispatched"}
MAKES_A_LOADER = {"Trainer", "Trainer, dispatched"}
UNEVEN_IN_WORKERS = r"cannot be made even in the workers of a DataLoader; give fp.Loader\(pipe, workers=...\)"
UNEVEN_PARTS = r"2 processes divide a streamed pipe unevenly.* give `dataset\(pipe, repeat=True\)`"


def refusal(client: str, way: str, kind: str) -> str | None:
    """What the error says, if the client refuses a pipe that it is given in this way."""
    if way.startswith("iterable dataset") and client in DIVIDES:
        return DIVIDED_ALREADY
    if way == "iterable dataset, workers":
        return UNEVEN_IN_WORKERS
    if way == "dataset" and kind != "indexed" and client in ("torchrun", "Accelerate", "Fabric", "Lightning"):
        return UNEVEN_PARTS
    if way.endswith("loader") and client in MAKES_A_LOADER:
        return "feedpipe.transformers.dataset" if kind == "indexed" else "the length of this pipe is not known"
    return None


Report = dict[str, list[int] | str]
CASES = [(c, w, k) for c in CLIENTS for w in WAYS_OF_STREAMS for k in KINDS if is_tried(c, w, k)]


@pytest.fixture(scope="module")
def reports_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Report]]:
    """Runs the job of a client once."""

    @cache
    def run(client: str) -> list[Report]:
        folder = tmp_path_factory.mktemp("ways")
        torchrun(Path(__file__).with_name("ways_job.py"), client, str(folder))
        return [json.loads((folder / f"{client}.{rank}").read_text()) for rank in (0, 1)]

    return run


@pytest.mark.parametrize(("client", "way", "kind"), CASES)
def test_each_row_once_or_a_refusal(
    reports_of: Callable[[str], list[Report]], client: str, way: str, kind: str
) -> None:
    results = [report[f"{way}, {kind}"] for report in reports_of(client)]
    if error := refusal(client, way, kind):
        assert all(isinstance(result, str) and re.search(error, result) for result in results), results
        return
    first, second = results
    assert isinstance(first, list) and isinstance(second, list), results
    if kind != "uneven":
        assert sorted(first + second) == list(range(ROWS))
    elif way != "repeated dataset":  # that goes on with the next round
        assert -(-len(first) // BATCH) == -(-len(second) // BATCH) > ROWS // 8
        assert len({*first, *second}) == len(first) + len(second)


def test_the_guide_has_the_table() -> None:
    rows = [line.split("|")[1:-1] for line in GUIDE.splitlines() if line.startswith("| ")]
    table = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}
    for client in ("torchrun", "Accelerate", "Fabric", "Lightning", "Trainer"):
        refused = [cell.startswith("no") for cell in table[client]]
        assert refused == [refusal(client, way, "indexed") is not None for way in WAYS]
