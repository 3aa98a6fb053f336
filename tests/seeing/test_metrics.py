"""Metrics by the client libraries of Prometheus and OpenTelemetry, traces, and ranges of profilers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

import feedpipe as fp
from feedpipe import metrics
from feedpipe.errors import ArgumentError, ArgumentTypeError

from ..support.cli import main


def taken(steps: int = 40) -> fp.Loader[Any]:
    loader = fp.Loader(fp.from_sequence(range(steps * 4)).map(lambda n: sum(range(20_000)) + n).batch(4))
    assert len(list(loader)) == steps
    return loader


def samples(registry: CollectorRegistry) -> dict[str, float]:
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def test_prometheus() -> None:
    registry = CollectorRegistry()
    loader = taken()
    metrics.prometheus(loader, registry=registry)
    values = samples(registry)
    assert values['feedpipe_steps_total{rank="0"}'] == 40
    assert 0.5 < values['feedpipe_waiting_ratio{rank="0"}'] <= 1
    assert values['feedpipe_seconds_total{operator="map-1",rank="0",state="operator"}'] > 0
    assert 'feedpipe_rows_total{operator="map-1",rank="0"}' in values
    buckets = [value for name, value in values.items() if name.startswith("feedpipe_wait_seconds_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == values['feedpipe_wait_seconds_count{rank="0"}'] > 0
    assert values['feedpipe_wait_seconds_sum{rank="0"}'] > 0
    assert len(list(loader)) == 40
    assert samples(registry)['feedpipe_steps_total{rank="0"}'] == 80
    del loader
    assert not samples(registry)


def test_prometheus_before_the_first_element() -> None:
    registry = CollectorRegistry()
    loader = fp.Loader(fp.from_sequence(range(4)))
    metrics.prometheus(loader, registry=registry)
    assert samples(registry)['feedpipe_steps_total{rank="0"}'] == 0


def test_opentelemetry() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    loader = taken()
    metrics.opentelemetry(loader, meter=provider.get_meter("test"))
    data: Any = json.loads(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
    (scope,) = data["resource_metrics"][0]["scope_metrics"]
    found = {one["name"]: one["data"]["data_points"] for one in scope["metrics"]}
    assert {*found} == {"feedpipe.rows", "feedpipe.seconds", "feedpipe.steps", "feedpipe.waiting", "feedpipe.waits"}
    waits = {point["attributes"]["le"]: point["value"] for point in found["feedpipe.waits"]}
    assert list(waits.values()) == sorted(waits.values())
    assert 30 < waits["34.4"] == waits["+Inf"] <= 39  # the last stamp may be some steps ago
    assert [(point["attributes"], point["value"]) for point in found["feedpipe.steps"]] == [({"rank": "0"}, 40)]
    assert {point["attributes"]["operator"] for point in found["feedpipe.rows"]} >= {"map-1", "batch-1"}
    del loader
    assert reader.get_metrics_data() is None
    provider.shutdown()


def test_metrics_of_something_else() -> None:
    for function in (metrics.prometheus, metrics.opentelemetry):
        with pytest.raises(ArgumentTypeError, match="`loader` must be a Loader but got: 3"):
            function(3)  # type: ignore[operator]


def test_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "epoch.trace.json"
    taken().report().save(path)
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert "consumer" in names
    spans = sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"])
    assert any(span["name"].startswith(".map(") and span["cat"] == "operator" for span in spans)
    tracks: dict[tuple[int, int], float] = {}
    for span in spans:
        track = span["pid"], span["tid"]
        assert span["ts"] >= tracks.get(track, 0.0) - 0.001  # rounding
        tracks[track] = span["ts"] + span["dur"]
    with pytest.raises(ArgumentError, match="`path` must end in"):
        taken(1).report().save(tmp_path / "epoch.txt")


RANGE = "enumerate(DataLoader)#feedpipe.Loader.__next__"


def test_a_profiler_of_torch_sees_the_range() -> None:
    loader = fp.Loader(fp.from_sequence(range(200)).map(lambda n: sum(range(20_000)) + n))
    elements = iter(loader)
    assert next(elements)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(50):
            next(elements)
    (event,) = [event for event in profile.key_averages() if event.key == RANGE]
    assert 40 <= event.count <= 50
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(3)
    assert not [event for event in profile.key_averages() if event.key == RANGE]
    assert len(list(elements)) == 149


def test_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "slow_pipe.py").write_text(
        "import feedpipe as fp\npipe = fp.from_sequence(range(50)).map(lambda n: n).batch(5)\n"
        "none = pipe.filter(lambda n: False)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "slow_pipe:pipe", "--step", "0.001", "--seconds", "0.1"]) == 0
    printed = capsys.readouterr().out
    assert ".batch(5)" in printed
    assert re.search(r"then \d+ steps", printed)
    assert main(["bench", "slow_pipe:pipe", "--step", "-1"]) == 2
    assert "`--step` must be a number of seconds but got: -1.0" in capsys.readouterr().err
    assert main(["bench", "slow_pipe:none", "--seconds", "0.1"]) == 1
    assert "`slow_pipe:none` has no elements" in capsys.readouterr().err
