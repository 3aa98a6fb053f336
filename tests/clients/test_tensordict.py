"""TensorDicts as rows: stacked by `collate`, and sent by workers."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

import feedpipe as fp


def episode_step(number: int) -> TensorDict:
    observation = {"pixels": torch.full((3, 4), number, dtype=torch.uint8), "speed": torch.tensor([number / 2])}
    return TensorDict({"observation": observation, "action": torch.tensor(number)}, batch_size=[])


def stack(number: int) -> torch.Tensor:
    return torch.arange(4 * number, 4 * number + 4)


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_become_one_tensordict(workers: int) -> None:
    pipe = fp.from_sequence(range(32)).map(episode_step).batch(4).collate()
    with fp.Loader(pipe, workers=workers) as loader:
        batches = list(loader)
    assert len(batches) == 8
    for number, batch in enumerate(batches):
        assert isinstance(batch, TensorDict) and batch.batch_size == torch.Size([4])
        assert torch.equal(batch["action"], stack(number))
        assert torch.equal(batch["observation", "speed"], stack(number)[:, None] / 2)
        assert batch["observation", "pixels"].dtype == torch.uint8
        assert batch["observation", "pixels"].shape == (4, 3, 4)
