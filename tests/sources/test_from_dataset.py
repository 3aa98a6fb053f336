"""`from_dataset`: datasets of torch and of Hugging Face, map-style and iterable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import datasets
import pytest
import torch
from datasets.distributed import split_dataset_by_node
from torch.utils.data import Dataset, IterableDataset, IterDataPipe, get_worker_info
from torch.utils.data.datapipes.iter import IterableWrapper

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, PlanWarning, RowError
from feedpipe.extensions import START, Context
from feedpipe.testing import check_operator

from ..support.sources import FromStream, _keeps_state


class Squares(Dataset[int]):
    def __init__(self, bad: int = -1) -> None:
        self.bad = bad

    def __len__(self) -> int:
        return 25

    def __getitem__(self, index: int) -> int:
        assert type(index) is int
        assert get_worker_info() is None
        if index == self.bad:
            raise OSError("no such square")
        return index * index


class ManySquares(Squares):
    calls: list[int]

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.calls = [*getattr(self, "calls", []), len(indices)]
        return [self[i] for i in indices]


class Count(IterableDataset[int]):
    def __init__(self, stop: int = 25) -> None:
        self.stop = stop

    def __len__(self) -> int:
        return 1000  # an estimate, as in many datasets

    def __iter__(self) -> Iterator[int]:
        for i in range(self.stop):
            assert get_worker_info() is None
            yield i


class Stateful(IterableDataset[int]):
    """A dataset with its own state, as torchdata's StatefulDataLoader uses it; counts the items that it reads."""

    def __init__(self, plain: bool = True) -> None:
        self.at = 0
        self.plain = plain
        self.read: list[int] = []

    def __iter__(self) -> Iterator[int]:
        while self.at < 25:
            self.at += 1
            yield self.at - 1
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at if self.plain else torch.tensor(self.at)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def test_map_style() -> None:
    pipe = fp.from_dataset(Squares())
    assert len(pipe) == 25
    assert pipe[-1] == 576
    assert check_operator(pipe) == [i * i for i in range(25)]
    assert sorted(check_operator(pipe.shuffle())) == [i * i for i in range(25)]
    assert pipe.op.identity() == {"type": "Squares", "rows": 25}


def test_getitems_gets_many_numbers_at_once() -> None:
    data = ManySquares()
    assert list(fp.from_dataset(data).batch(5))[1] == [25, 36, 49, 64, 81]
    assert max(data.calls) >= 5
    assert check_operator(fp.from_dataset(data)) == [i * i for i in range(25)]


@pytest.mark.parametrize("data", [Squares(bad=7), ManySquares(bad=7)])
def test_the_error_of_an_item_comes_after_the_items_before_it(data: Any) -> None:
    rows = iter(fp.from_dataset(data))
    assert [next(rows) for _ in range(7)] == [i * i for i in range(7)]
    for _ in range(2):
        with pytest.raises(RowError, match=r"OSError: no such square\n  on from_dataset\(.*Squares\), row 8") as caught:
            next(rows)
    assert isinstance(caught.value.__cause__, OSError)
    assert __file__ in str(caught.value)


def test_iterable() -> None:
    assert check_operator(fp.from_dataset(Count())) == list(range(25))
    assert check_operator(fp.from_dataset(Count(0))) == []
    with pytest.raises(TypeError, match="not known"):
        len(fp.from_dataset(Count()))


def test_a_state_after_a_failure_does_not_skip_the_item() -> None:
    class Broken(Stateful):
        def __iter__(self) -> Iterator[int]:
            for i in super().__iter__():
                if i == 3:
                    raise OSError("gone")
                yield i

    stage = fp.from_dataset(Broken())._stage()
    context = Context()
    blocks = stage.blocks(START, context)
    ends = [next(blocks).end, next(blocks).end]
    assert ends[-1].position == 3
    for run in (blocks, stage.blocks(ends[-1], context)):
        with pytest.raises(RowError, match="row 4"):
            next(run)


def test_a_surrounding_worker_of_torch_is_hidden_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils import worker

    info = worker.WorkerInfo(id=0, num_workers=2, seed=0, dataset=None)
    monkeypatch.setattr(worker, "_worker_info", info)
    with pytest.warns(fp.errors.PlanWarning, match="each row comes 2 times"):
        assert list(fp.from_dataset(Count())) == list(range(25))
    with pytest.warns(fp.errors.PlanWarning, match="each row comes 2 times"):
        assert list(fp.from_dataset(Squares())) == [i * i for i in range(25)]
    assert get_worker_info() is info


