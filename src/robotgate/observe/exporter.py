"""The metrics of a gate for prometheus-client: a collector that reads the tally at each scrape."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from robotgate.observe.tally import Metric, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate.gate import RobotGate


class PrometheusExporter(ExitStack, Collector):
    """A collector of one gate's metrics, registered until `close`, of which a second call does nothing."""

    def __init__(self, gate: RobotGate, registry: CollectorRegistry | None = None) -> None:
        super().__init__()
        self._gate = gate
        self._tally = Tally(gate)
        registry = REGISTRY if registry is None else registry
        registry.register(self)
        self.callback(registry.unregister, self)
        self._tally.start()
        self.callback(self._tally.close)

    def describe(self) -> Iterator[Family]:
        """As `collect`: a registry learns the names from it."""
        return self.collect()

    def collect(self) -> Iterator[Family]:
        """Yield every metric; prometheus-client calls this at each scrape, in a thread of its own."""
        for metric, values in self._tally.values(self._gate.stats()).items():
            kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = kind(_name(metric), metric.help, labels=metric.labels, unit=metric.unit)
            for labels, amount in values.items():
                family.add_metric(labels, amount)
            yield family
        for metric, histogram in self._tally.histograms.items():
            bounds = [*map(str, metric.buckets), "+Inf"]
            buckets = list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))
            measured = HistogramMetricFamily(_name(metric), metric.help, unit=metric.unit)
            measured.add_metric([], buckets, sum(histogram.sums))
            yield measured


def _name(metric: Metric) -> str:
    return f"robotgate_{metric.name}"
