"""The programs of `docs/guides/trainers.md`, as they stand there, for the trainers that no other module tests."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

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
    """That of torchtitan, which cannot be imported without triton."""

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

    def loader() -> Any:
        rows = fp.from_arrays({"tokens": torch.arange(60).reshape(20, 3).numpy()})
        return names["FeedDataLoader"](fp.Loader(rows.shuffle().batch(2).collate(), seed=1))

    def taken(batches: Iterator[Any]) -> list[Any]:
        return [(inputs["input"].tolist(), labels.tolist()) for inputs, labels in batches]

    first, second = loader(), loader()
    batches = iter(first)
    for inputs, labels in (next(batches), next(batches)):
        assert (inputs["input"][:, 1:] == labels[:, :-1]).all() and labels.shape == (2, 2)
    checkpoint.save({"dataloader": first}, checkpoint_id=tmp_path, no_dist=True)
    checkpoint.load({"dataloader": second}, checkpoint_id=tmp_path, no_dist=True)
    rest = taken(batches)
    assert taken(iter(second)) == rest and len(rest) == 8
