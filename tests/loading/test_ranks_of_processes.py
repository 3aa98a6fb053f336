"""A loader is made before its ranks: it finds them at its first element, in real processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, LoaderError

from ..support.torchrun import torchrun

SPAWNED = """
import sys, tempfile
import torch.distributed as distributed
import torch.multiprocessing as processes
import feedpipe as fp

def train(rank, loader, folder):
    distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    with loader:
        print(rank, list(loader))
    distributed.destroy_process_group()

if __name__ == "__main__":
    loader = fp.Loader(fp.from_sequence(range(8)), workers=1)
    len(loader), loader.state_dict(), repr(loader)
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(train, (loader, folder), 2)
"""


@pytest.mark.slow
def test_a_loader_is_an_argument_of_spawn(tmp_path):
    import torch.distributed  # noqa: F401, the script needs it

    script = tmp_path / "script.py"
    script.write_text(SPAWNED)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=280, check=False)
    assert sorted(done.stdout.split("\n")[:2]) == ["0 [0, 2, 4, 6]", "1 [1, 3, 5, 7]"], done.stderr


LAUNCHED = """
import sys
import feedpipe as fp

loader = fp.Loader(fp.from_sequence(range(8)), workers=1)
length = len(loader), loader.state_dict()["step"]

import torch.distributed as distributed

distributed.init_process_group("gloo")
with loader:
    rows = list(loader)
assert (len(rows), 0) == length
# One write, for the ranks share the output.
sys.stdout.write(f"{distributed.get_rank()} {rows}\\n")
sys.stdout.flush()
distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_a_loader_is_made_before_the_process_group_under_torchrun(tmp_path):
    import torch.distributed  # noqa: F401, the script needs it

    script = tmp_path / "script.py"
    script.write_text(LAUNCHED)
    assert sorted(torchrun(script).stdout.splitlines()) == ["0 [0, 2, 4, 6]", "1 [1, 3, 5, 7]"]


def test_the_rank_is_asked_for_at_the_first_element(monkeypatch):
    loader = fp.Loader(fp.from_sequence(range(6)))
    for name, other in (("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")):  # a launcher that is not finished
        monkeypatch.setenv(name, "1")
        monkeypatch.delenv(other, raising=False)
        assert "rank not known yet" in repr(loader) and loader.epoch == 0
        with pytest.raises(ArgumentError, match="set both"):
            next(iter(loader))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert list(loader) == [1, 3, 5]
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(LoaderError, match="rank 1 of 2, and this process is now rank 0 of 2"):
        list(loader)
