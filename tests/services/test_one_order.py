"""The order of elements depends on the pipe, its data and the ranks; a state of one service loads in any other."""

from __future__ import annotations

import json
import os
import signal
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.testing import same

from ..soak import SOAK
from ..support.examples import examples
from ..support.loading import KEPT_STEPS
from ..test_chains import chains, draw, fails, few, refused, weight

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")

FILES, ROWS = 5, 60
quick = settings(
    max_examples=examples(80 * SOAK),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as Parquet files, JSON lines and CSV."""
    folder = tmp_path_factory.mktemp("rows")
    for number in range(FILES):
        values = range(number * ROWS, (number + 1) * ROWS - number)
        table = pa.table({"x": [*values], "text": ["ab" * (value % 5) for value in values]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=7 + number)
        lines = [json.dumps(row) for row in table.to_pylist()]
        (folder / f"{number}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@st.composite
def readers(draw_: st.DrawFn) -> Any:
    """A chain over files: some are made in spans by all workers, some by one."""
    steps = [
        lambda p: p.map(lambda row: row),
        lambda p: p.filter(lambda row: weight(row) % 3 != 0),
        lambda p: p.flat_map(few),
        lambda p: p.map(draw, rng=True),
        lambda p: p.map(fails, on_error="skip"),
        lambda p: p.filter(lambda row: weight(fails(row)) % 5 != 0, on_error="skip"),
        lambda p: p.batch(4),
        lambda p: p.batch(7, drop_last=True),
        lambda p: p.batch(3).unbatch(),
        lambda p: p.batch(5).map(draw, rng=True),
        lambda p: p.map(weight).batch(9).map(sum),
        lambda p: p.take(100),
        lambda p: p.enumerate(),
        lambda p: p.prefetch(3),
        lambda p: p.shuffle(window=30),
        lambda p: p.map(weight).batch_by_size(300, lambda n: n % 20),
    ]
    chosen = draw_(st.lists(st.sampled_from(steps), max_size=4))
    parquet = draw_(st.booleans())

    def chain(folder: Path) -> fp.Pipe[Any]:
        pattern = str(folder / ("*.parquet" if parquet else "*.jsonl"))
        pipe: fp.Pipe[Any] = fp.read_parquet(pattern) if parquet else fp.read_jsonl(pattern)
        for step in chosen:
            pipe = step(pipe)
        return pipe

    return chain


def agree(got: list[Any], expected: list[Any]) -> None:
    assert len(got) == len(expected) and all(map(same, got, expected)), (got, expected)


def in_one_order(pipe: fp.Pipe[Any], services: list[Any], ranks: int, rank: int, data: st.DataObject) -> None:
    """All services give the elements of the first, and go on from a state of any other."""

    def loader(service: Any) -> fp.Loader[Any]:
        return fp.Loader(pipe, service, rank=rank, world_size=ranks, even=None, seed=5)

    with refused():
        with loader(services[0]) as reference:
            expected = list(reference)
        state: dict[str, Any] | None = None
        taken = 0
        for service in services[1:]:
            with loader(service) as one:
                if state is not None:
                    one.load_state_dict(json.loads(json.dumps(state)))
                start = taken
                elements = iter(one)
                taken = data.draw(st.integers(start, len(expected)))
                got = list(islice(elements, taken - start))
                ahead = list(islice(elements, KEPT_STEPS)) if data.draw(st.booleans()) else []
                state = one.state_dict(step=taken) if ahead else one.state_dict()
                agree([*got, *ahead, *elements], expected[start:])
                if taken == len(expected):
                    state, taken = None, 0


def in_source_order(pipe: fp.Pipe[Any]) -> None:
    """On one rank, without a shuffle, the elements are those of the pipe."""
    if "shuffle" not in repr(pipe) and "random" not in repr(pipe):
        with refused(), fp.Loader(pipe, fp.Threads(3, timeout=60)) as loader:
            agree(list(loader), list(pipe))


threads = st.integers(1, 12).map(lambda count: fp.Threads(count, timeout=60))


@quick
@given(chains(skipping=True), st.lists(threads, min_size=2, max_size=3), st.integers(1, 3), st.data())
def test_any_chain_has_one_order(pipe, services, ranks, data):
    in_one_order(pipe, [fp.InProcess(), *services], ranks, data.draw(st.integers(0, ranks - 1)), data)
    in_source_order(pipe)


@pytest.mark.slow
@quick
@given(readers(), st.lists(threads, min_size=2, max_size=3), st.integers(1, 3), st.data())
def test_any_reader_has_one_order(folder, chain, services, ranks, data):
    pipe = chain(folder)
    in_one_order(pipe, [fp.InProcess(), *services], ranks, data.draw(st.integers(0, ranks - 1)), data)
    in_source_order(pipe)


@pytest.mark.slow
@settings(quick, max_examples=examples(12 * SOAK))
@given(readers(), st.lists(st.integers(1, 12), min_size=2, max_size=3), st.data())
def test_processes_have_the_order_of_one(folder, chain, workers, data):
    in_one_order(chain(folder), [fp.InProcess(), *map(fp.MultiProcess, workers)], 1, 0, data)


def with_process(row: dict[str, Any]) -> tuple[int, int]:
    return row["x"], os.getpid()


@pytest.mark.parametrize("taken", [1, 9, 40])
@pytest.mark.filterwarnings("ignore::feedpipe.errors.WorkerWarning")
def test_a_worker_that_is_killed_changes_no_order(folder, taken):
    rows = fp.read_parquet(folder / "*.parquet").filter(lambda row: row["x"] % 5 != 0)
    with fp.Loader(rows.map(with_process).batch(4), fp.MultiProcess(3)) as loader:
        elements = iter(loader)
        got = list(islice(elements, taken))
        os.kill(got[-1][-1][1], signal.SIGKILL)
        got += elements
    assert [x for batch in got for x, _ in batch] == [row["x"] for row in rows]


def test_explain_says_what_workers_do(folder, capsys):
    rows = fp.read_parquet(folder / "*.parquet")
    rows.filter(weight).batch(8).explain(workers=2)
    assert "workers: 2 make spans of the rows in turn, up to `filter(" in capsys.readouterr().out
    for alone, reason in [(rows.take(50), "`take(50)` needs all rows"), (rows.remote(), "`remote()` reads the rows")]:
        alone.batch(8).explain(workers=2)
        line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("workers:"))
        assert line.startswith(f"workers: one of 2 makes all rows of a rank, because {reason}")
        assert line.endswith("; `shards=2` lets all work, in another order")
