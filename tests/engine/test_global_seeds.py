"""Seeding the generators of a whole process, torch's also where it is imported later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# A torch that is imported in no time, and says with what it was seeded.
FAKE = """
import os
if os.environ.get("BROKEN"):
    raise ImportError("broken")
seeds = []
manual_seed = seeds.append
"""


def run(code: str, folder: Path) -> None:
    """Run `code` in a Python of its own, where torch is a fake."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(FAKE, encoding="utf-8")
    (folder / "torch" / "nn.py").write_text("", encoding="utf-8")
    head = "import importlib, os, random, sys\nimport numpy as np\nfrom feedpipe.engine.seeds import seed_process\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", head + code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_python_and_numpy_are_seeded_and_torch_is_not_imported(tmp_path: Path) -> None:
    run(
        """
seed_process(7)
assert (random.random(), np.random.random()) == (random.Random(7).random(), np.random.RandomState(7).random_sample())
assert importlib.util.find_spec("torch").origin.startswith(os.getcwd())
assert "torch" not in sys.modules
""",
        tmp_path,
    )


def test_torch_is_seeded_when_it_comes_with_the_latest_number(tmp_path: Path) -> None:
    run(
        """
before = len(sys.meta_path)
seed_process(7)
seed_process(8)
assert len(sys.meta_path) == before + 1
import torch.nn
assert torch.seeds == [8]
seed_process(9)
assert torch.seeds == [8, 9]
assert len(sys.meta_path) == before + 1
""",
        tmp_path,
    )


def test_torch_is_seeded_at_once_where_it_is_there(tmp_path: Path) -> None:
    run(
        """
import torch
before = list(sys.meta_path)
seed_process(7)
assert torch.seeds == [7]
assert sys.meta_path == before
""",
        tmp_path,
    )


def test_an_import_that_fails_may_be_tried_again(tmp_path: Path) -> None:
    run(
        """
seed_process(7)
os.environ["BROKEN"] = "1"
for _ in range(2):
    try:
        import torch
    except ImportError as error:
        assert str(error) == "broken"
    else:
        raise AssertionError
del os.environ["BROKEN"]
import torch
assert torch.seeds == [7]
""",
        tmp_path,
    )
