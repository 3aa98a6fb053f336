"""Lightning on one process: training counts each row that it sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities import CombinedLoader

import feedpipe as fp

from .lightning_job import BATCH, ROWS, STEPS, Model, indexed, streamed, trainer_of

PIPES = {"indexed": indexed, "streamed": streamed}


def epochs_of(pipe: Callable[[], fp.Pipe[Any]], **options: Any) -> dict[int, list[int]]:
    """The rows of two epochs, as a plain loop sees them."""
    loader = fp.Loader(pipe(), seed=1, **options)
    return {epoch: [int(x) for batch in loader for x in batch] for epoch in range(2)}


def fit(folder: Path, pipe: Callable[[], fp.Pipe[Any]], *callbacks: pl.Callback, **options: Any) -> Model:
    """Fit a new model to a new loader."""
    model = options.pop("model", None) or Model()
    loader = fp.Loader(pipe(), seed=1, workers=options.pop("workers", 0), steps=options.pop("steps", None))
    validation = options.pop("validation", None)
    checkpoint = options.pop("ckpt_path", None)
    try:
        trainer_of(folder, *callbacks, **options).fit(model, loader, validation, ckpt_path=checkpoint)
    finally:
        loader.close()
    return model


@pytest.fixture(params=PIPES, ids=str)
def pipe(request: pytest.FixtureRequest) -> Callable[[], fp.Pipe[Any]]:
    return PIPES[request.param]


def test_fit(tmp_path: Path, pipe: Callable[[], fp.Pipe[Any]]) -> None:
    assert fit(tmp_path, pipe).trained == epochs_of(pipe)


def test_overfit_batches_are_the_same_in_each_epoch(tmp_path: Path, pipe: Callable[[], fp.Pipe[Any]]) -> None:
    first = epochs_of(pipe)[0][: 3 * BATCH]
    assert fit(tmp_path, pipe, overfit_batches=3, max_epochs=3).trained == dict.fromkeys(range(3), first)


class Reloading(Model):
    """Makes a loader for each epoch."""

    def __init__(self, pipe: Callable[[], fp.Pipe[Any]]) -> None:
        super().__init__()
        self.pipe = pipe

    def train_dataloader(self) -> fp.Loader[Any]:
        return fp.Loader(self.pipe(), seed=1)


@pytest.mark.parametrize("epochs", [1, 2])
def test_loaders_of_each_epoch(tmp_path: Path, pipe: Callable[[], fp.Pipe[Any]], epochs: int) -> None:
    model = Reloading(pipe)
    trainer_of(tmp_path, reload_dataloaders_every_n_epochs=epochs, max_epochs=4).fit(model)
    loader = fp.Loader(pipe(), seed=1)
    assert model.trained == {epoch: [int(x) for batch in loader for x in batch] for epoch in range(4)}


def saved_at(folder: Path, step: int) -> Path:
    (path,) = folder.glob(f"step={step}.ckpt")
    return path


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"accumulate_grad_batches": 2},
    "validation": {"val_check_interval": 6},
    "max_steps": {"max_epochs": -1, "max_steps": 2 * STEPS},
}


@pytest.mark.parametrize("case", CASES)
def test_resume_loses_and_repeats_nothing(tmp_path: Path, pipe: Callable[[], fp.Pipe[Any]], case: str) -> None:
    options = dict(CASES[case])
    accumulated = options.get("accumulate_grad_batches", 1)
    if "val_check_interval" in options:
        options["validation"] = fp.Loader(fp.from_sequence(range(6)).batch(2).collate())
    saves = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=2, filename="{step}")
    whole = fit(tmp_path, pipe, saves, **options)
    expected = epochs_of(pipe)
    assert whole.trained == expected
    batches = [rows[place : place + BATCH] for rows in expected.values() for place in range(0, ROWS, BATCH)]
    # In mid-epoch, at its last batch, and in the second epoch; `step` counts steps of the optimiser.
    for step in (4, STEPS // accumulated, 14 if accumulated == 1 else 8, STEPS // accumulated + 4):
        resumed = fit(tmp_path, pipe, ckpt_path=saved_at(tmp_path, step), **options)
        assert [x for rows in resumed.trained.values() for x in rows] == sum(batches[step * accumulated :], [])


@pytest.mark.parametrize("moment", [{"every_n_epochs": 1}, {"every_n_train_steps": 5}], ids=["epoch", "batch"])
def test_resume_at_a_limit(tmp_path: Path, pipe: Callable[[], fp.Pipe[Any]], moment: dict[str, int]) -> None:
    fit(tmp_path, pipe, ModelCheckpoint(tmp_path, save_top_k=-1, filename="{step}", **moment), limit_train_batches=5)
    resumed = fit(tmp_path, pipe, ckpt_path=saved_at(tmp_path, 5), limit_train_batches=5)
    assert resumed.trained == {1: epochs_of(pipe)[1][: 5 * BATCH]}


def test_resume_after_a_failure_in_mid_epoch(tmp_path: Path, pipe: Callable[[], fp.Pipe[Any]]) -> None:
    from lightning.pytorch.callbacks import OnExceptionCheckpoint

    model = Model()
    model.fail_at = 9
    with pytest.raises(RuntimeError, match="stopped on purpose"):
        fit(tmp_path, pipe, OnExceptionCheckpoint(tmp_path, "failed"), model=model)
    resumed = fit(tmp_path, pipe, ckpt_path=tmp_path / "failed.ckpt")
    assert {e: model.trained.get(e, []) + resumed.trained[e] for e in (0, 1)} == epochs_of(pipe)


def test_resume_of_epochs_by_steps_with_workers(tmp_path: Path) -> None:
    saves = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=2, filename="{step}")
    whole = fit(tmp_path, streamed, saves, steps=13)
    resumed = fit(tmp_path, streamed, ckpt_path=saved_at(tmp_path, 16), steps=13, workers=2)
    assert resumed.trained == {1: whole.trained[1][3 * BATCH :]}


@pytest.mark.parametrize("within_step", [False, True], ids=["between steps", "within a step"])
def test_a_loader_that_begins_again_within_an_epoch(tmp_path: Path, within_step: bool) -> None:
    """The shorter of two loaders, whose states are saved at their own steps, around its end and within a step."""

    class Both(Model):
        def training_step(self, batch: dict[str, torch.Tensor], index: int) -> torch.Tensor:
            if self is whole and within_step and not self.current_epoch:
                self.trainer.save_checkpoint(tmp_path / f"step={index}.ckpt")
            return super().training_step(torch.cat([batch["a"], batch["b"]]), index)

    def loaders() -> CombinedLoader:
        short = fp.from_sequence(range(100, 106)).filter(lambda x: x >= 0).shuffle(window=4).batch(BATCH).collate()
        return CombinedLoader({"a": fp.Loader(streamed(), seed=1), "b": fp.Loader(short, seed=2)}, "max_size_cycle")

    saves = [] if within_step else [ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=1, filename="{step}")]
    whole = Both()
    trainer_of(tmp_path, *saves).fit(whole, loaders())
    for step in range(1, 8):
        resumed = Both()
        trainer_of(tmp_path).fit(resumed, loaders(), ckpt_path=saved_at(tmp_path, step))
        assert resumed.trained == {0: whole.trained[0][step * 2 * BATCH :], 1: whole.trained[1]}


def test_validating_from_a_checkpoint_leaves_nothing_behind(tmp_path: Path) -> None:
    saves = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=2, filename="{step}")
    fit(tmp_path, streamed, saves, max_epochs=1)
    validation = fp.Loader(fp.from_sequence(range(6)).batch(2).collate())
    trainer, model = trainer_of(tmp_path, max_epochs=1), Model()
    trainer.validate(model, validation, ckpt_path=saved_at(tmp_path, 4))
    assert model.validated == list(range(6))
    trainer.fit(model, fp.Loader(streamed(), seed=1))
    assert model.trained == {0: epochs_of(streamed)[0]}


def test_the_progress_bar_of_the_guide(tmp_path: Path, pipe: Callable[[], fp.Pipe[Any]]) -> None:
    """It has the length of an epoch, or an estimate of that, which is right at the end."""
    guide = Path(__file__).parents[2] / "docs" / "guides" / "trainers.md"
    (code,) = re.findall(r"```python no-run\n(import math\n.*?)\n\n\ntrainer = ", guide.read_text(), re.DOTALL)
    scope: dict[str, Any] = {}
    exec(code, scope)
    totals: list[int] = []

    class Noting(scope["StreamBar"]):
        def on_train_batch_end(self, *arguments: Any) -> None:
            super().on_train_batch_end(*arguments)
            totals.append(self.train_progress_bar.total)

    trainer = trainer_of(tmp_path, Noting(), enable_progress_bar=True)
    trainer.fit(Model(), fp.Loader(pipe(), seed=1))
    assert len(totals) == 2 * STEPS
    assert totals[STEPS - 1] == totals[-1] == STEPS
    assert all(abs(total - STEPS) <= 4 for total in totals)  # the window of the shuffle holds 7 rows, 4 batches
