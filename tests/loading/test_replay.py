from __future__ import annotations

import json
import traceback
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, DataError, Origin, RowError, StateError, StateWarning

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")  # small files are cut, to be even

FILES, FILE_ROWS = 12, 25
ROWS = FILES * FILE_ROWS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for part in range(FILES):
        lines = [f"{part * FILE_ROWS + row}\n" for row in range(FILE_ROWS)]
        (folder / f"{part:02}.csv").write_text("x\n" + "".join(lines))
    return folder


def numbers(batch: Any) -> list[int]:
    return [row["x"] for row in batch]


def origin_of(folder: Any, number: int) -> Origin:
    return Origin(str(folder / f"{number // FILE_ROWS:02}.csv"), number % FILE_ROWS + 2, "line")


def plain(element: Any) -> str:
    if isinstance(element, dict):
        return json.dumps({name: np.asarray(value).tolist() for name, value in element.items()})
    return repr(list(element))


def check(pipe: fp.Pipe[Any], folder: Any = None, **arguments: Any) -> int:
    """Each element of a loader comes again from its cursor, and its lineage names its rows. Returns how many."""
    with fp.Loader(pipe, seed=3, **arguments) as loader:
        taken = list(loader.with_info())
    for element, info in taken:
        assert plain(fp.replay(pipe, json.loads(json.dumps(info.cursor)))) == plain(element)
        if folder is not None:
            assert info.lineage() == [origin_of(folder, number) for number in numbers(element)]
    return len(taken)


def stream(folder: Any) -> fp.Pipe[Any]:
    return fp.read_csv(folder)


def streamed(rows: Any) -> fp.Pipe[Any]:
    return fp.from_sequence(rows).filter(lambda row: True)


class TestEveryElementComesAgain:
    @pytest.mark.parametrize("arguments", [{}, {"workers": 2}, {"service": fp.Threads(2)}])
    def test_stream(self, folder, arguments):
        pipe = stream(folder).shuffle(window=40).batch(7)
        assert check(pipe, folder, shards=4, **arguments) == 43

    @pytest.mark.parametrize("arguments", [{}, {"workers": 2}, {"rank": 1, "world_size": 3, "even": None}])
    def test_indexed(self, arguments):
        pipe = fp.from_arrays({"x": np.arange(90)}).shuffle().batch(4)
        check(pipe, **arguments)
        for batch, info in fp.Loader(pipe, seed=3, **arguments).with_info():
            assert info.lineage() == [Origin("from_arrays", number + 1) for number in numbers(batch)]

    @pytest.mark.parametrize(
        "pipe",
        [
            streamed(range(50)).map(lambda x, rng: x + rng.random(), rng=True).batch(3),
            fp.from_sequence(range(30)).mix(streamed(range(30)), random=True).batch(4),
            streamed([[k] * (k % 5) for k in range(60)]).pack(8),
            streamed([[k] * (k % 5) for k in range(60)]).pack(8, strategy="fit", window=20),
            streamed([{"x": [k] * (k % 5), "y": [k]} for k in range(60)]).pack(
                {"x": 8, "y": 3}, strategy="fit", window=20
            ),
            streamed(range(50)).group_by(lambda x: x % 3, window=10),
            streamed(range(20)).repeat(2).sliding(3),
            streamed(range(40)).batch_by_size(9, lambda x: x % 4),
            fp.from_table(pa.table({"x": range(40)})).shuffle().batch(8).collate(),
        ],
        ids=lambda pipe: repr(pipe).rpartition(".")[2],
    )
    def test_draws_and_groups(self, pipe):
        assert check(pipe, shards=None if pipe.indexed else 3) >= 5

    def test_after_a_resume_and_in_later_epochs(self, folder):
        pipe = stream(folder).shuffle(window=20).batch(7)
        first = fp.Loader(pipe, seed=3, shards=4, steps=30)
        for _ in range(2):
            list(first)
        next(elements := iter(first))
        resumed = fp.Loader(pipe, seed=3, shards=4, steps=30)
        resumed.load_state_dict(first.state_dict())
        for element, info in resumed.with_info():
            assert plain(fp.replay(pipe, info.cursor)) == plain(element) == plain(next(elements))
            assert info.lineage() == [origin_of(folder, number) for number in numbers(element)]

    def test_after_another_number_of_ranks(self, folder):
        pipe = stream(folder).shuffle(window=10).batch(4)
        states = []
        for rank in range(2):
            loader = fp.Loader(pipe, seed=3, shards=4, rank=rank, world_size=2, even=None)
            elements = iter(loader)
            for _ in range(9):
                next(elements)
            states.append(loader.state_dict())
        for rank in range(3):
            loader = fp.Loader(pipe, seed=3, rank=rank, world_size=3, even=None)
            loader.load_state_dict(states)
            for element, info in loader.with_info():
                assert plain(fp.replay(pipe, json.loads(json.dumps(info.cursor)))) == plain(element)
                assert info.lineage() == [origin_of(folder, number) for number in numbers(element)]


