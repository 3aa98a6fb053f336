"""The programs of `docs/guides/trainers.md`, as they stand there, for the trainers that no other module tests."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint.stateful import Stateful

import feedpipe as fp

from .programs import program
from .test_trl import ROWS, model_and_tokenizer


def test_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chats").mkdir()
    Path("chats/a.jsonl").write_text("".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(ROWS)))
    model, tokenizer, seen = model_and_tokenizer()
    code = program("Transformers and TRL").replace("max_steps=1000", "max_steps=3, use_cpu=True, bf16=False")
    exec(code, {"model": model, "tokenizer": tokenizer})
    assert len(set(seen)) == 3 * 8


class BaseDataLoader(Stateful, ABC):
    """That of torchtitan 0.3, whose pins exclude `datasets` 5."""

    @dataclass(kw_only=True, slots=True)
    class Config:
        dataset: str = ""
        dataset_path: str | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]: ...


def test_torchtitan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoints, which are torch's distributed ones, keep the place."""
    module: Any = ModuleType("torchtitan.components.dataloader")
    module.BaseDataLoader = BaseDataLoader
    for name in ("torchtitan", "torchtitan.components", module.__name__):
        monkeypatch.setitem(sys.modules, name, module)
    names: dict[str, Any] = {"fp": fp}
    exec(program("torchtitan"), names)
    np.arange(60, dtype="uint16").tofile(tmp_path / "tokens.bin")

    def loader() -> Any:
        made = names["FeedDataLoader"]
        config = made.Config(dataset_path=str(tmp_path / "tokens.bin"))
        sizes = {"dp_rank": 0, "dp_world_size": 1, "seq_len": 2, "local_batch_size": 2}
        return made(config, **sizes, tokenizer=None, snapshot_every_n_steps=None)

    def taken(batches: Iterator[Any]) -> list[Any]:
        return [(inputs["input"].tolist(), labels.tolist()) for inputs, labels in islice(batches, 12)]

    first, second = loader(), loader()
    batches = iter(first)
    for inputs, labels in (next(batches), next(batches)):
        assert (inputs["input"][:, 1:] == labels[:, :-1]).all() and labels.shape == (2, 2)
        assert labels.dtype == torch.int64
    folder = tmp_path / "checkpoint"
    checkpoint.save({"dataloader": first}, checkpoint_id=folder, no_dist=True)
    checkpoint.load({"dataloader": second}, checkpoint_id=folder, no_dist=True)
    rest = taken(batches)
    assert taken(iter(second)) == rest and len(rest) == 12  # an epoch has 10
