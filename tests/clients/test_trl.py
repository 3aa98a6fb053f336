"""TRL's `SFTTrainer` on pipes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

import feedpipe as fp
from feedpipe.transformers import dataset

ROWS = 24
BATCH = 2
FIRST = 3  # the token of row 0


def texts(column: str) -> fp.Pipe[Any]:
    """Shuffled rows; each is one token of its own, behind a token that all have."""
    rows: list[dict[str, Any]] = [
        {"text": f"row {n}"} if column == "text" else {"input_ids": [FIRST - 1, FIRST + n]} for n in range(ROWS)
    ]
    return fp.from_sequence(rows).filter(bool).shuffle(window=5)


def model_and_tokenizer() -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast, list[int]]:
    """A small model and its tokenizer, and the rows that the model sees, in training and after it."""
    words = {"[PAD]": 0, "[EOS]": 1, "row": 2, **{str(n): FIRST + n for n in range(ROWS)}}
    splitter = Tokenizer(WordLevel(words, unk_token="[PAD]"))
    splitter.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=splitter, pad_token="[PAD]", eos_token="[EOS]")
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(words), **sizes))
    seen: list[int] = []

    def note(module: object, arguments: object, named: dict[str, Any]) -> None:
        tokens = named["input_ids"]
        seen.extend((tokens[tokens >= FIRST] - FIRST).tolist())

    model.register_forward_pre_hook(note, with_kwargs=True)
    return model, tokenizer, seen


def train(folder: Path, data: Any, resume: Path | None = None, **options: Any) -> list[int]:
    """Train for 18 steps, and return the rows that the model saw."""
    model, tokenizer, seen = model_and_tokenizer()
    settings: dict[str, Any] = {"max_steps": 18, "save_steps": 6, "per_device_train_batch_size": BATCH, **options}
    arguments = SFTConfig(str(folder), use_cpu=True, bf16=False, report_to=[], disable_tqdm=True, **settings)
    validation = dataset(fp.from_sequence([{"text": f"row {n}"} for n in range(4)]))
    trainer = SFTTrainer(model, arguments, train_dataset=data, eval_dataset=validation, processing_class=tokenizer)
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    trained = [*seen]
    seen.clear()
    trainer.evaluate()
    assert seen == list(range(4))
    return trained


@pytest.mark.parametrize("column", ["text", "input_ids"])
def test_it_trains_on_each_row_once_and_resumes(tmp_path: Path, column: str) -> None:
    rows = train(tmp_path, dataset(texts(column), seed=1, repeat=True))
    assert rows == [
        row["input_ids"][1] - FIRST if column == "input_ids" else int(row["text"].split()[1])
        for _, row in zip(range(18 * BATCH), fp.Loader(texts(column), seed=1, steps=18 * BATCH), strict=True)
    ]
    assert sorted(rows[:ROWS]) == list(range(ROWS))
    for step in (6, 12):  # 12 steps are the first round
        resumed = train(tmp_path, dataset(texts(column), seed=1, repeat=True), tmp_path / f"checkpoint-{step}")
        assert resumed == rows[step * BATCH :]


def test_it_packs(tmp_path: Path) -> None:
    rows = train(tmp_path, dataset(texts("text"), seed=1, repeat=True), packing=True, max_length=9, max_steps=2)
    assert len(rows) >= 2 * BATCH