class TestLineage:
    def test_of_an_indexed_pipe_runs_nothing(self):
        calls: list[int] = []
        loader = fp.Loader(fp.from_sequence(range(8)).map(calls.append).batch(4))
        _, info = next(loader.with_info())
        before = len(calls)
        assert [origin.row for origin in info.lineage()] == [1, 2, 3, 4] and len(calls) == before


def inverse(row: dict[str, Any]) -> float:
    return 1 / (row["x"] - 170)


class TestErrors:
    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("indexed", [True, False])
    def test_an_error_says_how_its_element_comes_again(self, folder, workers, indexed):
        source = fp.from_arrays({"x": np.arange(ROWS)}) if indexed else stream(folder)
        pipe = (source.shuffle() if indexed else source.shuffle(window=30)).map(inverse).batch(8)
        with (
            fp.Loader(pipe, workers=workers, shards=None if indexed else 4) as loader,
            pytest.raises(RowError) as error,
        ):
            list(loader)
        cursor = error.value.cursor
        assert f"fp.replay(pipe, {cursor})" in "".join(traceback.format_exception(error.value))
        with pytest.raises(RowError, match="ZeroDivisionError") as again:
            fp.replay(pipe, json.loads(json.dumps(cursor)))
        assert again.value.origin == error.value.origin and isinstance(again.value.__cause__, ZeroDivisionError)

    def test_an_element_that_fits_into_no_tensor(self):
        pipe = streamed([[1, 2]] * 9 + [[3]]).batch(5).collate()
        with pytest.raises(DataError) as error:
            list(fp.Loader(pipe))
        assert error.value.cursor is not None
        with pytest.raises(DataError, match="`.collate"):
            fp.replay(pipe, error.value.cursor)

    def test_no_cursor(self):
        pipe = fp.from_sequence(range(3))
        with pytest.raises(ArgumentTypeError, match=r"`cursor` must be an `info\.cursor` but got: 3"):
            fp.replay(pipe, 3)  # type: ignore[arg-type]
        with pytest.raises(StateError, match="`cursor` does not fit this pipe: KeyError"):
            fp.replay(pipe, {})
        cursor = dict(next(fp.Loader(pipe).with_info())[1].cursor, element=7)
        with pytest.raises(StateError, match="which has no element there"):
            fp.replay(pipe, cursor)

    def test_a_cursor_of_another_pipe(self, folder):
        _, info = next(fp.Loader(stream(folder).batch(3)).with_info())
        with pytest.warns(StateWarning, match="of another pipe, or of this one before a change"):
            assert numbers(fp.replay(stream(folder).batch(2), info.cursor)) == [0, 1]
        with pytest.raises(StateError, match="only one of both is indexed"):
            fp.replay(fp.from_sequence(range(3)), info.cursor)
