"""The reports of benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_a_report_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    from benchmarks.harness import without_passwords
    from benchmarks.model import Failure, Results, Workload
    from benchmarks.results import as_json, report

    uri = "postgresql://ann:hunter%2B2@127.0.0.1:1/shop"
    workload = Workload("sql", "rows", (), (), lambda results: [], "ours")
    failure = Failure("ours", f"ConnectionError: {uri} refuses hunter+2")
    results = without_passwords(Results(workload, 1, {"rows": 3, "uri": uri}, {}, [failure]))
    machine = dict.fromkeys(("date", "python", "cores", "cpu", "system", "commit"), "") | {"load": [0.0]}
    texts = report(results, [], machine), json.dumps(as_json(results, [], machine, {}))
    for text in texts:
        assert "hunter" not in text
        assert "rows" in text and "postgresql://***@127.0.0.1:1/shop" in text
