"""The metrics and spans of a gate for OpenTelemetry.

All instruments read the tally when they are collected. The API has no observable histogram: a collection passes on the
values that the tally has counted since the last one. A span is made when what it tells of has ended: from the event,
with the start that the event tells. Without a tracer provider, no event is made for a page.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from opentelemetry import metrics, trace
from opentelemetry.context import get_current
from opentelemetry.trace import SpanKind, Status, StatusCode
from yarl import URL

from robotgate.events import RobotsFetched, TurnBegan, TurnEnded, TurnRefused, VerdictRefused
from robotgate.observe.tally import METRICS, REQUESTS, Kind, Metric, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import Span, TracerProvider

    from robotgate.events import Event
    from robotgate.gate import RobotGate
    from robotgate.observe.tally import Histogram
    from robotgate.web.stats import GateStats


SCOPE: Final = "robotgate"
UNITS: Final = {"seconds": "s", "bytes": "By", "": "1"}
MAX_RECORDED: Final = 5000
"""Values of a histogram that one collection passes on; of more, as many in the same proportions. The SDK takes some
7 µs for each."""
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
        self._looked = gate.stats()
        self._looked_at = -math.inf
        provider = tracer_provider or trace.get_tracer_provider()
        self._tracer = provider.get_tracer(SCOPE)
        self._parents: dict[str, deque[Context]] = {}
        """By URL: the contexts of the turns that are open, first to last."""
        self._request_spans = request_spans
        self._is_closed = False
        self._recorders: list[_Recorder] = []
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        for metric in METRICS:
            name, unit = f"robotgate.{metric.name}", UNITS[metric.unit]
            if metric.kind is Kind.HISTOGRAM:
                instrument = meter.create_histogram(
                    f"{name}.duration", unit, metric.help, explicit_bucket_boundaries_advisory=metric.buckets
                )
                self._recorders.append(_Recorder(self._tally.histograms[metric], instrument))
            elif metric.kind is Kind.COUNTER:
                meter.create_observable_counter(name, self._observers(metric), unit, metric.help)
            else:
                meter.create_observable_gauge(name, self._observers(metric), unit, metric.help)
        self._tally.start()
        self._ends: list[Callable[[], None]] = []
        if not isinstance(provider, NO_SPANS):
            kinds = (TurnBegan, RobotsFetched, VerdictRefused, TurnRefused)
            turns = (TurnEnded,) if request_spans else ()
            self._ends.append(gate.subscribe(self._trace, *kinds, *turns, at_once=True))

    def _observers(self, metric: Metric) -> list[Callable[[CallbackOptions], Iterable[Observation]]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            # An instrument cannot be removed. Counters keep their last values, for the last export of a program.
            if self._is_closed and metric.kind is Kind.GAUGE:
                return []
            return [
                metrics.Observation(amount, dict(zip(metric.labels, values, strict=True)))
                for values, amount in self._tally.values(metric, self._stats()).items()
            ]

        # One instrument of each collection feeds the histograms.
        return [observe, self._record] if metric is REQUESTS else [observe]

    def _record(self, _: CallbackOptions) -> Iterable[Observation]:
        for recorder in self._recorders:
            recorder.record()
        return ()

    def _stats(self) -> GateStats:
        """Return the gate's totals and states; one look at its hosts serves all instruments of a collection."""
        if not self._is_closed and monotonic() - self._looked_at > ONE_COLLECTION:
            self._looked, self._looked_at = self._gate.stats(), monotonic()
        return self._looked

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
        """Listen to the gate no more: counters stay as they are, gauges have no values. A second call does nothing."""
        if not self._is_closed:
            self._looked = self._gate.stats()
        self._is_closed = True
        self._tally.close()
        for end in self._ends:
            end()
        self._parents.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Recorder:
    """Passes on what a histogram of the tally has counted, to an instrument that takes one value at a time.

    The values of a bucket are passed on as their mean: counts and sum are right, as long as no view has other buckets.
    """

    def __init__(self, counted: Histogram, instrument: metrics.Histogram) -> None:
        self._counted = counted
        self._instrument = instrument
        self._counts = counted.counts.copy()
        self._sums = counted.sums.copy()
        self._owed = [0.0] * len(self._counts)
        """Values of each bucket that are yet to be passed on: a part of one, after a collection."""

    def record(self) -> None:
        """Pass on what was counted since the last call."""
        counts, sums = self._counted.counts.copy(), self._counted.sums.copy()
        new = [count - before for count, before in zip(counts, self._counts, strict=True)]
        share = min(1.0, MAX_RECORDED / max(sum(new), 1))
        for bucket, (low, high) in enumerate(pairwise((-math.inf, *self._counted.bounds, math.inf))):
            self._owed[bucket] += new[bucket] * share
            times = int(self._owed[bucket])
            self._owed[bucket] -= times
            if times:
                mean = (sums[bucket] - self._sums[bucket]) / new[bucket]
                # Rounded, it may be on the wrong side of a bound.
                value = min(max(mean, math.nextafter(low, math.inf)), high)
                for _ in range(times):
                    self._instrument.record(value)
        self._counts, self._sums = counts, sums


def _nanoseconds(at: float) -> int:
    return round(at * 1e9)


def _set_answer(span: Span, status: int | None) -> None:
    """Tell of an answer by the semantic conventions for HTTP, which leave the text of an error to its attribute."""
    if status is not None:
        span.set_attribute("http.response.status_code", status)
    if status is None or status >= 400:
        span.set_attribute("error.type", "_OTHER" if status is None else str(status))
        span.set_status(Status(StatusCode.ERROR))
