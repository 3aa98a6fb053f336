"""`cache`: which rows it keeps, for whom, and what it refuses."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, PlanError
from feedpipe.testing import check_operator

from ...support.core import end_dropped
from .cached_pipes import KINDS, ROWS, Counted, Kind, files, indexed, same, shown

pytestmark = pytest.mark.usefixtures("small_files")


@KINDS
class TestEachKind:
    def test_rows_are_made_once(self, kind: Kind, tmp_path: Path, folder: Path, calls: Counted) -> None:
        expected = shown(list(kind(tmp_path, same)))
        pipe = kind(tmp_path, calls).cache(folder)
        assert pipe.indexed == (kind is indexed)
        for again in (pipe, pipe, kind(tmp_path, calls).cache(folder)):
            assert shown(list(again)) == expected
        assert calls.count() == len(expected)

    @pytest.mark.filterwarnings("ignore:.* is read again in each epoch")
    def test_loaders_with_and_without_workers_share_it(
        self, kind: Kind, tmp_path: Path, folder: Path, calls: Counted
    ) -> None:
        expected = sorted(shown(list(kind(tmp_path, same))))
        pipe = kind(tmp_path, calls).cache(folder)
        for workers in (2, 0):
            assert sorted(shown(list(fp.Loader(pipe, workers=workers, shards=None if pipe.indexed else 4)))) == expected
            made = calls.count()
            assert made >= len(expected) if workers else made == 0

    def test_a_run_that_ends_early_leaves_what_it_made(
        self, kind: Kind, tmp_path: Path, folder: Path, calls: Counted
    ) -> None:
        expected = shown(list(kind(tmp_path, same)))
        loader = fp.Loader(kind(tmp_path, calls).cache(folder))
        elements = iter(loader)
        for _ in range(300):
            next(elements)
        loader.close()
        del elements, loader
        count = calls.count()
        assert count >= 300
        assert shown(list(kind(tmp_path, calls).cache(folder))) == expected
        assert calls.count() <= len(expected) - 300

    def test_a_limit(
        self, kind: Kind, tmp_path: Path, folder: Path, calls: Counted, caplog: pytest.LogCaptureFixture
    ) -> None:
        expected = shown(list(kind(tmp_path, same)))
        for _ in range(2):
            assert shown(list(kind(tmp_path, calls).cache(folder, limit=12_000))) == expected
        assert sum(path.stat().st_size for path in files(folder)) <= 12_000
        assert len(expected) < calls.count() < 2 * len(expected)
        assert "and its `limit` is 12000" in caplog.text

    def test_law(self, kind: Kind, tmp_path: Path, folder: Path) -> None:
        pipe = kind(tmp_path, same)
        check_operator((pipe.take(90) if pipe.indexed else pipe).cache(folder), samples=2)


def test_memory_is_shared_by_workers_and_removed(calls: Counted) -> None:
    pipe = fp.from_sequence(range(ROWS)).map(calls).cache()
    for workers in (2, 0):
        with fp.Loader(pipe, workers=workers) as loader:  # its workers write what they have made until they end
            assert sorted(loader) == list(range(ROWS))
    assert calls.count() == ROWS
    temporary = Path(explanation(pipe).rpartition(", in ")[2].strip()).parent
    assert temporary.exists()
    del pipe, loader
    end_dropped()
    assert not temporary.exists()


def explanation(pipe: fp.Pipe[Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        pipe.explain()
    return output.getvalue()


def test_another_version_and_another_pipe_begin_anew(
    folder: Path, calls: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    def pipe(factor: int = 1, **options: Any) -> fp.Pipe[int]:
        return fp.from_sequence(range(9)).map(calls).map(lambda x: x * factor).cache(folder, **options)

    assert list(fp.Loader(pipe())) == list(range(9))
    assert not caplog.records
    for other in (pipe(version="2"), pipe(factor=2)):
        caplog.clear()
        list(fp.Loader(other))
        assert "starts empty" in caplog.text
        assert "of another pipe, of other code or of another `version`" in caplog.text
    assert calls.count() == 27
    caplog.clear()
    for again in (pipe(), pipe(version="2"), pipe(factor=2, limit="1GiB")):
        list(fp.Loader(again))
    assert not caplog.records
    assert calls.count() == 0


def test_a_state_fits_a_cache_elsewhere(folder: Path, tmp_path: Path) -> None:
    loader = fp.Loader(fp.from_sequence(range(9)).cache(folder))
    elements = iter(loader)
    next(elements)
    other = fp.Loader(fp.from_sequence(range(9)).cache(tmp_path / "other", version="2", limit="1MiB"))
    other.load_state_dict(loader.state_dict())
    assert list(other) == list(range(1, 9))


def test_frozen_draws_are_those_of_the_first_epoch(folder: Path) -> None:
    def pipe() -> fp.Pipe[int]:
        return fp.from_sequence(range(99)).shuffle().map(lambda x, rng: x + rng.random(), rng=True)

    expected = list(pipe())
    loader = fp.Loader(pipe().cache(folder, freeze=True), seed=7)
    assert [list(loader) for _ in range(2)] == [expected, expected]


def test_draws_are_refused(folder: Path) -> None:
    numbers = fp.from_sequence(range(9))
    with pytest.raises(PlanError, match=r"must not follow `shuffle\(\)`, which draws at random.*`freeze=True` to have"):
        numbers.shuffle().map(same).cache(folder)
    with pytest.raises(PlanError, match=r"must not follow `shuffle\(each_epoch=False\)`"):
        numbers.shuffle(each_epoch=False).cache(folder)
    with pytest.raises(PlanError, match="must not follow `map"):
        numbers.map(lambda x, rng: x, rng=True).cache(folder)
    with pytest.raises(PlanError, match=r"`cache\(\)` must come before `shard_by_rank\(\)`"):
        numbers.shard_by_rank().cache(folder)


def test_arguments() -> None:
    numbers = fp.from_sequence(range(9))
    with pytest.raises(ArgumentError, match="`path` must be the path of a local folder but got: 's3://a'"):
        numbers.cache("s3://a")
    with pytest.raises(ArgumentTypeError, match="`path` must be the path of a folder but got: 3"):
        numbers.cache(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="`version` must be a str but got: 3"):
        numbers.cache(version=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`limit` must be a size"):
        numbers.cache(limit="much")
