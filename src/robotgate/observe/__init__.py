"""Metrics and traces of a gate, for Prometheus and OpenTelemetry.

Both read the gate when they are collected, and count each turn as it ends; a gate without them pays nothing.
docs/observing.md lists the metrics and spans; docs/grafana.json is a dashboard of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate.errors import needs_extra

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from robotgate.gate import RobotGate
    from robotgate.observe.exporter import PrometheusExporter
    from robotgate.observe.telemetry import Telemetry

__all__ = ["opentelemetry", "prometheus"]


def prometheus(gate: RobotGate, registry: CollectorRegistry | None = None) -> PrometheusExporter:
    """Register a gate's metrics with prometheus-client, from now on; ``robotgate[prometheus]`` installs it.

    Call it before you open the gate, so that nothing is missed. No metric has a label for a host
    or a URL.

    Args:
        gate: the gate to observe.
        registry: where the metrics are collected; by default prometheus-client's own registry.

    Returns:
        An object whose `close` ends it. It is a context manager as well.

    Raises:
        ModuleNotFoundError: prometheus-client is not installed.
        ValueError: the registry has metrics of another gate.
    """
    with needs_extra("prometheus", __name__):
        from robotgate.observe.exporter import PrometheusExporter  # noqa: PLC0415  # Needs the extra.
    return PrometheusExporter(gate, registry)


def opentelemetry(
    gate: RobotGate,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    request_spans: bool = True,
) -> Telemetry:
    """Report a gate's metrics and spans to OpenTelemetry, from now on; ``robotgate[otel]`` installs its API.

    The metrics are those of `prometheus`. There are spans of waits, requests, requests for robots.txt and refusals.
    Their parent is the span that was current when the turn was asked for.

    Args:
        gate: the gate to observe.
        tracer_provider: makes the tracer; by default the global one. Spans need it to be configured by now.
        meter_provider: makes the meter; by default the global one.
        request_spans: whether requests for pages have spans. Leave these out where another instrumentation, such as
            that of aiohttp's client, makes a span of each request.

    Returns:
        An object whose `close` ends it. It is a context manager as well.

    Raises:
        ModuleNotFoundError: opentelemetry-api is not installed.
    """
    with needs_extra("otel", __name__):
        from robotgate.observe.telemetry import Telemetry  # noqa: PLC0415  # Needs the extra.
    return Telemetry(
        gate, tracer_provider=tracer_provider, meter_provider=meter_provider, request_spans=request_spans
    )
