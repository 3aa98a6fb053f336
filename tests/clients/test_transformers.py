"""The Trainer of Transformers: which rows training sees, on one process and on two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import Trainer

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError
from feedpipe.transformers import dataset

from ..support.torchrun import torchrun
from .transformers_job import BATCH, ROWS, indexed, streamed, train, trained

JOB = Path(__file__).with_name("transformers_job.py")
STEPS = ROWS // BATCH


def make(name: str, **options: Any) -> fp.Loader[Any]:
    return fp.Loader(indexed(), seed=1, **options) if name == "indexed" else fp.Loader(streamed(), seed=1, steps=STEPS)


def two_epochs(loader: fp.Loader[Any]) -> list[int]:
    return [x for _ in range(2) for batch in loader for x in batch["x"].tolist()]


@pytest.mark.parametrize("name", ["indexed", "streamed"])
@pytest.mark.parametrize("accumulated", [1, 3], ids=["plain", "accumulation"])
def test_resume_loses_and_repeats_nothing(tmp_path: Path, name: str, accumulated: int) -> None:
    expected = two_epochs(make(name))
    options = {"gradient_accumulation_steps": accumulated}
    assert train(tmp_path, make(name), **options) == expected
    updates = -(-STEPS // accumulated)  # of the optimiser, in an epoch
    for step in (4, updates + updates % 2 + 2):  # in the first epoch, and in the second
        before = step * accumulated if step <= updates else STEPS + (step - updates) * accumulated
        assert train(tmp_path, make(name), tmp_path / f"checkpoint-{step}", **options) == expected[before * BATCH :]


@pytest.mark.parametrize("name", ["indexed", "streamed"])
def test_validation_in_mid_epoch_and_limits(tmp_path: Path, name: str) -> None:
    validation = fp.Loader(fp.from_sequence([{"x": x} for x in range(6)]).batch(BATCH).collate())
    model = trained(
        tmp_path,
        make(name),
        validation=validation,
        eval_strategy="steps",
        eval_steps=7,
        prediction_loss_only=True,
        max_steps=25,
    )
    assert model.seen == two_epochs(make(name))[: 25 * BATCH]
    assert model.validated == 4 * list(range(6))  # the last time at the end


class TestLoaderStateCallback:
    def test_a_stream_goes_on_without_reading_what_is_before(self, tmp_path: Path) -> None:
        calls: list[int] = []

        def stream() -> fp.Loader[Any]:
            rows = fp.from_sequence([{"x": x} for x in range(1000)]).filter(lambda row: calls.append(row["x"]) or True)
            return fp.Loader(rows.batch(BATCH).collate(), steps=500)

        options = {"exact": True, "num_train_epochs": 1, "save_steps": 400}
        expected = train(tmp_path, stream(), **options)
        calls.clear()
        assert train(tmp_path, stream(), tmp_path / "checkpoint-400", **options) == expected[400 * BATCH :]
        assert min(calls) >= 100  # the first row of the block with row 800; blocks grow from one row
        calls.clear()
        assert train(tmp_path, stream(), tmp_path / "checkpoint-400", **{**options, "exact": False}) == expected[800:]
        assert min(calls) == 0

    @pytest.mark.parametrize("name", ["indexed", "streamed"])
    def test_epochs_that_end_within_the_data(self, tmp_path: Path, name: str) -> None:
        def loader() -> fp.Loader[Any]:
            return fp.Loader(indexed() if name == "indexed" else streamed(), seed=1, steps=13)

        expected = two_epochs(loader())
        options = {"exact": True, "gradient_accumulation_steps": 3}
        assert train(tmp_path, loader(), **options) == expected
        # An epoch has 5 updates, the last one of a single batch. 6 is within the second epoch.
        for step, before in ((4, 12), (6, 16), (8, 22)):
            assert train(tmp_path, loader(), tmp_path / f"checkpoint-{step}", **options) == expected[before * BATCH :]

    def test_after_an_epoch_and_for_the_best_model(self, tmp_path: Path) -> None:
        def loader() -> fp.Loader[Any]:
            return fp.Loader(streamed(), seed=1, steps=13)

        validation = fp.Loader(fp.from_sequence([{"x": x} for x in range(6)]).batch(BATCH).collate())
        expected = two_epochs(loader())
        for strategy in ("epoch", "best"):
            folder = tmp_path / strategy
            options: dict[str, Any] = {
                "exact": True,
                "save_strategy": strategy,
                "eval_strategy": "epoch",
                "validation": validation,
                "metric_for_best_model": "loss",
                "label_names": ["x"],
            }
            assert trained(folder, loader(), **options).seen == expected
            assert trained(folder, loader(), folder / "checkpoint-13", **options).seen == expected[13 * BATCH :]


def test_workers(tmp_path: Path) -> None:
    expected = two_epochs(make("indexed"))
    with make("indexed", workers=2) as loader:
        assert train(tmp_path, loader) == expected
    with make("indexed", workers=2) as loader:
        assert train(tmp_path, loader, tmp_path / "checkpoint-14") == expected[14 * BATCH :]


def test_two_processes(tmp_path: Path) -> None:
    torchrun(JOB, str(tmp_path))
    for name in ("indexed", "streamed"):
        ranks = [json.loads((tmp_path / f"{name}.{rank}").read_text()) for rank in (0, 1)]
        epoch = [x for rank in ranks for x in rank["whole"][: ROWS // 2]]
        assert sorted(epoch) == list(range(ROWS))
        for rank in ranks:
            assert rank["resumed"] == rank["whole"][8 * BATCH :]


class TestDataset:
    """Datasets of pipes, whose rows the Trainer itself puts into batches."""

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_stream_resumes_in_each_round(self, tmp_path: Path, workers: int) -> None:
        def data() -> Any:
            rows = fp.from_sequence([{"x": x} for x in range(ROWS)]).filter(lambda row: row["x"] >= 0)
            return dataset(rows.shuffle(window=7), seed=1, repeat=True)

        options = {
            "max_steps": 2 * STEPS,
            "per_device_train_batch_size": BATCH,
            "dataloader_num_workers": workers,
            "trainer": Trainer,
        }
        whole = train(tmp_path, data(), **options)
        assert len(whole) == 2 * ROWS and set(whole) == set(range(ROWS))
        for step in (4, STEPS + 4):
            assert train(tmp_path, data(), tmp_path / f"checkpoint-{step}", **options) == whole[step * BATCH :]

    @pytest.mark.parametrize("way", ["pipe", "dataset", "map dataset", "map dataset, workers"])
    def test_an_indexed_pipe_resumes_in_each_epoch(self, tmp_path: Path, way: str) -> None:
        def data() -> Any:
            rows = fp.from_sequence([{"x": x} for x in range(ROWS)]).shuffle()
            if way.startswith("map dataset"):
                return rows.as_map_dataset(seed=1)
            return rows if way == "pipe" else dataset(rows, repeat=True)

        limits: dict[str, Any] = {"max_steps": 2 * STEPS} if way == "dataset" else {}
        if way == "map dataset, workers":
            limits = {"dataloader_num_workers": 2, "dataloader_persistent_workers": True}
        options = {"per_device_train_batch_size": BATCH, "trainer": Trainer, **limits}
        whole = train(tmp_path, data(), **options)
        assert sorted(whole[:ROWS]) == sorted(whole[ROWS:]) == list(range(ROWS)) and whole[:ROWS] != whole[ROWS:]
        for step in (4, STEPS + 4):
            assert train(tmp_path, data(), tmp_path / f"checkpoint-{step}", **options) == whole[step * BATCH :]

    def test_an_evaluation(self, tmp_path: Path) -> None:
        rows = fp.from_sequence([{"x": x} for x in range(6)])
        for validation in (rows, rows.as_map_dataset(), dataset(rows)):
            options = {"eval_strategy": "epoch", "prediction_loss_only": True, "num_train_epochs": 1}
            model = trained(tmp_path, rows, validation=validation, trainer=Trainer, **options)
            assert model.validated == list(range(6))

    def test_rows_that_are_no_dicts(self) -> None:
        with pytest.raises(ArgumentTypeError, match="the rows of `pipe` must be dicts for a trainer but one is: 0"):
            next(iter(dataset(fp.from_sequence(range(3)))))

    def test_it_keeps_its_place_in_an_epoch(self) -> None:
        data = dataset(fp.from_sequence([{"x": x} for x in range(ROWS)]).shuffle(window=7), seed=1)
        for epoch in range(2):
            data.set_epoch(epoch)
            rows = iter(data)
            for _ in range(5):
                next(rows)
            state = json.loads(json.dumps(data.state_dict()))
            rest = list(rows)
            data.load_state_dict(state)
            assert list(data) == rest and len(rest) == ROWS - 5
            data.load_state_dict({**state, "epoch": -1})  # of no epoch to come