HF = datasets.Dataset.from_dict({"a": list(range(23)), "v": [[i, i + 1] for i in range(23)]})


def numbers(n: list[int]) -> Iterator[dict[str, int]]:
    for i in n:
        yield {"a": i}


def stream() -> Any:
    return HF.to_iterable_dataset(num_shards=3)


def generated() -> Any:
    return datasets.IterableDataset.from_generator(numbers, gen_kwargs={"n": list(range(12))})


STREAMS: dict[str, tuple[Any, bool]] = {
    "plain": (stream, True),
    "generator": (generated, True),
    "map": (lambda: stream().map(lambda row: {"b": row["a"] * 2}), True),
    "batched map": (lambda: stream().map(lambda b: {"c": [x + 1 for x in b["a"]]}, batched=True, batch_size=3), True),
    "filter": (lambda: stream().filter(lambda row: row["a"] % 2), True),
    "take and skip": (lambda: stream().skip(3).take(9), True),
    "batch": (lambda: stream().batch(4), True),
    "interleave": (lambda: datasets.interleave_datasets([stream(), generated()]), True),
    "drawn": (lambda: datasets.interleave_datasets([stream(), generated()], [0.4, 0.6], seed=1), True),
    "concatenate": (lambda: datasets.concatenate_datasets([stream(), generated()]), True),
    "formatted": (lambda: stream().with_format("numpy"), True),
    "shuffled": (lambda: stream().shuffle(seed=3, buffer_size=5), False),
    "shuffled and mapped": (lambda: generated().shuffle(seed=3, buffer_size=5).map(lambda row: {"b": 1}), False),
}


@pytest.mark.parametrize(("make", "own_state"), STREAMS.values(), ids=STREAMS.keys())
def test_hugging_face_streams(make: Any, own_state: bool) -> None:
    pipe = fp.from_dataset(make())
    assert isinstance(pipe.op, FromStream)
    assert _keeps_state(make()) is own_state
    rows = check_operator(pipe)
    assert len(rows) == len(list(make()))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (datasets.DatasetDict(train=HF), r'choose a split, such as `dataset\["train"\]`'),
        (Squares, "call it"),
        (iter([1]), "iterable again and again"),
        (3, "must have `__getitem__`"),
    ],
)
def test_values_that_are_no_dataset(value: Any, message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=message) as caught:
        fp.from_dataset(value)
    assert __file__ in str(caught.value)


def test_a_dataset_that_was_split_by_node_is_not_divided_again_in_silence() -> None:
    with pytest.warns(PlanWarning, match=r"split by node into 2 parts, .* before `split_dataset_by_node`"):
        fp.from_dataset(split_dataset_by_node(HF.to_iterable_dataset(num_shards=4), 1, 2))


class Windows(IterDataPipe[list[int]]):
    """A class as users of DataPipes wrote them."""

    def __init__(self, source: IterDataPipe[int]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[list[int]]:
        for row in self.source:
            yield [row, row + 1]


def test_a_chain_of_data_pipes() -> None:
    """The bridge from DataPipes: each row once on two ranks, and exact resumes."""
    old = Windows(IterableWrapper(range(23)).map(abs)).filter(lambda pair: pair[0] % 2 == 0)
    pipe: fp.Pipe[list[int]] = fp.from_dataset(old)
    expected = [[n, n + 1] for n in range(0, 23, 2)]
    assert list(zip(pipe, pipe, strict=True)) == list(zip(expected, expected, strict=True))

    def results() -> list[list[list[int]]]:
        loaders = [fp.Loader(pipe, rank=rank, world_size=2, even=None) for rank in (0, 1)]
        return [check_operator(pipe), sorted(row for loader in loaders for row in loader)]

    with pytest.warns(PlanWarning, match="read again in each epoch"):
        assert results() == [expected, expected]


def test_data_pipes_that_divide_their_rows_give_all_of_them() -> None:
    """`sharding_filter` asks for the worker, which feedpipe hides."""
    assert list(fp.from_dataset(IterableWrapper(range(9)).sharding_filter())) == list(range(9))
