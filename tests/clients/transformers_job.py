"""A training script for the Trainer of Transformers; with torchrun, it trains on two processes:
transformers_job.py FOLDER."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from transformers import Trainer, TrainingArguments

import feedpipe as fp
from feedpipe.accelerate import PreparedLoader
from feedpipe.transformers import LoaderStateCallback

ROWS = 40
BATCH = 2


def indexed() -> fp.Pipe[Any]:
    return fp.from_arrays({"x": torch.arange(ROWS).numpy()}).shuffle().batch(BATCH).collate()


def streamed() -> fp.Pipe[Any]:
    """A shuffled stream of unknown length; the Trainer needs `steps=` to count its epochs."""
    rows = fp.from_sequence([{"x": x} for x in range(ROWS)]).filter(lambda row: row["x"] >= 0)
    return rows.shuffle(window=7).batch(BATCH).collate()


class Model(torch.nn.Module):
    """Notes the rows of each batch, those of validations apart."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[int] = []
        self.validated: list[int] = []

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        (self.seen if self.training else self.validated).extend(x.tolist())
        return {"loss": self.layer(x[:, None].float()).mean()}


class FeedTrainer(Trainer):
    """The recipe of `docs/guides/trainers.md`."""

    def get_train_dataloader(self) -> Any:
        return PreparedLoader(self.train_dataset)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return PreparedLoader(self.eval_dataset)


def train(folder: Path, loader: Any, resume: Path | None = None, **options: Any) -> list[int]:
    """Train for two epochs, and return the rows that this rank saw."""
    return trained(folder, loader, resume, **options).seen


def trained(
    folder: Path,
    loader: Any,
    resume: Path | None = None,
    *,
    validation: Any = None,
    exact: bool = False,
    trainer: type[Trainer] | None = None,
    **options: Any,
) -> Model:
    """Train for two epochs, with the callback if `exact`, and return the model."""
    model = Model()
    arguments = TrainingArguments(
        str(folder),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        remove_unused_columns=False,
        **{"num_train_epochs": 2, "save_steps": 2, **options},
    )
    callbacks = [LoaderStateCallback()] if exact else []
    kind = trainer or FeedTrainer
    made = kind(model, arguments, train_dataset=loader, eval_dataset=validation, callbacks=callbacks)
    made.train(resume_from_checkpoint=None if resume is None else str(resume))
    return model


# Made before there is a process group.
LOADERS = {
    "indexed": [fp.Loader(indexed(), seed=1) for _ in range(2)],
    "streamed": [fp.Loader(streamed(), seed=1, shards=4, steps=7) for _ in range(2)],  # an epoch ends within the data
}


def main(folder: Path) -> None:
    """Train, and again from the checkpoint of step 8; each rank reports the rows that it saw."""
    torch.set_num_threads(1)
    for name, (first, second) in LOADERS.items():
        whole = train(folder / name, first, exact=True, ddp_backend="gloo")
        resumed = train(folder / name, second, folder / name / "checkpoint-8", exact=True, ddp_backend="gloo")
        report = {"whole": whole, "resumed": resumed}
        (folder / f"{name}.{distributed.get_rank()}").write_text(json.dumps(report))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
