"""Images of 3 x 224 x 224 bytes in batches of 256, from the host to a device, and what a training step does with them.

The images lie in memory, so the loaders have nothing to do but to batch, to bring and to copy. `transformer` is a step
of a small vision transformer (patches of 16, width 384, 6 layers), `resnet` one of ResNet-50 (He et al., "Deep Residual
Learning for Image Recognition", 2016); `transfer` only makes floats of the bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

BATCH = 256 if torch.cuda.is_available() else 16  # `--quick` runs on the CPU
SHAPE = (3, 224, 224)
IMAGES = 4 * BATCH
_PATCH, _WIDTH, _LAYERS = 16, 384, 6


def images() -> np.ndarray:
    """All images; the first byte of each is its number modulo 256."""
    made = np.random.default_rng(0).integers(0, 256, (IMAGES, *SHAPE), np.uint8)
    made[:, 0, 0, 0] = np.arange(IMAGES) % 256
    return made


class Dataset:
    def __init__(self) -> None:
        self.images = images()

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.images[index])


class Transformer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, _WIDTH, _PATCH, _PATCH)
        layer = torch.nn.TransformerEncoderLayer(_WIDTH, 6, 4 * _WIDTH, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.head = torch.nn.Linear(_WIDTH, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        rows = self.patches(pixels).flatten(2).transpose(1, 2)
        out: torch.Tensor = self.head(self.layers(rows).mean(1))
        return out


class Bottleneck(torch.nn.Module):
    """Three convolutions beside a way around them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        sizes = ((inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1))
        self.convolutions = torch.nn.Sequential(
            *_convolution(*sizes[0]),
            torch.nn.ReLU(),
            *_convolution(*sizes[1]),
            torch.nn.ReLU(),
            *_convolution(*sizes[2]),
        )
        same = inputs == 4 * width and stride == 1
        self.around = torch.nn.Sequential(*(() if same else _convolution(inputs, 4 * width, 1, stride)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.convolutions(x) + self.around(x))


def _convolution(inputs: int, outputs: int, size: int, stride: int) -> tuple[torch.nn.Module, ...]:
    convolution = torch.nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return convolution, torch.nn.BatchNorm2d(outputs)


def resnet50() -> torch.nn.Module:
    layers: list[torch.nn.Module] = [*_convolution(3, 64, 7, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for number in range(count):
            layers.append(Bottleneck(inputs, width, 2 if number == 0 and width > 64 else 1))
            inputs = 4 * width
    return torch.nn.Sequential(
        *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(inputs, 1000)
    )


MODELS: dict[str, Callable[[], torch.nn.Module]] = {"transformer": Transformer, "resnet": resnet50}


def step(work: str, device: str) -> Callable[[torch.Tensor], object]:
    def floats(batch: torch.Tensor) -> torch.Tensor:
        return batch.float().sub_(127.5).div_(127.5)

    if work == "transfer":
        return floats
    model = MODELS[work]().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def train(batch: torch.Tensor) -> object:
        with torch.autocast(device, torch.bfloat16):
            loss = model(floats(batch)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return train


def one_ahead(batches: Iterable[torch.Tensor], device: str) -> Iterator[torch.Tensor]:
    """The batches on the device; the copy of the next one has begun before one is given."""
    copies = (batch.to(device, non_blocking=True) for batch in batches)
    ready = next(copies)
    for following in copies:
        yield ready
        ready = following
    yield ready


def timed(epochs: Callable[[str], Iterator[Iterable[torch.Tensor]]], work: str, device: str, seconds: float) -> Any:
    """The time of a batch and the share of it in which the loop waits, after a quarter of `seconds`."""
    run, wait = step(work, device), _synchronize(device)
    batches = (batch for epoch in epochs(device) for batch in epoch)
    _for_seconds(batches, run, wait, seconds / 4)
    count, taken, waited = _for_seconds(batches, run, wait, seconds)
    batches.close()
    megabytes = BATCH * int(np.prod(SHAPE)) / 1e6
    return {"seconds_each": taken / count, "waiting": waited / taken, "gigabytes": megabytes * count / taken / 1e3}


def _for_seconds(
    batches: Iterator[torch.Tensor], run: Callable[[torch.Tensor], object], wait: Callable[[], None], seconds: float
) -> tuple[int, float, float]:
    """Steps, and the time that the loop waits for data while the device has nothing to do."""
    count, waited = 0, 0.0
    wait()
    start = now = time.perf_counter()
    while now - start < seconds:
        batch = next(batches)
        waited += time.perf_counter() - now
        run(batch)
        wait()
        count, now = count + 1, time.perf_counter()
    return count, now - start, waited


def described(epochs: Callable[[str], Iterator[Iterable[torch.Tensor]]], device: str) -> dict[str, Any]:
    """Whether the first epoch has every image, in order, on the device."""
    all_epochs = epochs(device)  # a loader ends with it
    batches = list(next(all_epochs))
    numbers = [int(number) for batch in batches for number in batch[:, 0, 0, 0].cpu()]
    return {
        "right": numbers == [number % 256 for number in range(IMAGES)],
        "on_device": all(batch.device.type == device for batch in batches),
    }


def _synchronize(device: str) -> Callable[[], None]:
    return torch.cuda.synchronize if device == "cuda" else lambda: None
