from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, LimitError, PlanError
from feedpipe.testing import check_operator

from ..tables import TABLE, variants

OTHER = pa.table({"id": [4, 1, 2, 9], "text": ["four", "one", None, "nine"], "size": [4.0, 1.0, 2.0, 9.0]})
JOINED = [
    {**row, "text_right": other["text"], "size": other["size"]}
    for row in TABLE.to_pylist()
    for other in OTHER.to_pylist()
    if row["id"] == other["id"]
]
DOUBLED = pa.table({"id": [1, 2, 1, 1], "n": [10, 20, 11, 12]})


def left(rows, other):
    added = {"text_right": None, "size": None}
    by_id = {row["id"]: {"text_right": row["text"], "size": row["size"]} for row in other}
    return [{**row, **by_id.get(row["id"], added)} for row in rows]


@pytest.mark.parametrize("name", variants())
class TestRows:
    @pytest.mark.parametrize("kind", ["table", "pipe", "streamed", "dicts", "dict", "frame"])
    def test_law(self, name, kind):
        by_key = {row["id"]: {"text": row["text"], "size": row["size"]} for row in OTHER.to_pylist()}
        other = {
            "table": OTHER,
            "pipe": fp.from_table(OTHER),
            "streamed": fp.from_table(OTHER).filter(lambda row: True),
            "dicts": fp.from_sequence(OTHER.to_pylist()),
            "dict": by_key,
            "frame": pd.DataFrame({"id": [4, 1, 2, 9], "text": ["four", "one", None, "nine"], "size": [4.0, 1, 2, 9]}),
        }[kind]
        pipe = variants()[name]
        assert check_operator(pipe.join(other, on="id"), samples=3) == JOINED
        assert check_operator(pipe.join(other, on="id", how="left"), samples=3) == left(
            TABLE.to_pylist(), OTHER.to_pylist()
        )
        assert check_operator(pipe.take(2).join(other, on="id", how="error"), samples=3) == JOINED[:2]

    def test_several_rows_of_one_key(self, name):
        pipe = variants()[name].select("id")
        with pytest.raises(DataError, match=r"the other side of `join`: 3 rows have the key 1; `multiple=\"first\"`"):
            list(pipe.join(DOUBLED, on="id"))
        assert check_operator(pipe.join(DOUBLED, on="id", multiple="first")) == [{"id": 1, "n": 10}, {"id": 2, "n": 20}]
        every = [{"id": 1, "n": 10}, {"id": 1, "n": 11}, {"id": 1, "n": 12}, {"id": 2, "n": 20}]
        assert check_operator(pipe.join(DOUBLED, on="id", multiple="all")) == every
        kept = [*every, *({"id": k, "n": None} for k in (3, 4, 5))]
        assert check_operator(pipe.join(DOUBLED, on="id", multiple="all", how="left")) == kept

    def test_a_key_that_is_not_found(self, name):
        rows = []
        with pytest.raises(DataError, match=r"(?s)no row of the other side has the key 3 of 'id'.*row 3") as error:
            rows.extend(variants()[name].join(OTHER, on="id", how="error"))
        assert rows == JOINED[:2] and "test_join.py" in str(error.value)

    def test_nulls_are_never_found(self, name):
        other = pa.table({"text": ["a", None, "e"], "n": [1, 2, 3]})
        pipe = variants()[name].select("id", "text").join(other, on="text")
        assert list(pipe) == [{"id": 1, "text": "a", "n": 1}, {"id": 5, "text": "e", "n": 3}]

    def test_several_columns(self, name):
        other = pa.table({"a": [1, 1, 3], "b": [0.5, 1.0, 1.5], "n": [7, 8, 9]})
        pipe = variants()[name].select("id", "half").join(other, on=["id", "half"], other_on=["a", "b"])
        assert check_operator(pipe) == [{"id": 1, "half": 0.5, "n": 7}, {"id": 3, "half": 1.5, "n": 9}]


