"""What a reading service keeps that hands out elements as they come."""

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
    """The same elements as here, those of one worker in their order; and no state."""
    with case.here() as here, case.loader() as loader:
        expected, found = taken(here.with_info()), taken(loader.with_info())
        _check_elements(f"{case}: the first epoch", [x.element for x in found], [x.element for x in expected])
        assert [x[1:3] for x in found] == [x[1:3] for x in expected], f"{case}: epoch and step count the elements"
        owners = _owners(case)
        for owner in set(owners.values()):
            order, wanted = ([x for x in map(_text, run) if owners[x] == owner] for run in (found, expected))
            assert order == wanted, f"{case}: part {owner} has the order {order} and should have {wanted}"
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


def _check_elements(what: str, got: list[object], expected: list[object]) -> None:
    one, other = Counter(map(plain, got)), Counter(map(plain, expected))
    assert one == other, f"{what} lacks {list(other - one)} and has {list(one - other)} in excess"


def _text(one: Taken) -> str:
    return plain(one.element)


def _owners(case: Case) -> dict[str, int]:
    """For each element of the first epoch, the worker or the shard that makes it."""
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
    """An element as text that says all of it."""
    if isinstance(element, Mapping):
        return str({key: plain(value) for key, value in element.items()})
    if hasattr(element, "__array__"):
        return str(np.asarray(element).tolist())
    if isinstance(element, Sequence) and not isinstance(element, (str, bytes)):
        return str([plain(row) for row in element])
    return repr(element)
