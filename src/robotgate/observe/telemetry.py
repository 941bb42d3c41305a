"""The metrics and spans of a gate for OpenTelemetry.

All instruments read the tally when they are collected. The API has no observable histogram: a collection passes on the
values that the tally has counted since the last one. A span is made at its end, from the event, which has the start
too. Without a tracer provider, no event is made for a page.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import ExitStack
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider
from yarl import URL

from robotgate.events import Event, RobotsFetched, TurnBegan, TurnEnded, TurnRefused, VerdictRefused
from robotgate.observe.tally import REQUESTS, Histogram, Metric, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

    from robotgate.gate import RobotGate


SCOPE: Final = "robotgate"
UNITS: Final = {"seconds": "s", "bytes": "By", "": "1"}
MAX_RECORDED: Final = 5000
"""Values of a histogram that one collection passes on; of more, as many in the same proportions. The SDK takes some
7 µs for each."""
NO_SPANS: Final = (trace.NoOpTracerProvider, trace.ProxyTracerProvider)
"""What there is while no tracer provider is configured."""


class Telemetry(ExitStack):
    """Reports one gate until `close`, of which a second call does nothing.

    Instruments cannot be removed: then gauges have no values, and counters keep theirs, for a program's last export.
    """

    def __init__(
        self,
        gate: RobotGate,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        request_spans: bool = True,
    ) -> None:
        super().__init__()
        self._gate = gate
        self._tally = Tally(gate)
        self._values = self._tally.values(gate.stats())
        provider = tracer_provider or trace.get_tracer_provider()
        self._tracer = provider.get_tracer(SCOPE)
        self._parents: dict[str, deque[Context]] = {}
        """By URL: the contexts of the turns that are open, first to last."""
        self._request_spans = request_spans
        self._is_closed = False
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        self._recorders = [_Recorder(meter, *item) for item in self._tally.histograms.items()]
        # A collection may begin as soon as there is an instrument that it reads.
        for metric in self._values:
            make = meter.create_observable_counter if metric.is_counter else meter.create_observable_gauge
            make(f"robotgate.{metric.name}", self._observers(metric), UNITS[metric.unit], metric.help)
        self._tally.start()
        self.callback(self._tally.close)
        if not isinstance(provider, NO_SPANS):
            kinds = (TurnBegan, RobotsFetched, VerdictRefused, TurnRefused)
            turns = (TurnEnded,) if request_spans else ()
            self.callback(gate.subscribe(self._trace, *kinds, *turns, at_once=True))
        self.callback(self._keep_counters)

    def _observers(self, metric: Metric) -> list[Callable[[CallbackOptions], Iterable[Observation]]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [
                metrics.Observation(amount, dict(zip(metric.labels, labels, strict=True)))
                for labels, amount in self._values[metric].items()
            ]

        # The first instrument that is made is the first that each collection reads.
        return [self._collect, observe] if metric is REQUESTS else [observe]

    def _collect(self, _: CallbackOptions) -> Iterable[Observation]:
        """Take the values of now for all instruments."""
        if not self._is_closed:
            self._values = self._tally.values(self._gate.stats())
        for recorder in self._recorders:
            recorder.record()
        return ()

    def _trace(self, event: Event) -> None:
        match event:
            case TurnBegan():
                if event.waited > 0:
                    self._span("wait", event.url, event, event.waited)
                if self._request_spans:
                    self._parents.setdefault(event.url, deque()).append(get_current())
            case TurnEnded():
                parents = self._parents.get(event.url)
                # None: the turn began before this listened.
                parent = parents.popleft() if parents else None
                if not parents:
                    self._parents.pop(event.url, None)
                self._span("request", event.url, event, event.elapsed, _answer(event), parent=parent)
            case RobotsFetched():
                access = {"http.request.method": "GET", "robotgate.robots.access": event.access.name.lower()}
                fault = None if event.cause is None else str(event)
                self._span("robots", event.robots_url, event, event.elapsed, access | _answer(event), fault)
            case VerdictRefused():
                reason = event.verdict.reason.name.lower()
                self._span("refusal", event.verdict.url, event, 0.0, {"error.type": reason}, str(event))
            case TurnRefused():
                reason = type(event.error).__name__
                self._span("refusal", event.url, event, 0.0, {"error.type": reason}, str(event))

    def _span(  # noqa: PLR0917  # One call for each case above.
        self,
        name: str,
        url: str,
        event: Event,
        elapsed: float,
        attributes: Mapping[str, str | int] = MappingProxyType({}),
        fault: str | None = None,
        parent: Context | None = None,
    ) -> None:
        """Make a span that ends with its event; without a parent, in the context of the event."""
        kind = SpanKind.CLIENT if name in {"request", "robots"} else SpanKind.INTERNAL
        start = round((event.at - elapsed) * 1e9)
        span = self._tracer.start_span(f"robotgate.{name}", parent, kind, {"url.full": url}, start_time=start)
        if span.is_recording():
            place = URL(url)
            span.set_attribute("server.address", place.host or "")
            if place.port is not None:
                span.set_attribute("server.port", place.port)
            span.set_attributes(attributes)
            if fault is not None or "error.type" in attributes:
                span.set_status(Status(StatusCode.ERROR, fault))
        span.end(round(event.at * 1e9))

    def _keep_counters(self) -> None:
        values = self._tally.values(self._gate.stats())
        self._values = {metric: values[metric] if metric.is_counter else {} for metric in values}
        self._is_closed = True
        self._parents.clear()


class _Recorder:
    """Passes on what a histogram of the tally has counted, to an instrument that takes one value at a time.

    The values of a bucket are passed on as their mean: counts and sum are right, as long as no view has other buckets.
    """

    def __init__(self, meter: metrics.Meter, metric: Metric, counted: Histogram) -> None:
        name, unit = f"robotgate.{metric.name}.duration", UNITS[metric.unit]
        self._counted = counted
        self._instrument = meter.create_histogram(
            name, unit, metric.help, explicit_bucket_boundaries_advisory=metric.buckets
        )
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


def _answer(event: TurnEnded | RobotsFetched) -> dict[str, str | int]:
    """An answer by the semantic conventions for HTTP, which leave the text of an error to its attribute."""
    found: dict[str, str | int] = {"http.response.body.size": event.bytes_read}
    if event.status is not None:
        found["http.response.status_code"] = event.status
    if event.status is None or event.status >= 400:
        found["error.type"] = "_OTHER" if event.status is None else str(event.status)
    return found
