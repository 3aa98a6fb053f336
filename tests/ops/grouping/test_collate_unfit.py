"""Values that `collate` cannot turn into tensors: the error names field and type, and a repair that works."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

import pyarrow as pa
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import DataError

DAY, NOON, HOUR = datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 12), datetime.timedelta(hours=1)
HALF = decimal.Decimal("0.5")

COLUMNS: dict[str, tuple[Any, Any]] = {
    "timestamp": (pa.array([0, 7], pa.timestamp("us")), torch.tensor([0, 7])),
    "timestamp with a zone": (pa.array([0, 7], pa.timestamp("ns", "UTC")), torch.tensor([0, 7])),
    "date": (pa.array([0, 7], pa.date32()), torch.tensor([0, 7], dtype=torch.int32)),
    "date of 64 bits": (pa.array([DAY, DAY]).cast(pa.date64()), torch.tensor([1577923200000] * 2)),
    "time": (pa.array([0, 7], pa.time64("us")), torch.tensor([0, 7])),
    "time of 32 bits": (pa.array([0, 7], pa.time32("s")), torch.tensor([0, 7], dtype=torch.int32)),
    "duration": (pa.array([0, 7], pa.duration("ms")), torch.tensor([0, 7])),
    "decimal": (pa.array([HALF, HALF]), torch.tensor([0.5, 0.5], dtype=torch.float64)),
    "large decimal": (pa.array([HALF, HALF], pa.decimal256(50, 1)), torch.tensor([0.5, 0.5], dtype=torch.float64)),
    "list": (pa.array([[0], [1]], pa.list_(pa.timestamp("s"))), None),
    "struct": (pa.array([{"a": HALF}, {"a": HALF}]), None),
    "list of structs": (pa.array([[{"a": NOON}], [{"a": NOON}]]), None),
    "map": (pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())), None),
    "dictionary": (pa.array([NOON, NOON]).dictionary_encode(), None),
}


@pytest.mark.parametrize(("column", "expected"), COLUMNS.values(), ids=COLUMNS.keys())
def test_a_column_says_how_to_cast_it_or_leave_it_out(column: Any, expected: Any) -> None:
    rows = fp.from_table(pa.table({"n": [1, 2], "when it's": column}))
    with pytest.raises(
        DataError, match=r"field `when it's(\.a)?`: a column of type .* cannot become a tensor; "
    ) as caught:
        list(rows.batch(2).collate())
    (call,) = re.findall(r"with `(\..*)` before `.batch`\n", str(caught.value))
    (batch,) = eval(f"rows{call}", {"rows": rows}).batch(2).collate()
    assert batch["n"].tolist() == [1, 2]
    if expected is None:
        assert list(batch) == ["n"]
    else:
        assert list(batch) == ["n", "when it's"]
        assert batch["when it's"].dtype == expected.dtype and torch.equal(batch["when it's"], expected)
