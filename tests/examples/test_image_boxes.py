"""The example at a small size: each image meets its own box, once, also across a resume."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "image_boxes.py"


@pytest.mark.parametrize("workers", [0, 2])
def test_each_image_meets_its_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    spec = importlib.util.spec_from_file_location("image_boxes", EXAMPLE)
    assert spec and spec.loader
    example = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "image_boxes", example)
    spec.loader.exec_module(example)
    boxes = example.write_images(tmp_path / "images", 50)
    seen, darkest = example.run(tmp_path / "images", boxes, batch=8, workers=workers)
    assert len(seen) == 50 and set(seen.values()) == {1}
    assert darkest > 240  # the boxes are bright, and all else is dark
