"""The programs of `docs/guides/trainers.md`, as they stand there, for the trainers that no other module tests."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import checkpoint

import feedpipe as fp

from .programs import GUIDE, program
from .test_trl import ROWS, model_and_tokenizer


def test_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chats").mkdir()
    Path("chats/a.jsonl").write_text("".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(ROWS)))
    model, tokenizer, seen = model_and_tokenizer()
    code = program("Transformers and TRL").replace("max_steps=1000", "max_steps=3, use_cpu=True, bf16=False")
    exec(code, {"model": model, "tokenizer": tokenizer})
    assert len(set(seen)) == 3 * 8


class TestTorchtitan:
    def test_its_checkpoints_keep_the_place(self, tmp_path: Path) -> None:
        from torchtitan.components.dataloader import BaseDataLoader  # warns, which stops a collection of tests

        names: dict[str, Any] = {"fp": fp}
        exec(program("torchtitan"), names)

        def loader() -> Any:
            rows = fp.from_arrays({"tokens": torch.arange(60).reshape(20, 3).numpy()})
            made = names["FeedDataLoader"](fp.Loader(rows.shuffle().batch(2).collate(), seed=1))
            assert isinstance(made, BaseDataLoader)
            return made

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

    def test_the_page_counts_lines(self) -> None:
        from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataset

        code = program("torchtitan")
        ours = [line for line in code[code.index("class") :].splitlines() if line]
        theirs = inspect.getsource(HuggingFaceTextDataset).splitlines()
        assert f"These are {len(ours)} lines, and theirs, `HuggingFaceTextDataset`, has {len(theirs)}" in GUIDE
