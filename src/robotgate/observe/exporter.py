"""The metrics of a gate for prometheus-client: a collector that reads the tally at each scrape."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Self

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from robotgate.observe.tally import METRICS, Kind, Metric, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client import Metric as Family

    from robotgate.gate import RobotGate
    from robotgate.web.stats import GateStats


class PrometheusExporter(Collector):
    """A collector of one gate's metrics, registered until `close`."""

    def __init__(self, gate: RobotGate, registry: CollectorRegistry | None = None) -> None:
        self._gate = gate
        self._tally = Tally(gate)
        self._registry = REGISTRY if registry is None else registry
        self._registry.register(self)
        self._tally.start()
        self._is_closed = False

    def describe(self) -> Iterator[Family]:
        """As `collect`: a registry learns the names from it."""
        return self.collect()

    def collect(self) -> Iterator[Family]:
        """Yield every metric; prometheus-client calls this at each scrape, in a thread of its own."""
        stats = self._gate.stats()
        for metric in METRICS:
            yield self._family(metric, stats)

    def _family(self, metric: Metric, stats: GateStats) -> Family:
        name = f"robotgate_{metric.name}"
        if metric.kind is Kind.HISTOGRAM:
            histogram = self._tally.histograms[metric]
            bounds = [*map(str, metric.buckets), "+Inf"]
            buckets = list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))
            family = HistogramMetricFamily(name, metric.help, unit=metric.unit)
            family.add_metric([], buckets, sum(histogram.sums))
            return family
        kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
        values = kind(name, metric.help, labels=metric.labels, unit=metric.unit)
        for labels, amount in self._tally.values(metric, stats).items():
            values.add_metric(labels, amount)
        return values

    def close(self) -> None:
        """Unregister the metrics, and listen to the gate no more. A second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._tally.close()
            self._registry.unregister(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
