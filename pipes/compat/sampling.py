"""What the samplers of a loader draw from, as plain JSON: with it they give the same keys again."""

from __future__ import annotations

import base64
import random
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from ..core.cursor import Json


class Sampling:
    """The samplers of a loader, and the generators that it and they were given.

    Args:
        loader_generator: the `generator` of the loader.
        samplers: its sampler and its batch sampler.
    """

    def __init__(self, loader_generator: torch.Generator | None, samplers: Iterable[object]) -> None:
        nested = [each for sampler in samplers for each in (sampler, getattr(sampler, "sampler", None))]
        self._samplers: list[Any] = _unique(each for each in nested if each is not None)
        owned = [loader_generator, *(getattr(sampler, "generator", None) for sampler in self._samplers)]
        self._generators: list[torch.Generator] = _unique(each for each in owned if isinstance(each, torch.Generator))

    def states(self) -> dict[str, Json]:
        """Where they stand."""
        return {
            "generators": [_encoded(generator.get_state()) for generator in self._generators],
            "samplers": [_sampler_state(sampler) for sampler in self._samplers],
        }

    def restore(self, states: Mapping[str, Any]) -> None:
        """Goes back to where they stood."""
        for generator, state in zip(self._generators, states["generators"], strict=True):
            generator.set_state(_tensor(state))
        for sampler, state in zip(self._samplers, states["samplers"], strict=True):
            if state is None:
                continue
            if "state" in state:
                sampler.load_state_dict(state["state"])
            else:
                sampler.set_epoch(state["epoch"])


def _sampler_state(sampler: Any) -> Json:
    """The sampler's own state; or its epoch, as that of `DistributedSampler`; or None."""
    if hasattr(sampler, "state_dict") and hasattr(sampler, "load_state_dict"):
        return {"state": sampler.state_dict()}
    epoch = getattr(sampler, "epoch", None)
    return {"epoch": epoch} if isinstance(epoch, int) and hasattr(sampler, "set_epoch") else None


def process_states() -> dict[str, Json]:
    """The states of the generators that the whole process shares."""
    version, words, gauss = random.getstate()
    kind, keys, *rest = cast("tuple[Any, ...]", np.random.get_state(legacy=True))
    return {
        "python": [version, _encoded(np.array(words, np.uint32)), gauss],
        "numpy": [kind, _encoded(keys), *rest],
        "torch": _encoded(torch.get_rng_state()),
    }


@contextmanager
def at_process_states(states: Mapping[str, Any]) -> Generator[None]:
    """Goes back to `states` for a while."""
    now = process_states()
    _set_process_states(states)
    try:
        yield
    finally:
        _set_process_states(now)


def _set_process_states(states: Mapping[str, Any]) -> None:
    version, words, gauss = states["python"]
    random.setstate((version, tuple(_array(words, np.uint32).tolist()), gauss))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, _array(keys, np.uint32), *rest))
    torch.set_rng_state(_tensor(states["torch"]))


def _unique(values: Iterable[Any]) -> list[Any]:
    return list({id(value): value for value in values}.values())


def _encoded(values: npt.NDArray[Any] | torch.Tensor) -> str:
    return base64.b64encode(np.asarray(values).tobytes()).decode()


def _array(text: str, dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), dtype).copy()


def _tensor(text: str) -> torch.Tensor:
    return torch.from_numpy(_array(text, np.uint8))
