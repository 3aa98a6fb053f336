from __future__ import annotations

import feedpipe as fp
from feedpipe.testing import check_operator


def test_law(tmp_path):
    (tmp_path / "b.jsonl").write_text('{"x": 2}\n{"x": 3}\n')
    (tmp_path / "a.jsonl").write_text('{"x": 0}\n{"x": 1}')
    assert check_operator(fp.read_jsonl(tmp_path)) == [{"x": i} for i in range(4)]
