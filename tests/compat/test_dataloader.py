"""`feedpipe.compat.DataLoader` does what torch's does, as torch's own tests describe that."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import signal
import threading
from collections import Counter, namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data as torch_data
from torch.utils.data import Dataset, IterableDataset, TensorDataset, get_worker_info

import feedpipe as fp
from feedpipe.compat import DataLoader
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, LoaderError, WorkerError, WorkerWarning

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # on machines of few cores


class Squares(Dataset[Any]):
    def __init__(self, count: int = 20) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return torch.full((2,), float(index)), index * index, str(index)


class Part(IterableDataset[int]):
    """Worker w gives `sizes[w]` numbers."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return sum(self.sizes)

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        return iter(range(self.sizes[0 if info is None else info.id]))


class Failing(Dataset[int]):
    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> int:
        if index % 3 == 1:
            raise NotImplementedError(f"row {index}")
        return index


class Seeds(Dataset[tuple[int, float, float, int]]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[int, float, float, int]:
        return torch.initial_seed(), random.random(), np.random.random(), int(torch.randint(1 << 40, ()))


class InWorker(Dataset[tuple[int, int, int]]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        info: Any = get_worker_info()
        assert isinstance(info.dataset, InWorker)
        return info.id, info.num_workers, os.getpid()


class Once(Dataset[int]):
    """Calls `action` on row 5, the first time any process reads it."""

    def __init__(self, folder: Path, action: Any, *, always: bool = False) -> None:
        self.mark = folder / "mark"
        self.action = action
        self.always = always

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        if index == 5 and (self.always or not self.mark.exists()):
            self.mark.touch()
            self.action()
        return index


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    threading.Event().wait()


def forked(workers: int) -> dict[str, Any]:
    """Forking is the quickest start."""
    return {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {"num_workers": 0}


def both(dataset: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """Two epochs of torch's and of ours, from the same seed."""
    epochs: list[list[Any]] = []
    for cls in (torch_data.DataLoader, DataLoader):
        torch.manual_seed(3)
        if isinstance(options.get("generator"), torch.Generator):
            options["generator"] = torch.Generator().manual_seed(9)
        loader: Any = cls(dataset, **options)
        epochs.append([list(loader), list(loader), torch.rand(1)])
    return epochs[0], epochs[1]


def assert_same(ours: Any, expected: Any) -> None:
    assert type(ours) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert ours.dtype == expected.dtype
        assert torch.equal(ours, expected)
    elif isinstance(expected, dict):
        assert_same(list(ours.items()), list(expected.items()))
    elif isinstance(expected, (list, tuple)):
        assert len(ours) == len(expected)
        for one, other in zip(ours, expected, strict=True):
            assert_same(one, other)
    else:
        assert ours == expected


OPTIONS: dict[str, dict[str, Any]] = {
    "sequential": {"batch_size": 3},
    "shuffle": {"batch_size": 3, "shuffle": True},
    "drop_last": {"batch_size": 3, "shuffle": True, "drop_last": True},
    "generator": {"batch_size": 6, "shuffle": True, "generator": torch.Generator()},
    "rows": {"batch_size": None},
    "shuffled rows": {"batch_size": None, "shuffle": True},
    "sampler": {"batch_size": 4, "sampler": range(2, 12)},
    "batch sampler": {"batch_sampler": [(0, 1), (2, 3, 4), (5, 6)]},
    "collate": {"batch_size": 4, "collate_fn": lambda rows: {"ids": [row[2] for row in rows], "count": len(rows)}},
    "weighted": {"batch_size": 4, "sampler": torch_data.WeightedRandomSampler([0.1, 0.9, 3.0] * 5, 10)},
    "distributed": {"batch_size": 4, "sampler": torch_data.DistributedSampler(Squares(), 3, 1)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_batches_order_and_draws_are_those_of_torch(name: str) -> None:
    expected, ours = both(Squares(), **OPTIONS[name])
    assert_same(ours, expected)


@pytest.mark.parametrize("name", ["sequential", "generator", "rows", "batch sampler", "collate"])
@pytest.mark.parametrize("persistent", [False, True])
def test_with_workers_too(name: str, persistent: bool) -> None:
    expected, ours = both(Squares(), persistent_workers=persistent, **OPTIONS[name], **forked(2))
    assert_same(ours, expected)


Pair = namedtuple("Pair", ["data", "label"])


DATASETS: dict[str, Any] = {
    "list": [torch.ones(2) * i for i in range(5)],
    "dicts": [{"x": np.float32(i), "y": {"z": [i, str(i)]}} for i in range(5)],
    "named tuples": [Pair(np.arange(3) * i, f"{i}") for i in range(5)],
    "bytes and bools": [(b"x", i > 2, 1.5 * i) for i in range(5)],
    "arrays": np.arange(12).reshape(6, 2),
    "mixed numbers": [1, 2.5, 3],
    "tensors": TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6)),
    "subset": torch_data.Subset(TensorDataset(torch.arange(12.0)), [3, 1, 4, 1, 5]),
    "concat": Squares(4) + Squares(3),
    "stack": torch_data.StackDataset(a=torch.arange(5), b=torch.arange(5) * 2),
}


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("batch_size", [2, None])
def test_elements_are_those_of_torch(name: str, batch_size: int | None) -> None:
    expected, ours = both(DATASETS[name], batch_size=batch_size)
    assert_same(ours, expected)


def test_elements_of_workers_are_those_of_torch() -> None:
    rows = [[*DATASETS[name]][:3] for name in DATASETS]
    for collate in (None, torch_data.default_collate):
        expected, ours = both(rows, batch_size=None, collate_fn=collate and collate_each, **forked(1))
        assert_same(ours, expected)


def collate_each(rows: list[Any]) -> Any:
    return torch_data.default_collate(rows)


@pytest.mark.parametrize(("batch_size", "drop_last"), [(None, False), (7, False), (7, True)])
def test_workers_of_an_iterable_dataset_may_give_different_numbers(batch_size: int | None, drop_last: bool) -> None:
    expected, ours = both(Part([0, 4, 20]), batch_size=batch_size, drop_last=drop_last, **forked(3))
    assert sorted(map(str, ours[0])) == sorted(map(str, expected[0]))
    assert_same(ours[0], expected[0])
    assert_same(ours[1], expected[1])


def test_an_iterable_dataset_without_workers() -> None:
    expected, ours = both(Part([20]) + Part([5]), batch_size=7)
    assert_same(ours, expected)
    assert [len(DataLoader(Part([10]), batch_size=3, drop_last=drop)) for drop in (True, False)] == [3, 4]


def test_more_elements_than_the_length_warn() -> None:
    loader = DataLoader(Part([4, 4]), batch_size=None)
    loader.dataset.sizes = [9]  # type: ignore[attr-defined]
    assert len(list(loader)) == 9
    loader.dataset.sizes = [4, 4]  # type: ignore[attr-defined]
    assert len(loader) == 8
    loader.dataset.sizes = [9]  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match="says that it has 8 items, and the loader has given 9"):
        list(loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_after_an_error_the_next_batch_comes(workers: int) -> None:
    batches = iter(DataLoader(Failing(), batch_size=1, **forked(workers)))
    seen: list[Any] = []
    while True:
        try:
            seen.append(next(batches).item())
        except StopIteration:
            break
        except NotImplementedError as error:
            seen.append(str(error))
    assert seen == [0, "row 1", 2, 3, "row 4", 5, 6, "row 7", 8]
    assert next(batches, None) is None


def test_an_error_shows_the_worker_and_its_lines() -> None:
    with pytest.raises(NotImplementedError) as caught:
        list(DataLoader(Failing(), **forked(1)))
    assert "in worker 0" in str(caught.value.__cause__)
    assert "raise NotImplementedError" in str(caught.value.__cause__)


class BadIter(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("no iterator")


def bad_init(worker: int) -> None:
    raise RuntimeError("no start")


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_at_the_start(workers: int) -> None:
    with pytest.raises(RuntimeError, match="no iterator"):
        list(DataLoader(BadIter(), **forked(workers)))
    if workers:
        with pytest.raises(RuntimeError, match="no start"):
            list(DataLoader(Squares(), worker_init_fn=bad_init, **forked(workers)))


def test_errors_of_collation_are_those_of_torch() -> None:
    for rows in ([["a"], ["a", "b"]], [object(), object()], [torch.ones(2), torch.ones(3)], [np.array("x")] * 2):
        for workers in (0, 1):
            with pytest.raises((RuntimeError, TypeError)) as expected:
                torch_data.default_collate(rows)
            with pytest.raises(expected.type):
                next(iter(DataLoader(rows, batch_size=2, **forked(workers))))  # type: ignore[arg-type]


def test_an_element_that_cannot_leave_its_worker() -> None:
    batches = iter(DataLoader(Squares(4), batch_size=2, collate_fn=lambda rows: threading.Lock(), **forked(1)))
    for _ in range(2):
        with pytest.raises(DataError, match="cannot leave its worker"):
            next(batches)
    assert next(batches, None) is None


def test_a_sampler_gives_lists_of_indices() -> None:
    class Bulk(Dataset[torch.Tensor]):
        def __getitem__(self, indices: Any) -> torch.Tensor:
            assert isinstance(indices, list)
            return torch.as_tensor(indices)

    sampler = [[3, 1], [2], [0, 4, 5]]
    for workers in (0, 2):
        batches = list(DataLoader(Bulk(), batch_size=None, sampler=sampler, **forked(workers)))
        assert [batch.tolist() for batch in batches] == sampler


def test_keys_of_any_kind_and_getitems() -> None:
    class Named(dict[str, int]):
        def __getitems__(self, names: list[str]) -> list[int]:
            return [self[name] for name in names]

    data = Named(a=1, b=2, c=3)
    for workers in (0, 1):
        loader = DataLoader(data, batch_sampler=[["c", "a"], ["b"]], **forked(workers))  # type: ignore[arg-type]
        assert [batch.tolist() for batch in loader] == [[3, 1], [2]]


def test_a_growing_dataset() -> None:
    data = [torch.ones(2) for _ in range(4)]
    loaders = [DataLoader(data, shuffle=shuffle) for shuffle in (False, True)]  # type: ignore[arg-type]
    data.append(torch.ones(2))
    assert [len(loader) for loader in loaders] == [5, 5]
    assert [len(list(loader)) for loader in loaders] == [5, 5]


def test_a_sampler_without_end_is_read_as_far_as_needed() -> None:
    taken = []

    def endless() -> Iterator[int]:
        for number in itertools.count():
            taken.append(number)
            yield number % 20

    class Endless(torch_data.Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            return endless()

    for workers in (0, 2):
        taken.clear()
        loader = DataLoader(
            Squares(), batch_size=2, sampler=Endless(), prefetch_factor=2 if workers else None, **forked(workers)
        )
        rows = [index for batch in itertools.islice(loader, 15) for index in batch[2]]
        assert rows == [str(i % 20) for i in range(30)]
        assert len(taken) <= 30 + workers * 2 * 2


def test_loaders_and_iterators_side_by_side() -> None:
    loader = DataLoader(Squares(), batch_size=4, **forked(1))
    other = DataLoader(Squares(6), batch_size=2, **forked(2))
    batches = zip(loader, loader, other, strict=False)
    assert [(one[2][0], two[2][0], three[2][0]) for one, two, three in batches] == [
        ("0", "0", "0"),
        ("4", "4", "2"),
        ("8", "8", "4"),
    ]


def test_worker_info_and_dropping_the_iterator() -> None:
    assert get_worker_info() is None
    batches = iter(DataLoader(InWorker(), batch_size=None, **forked(2)))
    infos = [next(batches) for _ in range(4)]
    assert [tuple(info[:2]) for info in infos] == [(0, 2), (1, 2), (0, 2), (1, 2)]
    pids = {info[2] for info in infos}
    assert len(pids) == 2
    assert get_worker_info() is None
    del batches
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def init_to_12345(worker: int) -> None:
    torch.manual_seed(12345)


def test_seeds_of_workers() -> None:
    loader = DataLoader(Seeds(), batch_size=None, generator=torch.Generator().manual_seed(1), **forked(2))
    rows = list(loader)
    for values in zip(*rows, strict=True):
        assert len(set(values)) == 8
    again = DataLoader(Seeds(), batch_size=None, generator=torch.Generator().manual_seed(1), **forked(1))
    assert list(again) == rows  # the draws of a batch do not depend on the number of workers
    assert list(again) != rows
    seeded = DataLoader(Seeds(), batch_size=None, worker_init_fn=init_to_12345, **forked(2))
    assert {row[0] for row in seeded} == {12345}


class Unpicklable(Dataset[Any]):
    """Holds what cannot be pickled, as torch allows with "fork"."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb")
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        with self.lock:
            return os.pread(self.file.fileno(), 1, index)[0]


def test_forked_workers_inherit_the_dataset(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(10)))
    lock = threading.Lock()
    dataset = Unpicklable(path)

    def collate(rows: list[int]) -> list[int]:
        with lock:
            return rows

    options: dict[str, Any] = {"batch_size": 4, "collate_fn": collate, "worker_init_fn": lambda worker: lock.locked()}
    batches = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with dataset.file:
        assert list(DataLoader(dataset, **options, **forked(2))) == batches
        kept = DataLoader(dataset, persistent_workers=True, **options, **forked(1))
        assert [list(kept), list(kept)] == [batches, batches]
        with pytest.raises(ArgumentTypeError, match="`dataset.file` is an _io.BufferedReader"):
            list(DataLoader(dataset, num_workers=1))


def interrupt_the_consumer() -> None:
    """The consumer, once it sleeps until this row arrives, is interrupted as by Ctrl-C."""
    stat = Path(f"/proc/{os.getppid()}/stat")
    while stat.read_text().rpartition(") ")[2][0] != "S":
        pass
    os.kill(os.getppid(), signal.SIGINT)
    hang()


@pytest.mark.parametrize("persistent", [False, True])
def test_an_interrupt_within_a_batch(tmp_path: Path, persistent: bool) -> None:
    dataset = Once(tmp_path, interrupt_the_consumer)
    loader = DataLoader(dataset, batch_size=2, persistent_workers=persistent, **forked(1))
    batches = iter(loader)
    with pytest.raises(KeyboardInterrupt):
        list(batches)
    with pytest.raises(LoaderError, match="KeyboardInterrupt has ended this run"):
        next(batches)
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == [[row, row + 1] for row in range(0, 12, 2)]


@pytest.mark.parametrize("persistent", [False, True])
def test_new_workers_see_the_dataset_as_it_is(persistent: bool) -> None:
    class Counting(Dataset[tuple[int, int]]):
        value = 0

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> tuple[int, int]:
            return self.value, os.getpid()

    dataset = Counting()
    loader = DataLoader(dataset, batch_size=None, persistent_workers=persistent, **forked(1))
    first = list(loader)
    dataset.value = 7
    second = list(loader)
    assert [row[0] for row in second] == ([0, 0] if persistent else [7, 7])
    assert (first[0][1] == second[0][1]) == persistent


def test_a_newer_iterator_of_kept_workers_ends_the_older() -> None:
    loader = DataLoader(Squares(), persistent_workers=True, **forked(1))
    older = iter(loader)
    next(older)
    assert len(list(loader)) == 20
    with pytest.raises(LoaderError, match="a newer `iter\\(loader\\)` has ended this one"):
        next(older)


def test_a_worker_that_dies_is_started_again(tmp_path: Path) -> None:
    with pytest.warns(WorkerWarning, match="it is started again"):
        batches = [batch.tolist() for batch in DataLoader(Once(tmp_path, die), batch_size=2, **forked(2))]
    assert batches == [[i, i + 1] for i in range(0, 12, 2)]


@pytest.mark.filterwarnings("ignore::feedpipe.errors.WorkerWarning")
def test_a_worker_that_dies_again_and_again(tmp_path: Path) -> None:
    batches = iter(DataLoader(Once(tmp_path, die, always=True), batch_size=2, **forked(2)))
    assert [next(batches).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    for _ in range(2):
        with pytest.raises(WorkerError, match=r"element 2, of \[4, 5\]; it has died there 3 times"):
            next(batches)


def test_timeout(tmp_path: Path) -> None:
    loader = DataLoader(Once(tmp_path, hang), batch_size=4, timeout=0.5, **forked(1))
    with pytest.raises(RuntimeError, match=r"no element has come for 0.5 seconds"):
        list(loader)


class Waiting(Dataset[int]):
    """Row 0 comes when row 3 was read."""

    def __init__(self, folder: Path) -> None:
        self.fifo = folder / "fifo"
        os.mkfifo(self.fifo)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index in (0, 3):
            with open(self.fifo, "r" if index == 0 else "w"):  # each waits for the other
                pass
        return index


def test_out_of_order(tmp_path: Path) -> None:
    loader = DataLoader(Waiting(tmp_path), batch_size=None, in_order=False, **forked(2))
    elements = list(loader)
    assert elements[0] == 1
    assert sorted(elements) == [0, 1, 2, 3]
    with pytest.raises(LoaderError, match="in_order=False"):
        loader.state_dict()


def test_pinning_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="nothing is pinned"):
        list(DataLoader(Squares(2), pin_memory=True))


def test_it_is_a_dataloader_of_torch() -> None:
    loader = DataLoader(Squares(), batch_size=3)
    assert isinstance(loader, torch_data.DataLoader)
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
            setattr(loader, name, {})
    copy = pickle.loads(pickle.dumps(loader))
    assert_same(list(copy), list(loader))


INVALID: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"num_workers": -1}, ValueError, "non-negative"),
    ({"timeout": -1}, ValueError, "non-negative"),
    ({"timeout": 1}, ArgumentError, "`timeout` must be 0 without workers"),
    ({"batch_size": None, "drop_last": True}, ValueError, "mutually exclusive"),
    ({"shuffle": True, "sampler": [1]}, ValueError, "mutually exclusive"),
    ({"batch_size": 2, "batch_sampler": [[1]]}, ValueError, "mutually exclusive"),
    ({"multiprocessing_context": "fork"}, ValueError, "num_workers > 0"),
    ({"multiprocessing_context": "bad", "num_workers": 1}, ValueError, "valid start method"),
    ({"multiprocessing_context": object(), "num_workers": 1}, TypeError, "valid context"),
    ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only"),
    ({"prefetch_factor": 0, "num_workers": 1}, ArgumentError, "`prefetch_factor` must be >= 1"),
    ({"persistent_workers": True}, ValueError, "num_workers > 0"),
    ({"batch_size": 0}, ValueError, "positive integer"),
    ({"distribute": "cluster"}, ArgumentError, "`distribute` must be"),
    ({"distribute": "ray"}, ArgumentError, "`num_workers` must be >= 1"),
    ({"distribute": fp.Ray(2), "num_workers": 3}, ArgumentError, "`num_workers` must be left out"),
]


@pytest.mark.parametrize(("options", "error", "message"), INVALID)
def test_invalid_arguments(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DataLoader(Squares(), **options)


def test_datapipes_are_refused() -> None:
    from torch.utils.data.datapipes.iter import IterableWrapper

    with pytest.raises(ArgumentTypeError, match="must not be a DataPipe but got: IterableWrapper"):
        DataLoader(IterableWrapper([1]))


def test_many_elements_are_kept_without_file_descriptors() -> None:
    """Each tensor of torch's workers has a descriptor of its own."""
    before = len(os.listdir("/proc/self/fd"))
    kept = list(DataLoader(Squares(400), batch_size=None, **forked(1)))
    assert len(os.listdir("/proc/self/fd")) - before < 20
    assert Counter(int(row[0][0]) for row in kept) == Counter(range(400))
