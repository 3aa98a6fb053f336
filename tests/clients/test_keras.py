"""Keras trains on a generator of the elements of a `Loader`, and on torch's `DataLoader` of a dataset."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import feedpipe as fp
from feedpipe import compat

ROWS = 40


class Recorder(keras.Sequential):
    """Notes the targets of each batch that it is trained on."""

    def train_step(self, data: Any) -> Any:
        self.targets.append(data[1].flatten().tolist())
        return super().train_step(data)


@pytest.fixture
def model() -> Any:
    recorder = Recorder([keras.Input((2,)), keras.layers.Dense(1)])
    recorder.targets = []
    recorder.compile("sgd", "mse")
    return recorder


@pytest.fixture
def pipe() -> fp.Pipe[Any]:
    numbers = np.arange(ROWS, dtype=np.float32)[:, None]
    rows = fp.from_arrays({"x": numbers.repeat(2, axis=1) / ROWS, "y": numbers}).shuffle()
    return rows.batch(8).collate().map(lambda batch: (batch["x"], batch["y"]))


def epochs_of(model: Any, count: int) -> list[list[float]]:
    steps = len(model.targets) // count
    return [sum(model.targets[k * steps : (k + 1) * steps], []) for k in range(count)]


def without_end(loader: fp.Loader[Any]) -> Iterator[Any]:
    while True:
        yield from loader


@pytest.mark.parametrize("workers", [0, 2])
def test_a_generator_of_a_loader(model: Any, pipe: fp.Pipe[Any], workers: int) -> None:
    with fp.Loader(pipe, workers=workers, seed=3) as loader:
        model.fit(without_end(loader), steps_per_epoch=len(loader), epochs=3, verbose=0)
        assert loader.epoch == 2  # that of the last element
    epochs = epochs_of(model, 3)
    assert all(sorted(epoch) == list(range(ROWS)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_in_a_dataloader(model: Any, pipe: fp.Pipe[Any], workers: int) -> None:
    dataset = pipe.as_iterable_dataset(seed=3)
    each_epoch = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: dataset.set_epoch(epoch))
    loader = DataLoader(dataset, batch_size=None, num_workers=workers)
    model.fit(loader, epochs=2, callbacks=[each_epoch], verbose=0)
    first, second = epochs_of(model, 2)
    assert sorted(first) == sorted(second) == list(range(ROWS)) and first != second


def test_the_dataloader_that_stands_in_for_that_of_torch(model: Any) -> None:
    numbers = torch.arange(ROWS, dtype=torch.float32)[:, None]
    loader = compat.DataLoader(TensorDataset(numbers.repeat(1, 2) / ROWS, numbers), batch_size=8, shuffle=True)
    model.fit(loader, epochs=2, verbose=0)
    assert all(sorted(epoch) == list(range(ROWS)) for epoch in epochs_of(model, 2))


def test_a_loader_alone_is_refused_by_keras(model: Any, pipe: fp.Pipe[Any]) -> None:
    """If a version takes it, the documents should say so."""
    with pytest.raises(ValueError, match="Unrecognized data type: x=Loader"):
        model.fit(fp.Loader(pipe), verbose=0)
