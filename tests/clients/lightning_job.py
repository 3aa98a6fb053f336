"""A training script for Lightning; as a program, it trains on two processes: lightning_job.py STRATEGY FOLDER."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import feedpipe as fp
from feedpipe.lightning import ExactResume

ROWS = 40
BATCH = 2
STEPS = ROWS // BATCH  # 20 in an epoch


def indexed() -> fp.Pipe[Any]:
    return fp.from_sequence(range(ROWS)).shuffle().batch(BATCH).collate()


def streamed() -> fp.Pipe[Any]:
    """A shuffled stream of unknown length, for which Lightning takes a batch ahead."""
    return fp.from_sequence(range(ROWS)).filter(lambda x: x >= 0).shuffle(window=7).batch(BATCH).collate()


class Model(pl.LightningModule):
    """Notes the rows of each batch, by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained: dict[int, list[int]] = {}
        self.validated: list[int] = []
        self.fail_at: int | None = None
        self.report: Path | None = None

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        if self.trainer.fit_loop.total_batch_idx == self.fail_at:
            raise RuntimeError("stopped on purpose")
        self.trained.setdefault(self.current_epoch, []).extend(batch.tolist())
        return self.layer(batch[:, None].float()).mean()

    def validation_step(self, batch: torch.Tensor, index: int) -> None:
        self.validated.extend(batch.tolist())

    def on_train_end(self) -> None:
        if self.report is not None:
            self.report.with_suffix(f".{self.global_rank}").write_text(json.dumps(self.trained))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-6)


def trainer_of(folder: Path, *callbacks: pl.Callback, **options: Any) -> pl.Trainer:
    settings: dict[str, Any] = {
        "max_epochs": 2, "accelerator": "cpu", "num_sanity_val_steps": 0, "enable_progress_bar": False, **options
    }  # fmt: skip
    return pl.Trainer(
        callbacks=[ExactResume(), *callbacks],
        default_root_dir=folder,
        enable_model_summary=False,
        logger=False,
        **settings,
    )


# Made at the top of the script: in `ddp_fork` by the process that forks the ranks, and before any process group.
LOADERS = {
    "indexed": [fp.Loader(indexed(), seed=1) for _ in range(2)],
    "streamed": [fp.Loader(streamed(), seed=1, shards=4, even=None) for _ in range(2)],
}


def main(strategy: str, folder: Path) -> None:
    """Train for an epoch, and again from the checkpoint of step 4; each rank reports the rows that it saw."""
    torch.set_num_threads(1)
    for name, (first, second) in LOADERS.items():
        saves = ModelCheckpoint(folder / name, save_top_k=-1, every_n_train_steps=4, filename="{step}")
        for loader, run, checkpoint in ((first, "whole", None), (second, "resumed", folder / name / "step=4.ckpt")):
            model = Model()
            model.report = folder / f"{name}-{run}"
            trainer = trainer_of(folder, saves, strategy=strategy, devices=2, max_epochs=1)
            trainer.fit(model, loader, ckpt_path=checkpoint)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
