"""`dataset`: a pipe as a dataset of Hugging Face, for Transformers' Trainer and the trainers of TRL."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..core.checks import check_choice, check_int
from ..loading.ranks import Rank
from ..pipe import Pipe, check_pipe

HuggingFaceDataset: TypeAlias = Any
"""A `datasets.IterableDataset`."""


def dataset(pipe: Pipe[Any], *, seed: int = 0, repeat: bool = False) -> HuggingFaceDataset:
    """Return the rows of a pipe as a `datasets.IterableDataset`, for `train_dataset=` and `eval_dataset=`.

    The trainer makes batches of `per_device_train_batch_size` rows, and divides the rows among its processes and
    `dataloader_num_workers`; each row comes once in an epoch. By default Accelerate lets the first process read for
    all; with `accelerator_config={"dispatch_batches": False}`, which is TRL's default, each process reads its own part.
    The parts of a streamed pipe differ in length, so they need `repeat=True`; those of an indexed pipe are even, and
    the few rows that go beyond are left out. `map`, `filter` and the like of the dataset work as usual, after the pipe.

    As with every iterable dataset, training needs `max_steps`. A resumed run drops the rows before its step, so it
    needs the same number of processes and workers. If it trains for more than an epoch, give `repeat=True`: a trainer
    that resumes does not count the epochs of iterable datasets.

    Args:
        pipe: its elements are rows, as dicts, and no batches.
        seed: the key of all randomness.
        repeat: begin again after the last row, without end; shuffles and draws are others in each round.

    Raises:
        ArgumentTypeError: `pipe` is no pipe, or its rows are no dicts.
        PlanError: processes read parts of a streamed pipe without `repeat`; at the first row.

    Example:
        import feedpipe as fp
        from feedpipe.transformers import dataset
        from trl import SFTConfig, SFTTrainer

        data = dataset(fp.read_jsonl("chats/*.jsonl").shuffle(window=10_000), repeat=True)
        SFTTrainer("Qwen/Qwen3-0.6B", SFTConfig(max_steps=1000), train_dataset=data).train()
    """
    check_pipe(pipe)
    check_int("seed", seed, least=0)
    check_choice("repeat", repeat, (False, True))
    from .pipe_examples import IterableDataset, PipeExamples

    return IterableDataset(PipeExamples(pipe, seed, repeat, Rank(0, 1), 0))
