"""Accelerate and Fabric on one process: skipping, saving and loading lose and repeat no row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import send_to_device
from lightning.fabric import Fabric

import feedpipe as fp
from feedpipe.accelerate import PreparedLoader

from ..support.torchrun import torchrun
from .lightning_job import BATCH, ROWS, STEPS, indexed, streamed

PIPES = {"indexed": indexed, "streamed": streamed}


@pytest.fixture(params=["indexed", "streamed", "streamed, workers"])
def loader(request: pytest.FixtureRequest) -> Iterator[fp.Loader[Any]]:
    name, _, workers = request.param.partition(", ")
    with fp.Loader(PIPES[name](), seed=1, workers=2 if workers else 0) as loader:
        yield loader


def rows(batches: Iterator[Any]) -> list[int]:
    return [x for batch in batches for x in batch.tolist()]


def epochs_of(loader: fp.Loader[Any]) -> list[list[int]]:
    reference = fp.Loader(loader.dataset, seed=1)
    return [rows(iter(reference)) for _ in range(3)]


def test_prepare_leaves_it_as_it_is(loader: fp.Loader[Any]) -> None:
    accelerator = Accelerator(cpu=True)
    prepared = accelerator.prepare(PreparedLoader(loader))
    assert isinstance(prepared, PreparedLoader)
    batches = (send_to_device(batch, accelerator.device) for batch in prepared)
    assert rows(batches) == epochs_of(loader)[0]


def test_skip_first_batches(loader: fp.Loader[Any]) -> None:
    Accelerator(cpu=True)
    first, second, third = epochs_of(loader)
    prepared = PreparedLoader(loader)
    assert rows(iter(skip_first_batches(prepared, 7))) == first[14:]
    assert rows(iter(prepared)) == second
    prepared.set_epoch(1)
    assert rows(iter(skip_first_batches(prepared, 3))) == second[6:]
    assert rows(iter(skip_first_batches(prepared, 0))) == third


def test_save_state_and_load_state(tmp_path: Path, loader: fp.Loader[Any]) -> None:
    first, second, third = epochs_of(loader)
    accelerator = Accelerator(cpu=True)
    prepared = PreparedLoader(loader)
    accelerator.register_for_checkpointing(prepared)
    assert rows(islice(prepared, 4)) == first[:8]
    accelerator.save_state(str(tmp_path))
    assert rows(islice(prepared, 2)) != first[8:12]  # an epoch that is left before the end is over
    accelerator.load_state(str(tmp_path))
    assert rows(iter(prepared)) == first[8:]
    assert rows(iter(prepared)) == second
    accelerator.save_state(str(tmp_path / "epochs"))
    accelerator.load_state(str(tmp_path / "epochs"))
    assert rows(iter(prepared)) == third
    accelerator.load_state(str(tmp_path))
    assert rows(iter(skip_first_batches(prepared, 4))) == first[8:]  # a step is skipped once


def test_accumulate_ends_with_the_epoch(loader: fp.Loader[Any]) -> None:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
    model = torch.nn.Linear(1, 1)
    prepared = PreparedLoader(loader)

    def steps_of_optimizer(batches: Iterable[Any]) -> list[int]:
        steps = []
        for step, _ in enumerate(batches, 1):
            with accelerator.accumulate(model):
                if accelerator.sync_gradients:
                    steps.append(step)
        return steps

    whole = [3, 6, 9, 12, 15, 18, 20]
    assert [steps_of_optimizer(prepared) for _ in range(2)] == [whole, whole]
    prepared.set_epoch(2)
    assert steps_of_optimizer(skip_first_batches(prepared, 16)) == [3, 4]
    assert steps_of_optimizer(islice(prepared, 4)) == [3]
    assert not accelerator.gradient_state.in_dataloader  # the loop has left it


def test_the_progress_bar_of_the_guide(loader: fp.Loader[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """It has the length of an epoch, or an estimate of that, and goes on at the step of a state."""
    accelerator = Accelerator(cpu=True)
    state = loader.state_dict()
    for _ in islice(loader, 4):
        state = loader.state_dict()
    prepared = PreparedLoader(loader)
    prepared.load_state_dict(state)
    guide = Path(__file__).parents[2] / "docs" / "guides" / "trainers.md"
    (code,) = re.findall(r"(from accelerate.utils import tqdm\n.*?)```", guide.read_text(), re.DOTALL)
    trained: list[Any] = []
    scope = {"loader": prepared, "step": trained.append, "send_to_device": send_to_device, "accelerator": accelerator}
    exec(code, scope)
    assert len(trained) == STEPS - 4
    assert scope["bar"].total == STEPS  # type: ignore[attr-defined]
    first, *_, last = re.findall(r"(\d+)/([\d?]+)? \[|(\d+)it \[", capsys.readouterr().err)
    assert "4" in first
    assert last[0] == "20"


def test_looking_ahead_leaves_the_state_at_the_element_before(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    prepared = PreparedLoader(fp.Loader(streamed(), seed=1))
    expected = rows(iter(fp.Loader(streamed(), seed=1)))
    accelerator.register_for_checkpointing(prepared)
    for step, _ in enumerate(prepared, 1):
        if step in (7, 19):
            accelerator.save_state(str(tmp_path / f"{step}"))
    for step in (7, 19):
        accelerator.load_state(str(tmp_path / f"{step}"))
        assert rows(iter(prepared)) == expected[step * BATCH :]


@pytest.mark.parametrize("client", ["accelerate", "fabric"])
def test_validation_in_mid_epoch_and_limits(loader: fp.Loader[Any], client: str) -> None:
    first, second, _ = epochs_of(loader)
    validation: Any = fp.Loader(fp.from_sequence(range(6)).batch(2).collate())
    training: Any = loader
    if client == "accelerate":
        accelerator = Accelerator(cpu=True)
        training, validation = accelerator.prepare(PreparedLoader(loader), PreparedLoader(validation))
    trained: list[int] = []
    validated: list[int] = []
    for limit in (None, 5):
        for step, batch in enumerate(islice(training, limit), 1):
            trained += batch.tolist()
            if step % 8 == 0:
                validated += rows(iter(validation))
        validated += rows(islice(validation, limit and 1))
    assert trained == first + second[: 5 * BATCH]
    assert validated == 3 * list(range(6)) + [0, 1]


def test_fabric_saves_and_loads_a_loader(tmp_path: Path, loader: fp.Loader[Any]) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    first, second, third = epochs_of(loader)
    assert rows(fabric.to_device(batch) for batch in islice(loader, 4)) == first[:8]
    fabric.save(tmp_path / "state.ckpt", {"loader": loader})
    resumed = fp.Loader(loader.dataset, seed=1)
    fabric.load(tmp_path / "state.ckpt", {"loader": resumed})
    assert rows(iter(resumed)) == first[8:]
    assert rows(iter(resumed)) == second
    fabric.save(tmp_path / "epochs.ckpt", {"loader": resumed})
    fabric.load(tmp_path / "epochs.ckpt", {"loader": loader})
    assert rows(iter(loader)) == third


def test_fabric_goes_on_in_the_middle_of_accumulated_gradients(tmp_path: Path, loader: fp.Loader[Any]) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    layer = torch.nn.Linear(1, 1)
    model, optimizer = fabric.setup(layer, torch.optim.SGD(layer.parameters(), lr=0.1))

    def train(loader: fp.Loader[Any], limit: int | None) -> tuple[list[int], list[int]]:
        """The rows, and the steps after which the optimiser takes one."""
        seen: list[int] = []
        completed: list[int] = []
        for step, batch in enumerate(islice(loader, limit), loader.step + 1):
            is_accumulating = step % 3 != 0
            with fabric.no_backward_sync(model, enabled=is_accumulating):
                fabric.backward(model(fabric.to_device(batch)[:, None].float()).mean())
            if not is_accumulating:
                optimizer.step()
                optimizer.zero_grad()
                completed.append(step)
            seen += batch.tolist()
        return seen, completed

    first, second, _ = epochs_of(loader)
    assert train(loader, 4) == (first[:8], [3])
    fabric.save(tmp_path / "state.ckpt", {"model": model, "loader": loader})
    resumed = fp.Loader(loader.dataset, seed=1)
    fabric.load(tmp_path / "state.ckpt", {"model": model, "loader": resumed})
    assert train(resumed, None) == (first[8:], [6, 9, 12, 15, 18])
    assert train(resumed, None) == (second, [3, 6, 9, 12, 15, 18])


@pytest.mark.parametrize("client", ["accelerate", "fabric"])
def test_two_processes_share_the_rows_and_go_on_with_theirs(tmp_path: Path, client: str) -> None:
    torchrun(Path(__file__).with_name("saving_job.py"), client, str(tmp_path))
    reports = [json.loads((tmp_path / f"rank.{rank}").read_text()) for rank in (0, 1)]
    for name in PIPES:
        ranks = [report[name] for report in reports]
        assert sorted(x for rank in ranks for x in rank["before"] + rank["after"]) == list(range(ROWS))
        for rank in ranks:
            assert rank["resumed"] == rank["after"]
    for report in reports if client == "accelerate" else ():
        assert [sorted(report["gathered"][epoch]) for epoch in "01"] == [list(range(28))] * 2
