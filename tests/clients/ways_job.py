"""Gives pipes to a client in every way, and reports the rows of each of two processes: ways_job.py CLIENT FOLDER."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.utils.data import DataLoader, DistributedSampler

import feedpipe as fp
from feedpipe.accelerate import PreparedLoader

ROWS = 48  # as many for each of 16 shards
BATCH = 2
STEPS = ROWS // BATCH // 2  # of each process

Client = Callable[[str, fp.Pipe[Any]], Iterable[Any]]


def pipes() -> dict[str, fp.Pipe[Any]]:
    """Of the uneven one, the ranks have rows for different numbers of batches: DDP would wait for ever."""
    rows = fp.from_sequence([{"x": x} for x in range(ROWS)])
    return {
        "indexed": rows.shuffle(),
        "streamed": rows.filter(lambda row: row["x"] >= 0).shuffle(window=7),
        "uneven": rows.filter(lambda row: row["x"] < 2 * ROWS // 3).shuffle(window=7),
    }


KINDS = list(pipes())


def dataset(way: str, pipe: fp.Pipe[Any]) -> Any:
    """What a program gives to a DataLoader, or as `train_dataset`."""
    if way == "pipe":
        return pipe
    if way == "map dataset":
        return pipe.as_map_dataset()
    if way.startswith("iterable dataset"):
        return pipe.as_iterable_dataset(shards=None if pipe.indexed else 4)
    if way.startswith("undivided dataset"):
        return pipe.as_iterable_dataset(rank=0, world_size=1)
    from feedpipe.transformers import dataset

    return dataset(pipe, repeat=way == "repeated dataset")


def loader(way: str, pipe: fp.Pipe[Any]) -> Any:
    """What a program iterates, or gives to a client in place of torch's loader."""
    if way in ("loader", "prepared loader"):
        loader = fp.Loader(pipe.batch(BATCH).collate(), shards=None if pipe.indexed else 4)
        return loader if way == "loader" else PreparedLoader(loader)
    workers = {"num_workers": 2, "multiprocessing_context": "fork"} if way.endswith(", workers") else {}
    return DataLoader(dataset(way, pipe), batch_size=BATCH, **workers)


def split_loader(way: str, pipe: fp.Pipe[Any]) -> Any:
    """A loader for a client that divides no iterable dataset: those of Hugging Face are split by the program."""
    if not way.endswith("dataset") or way in ("map dataset", "iterable dataset"):
        return loader(way, pipe)
    from datasets.distributed import split_dataset_by_node

    data = split_dataset_by_node(dataset(way, pipe), rank=int(os.environ["RANK"]), world_size=2)
    return DataLoader(data, batch_size=BATCH)


class Model(torch.nn.Module):
    """Notes the rows of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.batches: list[Any] = []

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.batches.append({"x": x})
        return {"loss": self.layer(x[:, None].float()).mean()}


def torchrun() -> Client:
    """A loop of one's own, which divides datasets as their packages say."""
    distributed.init_process_group("gloo")

    def batches(way: str, pipe: fp.Pipe[Any]) -> Iterable[Any]:
        if way in ("pipe", "map dataset"):
            data = dataset(way, pipe)
            return DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data))
        return split_loader(way, pipe)

    return batches


def accelerate(dispatch: bool) -> Client:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch))
    return lambda way, pipe: accelerator.prepare(loader(way, pipe))


def fabric() -> Client:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()

    def batches(way: str, pipe: fp.Pipe[Any]) -> Iterable[Any]:
        given = split_loader(way, pipe)
        return fabric.setup_dataloaders(given) if isinstance(given, DataLoader) else given

    return batches


def lightning() -> Client:
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return self.model(**batch)["loss"]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    def batches(way: str, pipe: fp.Pipe[Any]) -> Iterable[Any]:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = pl.Trainer(
            accelerator="cpu",
            devices=2,
            strategy="ddp",
            max_epochs=1,
            limit_train_batches=STEPS if way == "repeated dataset" else None,
            enable_checkpointing=False,
            **quiet,
        )
        module = Module()
        trainer.fit(module, split_loader(way, pipe))
        return module.model.batches

    return batches


def transformers(dispatch: bool) -> Client:
    from transformers import Trainer, TrainingArguments

    def batches(way: str, pipe: fp.Pipe[Any]) -> Iterable[Any]:
        model = Model()
        arguments = TrainingArguments(
            "unused",
            per_device_train_batch_size=BATCH,
            max_steps=STEPS,
            use_cpu=True,
            ddp_backend="gloo",
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            logging_strategy="no",
            accelerator_config={"dispatch_batches": dispatch or None},
        )
        data = loader(way, pipe) if "loader" in way else dataset(way, pipe)
        Trainer(model, arguments, train_dataset=data).train()
        return model.batches

    return batches


CLIENTS: dict[str, Callable[[], Client]] = {
    "torchrun": torchrun,
    "Accelerate": partial(accelerate, dispatch=False),
    "Accelerate, dispatched": partial(accelerate, dispatch=True),
    "Fabric": fabric,
    "Lightning": lightning,
    "Trainer": partial(transformers, dispatch=False),
    "Trainer, dispatched": partial(transformers, dispatch=True),
}
WAYS = ["loader", "prepared loader", "pipe", "map dataset", "iterable dataset", "dataset"]
UNDIVIDED = ["undivided dataset", "undivided dataset, workers"]  # which the client divides
WAYS_OF_STREAMS = [*WAYS, *UNDIVIDED, "repeated dataset", "iterable dataset, workers"]


def is_tried(client: str, way: str, kind: str) -> bool:
    """Not what a streamed pipe refuses by itself, nor what fails on one process while the other waits for it."""
    if way in ("pipe", "map dataset"):
        return kind == "indexed"
    if way in UNDIVIDED:
        return kind == "indexed" and client.startswith("Accelerate")
    if kind == "indexed" and way not in WAYS:
        return False
    if client == "Trainer" and kind == "uneven" and way.endswith("dataset"):  # dispatched by default
        return False
    if client.endswith("dispatched"):  # the first process reads for all
        return kind != "uneven" and "workers" not in way and not (client.startswith("Trainer") and "loader" in way)
    return True


def main(name: str, folder: Path) -> None:
    torch.set_num_threads(1)
    client = CLIENTS[name]()
    report: dict[str, Any] = {}
    for kind, pipe in pipes().items():
        for way in WAYS_OF_STREAMS:
            if not is_tried(name, way, kind):
                continue
            try:
                batches = islice(client(way, pipe), STEPS)
                report[f"{way}, {kind}"] = [x for batch in batches for x in batch["x"].tolist()]
            except Exception as error:
                report[f"{way}, {kind}"] = f"{type(error).__name__}: {error}"
    (folder / f"{name}.{distributed.get_rank()}").write_text(json.dumps(report))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
