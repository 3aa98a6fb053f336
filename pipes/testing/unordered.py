"""The checks of a reading service that hands out elements as they arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ..engine.stage import resolve
from ..errors import LoaderError
from ..plan.plan import Plan, Position
from ..services.base import Step
from ..services.inprocess import InProcess
from .runs import Case, Taken, check_raises, saved, taken


def check_unordered(case: Case) -> list[Taken]:
    """Checks for the elements of this process, those of each worker in their order, and for no state."""
    with case.here() as here, case.loader() as loader:
        expected, run = taken(here.with_info()), taken(loader.with_info())
        _check_elements(f"{case}: the first epoch", [x.element for x in run], [x.element for x in expected])
        assert [x[1:3] for x in run] == [x[1:3] for x in expected], f"{case}: epoch and step count the elements"
        owners = _owners(case)
        for owner in set(owners.values()):
            order, expected_order = (
                [text for x in elements if owners[text := plain(x.element)] == owner] for elements in (run, expected)
            )
            assert order == expected_order, (
                f"{case}: part {owner} has the order {order} and should have {expected_order}"
            )
        _check_elements(f"{case}: the second epoch", list(loader), list(here))
        for _, info in loader.with_info():
            for state_dict in (loader.state_dict, info.state_dict):
                check_raises(state_dict, LoaderError, "ordered=False", f"{case}: without an order there is no state")
            break
        if expected:
            here.set_epoch(0)
            iterator = iter(here)
            next(iterator)
            loader.load_state_dict(saved(here))
            _check_elements(f"{case}: after a state was loaded", list(loader), list(iterator))
        return expected


def _check_elements(what: str, elements: list[object], expected: list[object]) -> None:
    actual, wanted = Counter(map(plain, elements)), Counter(map(plain, expected))
    assert actual == wanted, f"{what} lacks {list(wanted - actual)} and has {list(actual - wanted)} in excess"


def _owners(case: Case) -> dict[str, int]:
    """The worker or shard of each element of the first epoch."""
    plan = Plan(
        resolve(case.sample.pipe),
        seed=0,
        rank=case.rank,
        world_size=case.ranks,
        workers=case.service.workers,
        shards=case.sample.shards,
    )
    session = InProcess().start().open(plan, Position(), 0)
    steps = [item for item in session if isinstance(item, Step)]
    session.close()
    workers = max(1, case.service.workers)
    return {plain(step.element): k % workers if plan.indexed else step.shard for k, step in enumerate(steps)}


def plain(element: object) -> str:
    """An element as text, with all of its values."""
    if isinstance(element, Mapping):
        return str({key: plain(value) for key, value in element.items()})
    if hasattr(element, "__array__"):
        return str(np.asarray(element).tolist())
    if isinstance(element, Sequence) and not isinstance(element, (str, bytes)):
        return str([plain(row) for row in element])
    return repr(element)
