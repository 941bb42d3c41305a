"""Crawls by `gate.fetch` that are observed, which `benchmarks.crawl` measures."""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from prometheus_client import CollectorRegistry

from benchmarks._by_hand import AGENT
from benchmarks._crawl_clients import open_session, visit_all
from robotgate import RobotGate
from robotgate.observe import opentelemetry, prometheus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan


class _Nowhere(SpanExporter):
    """Takes spans and drops them: sending them is another program's cost."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


@asynccontextmanager
async def _gate() -> AsyncIterator[RobotGate]:
    async with (
        open_session() as session,
        RobotGate(AGENT, contact="bot@example.org", session=session, delay=0) as gate,
    ):
        yield gate


async def by_prometheus(urls: Sequence[str], tasks: int) -> None:
    """Its metrics, which are not scraped meanwhile."""
    async with _gate() as gate:
        with prometheus(gate, CollectorRegistry()):
            await visit_all(gate.fetch, urls, tasks)


async def by_metrics_of_otel(urls: Sequence[str], tasks: int) -> None:
    """OpenTelemetry with an SDK for metrics only."""
    await _by_opentelemetry(urls, tasks, kept=None)


async def by_few_traces(urls: Sequence[str], tasks: int) -> None:
    """OpenTelemetry, which keeps one trace of a hundred."""
    await _by_opentelemetry(urls, tasks, kept=0.01)


async def by_all_traces(urls: Sequence[str], tasks: int) -> None:
    """OpenTelemetry, which keeps all traces."""
    await _by_opentelemetry(urls, tasks, kept=1.0)


async def _by_opentelemetry(urls: Sequence[str], tasks: int, *, kept: float | None) -> None:
    with ExitStack() as stack:
        meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
        stack.callback(meters.shutdown)
        tracers = None
        if kept is not None:
            tracers = TracerProvider(sampler=ParentBasedTraceIdRatio(kept), shutdown_on_exit=False)
            tracers.add_span_processor(BatchSpanProcessor(_Nowhere()))
            stack.callback(tracers.shutdown)
        async with _gate() as gate:
            with opentelemetry(
                gate, tracer_provider=tracers, meter_provider=meters, request_spans=tracers is not None
            ):
                await visit_all(gate.fetch, urls, tasks)
