"""The metrics and spans of a gate for OpenTelemetry.

Counters and gauges are observable instruments that read the tally when they are collected; histograms are recorded with
each event. A span is made when what it tells of has ended: from the event, with the start that the event tells.
"""

from __future__ import annotations

from collections import deque
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
    elapsed_of,
    labelled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import TracerProvider

    from robotgate.events import Event
    from robotgate.gate import RobotGate

    Attributes = dict[str, str | int]

SCOPE: Final = "robotgate"
UNITS: Final = {"seconds": "s", "bytes": "By", "": "1"}


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
        self._tally = Tally(gate)
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
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
        self._unsubscribe = gate.subscribe(self._hear, in_context=True)

    def _observer(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            # An instrument cannot be removed.
            samples = [] if self._is_closed else labelled(metric, self._tally)
            return [metrics.Observation(amount, labels) for labels, amount in samples]

        return observe

    def _hear(self, event: Event) -> None:
        self._tally.hear(event)
        match event:
            case TurnBegan():
                self._wait.record(event.waited)
                if event.waited > 0:
                    self._span("robotgate.wait", event.url, event.at - event.waited, event.at)
                if self._request_spans:
                    self._parents.setdefault(event.url, deque()).append(get_current())
            case TurnEnded():
                self._request.record(event.elapsed)
                if self._request_spans:
                    self._request_span(event)
            case RobotsFetched():
                elapsed = elapsed_of(event)
                if elapsed is not None:
                    self._robots.record(elapsed)
                more: Attributes = {
                    "http.request.method": "GET",
                    "robotgate.robots.access": event.access.name.lower(),
                }
                self._span(
                    "robotgate.robots",
                    event.robots_url,
                    event.at - (elapsed or 0.0),
                    event.at,
                    kind=SpanKind.CLIENT,
                    attributes=more | _answer(event.status),
                    problem=event.cause or _problem(event.status),
                )
            case VerdictRefused():
                reason = event.verdict.reason.name.lower()
                self._refusal(event.verdict.url, event.at, reason, str(event))
            case TurnRefused():
                self._refusal(event.url, event.at, type(event.error).__name__, str(event))
            case _:
                pass

    def _request_span(self, event: TurnEnded) -> None:
        parents = self._parents.get(event.url)
        # None: the turn began before this listened.
        parent = parents.popleft() if parents else None
        if not parents:
            self._parents.pop(event.url, None)
        self._span(
            "robotgate.request",
            event.url,
            event.at - event.elapsed,
            event.at,
            kind=SpanKind.CLIENT,
            attributes={"http.response.body.size": event.bytes_read, **_answer(event.status)},
            problem=_problem(event.status),
            parent=parent,
        )

    def _refusal(self, url: str, at: float, reason: str, text: str) -> None:
        self._span("robotgate.refusal", url, at, at, attributes={"error.type": reason}, problem=text)

    def _span(
        self,
        name: str,
        url: str,
        start_at: float,
        end_at: float,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        problem: str | None = None,
        parent: Context | None = None,
    ) -> None:
        """Report a span that has ended; without a parent, in the context of the event."""
        place = URL(url)
        known: Attributes = {"url.full": url, "server.address": place.host or "", **(attributes or {})}
        if place.port is not None:
            known["server.port"] = place.port
        span = self._tracer.start_span(name, parent, kind, known, start_time=round(start_at * 1e9))
        if problem is not None:
            span.set_status(Status(StatusCode.ERROR, problem))
        span.end(round(end_at * 1e9))

    def close(self) -> None:
        """Listen to the gate no more; its metrics have no values from now on. A second call does nothing."""
        self._is_closed = True
        self._unsubscribe()
        self._parents.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _answer(status: int | None) -> Attributes:
    """Return the attributes of an answer, by the semantic conventions for HTTP."""
    if status is None:
        return {"error.type": "_OTHER"}
    found: Attributes = {"http.response.status_code": status}
    return found if status < 400 else {**found, "error.type": str(status)}


def _problem(status: int | None) -> str | None:
    """Return why a request failed; None if it did not. The convention leaves a status to its attribute."""
    return None if status is not None and status < 400 else ""
