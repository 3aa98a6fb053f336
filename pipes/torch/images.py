"""Pixels and tensors of images."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import torch


def resized(pixels: npt.NDArray[np.uint8], size: tuple[int, int], is_flipped: bool) -> npt.NDArray[np.uint8]:
    """Interpolate linearly over all pixels that become one, as Pillow does, to within 1 of 255; mirror it if asked."""
    image = channels_first(np.ascontiguousarray(pixels)).unsqueeze(0)
    image = torch.nn.functional.interpolate(image, size=size, mode="bilinear", antialias=True)
    image = image.flip(-1) if is_flipped else image
    return cast("npt.NDArray[np.uint8]", image[0].permute(1, 2, 0).numpy())


def channels_first(pixels: npt.NDArray[np.uint8]) -> torch.Tensor:
    """A tensor of channels x height x width, which shares the memory of the pixels."""
    return torch.from_numpy(pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]).permute(2, 0, 1)
