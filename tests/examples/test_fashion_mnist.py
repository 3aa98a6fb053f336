"""The example at a tiny size: made-up images, a few steps, one rank and two."""

from __future__ import annotations

import gzip
import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.distributed as dist

from .loading import EXAMPLES, loaded_example, on_two_ranks

EXAMPLE = EXAMPLES / "fashion_mnist.py"
TRAIN, TEST = 60, 900  # 900 test images are 3 batches, so two ranks need padding


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    with loaded_example("fashion_mnist") as module:
        yield module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with four small files in the format of the real ones."""
    made = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    for part, count in (("train", TRAIN), ("t10k", TEST)):
        write_idx(made / f"{part}-images-idx3-ubyte.gz", random.integers(256, size=(count, 28, 28)))
        write_idx(made / f"{part}-labels-idx1-ubyte.gz", random.integers(10, size=count))
    return made


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(head + values.astype(np.uint8).tobytes()))


def values(network: torch.nn.Module) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in network.state_dict().items()}


@pytest.mark.usefixtures("one_rank")
class TestOneRank:
    def test_a_stopped_job_ends_where_an_unstopped_one_does(
        self, example: ModuleType, folder: Path, tmp_path: Path
    ) -> None:
        whole, record = example.Job(folder, epochs=2, batch=10), example.Record()
        example.train(whole, record)
        record.numbers.clear()
        example.train(whole, record)

        first, parts = example.Job(folder, epochs=2, batch=10), example.Record()
        example.train(first, parts)
        parts.numbers.clear()
        example.train(first, parts, stop_at=4)
        first.save(tmp_path / "checkpoint.pt")
        second = example.Job(folder, epochs=2, batch=10)
        second.load(tmp_path / "checkpoint.pt")
        example.train(second, parts)

        assert torch.cat(parts.numbers).tolist() == torch.cat(record.numbers).tolist()
        assert values(second.network) == values(whole.network)

    def test_what_is_lost_or_seen_twice_is_counted(self, example: ModuleType) -> None:
        record = example.Record(numbers=[torch.tensor([0, 2]), torch.tensor([2])])
        assert example.times_seen(record, 4).tolist() == [1, 0, 2, 0]

    def test_accuracy_is_a_share_of_all_test_images(self, example: ModuleType, folder: Path) -> None:
        class Always(torch.nn.Module):
            def forward(self, image: torch.Tensor) -> torch.Tensor:
                return torch.eye(10)[torch.full((len(image),), 3)]

        labels = [row["label"] for row in example.images(folder, "t10k")]
        assert example.accuracy(Always(), folder) == pytest.approx(labels.count(3) / TEST)


class TestProgram:
    @pytest.mark.parametrize(("goal", "code"), [("0", 0), ("1.1", 1)])
    def test_says_whether_the_goal_was_reached(
        self,
        example: ModuleType,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        goal: str,
        code: int,
    ) -> None:
        arguments = ["--data", str(folder), "--epochs", "1", "--batch", "10", "--goal", goal]
        monkeypatch.setattr(sys, "argv", ["fashion_mnist.py", *arguments])
        assert example.main() == code
        check_table(capsys.readouterr().out, stopped="3 of 6")

    @pytest.mark.slow
    def test_two_ranks(self, folder: Path) -> None:
        arguments = ["--data", folder, "--epochs", "2", "--batch", "5", "--goal", "0"]
        check_table(on_two_ranks(EXAMPLE, *arguments), stopped="3 of 6")

    @pytest.mark.slow
    def test_padding_of_two_ranks_counts_for_nothing(self, example: ModuleType, folder: Path, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(PADDED)
        labels = [row["label"] for row in example.images(folder, "t10k")]
        shares = [float(line) for line in on_two_ranks(script, EXAMPLE.parent, folder).split()]
        assert shares == pytest.approx([labels.count(3) / TEST] * 2)


PADDED = """
import sys
from pathlib import Path
import torch, torch.distributed as dist
sys.path.insert(0, sys.argv[1])
import fashion_mnist as example

class Always(torch.nn.Module):
    def forward(self, image):
        return torch.eye(10)[torch.full((len(image),), 3)]

example.join_ranks()
share = example.accuracy(Always(), Path(sys.argv[2]))
dist.destroy_process_group()
sys.stdout.write(f"{share}\\n")
"""


def check_table(output: str, *, stopped: str) -> None:
    table = dict(re.findall(r"^ *(.+?)  +(.+)$", output, re.MULTILINE))
    assert table["interrupted epoch"] == f"stopped after step {stopped}"
    assert (table["images seen once"], table["lost"], table["seen twice"]) == (str(TRAIN), "0", "0")


class TestData:
    def test_a_download_is_checked_and_kept(self, example: ModuleType, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "new" / "target"
        source.write_bytes(b"images")
        with pytest.raises(OSError, match="not the official one"):
            example.download(source.as_uri(), target, "0" * 32)
        assert not target.exists()
        example.download(source.as_uri(), target, hashlib.md5(b"images").hexdigest())
        assert [path.name for path in target.parent.iterdir()] == ["target"]

    def test_without_a_network_it_says_what_to_do(self, example: ModuleType, tmp_path: Path) -> None:
        with pytest.raises(ConnectionError, match="dataset-fashion-mnist.*`--data`"):
            example.download((tmp_path / "nowhere").as_uri(), tmp_path / "target", "0" * 32)
