"""Metrics of a loader for Prometheus and OpenTelemetry. They are read when somebody asks, and cost nothing before."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.checks import Package
from ..errors import ArgumentTypeError
from ..loader import Loader

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from ..seeing.report import Report

_BUCKETS = range(10, 36)  # of waits: from a microsecond to half a minute, by powers of two


def prometheus(loader: Loader[Any], *, registry: CollectorRegistry | None = None) -> None:
    """Give the counts of a loader to Prometheus, by its client library.

    Counters `feedpipe_rows_total{operator}`, `feedpipe_seconds_total{operator,state}` and `feedpipe_steps_total`, the
    gauge `feedpipe_waiting_ratio` and the histogram `feedpipe_wait_seconds`, all with the label `rank`. They are read
    from `loader.report()` at each scrape. A loader that was dropped gives none.

    Args:
        loader: is held weakly.
        registry: of the client library; by default its own.

    Raises:
        ArgumentError: `prometheus-client` is not installed.
    """
    _check(loader)
    Package("prometheus_client", "prometheus-client", "prometheus", "Prometheus gets metrics").check()
    from prometheus_client import REGISTRY
    from prometheus_client.registry import Collector

    metrics = _metrics_of_prometheus
    reference = weakref.ref(loader)

    class LoaderCollector(Collector):
        def collect(self) -> Iterable[Metric]:
            return () if (loader := reference()) is None else metrics(loader.report())

    (REGISTRY if registry is None else registry).register(LoaderCollector())


def opentelemetry(loader: Loader[Any], *, meter: Meter | None = None) -> None:
    """Give the counts of a loader to OpenTelemetry.

    The same as for Prometheus, as observable instruments with the names `feedpipe.rows`, `feedpipe.seconds`,
    `feedpipe.steps` and `feedpipe.waiting`. A histogram cannot be observed, so `feedpipe.waits` counts the waits up to
    each bound, `le`, in seconds.

    Args:
        loader: is held weakly.
        meter: by default one with the name "feedpipe" of the global provider.

    Raises:
        ArgumentError: `opentelemetry-api` is not installed.
    """
    _check(loader)
    Package("opentelemetry", "opentelemetry-api", "opentelemetry", "OpenTelemetry gets metrics").check()
    from opentelemetry.metrics import Observation, get_meter

    reference = weakref.ref(loader)

    def observe(kind: str) -> Any:
        def callback(options: CallbackOptions) -> Iterator[Observation]:
            if (loader := reference()) is None:
                return
            report = loader.report()
            for value in _waits(report) if kind == "waits" else _values(report):
                if value.name == kind:
                    yield Observation(value.value, value.labels)

        return [callback]

    meter = get_meter("feedpipe") if meter is None else meter
    meter.create_observable_counter("feedpipe.rows", observe("rows"), description=_HELP["rows"])
    meter.create_observable_counter("feedpipe.seconds", observe("seconds"), unit="s", description=_HELP["seconds"])
    meter.create_observable_counter("feedpipe.steps", observe("steps"), description=_HELP["steps"])
    meter.create_observable_counter("feedpipe.waits", observe("waits"), description=_HELP["waits"])
    meter.create_observable_gauge("feedpipe.waiting", observe("waiting_ratio"), description=_HELP["waiting_ratio"])


_HELP = {
    "rows": "rows that have left an operator",
    "seconds": "time of all threads in a state, of an operator or a thread",
    "steps": "elements that the loop has taken",
    "waits": "waits of the loop for an element, by their length",
    "waiting_ratio": "part of its time that the loop waits for data",
}


class _Value(NamedTuple):
    """A number of a rank, with its labels."""

    name: str
    labels: dict[str, str]
    value: float


def _values(report: Report) -> Iterator[_Value]:
    (rank,) = report.ranks
    label = {"rank": str(rank.rank)}
    for operator in report.operators:
        yield _Value("rows", {"operator": operator.name, **label}, operator.rows)
    seconds: dict[tuple[str, str], float] = {}
    for table in rank.tables:
        for (state, of), slot in table.slots.items():
            seconds[of, state] = seconds.get((of, state), 0.0) + slot.ns / 1e9
    for (of, name), value in seconds.items():
        yield _Value("seconds", {"operator": of, "state": name, **label}, value)
    yield _Value("steps", label, rank.steps.steps + rank.steps.epochs)
    yield _Value("waiting_ratio", label, report.waiting)


def _waits(report: Report) -> Iterator[_Value]:
    """How many waits were as long as each bound, or shorter."""
    (rank,) = report.ranks
    for place in _BUCKETS:
        label = {"le": f"{2**place / 1e9:.3g}", "rank": str(rank.rank)}
        yield _Value("waits", label, float(sum(rank.steps.waits[: place + 1])))
    yield _Value("waits", {"le": "+Inf", "rank": str(rank.rank)}, float(sum(rank.steps.waits)))


def _metrics_of_prometheus(report: Report) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    families: dict[str, Any] = {}
    for name, labels, value in _values(report):
        if name not in families:
            family = GaugeMetricFamily if name == "waiting_ratio" else CounterMetricFamily
            families[name] = family(f"feedpipe_{name}", _HELP[name], labels=list(labels))
        families[name].add_metric(list(labels.values()), value)
    yield from families.values()
    (rank,) = report.ranks
    waits = HistogramMetricFamily("feedpipe_wait_seconds", _HELP["waits"], labels=["rank"])
    buckets = [(value.labels["le"], value.value) for value in _waits(report)]
    total = sum(count * 2.0 ** (place - 0.5) for place, count in enumerate(rank.steps.waits) if place) / 1e9
    waits.add_metric([str(rank.rank)], buckets, total)
    yield waits


def _check(loader: object) -> None:
    if not isinstance(loader, Loader):
        raise ArgumentTypeError(f"`loader` must be a Loader but got: {loader!r:.200}")
