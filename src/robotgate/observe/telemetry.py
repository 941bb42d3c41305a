"""The metrics and spans of a gate for OpenTelemetry.

Counters and gauges are observable instruments that read the tally when they are collected. The API has no observable
histogram, and the SDK takes some 7 µs for each value: `RECORDED` bounds how many there are. A span is made when what it
tells of has ended: from the event, with the start that the event tells. Without a tracer provider, no event is made for
a page.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from opentelemetry import metrics, trace
from opentelemetry.context import get_current
from opentelemetry.trace import SpanKind, Status, StatusCode
from yarl import URL

from robotgate.events import RobotsFetched, TurnBegan, TurnEnded, TurnRefused, VerdictRefused
from robotgate.observe.tally import (
    METRICS,
    REQUEST,
    ROBOTS_FETCH,
    WAIT,
    Kind,
    Metric,
    Tally,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import Span, TracerProvider

    from robotgate.events import Event
    from robotgate.gate import RobotGate
    from robotgate.web.stats import GateStats
    from robotgate.web.turns import Turn


SCOPE: Final = "robotgate"
UNITS: Final = {"seconds": "s", "bytes": "By", "": "1"}
RECORDED: Final = 100
"""Requests of which the histograms have all values within a second; of more, they have these."""
ONE_COLLECTION: Final = 0.5
"""Seconds within which the instruments of one collection are read, one after the other."""
NO_SPANS: Final = (trace.NoOpTracerProvider, trace.ProxyTracerProvider)
"""What there is while no tracer provider is configured."""


class Telemetry:
    """Reports one gate until `close`."""

    def __init__(
        self,
        gate: RobotGate,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        request_spans: bool = True,
    ) -> None:
        self._gate = gate
        self._tally = Tally(gate)
        self._looked: GateStats | None = None
        self._looked_at = 0.0
        self._left = RECORDED
        self._refill_at = 0.0
        provider = tracer_provider or trace.get_tracer_provider()
        self._tracer = provider.get_tracer(SCOPE)
        self._parents: dict[str, deque[Context]] = {}
        """By URL: the contexts of the turns that are open, first to last."""
        self._request_spans = request_spans
        self._is_closed = False
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        for metric in METRICS:
            name, unit = f"robotgate.{metric.name}", UNITS[metric.unit]
            if metric.kind is Kind.COUNTER:
                meter.create_observable_counter(name, [self._observer(metric)], unit, metric.help)
            elif metric.kind is Kind.GAUGE:
                meter.create_observable_gauge(name, [self._observer(metric)], unit, metric.help)
        self._wait, self._request, self._robots = (
            meter.create_histogram(
                f"robotgate.{metric.name}.duration",
                UNITS[metric.unit],
                metric.help,
                explicit_bucket_boundaries_advisory=metric.buckets,
            )
            for metric in (WAIT, REQUEST, ROBOTS_FETCH)
        )
        self._tally.start()
        self._ends = [gate.meter(self._ended), gate.subscribe(self._fetched, RobotsFetched, at_once=True)]
        if not isinstance(provider, NO_SPANS):
            kinds = (TurnBegan, RobotsFetched, VerdictRefused, TurnRefused)
            turns = (TurnEnded,) if request_spans else ()
            self._ends.append(gate.subscribe(self._trace, *kinds, *turns, at_once=True))

    def _observer(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            # An instrument cannot be removed.
            samples = {} if self._is_closed else self._tally.values(metric, self._stats())
            return [
                metrics.Observation(amount, dict(zip(metric.labels, values, strict=True)))
                for values, amount in samples.items()
            ]

        return observe

    def _stats(self) -> GateStats:
        """Return the gate's totals and states; one look at its hosts serves all instruments of a collection."""
        if self._looked is None or monotonic() - self._looked_at > ONE_COLLECTION:
            self._looked, self._looked_at = self._gate.stats(), monotonic()
        return self._looked

    def _ended(self, turn: Turn, elapsed: float) -> None:
        # Each page of a fast crawl comes here: one look at the clock, and no further call.
        if not self._left and monotonic() < self._refill_at:
            return
        self._count_recorded()
        self._request.record(elapsed)
        if turn.asked_at is not None:
            self._wait.record(turn.waited)

    def _fetched(self, event: Event) -> None:
        if isinstance(event, RobotsFetched) and (self._left or monotonic() >= self._refill_at):
            self._count_recorded()
            self._robots.record(event.elapsed)

    def _count_recorded(self) -> None:
        if not self._left:
            self._left, self._refill_at = RECORDED, monotonic() + 1.0
        self._left -= 1

    def _trace(self, event: Event) -> None:
        match event:
            case TurnBegan():
                if event.waited > 0:
                    self._begin("robotgate.wait", event.url, event.at - event.waited).end(
                        _nanoseconds(event.at)
                    )
                if self._request_spans:
                    self._parents.setdefault(event.url, deque()).append(get_current())
            case TurnEnded():
                self._request_span(event)
            case RobotsFetched():
                self._robots_span(event)
            case VerdictRefused():
                self._refusal(event.verdict.url, event.verdict.reason.name.lower(), event)
            case TurnRefused():
                self._refusal(event.url, type(event.error).__name__, event)
            case _:
                pass

    def _request_span(self, event: TurnEnded) -> None:
        parents = self._parents.get(event.url)
        # None: the turn began before this listened.
        parent = parents.popleft() if parents else None
        if not parents:
            self._parents.pop(event.url, None)
        start_at = event.at - event.elapsed
        span = self._begin("robotgate.request", event.url, start_at, SpanKind.CLIENT, parent)
        if span.is_recording():
            span.set_attribute("http.response.body.size", event.bytes_read)
            _set_answer(span, event.status)
        span.end(_nanoseconds(event.at))

    def _robots_span(self, event: RobotsFetched) -> None:
        start_at = event.at - event.elapsed
        span = self._begin("robotgate.robots", event.robots_url, start_at, SpanKind.CLIENT)
        if span.is_recording():
            span.set_attribute("http.request.method", "GET")
            span.set_attribute("robotgate.robots.access", event.access.name.lower())
            span.set_attribute("http.response.body.size", event.bytes_read)
            _set_answer(span, event.status)
            if event.cause is not None:
                span.set_status(Status(StatusCode.ERROR, str(event)))
        span.end(_nanoseconds(event.at))

    def _refusal(self, url: str, reason: str, event: Event) -> None:
        span = self._begin("robotgate.refusal", url, event.at)
        if span.is_recording():
            span.set_attribute("error.type", reason)
            span.set_status(Status(StatusCode.ERROR, str(event)))
        span.end(_nanoseconds(event.at))

    def _begin(
        self,
        name: str,
        url: str,
        start_at: float,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: Context | None = None,
    ) -> Span:
        """Start a span; without a parent, in the context of the event."""
        start = _nanoseconds(start_at)
        span = self._tracer.start_span(name, parent, kind, {"url.full": url}, start_time=start)
        if span.is_recording():
            place = URL(url)
            span.set_attribute("server.address", place.host or "")
            if place.port is not None:
                span.set_attribute("server.port", place.port)
        return span

    def close(self) -> None:
        """Listen to the gate no more; its metrics have no values from now on. A second call does nothing."""
        self._is_closed = True
        self._tally.close()
        for end in self._ends:
            end()
        self._parents.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _nanoseconds(at: float) -> int:
    return round(at * 1e9)


def _set_answer(span: Span, status: int | None) -> None:
    """Tell of an answer by the semantic conventions for HTTP, which leave the text of an error to its attribute."""
    if status is not None:
        span.set_attribute("http.response.status_code", status)
    if status is None or status >= 400:
        span.set_attribute("error.type", "_OTHER" if status is None else str(status))
        span.set_status(Status(StatusCode.ERROR))