class TestColumns:
    def test_stay_columns_with_one_type_in_all_batches(self):
        pipe = fp.from_table(TABLE).join(OTHER, on="id", how="left")
        batches = list(pipe.batch(2))
        assert all(isinstance(batch, fp.Rows) for batch in batches)
        assert pipe.indexed and len(pipe) == 5 and pipe[3]["size"] == 4.0
        assert pipe.schema.names == ["id", "text", "half", "tags", "text_right", "size"]
        assert pipe.to_table().schema.equals(pipe.schema)


class TestPlan:
    def test_the_other_side_is_read_at_the_first_row_and_once(self):
        reads = []

        def rows():
            reads.append(1)
            yield from OTHER.to_pylist()

        pipe = fp.from_table(TABLE).join(fp.from_iterable(rows), on="id", how="left")
        loader = fp.Loader(pipe)
        assert not reads
        assert len(list(loader)) == len(list(loader)) == 5 and len(reads) == 1

    def test_a_state_belongs_to_its_other_side(self):
        state = fp.Loader(fp.from_table(TABLE).join(OTHER, on="id")).state_dict()
        with pytest.raises(fp.errors.StateError, match="join"):
            fp.Loader(fp.from_table(TABLE).join(OTHER.slice(1), on="id")).load_state_dict(state)


OTHER_KINDS = [
    (pa.date32(), pa.timestamp("us")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.duration("s"), pa.int64()),
    (pa.dictionary(pa.int8(), pa.string()), pa.binary(2)),
    (pa.decimal128(5, 2), pa.string()),
]


def joined(own, other):
    return fp.from_table(pa.table({"k": pa.nulls(2, own)})).join(
        pa.table({"k": pa.nulls(2, other)}), on="k", how="left"
    )


class TestErrors:
    def test_columns_that_are_known_to_be_wrong(self):
        pipe = fp.from_table(TABLE)
        for call, message in (
            (lambda: pipe.join(OTHER, on="ix"), "there is no column 'ix'"),
            (lambda: pipe.join(OTHER, on="id", other_on="ids"), "there is no column 'ids'"),
            (lambda: pipe.join(OTHER, on="id", suffix=""), "both sides have a column 'text'"),
            (
                lambda: pipe.join(OTHER, on="id", other_on="text"),
                "'id' is of type int64 and 'text' of the other side of",
            ),
            *(
                (lambda own=own, other=other: joined(own, other), "so no key would be found")
                for own, other in OTHER_KINDS
            ),
        ):
            with pytest.raises(PlanError, match=message):
                list(call())

    def test_columns_that_only_a_run_can_tell(self):
        pipe = fp.from_sequence(TABLE.to_pylist())
        with pytest.raises(DataError, match="there is no column 'ix'"):
            list(pipe.join(OTHER, on="ix", other_on="id"))
        with pytest.raises(DataError, match="both sides have a column 'text'"):
            list(pipe.join(OTHER, on="id", suffix=""))
        with pytest.raises(DataError, match="the other side of `join`: there is no column 'id'"):
            list(pipe.join(fp.from_sequence([{"x": 1}]), on="id"))
        with pytest.raises(DataError, match="rows must be dicts"):
            list(fp.from_sequence([1]).join({1: {"x": 2}}, on="id"))

    def test_arguments(self):
        pipe = fp.from_table(TABLE)
        with pytest.raises(ArgumentTypeError, match="`other` must be a pipe, a data frame or Arrow table, or a dict"):
            pipe.join([1], on="id")
        with pytest.raises(ArgumentError, match="`other_on` names columns of a table"):
            pipe.join({}, on="id", other_on="id")
        with pytest.raises(ArgumentError, match="`on` and `other_on` must name as many columns"):
            pipe.join(OTHER, on="id", other_on=["id", "text"])
        with pytest.raises(ArgumentError, match="`how` must be one of 'inner', 'left', 'error' but got: 'outer'"):
            pipe.join(OTHER, on="id", how="outer")
        with pytest.raises(DataError, match=r"one is of type int; give `{'name': value}` instead of a value"):
            list(pipe.join({1: 2}, on="id"))

    def test_limit(self, monkeypatch):
        monkeypatch.setattr("feedpipe.ops.join.MAX_BYTES", 16)
        with pytest.raises(LimitError, match="the other side of `join`: the other side takes more than 1 GiB"):
            list(fp.from_table(TABLE).join(fp.from_table(OTHER), on="id"))
