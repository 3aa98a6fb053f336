"""`fp.Ray` on a cluster of two nodes on this machine: what it gives, and what it survives."""

from __future__ import annotations

import gzip
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import feedpipe as fp
from feedpipe.compat import DataLoader
from feedpipe.errors import MissingError, RowError, WorkerError, WorkerWarning
from feedpipe.testing import same

from ..loading.edits import edited_pass
from ..loading.test_edits import ORDER, check_refusals
from ..seeing.bottlenecks import CASES, WORKERS, napping, problem, run
from ..soak import SOAK
from ..support.check_service import PARTS, Part, check_part
from .programs import program
from .ray_cluster import ENVIRONMENT, RayCluster

os.environ.update(ENVIRONMENT)  # Ray looks at it when it is imported
ray = pytest.importorskip("ray")

CPUS = 0.1


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[RayCluster]:
    with RayCluster() as cluster:
        ray.init(address=cluster.address, _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR")
        yield cluster
        ray.shutdown()


def with_place(row: int) -> tuple[int, int, str]:
    """The row, with the process and the node that made it."""
    import ray

    return row, os.getpid(), ray.get_runtime_context().get_node_id()


def drawn(row: dict[str, object], rng: np.random.Generator) -> dict[str, object]:
    """The row, a draw, and an array that needs a message of its own."""
    return {**row, "draw": float(rng.random()), "large": np.full((1 << 20) + 1, len(str(row)), np.uint8)}


def pipes() -> dict[str, fp.Pipe[object]]:
    rows = range(24)
    table = pa.table({"a": list(rows), "b": [[x, None] for x in rows], "c": ["x" * (x % 5) for x in rows]})
    generator = fp.from_iterable(lambda: iter(range(200)))
    return {
        "arrays": fp.from_arrays({"x": np.arange(80.0).reshape(40, 2)}).shuffle().batch(3).collate(),
        "rows": fp.from_table(table).shuffle().map(drawn, rng=True).batch(2),
        "remote": fp.from_table(table).shuffle().map(drawn, rng=True).remote().shuffle(window=4).batch(2),
        "streamed": generator.dispatch()
        .filter(lambda x: x % 3)
        .flat_map(lambda x: [x] * (x % 3))
        .shuffle(window=9)
        .batch(4),
        "source order": fp.from_sequence(range(500)).filter(lambda x: x % 7).batch(4),
    }


@pytest.mark.parametrize("name", pipes())
def test_all_services_give_the_same(name: str) -> None:
    """Bit for bit, in two epochs; then from a state of the middle of the second, with another number of actors."""
    pipe = pipes()[name]
    services = [fp.InProcess(), fp.Threads(2), fp.MultiProcess(2), fp.Ray(2, cpus=CPUS)]
    shards = None if name == "source order" else 8
    loaders = [fp.Loader(pipe, service, seed=3, shards=shards) for service in services]
    epochs, states = [], []
    for loader in loaders:
        with loader:
            first = list(loader)
            iterator = iter(loader)
            begin = [next(iterator) for _ in range(3)]
            states.append(json.loads(json.dumps(loader.state_dict())))
            epochs.append((first, begin, list(iterator)))
    for service, epoch in zip(services, epochs, strict=True):
        assert same(epoch, epochs[0]), service
    for state, service in zip(states[2:], (fp.Ray(3, cpus=CPUS, prefetch=1), fp.MultiProcess(3)), strict=True):
        with fp.Loader(pipe, service, seed=3, shards=shards) as loader:
            loader.load_state_dict(state)
            assert same(list(loader), epochs[0][2]), service


@pytest.mark.filterwarnings("ignore::feedpipe.errors.StateWarning", "ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize("seed", range(SOAK))
def test_a_pass_lives_through_edits(seed: int) -> None:
    check_refusals(edited_pass(seed, ORDER, ranks_change=True, service=fp.Ray(1 + seed % 3, cpus=CPUS)))


if SOAK > 1:  # some hundred actors start for it, which takes minutes

    @pytest.mark.slow
    @pytest.mark.parametrize("part", PARTS)
    def test_conformance(part: Part) -> None:
        check_part(part, fp.Ray(2, cpus=CPUS))


def test_elements_have_memory_of_their_own() -> None:
    pipe = fp.from_sequence(range(4)).map(lambda x: {"small": np.full(3, x), "large": np.full(2 << 20, x)})
    with fp.Loader(pipe, fp.Ray(1, cpus=CPUS)) as loader:
        elements = list(loader)
    for x, element in enumerate(elements):
        for array in element.values():
            array += 1
            assert (array == x + 1).all()


@pytest.mark.parametrize("turn", range(SOAK))
def test_an_actor_that_is_killed_costs_no_row(turn: int) -> None:
    with fp.Loader(fp.from_sequence(range(20_000)).map(with_place), fp.Ray(2, cpus=CPUS)) as loader:
        iterator = iter(loader)
        rows = [next(iterator) for _ in range(10 + 200 * turn)]
        os.kill(rows[3][1], signal.SIGKILL)
        with pytest.warns(
            WorkerWarning, match=r"worker 1 \(process \d+ on node 127\.0\.0\.1 .*element \d+ of the epoch"
        ):
            rows += iterator
    assert [row for row, _, _ in rows] == list(range(20_000))
    assert len({process for _, process, _ in rows}) == 3


def test_an_actor_that_runs_only_what_stands_before_remote_may_die() -> None:
    here = os.getpid()
    rows = fp.from_sequence(range(600)).filter(lambda x: x % 7).map(with_place)
    pipe = rows.remote().map(lambda row: (*row[:2], os.getpid() == here)).shuffle(window=9).batch(4)
    with fp.Loader(pipe, fp.Ray(2, cpus=CPUS), seed=2) as loader:
        iterator = iter(loader)
        batches = [next(iterator) for _ in range(6)]
        os.kill(batches[-1][0][1], signal.SIGKILL)
        with pytest.warns(WorkerWarning, match=r"while it made row \d+ of shard \d before `remote`"):
            batches += iterator
    assert all(process != here and runs_here for batch in batches for _, process, runs_here in batch)
    numbers = fp.from_sequence(range(600)).filter(lambda x: x % 7).remote().shuffle(window=9).batch(4)
    assert [[row for row, _, _ in batch] for batch in batches] == list(fp.Loader(numbers, seed=2))


@pytest.mark.parametrize("turn", range(SOAK))
def test_a_node_that_is_killed_costs_no_row(cluster: RayCluster, turn: int) -> None:
    streamed = fp.from_sequence(range(60_000)).filter(lambda x: x % 7).map(with_place).batch(3)
    with fp.Loader(streamed, fp.Ray(2, cpus=CPUS), shards=4) as loader, fp.Loader(streamed, shards=4) as here:
        iterator = iter(loader)
        batches = [next(iterator) for _ in range(8 + 200 * turn)]
        nodes = {node for batch in batches for _, _, node in batch}
        assert len(nodes) == 2, "the actors are not spread"
        own = ray.get_runtime_context().get_node_id()
        away = {process for batch in batches for _, process, node in batch if node != own}
        with cluster.without_second_node(away), pytest.warns(WorkerWarning, match="has died, while it made element"):
            batches += iterator
        expected = [[row for row, _, _ in batch] for batch in here]
    assert [[row for row, _, _ in batch] for batch in batches] == expected
    assert {node for batch in batches[-8:] for _, _, node in batch} < nodes


def test_the_actor_that_dispatches_may_die() -> None:
    source = fp.from_iterable(lambda: iter(range(60_000))).map(with_place).dispatch()
    with fp.Loader(source.batch(4), fp.Ray(2, cpus=CPUS), shards=2) as loader:
        iterator = iter(loader)
        batches = [next(iterator) for _ in range(4)]
        processes = {process for batch in batches for _, process, _ in batch}
        assert len(processes) == 1
        os.kill(processes.pop(), signal.SIGKILL)
        with pytest.warns(WorkerWarning, match="the actor that runs the operators before `dispatch` has died"):
            batches += iterator
    with fp.Loader(fp.from_iterable(lambda: iter(range(60_000))).batch(4), shards=2) as here:
        assert [[row for row, _, _ in batch] for batch in batches] == list(here)


@pytest.mark.parametrize(
    ("pipe", "prefetch", "element"),
    [
        (fp.from_sequence(range(20)), 1, r"element 7 of the epoch.*"),
        # The elements before it were in the same message, so the element that the error names is not the deadly one.
        (fp.from_sequence(range(20)).filter(lambda x: x % 2), None, ""),
    ],
)
def test_a_row_that_ends_its_actor_is_named(pipe: fp.Pipe[int], prefetch: int | None, element: str) -> None:
    def end_at_seven(x: int) -> int:
        return x if x != 7 else os._exit(3)

    loader = fp.Loader(pipe.map(end_at_seven), fp.Ray(1, cpus=CPUS, prefetch=prefetch))
    message = rf"(?s){element}in `\.map\(.*end_at_seven\)`\n  on from_sequence, row 8\n.*died there 3 times"
    with loader, pytest.warns(WorkerWarning), pytest.raises(WorkerError, match=message):
        list(loader)


def test_an_error_names_the_row_and_the_node(tmp_path: Path) -> None:
    path = tmp_path / "only-here"
    loader = fp.Loader(fp.from_sequence([str(path)]).open_files().parse_lines(), fp.Ray(1, cpus=CPUS))
    with loader, pytest.raises(MissingError, match="only-here") as caught:
        list(loader)
    causes: list[BaseException] = [caught.value]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    assert "in worker 0, process" in str(causes[-1]) and "on node 127.0.0.1" in str(causes[-1])
    loader = fp.Loader(fp.from_sequence([1, 0]).map(lambda x: 1 // x), fp.Ray(1, cpus=CPUS))
    with loader, pytest.raises(RowError, match=r"row 2(?s:.*)test_ray\.py"):
        list(loader)


class TestActorsThatCannotBegin:
    PIPE = fp.from_sequence(range(4))

    def refused(self, service: fp.Ray, pipe: fp.Pipe[object] | None = None) -> str:
        with fp.Loader(pipe or self.PIPE, service) as loader, pytest.raises(WorkerError) as caught:
            list(loader)
        return str(caught.value)

    def test_no_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("feedpipe.services.cluster.START_SECONDS", 0.5)
        message = self.refused(fp.Ray(2, cpus=100, resources={"scanner": 1}))
        assert "2 actors have not started" in message and "each needs 100 CPU, 1 scanner" in message
        assert "8 CPU free of 8, 0 scanner free of 0" in message

    def test_no_cluster(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ray.is_initialized", lambda: False)
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{unused.getsockname()[1]}"
            message = self.refused(fp.Ray(1, address=address))
        assert f"there is no Ray cluster at '{address}': [Errno 111] Connection refused" in message
        assert "start one with `ray start --head`" in message

    def test_init_fails(self) -> None:
        def init(number: int) -> None:
            raise OSError("no such device")

        message = self.refused(fp.Ray(1, cpus=CPUS, init=init))
        assert "on node 127.0.0.1" in message and "`init=" in message and "OSError: no such device" in message


def test_actors_that_give_nothing_are_named(tmp_path: Path) -> None:
    fifo = tmp_path / "never"
    os.mkfifo(fifo)
    pipe = fp.from_sequence(range(4)).map(lambda x: fifo.read_bytes() if x else x)
    loader = fp.Loader(pipe, fp.Ray(1, cpus=CPUS, timeout=0.5, prefetch=1))
    message = r"(?s)no element has come for 0.5 seconds.*worker 0 \(process.*element \d of.*`ray stack` on that node"
    with loader, pytest.raises(WorkerError, match=message):
        list(loader)


def test_actors_end_with_their_program(cluster: RayCluster) -> None:
    program = f"""
import os, ray, feedpipe as fp
ray.init(address={cluster.address!r}, _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR")
loader = fp.Loader(fp.from_sequence(range(10**6)).map(lambda x: os.getpid()), fp.Ray(1, cpus={CPUS}))
print(next(iter(loader)), flush=True)
input()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        actor = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
    try:
        poll = select.poll()
        poll.register(actor, select.POLLIN)
        assert poll.poll(30_000), "the actor has outlived its program"
    finally:
        os.close(actor)


class Augmented(torch.utils.data.Dataset[tuple[torch.Tensor, int, int]]):
    """Rows with a draw of torch's global generator, and the process that made them."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, int]:
        return torch.rand(3) + index, index, os.getpid()


class Counting(torch.utils.data.IterableDataset[int]):
    """Each worker counts by itself, with its own end."""

    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        assert info is not None
        return iter(range(info.id, 20 + 10 * info.id, info.num_workers))


class TestDataLoader:
    def loader(self, **options: Any) -> DataLoader[Any]:
        torch.manual_seed(1)
        return DataLoader(Augmented(), 4, shuffle=True, num_workers=2, **options)

    def test_a_dataset_of_torch_runs_unchanged(self) -> None:
        """An actor dies on the way; the state of the middle goes on in processes."""
        expected = [batch[:2] for batch in self.loader()]
        loader = self.loader(distribute="ray")
        iterator = iter(loader)
        batches = [next(iterator) for _ in range(3)]
        state = json.loads(json.dumps(loader.state_dict()))
        os.kill(int(batches[0][2][0]), signal.SIGKILL)
        with pytest.warns(WorkerWarning, match=r"worker 0 \(process.*has died, while it made element \d+, of"):
            batches += iterator
        assert same([batch[:2] for batch in batches], expected)
        resumed = self.loader()
        resumed.load_state_dict(state)
        assert same([batch[:2] for batch in resumed], expected[3:])

    def test_an_iterable_dataset(self) -> None:
        here = DataLoader(Counting(), 4, num_workers=2)
        there = DataLoader(Counting(), 4, distribute=fp.Ray(2, cpus=CPUS))
        assert same(list(there), list(here))

    def test_an_error_of_the_dataset(self) -> None:
        loader = DataLoader([1, 0, 2], None, num_workers=1, collate_fn=lambda x: 1 // x, distribute="ray")
        batches = iter(loader)
        assert next(batches) == 1
        with pytest.raises(ZeroDivisionError):
            next(batches)
        assert list(batches) == [0]


def test_the_example_trains_to_the_same_numbers(cluster: RayCluster, tmp_path: Path) -> None:
    """`examples/dpex_table.py` with one mode, on images of noise."""
    write_noise(tmp_path)
    program = [str(Path(__file__).parents[2] / "examples" / "dpex_table.py"), f"--data={tmp_path}", "--mode=single"]
    options = [[], ["--distribute", f"--address={cluster.address}"]]
    runs = [
        subprocess.Popen([sys.executable, *program, "--epochs=1", "--images=300", *more], stdout=subprocess.PIPE)
        for more in options
    ]
    here, there = (json.loads(run.communicate()[0].splitlines()[-1]) for run in runs)
    assert here == there and here["loss"] > 0


def write_noise(folder: Path) -> None:
    """Files in the format of Fashion-MNIST."""
    generator = np.random.default_rng(0)
    for part, count in (("train", 300), ("t10k", 100)):
        for name, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            content = generator.integers(0, 10, shape, np.uint8)
            head = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(head + content.tobytes(), 1))


class TestCounters:
    """What the actors of a loader tell of their work."""

    def pipes(self) -> dict[str, fp.Pipe[Any]]:
        numbers = fp.from_sequence(range(1600))
        stream = fp.from_iterable(lambda: iter(range(1600)))
        return {
            "indexed": numbers.shuffle().map(napping).batch(20),
            "prefetch": numbers.filter(lambda x: x >= 0).map(napping).prefetch(40).batch(20),
            "remote": numbers.map(napping).remote().shuffle(window=40).batch(20),
            "dispatch": stream.map(napping).dispatch().shuffle(window=40).batch(20),
        }

    @pytest.mark.parametrize("name", ["indexed", "prefetch", "remote", "dispatch"])
    def test_a_report_names_the_slow_map(self, name: str) -> None:
        report = run(self.pipes()[name], fp.Ray(2, cpus=CPUS), 0.005)
        tables = [table for rank in report.ranks for table in rank.tables]
        names = {"consumer", "worker 0", "worker 1", *(["dispatcher"] if name == "dispatch" else [])}
        assert names <= {table.thread for table in tables}
        assert len({table.process for table in tables}) == len(names), "each actor is a process"
        for table in tables:
            assert sum(slot.ns for slot in table.slots.values()) == table.wall_ns, table.thread
        epochs = report.ranks[0].steps.epochs
        assert report.steps == epochs * 79
        found = report.bottleneck
        assert found is not None and found.where is not None, str(report)
        assert found.kind in ("operator", "cpus"), str(report)
        assert found.operator == ".map(napping)" and found.where.file == __file__
        if name == "indexed":
            made = sum(table.rows for table in tables if table.thread.startswith("worker"))
            assert made == epochs * 80

    @pytest.mark.parametrize(
        "name", [name for name, case in CASES.items() if name == "loop" or (SOAK > 1 and WORKERS in case.services)]
    )
    def test_a_bottleneck_is_named(self, name: str, tmp_path: Path) -> None:
        case = CASES[name]
        assert problem(name, run(case.pipe(tmp_path), fp.Ray(2, cpus=CPUS), case.loop)) is None

    def test_counts_go_on_when_an_actor_dies(self) -> None:
        with fp.Loader(fp.from_sequence(range(4000)).map(with_place).map(napping), fp.Ray(2, cpus=CPUS)) as loader:
            iterator = iter(loader)
            rows = [next(iterator) for _ in range(40)]
            os.kill(rows[0][1], signal.SIGKILL)
            with pytest.warns(WorkerWarning, match="worker 0"):
                rows += iterator
            report = loader.report()
        assert report.steps == len(rows) - 1 == 3999
        workers = {table.thread: table for table in report.ranks[0].tables if table.thread.startswith("worker")}
        assert workers.keys() == {"worker 0", "worker 1"}
        assert workers["worker 1"].rows == 2000
        assert workers["worker 0"].process != rows[0][1]

    def test_progress(self, capsys: pytest.CaptureFixture[str]) -> None:
        pipe = fp.from_sequence(range(600)).filter(lambda x: x % 2).batch(5)
        with fp.Loader(pipe, fp.Ray(2, cpus=CPUS)) as loader:
            places = [loader.progress for _ in fp.progress(loader, title="on Ray")]
        assert len(places) == 60
        assert places == sorted(places) and 0 < places[0] < 0.1 and places[-1] > 0.9
        assert re.search(r"on Ray: 100%.* 60/60 \[.*waits \d+% for data\]", capsys.readouterr().err)


def test_the_program_of_ray_train(tmp_path: Path) -> None:
    """Two workers of Ray Train share the rows, and a run that is started again goes on where it saved."""
    rows = 1024

    def step(batch: dict[str, Any]) -> None:
        from ray import train

        with (tmp_path / f"rows.{train.get_context().get_world_rank()}").open("a") as file:
            file.writelines(f"{x}\n" for x in batch["x"].tolist())

    code = program("Ray Train").replace("workers=2)\n", ")\n", 1)
    code = code.replace("num_workers=2)", "num_workers=2, resources_per_worker={'CPU': 0.1}), run_config=run_config")
    pipe = fp.from_arrays({"x": np.arange(rows)}).shuffle().batch(2).collate()
    from ray.train import RunConfig

    exec(code, {"fp": fp, "pipe": pipe, "step": step, "run_config": RunConfig(storage_path=str(tmp_path), name="run")})
    seen = [sorted(map(int, (tmp_path / f"rows.{rank}").read_text().split())) for rank in (0, 1)]
    assert sorted(seen[0] + seen[1]) == list(range(rows)) and len(seen[0]) == rows // 2
    states = [json.loads(path.read_text()) for path in (tmp_path / "run").rglob("loader.json")]
    assert sorted(state["step"] for state in states) == [100, 200]
