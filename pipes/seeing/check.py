"""`check`: what a pipe will cost its user, found before a run."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import overload

from ..core.checks import check_int
from ..core.findings import Finding, FoundWarning
from ..core.graph import Node
from ..plan.explain import check_numbers
from .rules import RULES
from .rules.checked_pipe import CheckedPipe


def check(pipe: Node, *, world_size: int, workers: int, shards: int | None, rows: int) -> Findings:
    """What is costly in a loader of `pipe`; see `Pipe.check`."""
    check_numbers(world_size, workers, shards)
    check_int("rows", rows, least=0)
    with _recorded() as found:
        view = CheckedPipe(pipe, world_size=world_size, workers=workers, shards=shards, rows=rows)
        for rule in RULES:
            found += rule(view)
    order = {"error": 0, "warning": 1, "hint": 2}
    by_place: dict[object, Finding] = {}
    for finding in found:
        by_place.setdefault((finding.rule, finding.where), finding)
    return Findings(sorted(by_place.values(), key=lambda finding: order[finding.severity]))


class Findings(Sequence[Finding]):
    """What `check` has found, errors first. Printed, it is a text with the repairs."""

    def __init__(self, findings: Sequence[Finding] = ()) -> None:
        self._findings = tuple(findings)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        return self._findings[index]

    def __len__(self) -> int:
        return len(self._findings)

    def __repr__(self) -> str:
        return "\n".join(map(str, self._findings)) or "nothing found"


@contextmanager
def _recorded() -> Generator[list[Finding]]:
    """A list of findings, to which those are added at the end that were warned of meanwhile."""
    found: list[Finding] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [warning.message.finding for warning in caught if isinstance(warning.message, FoundWarning)]
