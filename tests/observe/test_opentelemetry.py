"""Metrics and spans for OpenTelemetry: made in crawls of real servers, read through its SDK."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp.web import Request, Response
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry
from tests.clocks import LaterClock
from tests.waiting import settle

from robotgate import DisallowedError
from robotgate.observe import opentelemetry, prometheus
from robotgate.observe.tally import TIMES
from robotgate.observe.telemetry import MAX_RECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

SITE: Final = "http://site.example"


class Sdk:
    """An SDK of a test's own, for there is one global one per process."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    def spans(self, name: str) -> list[ReadableSpan]:
        """Those of a name that have ended."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def collected(self) -> Iterator[tuple[str, NumberDataPoint | HistogramDataPoint]]:
        """All points, each with the name of its metric."""
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        assert isinstance(point, NumberDataPoint | HistogramDataPoint)
                        yield metric.name, point

    def points(self) -> dict[tuple[str, ...], float]:
        """The value of each point, of a histogram the count; by the metric's name and the values of the labels."""
        return {
            (name, *map(str, (point.attributes or {}).values())): (
                point.value if isinstance(point, NumberDataPoint) else point.count
            )
            for name, point in self.collected()
        }


@pytest.fixture
def sdk() -> Iterator[Sdk]:
    """An SDK that remembers."""
    sdk = Sdk()
    yield sdk
    sdk.tracers.shutdown()
    sdk.meters.shutdown()


def about(span: ReadableSpan) -> dict[str, object]:
    """Its attributes."""
    return dict(span.attributes or {})


async def test_spans_stand_below_the_callers_own(gate: RobotGate, web: Web, sdk: Sdk) -> None:
    """The request for robots.txt, the wait for it and the page's request, in the trace of the task that asked."""
    web.serve(f"{SITE}/page", b"x" * 1000)
    with opentelemetry(gate, tracer_provider=sdk.tracers, meter_provider=sdk.meters):
        with sdk.tracers.get_tracer("test").start_as_current_span("mine") as mine:
            await gate.fetch(f"{SITE}/page")
        await settle()
    (wait,), (request,), (robots,) = (
        sdk.spans(f"robotgate.{name}") for name in ("wait", "request", "robots")
    )
    for span in (wait, request, robots):
        assert span.parent is not None
        assert span.parent.span_id == mine.get_span_context().span_id
        assert about(span)["server.address"] == "site.example"
        assert (span.start_time or 0) <= (span.end_time or 0) > 0
    assert about(request)["url.full"] == f"{SITE}/page"
    assert about(request)["http.response.status_code"] == 200
    assert about(request)["http.response.body.size"] == 1000
    assert about(robots)["url.full"] == f"{SITE}/robots.txt"
    assert request.kind is robots.kind is SpanKind.CLIENT
    assert wait.kind is SpanKind.INTERNAL


async def test_each_task_has_its_own_trace(open_gate: OpenGate, web: Web, sdk: Sdk) -> None:
    """Turns of one URL that are open at the same time, too."""
    gate = await open_gate(concurrency_per_host=2)
    gate.learn(SITE, b"")
    both_came = asyncio.Barrier(2)

    async def answer(_: Request) -> Response:
        await both_came.wait()
        return Response()

    async def visit() -> None:
        with sdk.tracers.get_tracer("test").start_as_current_span("mine"):
            await gate.fetch(f"{SITE}/page")

    web.handle(f"{SITE}/page", answer)
    with opentelemetry(gate, tracer_provider=sdk.tracers, meter_provider=sdk.meters):
        await asyncio.gather(visit(), visit())
        await settle()
    mine = {span.context.span_id for span in sdk.spans("mine") if span.context is not None}
    parents = {span.parent.span_id for span in sdk.spans("robotgate.request") if span.parent is not None}
    assert len(mine) == 2
    assert parents == mine


async def test_failures_are_marked(gate: RobotGate, web: Web, sdk: Sdk) -> None:
    """A status of an error, and a refusal with its reason; neither changes what the caller gets."""
    web.serve(f"{SITE}/robots.txt", "User-agent: *\nDisallow: /private")
    web.serve(f"{SITE}/gone", status=404)
    with opentelemetry(gate, tracer_provider=sdk.tracers, meter_provider=sdk.meters):
        await gate.fetch(f"{SITE}/gone")
        with pytest.raises(DisallowedError):
            await gate.fetch(f"{SITE}/private")
        await settle()
    (request,), (refusal,) = sdk.spans("robotgate.request"), sdk.spans("robotgate.refusal")
    assert request.status.status_code is refusal.status.status_code is StatusCode.ERROR
    assert about(request)["error.type"] == "404"
    assert about(refusal)["error.type"] == "disallowed_by_rule"
    assert "Disallow: /private" in str(refusal.status.description)


