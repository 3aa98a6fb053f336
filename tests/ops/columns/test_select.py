"""`select`, `drop` and `rename`: on columns and on dicts, and errors before the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ..tables import TABLE, variants

ROWS = TABLE.to_pylist()


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    texts = check_operator(pipe.select("text", "id"))
    assert texts == [{"text": row["text"], "id": row["id"]} for row in ROWS]
    assert [list(row) for row in texts] == [["text", "id"]] * 5
    assert check_operator(pipe.drop(["half", "tags"])) == [{"id": row["id"], "text": row["text"]} for row in ROWS]
    swapped = check_operator(pipe.rename({"id": "text", "text": "id"}).select("id"))
    assert swapped == [{"id": row["text"]} for row in ROWS]
    assert list(pipe.rename({"id": "number"}).head(1)[0]) == ["number", "text", "half", "tags"]
    assert check_operator(pipe.skip(9).select("id")) == []


def test_columns_are_neither_copied_nor_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Rows) -> Any:
        raise AssertionError("a row became a dict")

    monkeypatch.setattr(Rows, "__iter__", never)
    array = np.arange(8.0)
    pipe = fp.from_arrays({"x": array, "y": array, "z": array}).drop("z").rename({"x": "a"}).select("a")
    (batch,) = pipe.batch(8)
    assert isinstance(batch, Rows) and np.shares_memory(batch["a"], array)
    (shuffled,) = fp.from_arrays({"x": array, "y": array}).shuffle().select("x").batch(8)
    assert shuffled._columns_and_selection[1] is not None


WRONG: dict[str, tuple[Any, str]] = {
    "select": (lambda p: p.select("txet"), r"`\.select\('txet'\)`: there is no column 'txet'; did you mean 'text'\?"),
    "drop": (lambda p: p.drop("size"), r"`\.drop\('size'\)`: there is no column 'size'; there are 'id', 'text'"),
    "drop all": (lambda p: p.drop("id", "text", "half", "tags"), "no column would be left; `select` those to keep"),
    "rename": (
        lambda p: p.rename({"hlaf": "x"}),
        r"`\.rename\({'hlaf': 'x'}\)`: there is no column 'hlaf'; did you mean 'half'",
    ),
    "rename to a name that is there": (lambda p: p.rename({"id": "text"}), "two columns would have the name 'text'"),
}


@pytest.mark.parametrize(("chain", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_name_is_an_error_before_the_run(chain: Any, message: str) -> None:
    for pipe in (fp.from_table(TABLE), fp.from_table(TABLE).filter(lambda row: 1 / 0)):
        for run in (lambda p: p.explain(), lambda p: next(iter(p)), lambda p: fp.Loader(p).peek()):
            with pytest.raises(PlanError, match=message) as caught:
                run(chain(pipe))
            assert __file__ in str(caught.value)


@pytest.mark.parametrize(("chain", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_name_in_dicts_names_the_row(chain: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"{message}(.|\n)*\n  on from_sequence, row 1\n  at ") as caught:
        list(chain(fp.from_sequence(ROWS)))
    assert __file__ in str(caught.value)


def test_arguments() -> None:
    pipe = fp.from_table(TABLE)
    with pytest.raises(ArgumentError, match="`columns` must name at least one column but got"):
        pipe.select()
    with pytest.raises(ArgumentError, match="`columns` must name each column once but got 'id' twice"):
        pipe.drop("id", "id")
    for wrong in (3, ["id", 3], None):
        with pytest.raises(ArgumentTypeError, match="`columns` must be a list of names but got: "):
            pipe.select(wrong)  # type: ignore[arg-type]
    for names in ("id", {}, {"id": 1}, None):
        with pytest.raises(ArgumentTypeError, match="`names` must map names of columns to new names but got: "):
            pipe.rename(names)  # type: ignore[arg-type]


def test_a_state_says_which_columns_differ() -> None:
    names = [f"c{k}" for k in range(12)]
    table = fp.from_table(pa.table({name: [1, 2, 3] for name in [*names, "d"]}))
    state = fp.Loader(table.select(names)).state_dict()
    fp.Loader(table.select(names)).load_state_dict(state)
    with pytest.warns(fp.errors.StateWarning, match="is now `select.*'d'"):
        fp.Loader(table.select([*names[:11], "d"])).load_state_dict(state)
