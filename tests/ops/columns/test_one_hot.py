"""`one_hot`: vectors of categories."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import PlanError
from feedpipe.testing import check_operator, same

from ..tables import TABLE, variants


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    rows = check_operator(pipe.one_hot("text", values=["a", "e"]), samples=5)
    vectors = np.zeros((5, 2), "float32")
    vectors[0, 0] = vectors[4, 1] = 1
    assert same([row["text"] for row in rows], list(vectors))
    assert check_operator(pipe.skip(9).one_hot("id", values=[1])) == []


def test_a_batch_is_one_tensor() -> None:
    pipe = fp.from_table(TABLE).select("id").one_hot("id", values=[5, 4, 3])
    assert pipe.schema == pipe.batch(5)[0].arrow.schema == pa.schema([("id", pa.fixed_shape_tensor(pa.float32(), [3]))])
    batch = pipe.batch(5).collate()[0]["id"]
    assert batch.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert str(batch.dtype) == "torch.float32"


def test_errors() -> None:
    with pytest.raises(PlanError, match="column 'id' is of type int64, and `values` has text"):
        fp.from_table(TABLE).one_hot("id", values=["a"]).explain()
    assert repr(fp.from_sequence([]).one_hot("x", values=["a", "b"])).endswith(".one_hot('x', values=('a', 'b'))")