async def test_requests_may_be_left_to_another_instrumentation(gate: RobotGate, sdk: Sdk) -> None:
    """So that no request has two spans."""
    with opentelemetry(gate, tracer_provider=sdk.tracers, meter_provider=sdk.meters, request_spans=False):
        await gate.fetch(f"{SITE}/")
        await settle()
    assert sdk.spans("robotgate.request") == []
    assert len(sdk.spans("robotgate.robots")) == 1


async def test_metrics_are_those_of_prometheus(gate: RobotGate, sdk: Sdk) -> None:
    """Counted alike; each collection has the values of now, however soon it comes after another."""
    with opentelemetry(gate, tracer_provider=sdk.tracers, meter_provider=sdk.meters):
        for number in range(1, 4):
            await gate.fetch(f"{SITE}/")
            assert sdk.points()["robotgate.requests", "page", "2xx"] == number
        await settle()
        found = sdk.points()
    assert found["robotgate.requests", "robots", "4xx"] == 1
    assert found["robotgate.wait.duration",] == 1
    assert found["robotgate.request.duration",] == 3
    assert found["robotgate.hosts", "free"] == found["robotgate.store_up",] == 1
    assert found["robotgate.waiting",] == 0


@pytest.mark.slow
async def test_histograms_of_a_fast_crawl_have_a_part_of_it(open_gate: OpenGate, sdk: Sdk) -> None:
    """The SDK would take as long for each value as a tenth of a page; the counter has all."""
    gate = await open_gate()
    gate.learn(SITE, b"")
    pages = MAX_RECORDED + 1000
    with opentelemetry(gate, meter_provider=sdk.meters):
        for _ in range(pages):
            async with gate.turn(f"{SITE}/") as turn:
                turn.report(200)
        found = sdk.points()
        assert found["robotgate.requests", "page", "2xx"] == pages
        assert 0 <= MAX_RECORDED - found["robotgate.request.duration",] < len(TIMES)
        # No more of them come later.
        assert sdk.points()["robotgate.request.duration",] == found["robotgate.request.duration",]


async def test_histograms_have_the_buckets_and_the_sum_of_what_was_counted(
    open_gate: OpenGate, sdk: Sdk
) -> None:
    """As Prometheus is told them."""
    clock = LaterClock()
    gate, registry = await open_gate(clock=clock), CollectorRegistry()
    gate.learn(SITE, b"")
    with opentelemetry(gate, meter_provider=sdk.meters), prometheus(gate, registry):
        for elapsed in (0.001, 0.02, 0.021, 0.25, 0.25, 3.0, 90.0):
            async with gate.turn(f"{SITE}/") as turn:
                turn.report(200)
                clock.offset += elapsed
        point = dict(sdk.collected())["robotgate.request.duration"]
        assert isinstance(point, HistogramDataPoint)
        assert list(point.explicit_bounds) == list(TIMES)
        cumulated = itertools.accumulate(point.bucket_counts)
        for bound, count in zip((*TIMES, "+Inf"), cumulated, strict=True):
            labels = {"le": str(bound)}
            assert registry.get_sample_value("robotgate_request_seconds_bucket", labels) == count
        assert registry.get_sample_value("robotgate_request_seconds_sum") == pytest.approx(point.sum)


async def test_closed_telemetry_reports_no_more(gate: RobotGate, sdk: Sdk) -> None:
    """Neither spans nor values of gauges."""
    telemetry = opentelemetry(gate, tracer_provider=sdk.tracers, meter_provider=sdk.meters)
    telemetry.close()
    telemetry.close()
    await gate.fetch(f"{SITE}/")
    await settle()
    assert sdk.exporter.get_finished_spans() == ()
    assert set(sdk.points().values()) == {0}


async def test_crawl_that_ends_before_the_first_collection_is_reported(gate: RobotGate, sdk: Sdk) -> None:
    """By the last one, which an SDK makes at the end of a program: what it counted, and no gauges."""
    with opentelemetry(gate, meter_provider=sdk.meters):
        await gate.fetch(f"{SITE}/")
        await settle()
    found = sdk.points()
    assert found["robotgate.requests", "page", "2xx"] == found["robotgate.request.duration",] == 1
    assert ("robotgate.waiting",) not in found
