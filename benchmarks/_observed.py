"""`gate.fetch`, observed, which `benchmarks.crawl` measures; the other clients do without these imports."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from prometheus_client import CollectorRegistry

from benchmarks._clients import open_gate, visit_all
from robotgate.observe import opentelemetry, prometheus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan


class _Nowhere(SpanExporter):
    """Takes spans and drops them: sending them is another program's cost."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


async def by_prometheus(urls: Sequence[str], delay: float, tasks: int) -> None:
    """With its metrics, which are not scraped meanwhile."""
    async with open_gate(delay) as gate:
        with prometheus(gate, CollectorRegistry()):
            await visit_all(gate.fetch, urls, tasks)


async def by_opentelemetry(urls: Sequence[str], delay: float, tasks: int, *, kept: float | None) -> None:
    """With OpenTelemetry, which keeps such a share of the traces; None: with an SDK for metrics only."""
    with ExitStack() as stack:
        meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
        stack.callback(meters.shutdown)
        tracers = None
        if kept is not None:
            tracers = TracerProvider(sampler=ParentBasedTraceIdRatio(kept), shutdown_on_exit=False)
            tracers.add_span_processor(BatchSpanProcessor(_Nowhere()))
            stack.callback(tracers.shutdown)
        async with open_gate(delay) as gate:
            with opentelemetry(
                gate, tracer_provider=tracers, meter_provider=meters, request_spans=tracers is not None
            ):
                await visit_all(gate.fetch, urls, tasks)
