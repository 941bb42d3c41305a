"""Events: what happened, as values, and how they reach subscribers and the standard logging.

The text of an event is one line, whatever a site wrote into it, and shows no credentials of URLs. The logger is
``robotgate``; its levels, from `LEVELS`, are::

    DEBUG    turns
    INFO     robots.txt read, a URL or a turn refused, a host no longer blocked
    WARNING  a host blocked, a robots.txt that cannot be reached, a store that works again
    ERROR    a store that fails
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from contextvars import Context, copy_context
from dataclasses import dataclass, fields
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate.errors import OptionError, RobotGateError, StoreError
from robotgate.options import check_callback
from robotgate.rules.verdict import AccessResult, Verdict
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robotgate.prices import Price
    from robotgate.sites.status_table import Outcome

__all__ = [
    "BlockCause",
    "Event",
    "HostBlocked",
    "HostRecovered",
    "RobotsFetched",
    "StoreLost",
    "StoreRecovered",
    "TurnBegan",
    "TurnEnded",
    "TurnRefused",
    "VerdictRefused",
]

LINE_HEAD: Final = 700
LINE_TAIL: Final = 300
"""Characters of a longer text that are kept: the host stands first, the reason last."""

_CREDENTIALS: Final = re.compile(r"//[^/?#\s]*@")
"""Up to a blank: this searches whole sentences, and that of `errors` URLs, which may hold blanks."""


class BlockCause(Enum):
    """Why a host is blocked."""

    ASKED = "it asked for a pause"
    """Retry-After, or a quota that is spent."""
    OVERLOADED = "it is overloaded"
    """It told us off, and asked for no pause: 429 or 503 alone."""
    UNREACHABLE = "it cannot be reached"
    """Refused connections, names without an address, timeouts."""
    OPERATOR = "the operator blocked it"
    """`RobotGate.block`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened. The text of an event is one line."""

    at: float
    """When it happened, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsFetched(Event):
    """An attempt to read a robots.txt has ended, successfully or not."""

    origin: Origin
    robots_url: str
    """The last URL requested, after redirects."""
    access: AccessResult
    outcome: Outcome
    status: int | None = None
    """The status of the last response; None when there was none."""
    cause: str | None = None
    """What went wrong, in words."""
    stale: bool = False
    """Whether the last good copy holds instead."""
    bytes_read: int = 0
    """The size of the last answer's body, decoded; 0 where the copy that is known was confirmed."""
    elapsed: float = 0.0
    """Seconds from sending each request to the end of its answer, redirects added up; without waits for turns."""

    def __str__(self) -> str:
        answer = "no answer" if self.status is None else f"HTTP status {self.status}"
        place = "" if self.robots_url == self.origin.robots_url else f" at {self.robots_url}"
        copy = "; the last good copy holds" if self.stale else ""
        return one_line(
            f"robots.txt of {self.origin}: {self.access.value}{place}, {self.cause or answer}{copy}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRefused(Event):
    """A turn was refused because the rules disallow the URL. `allowed` and `check` make no such event."""

    verdict: Verdict
    host: str = ""
    """What is paced together with the URL, as `HostView.host`."""

    def __str__(self) -> str:
        return one_line(str(self.verdict))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRefused(Event):
    """A turn was refused for another reason: it would come too late, is beyond a budget, or the host is blocked or
    unreachable.
    """

    url: str
    error: RobotGateError
    """The error that was raised."""
    host: str = ""
    """What is paced together with the URL, as `HostView.host`."""

    def __str__(self) -> str:
        return one_line(f"no turn of {self.url}: {self.error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBegan(Event):
    """A request may be sent."""

    url: str
    waited: float
    """Seconds from asking for the turn to having it."""
    host: str = ""
    """What is paced together with the URL, as `HostView.host`."""

    def __str__(self) -> str:
        return one_line(f"a turn of {self.url} began after {self.waited:.3f} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(Event):
    """A request has ended."""

    url: str
    status: int | None
    """None when none was reported."""
    bytes_read: int
    elapsed: float
    """Seconds since the turn began."""
    host: str = ""
    """What is paced together with the URL, as `HostView.host`."""
    price: Price | None = None
    """What the site asks for the page, after a status 402."""

    def __str__(self) -> str:
        answer = "no status" if self.status is None else f"HTTP status {self.status}"
        if self.price is not None:
            answer += f" ({self.price})"
        return one_line(
            f"a turn of {self.url} ended after {self.elapsed:.3f} s: {answer}, {self.bytes_read} bytes"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBlocked(Event):
    """A host is blocked from now on, or for longer than before."""

    host: str
    """What is blocked: a pace key, an origin, or the operator's pattern."""
    until_at: float
    """Seconds since the epoch; `math.inf` until the operator lifts the block."""
    cause: BlockCause
    detail: str | None = None
    """More about the cause, in words."""

    def __str__(self) -> str:
        left = max(self.until_at - self.at, 0.0)
        seconds = f"{left:.0f}" if left >= 10 else f"{left:.2g}"
        stretch = f"for {seconds} s" if math.isfinite(left) else "until further notice"
        detail = f" ({self.detail})" if self.detail else ""
        if self.cause is BlockCause.UNREACHABLE:
            # Its robots.txt, if that was requested, is requested again later: the error of a refused turn says when.
            return one_line(f"{self.host} cannot be reached{detail}: nothing is sent to it {stretch}")
        return one_line(f"{self.host} is blocked {stretch}: {self.cause.value}{detail}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecovered(Event):
    """A host is no longer blocked: it gave a good answer, or the operator lifted the block."""

    host: str
    cause: BlockCause
    """Why it was blocked."""

    def __str__(self) -> str:
        return one_line(f"{self.host} is no longer blocked; the cause was: {self.cause.value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLost(Event):
    """The store began to fail, so that its contents are only in this process. Made once, until the store works again.

    A store that waits for its server makes the event at once, while the calls that need the server still wait.
    """

    error: StoreError

    def __str__(self) -> str:
        return one_line(f"the store failed: {self.error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecovered(Event):
    """The store works again, after a `StoreLost`."""

    def __str__(self) -> str:
        return "the store works again"


def one_line(text: str) -> str:
    """A text as one line for a log: without credentials, bounded, and with escapes for unprintable characters."""
    # Before the cut, which could separate a password from its "@".
    text = _CREDENTIALS.sub("//", text)
    if len(text) > LINE_HEAD + LINE_TAIL:
        text = f"{text[:LINE_HEAD]}…{text[-LINE_TAIL:]}"
    return printable(text)


def printable(text: str) -> str:
    """A text with escapes for characters that control a terminal, end a line or are none."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


FIELD_PREFIX: Final = "robotgate_"
"""No attribute of a `logging.LogRecord` begins with it."""


def log_fields(event: Event) -> dict[str, object]:
    """Return what an event holds as attributes of its log record, for formatters that write JSON.

    The values are texts, numbers, booleans and None. Texts are bounded and without credentials, as the event's own line
    is. Enumerations are given by name, in lower case. None stands for an instant that never comes.
    """
    found: dict[str, object] = {"event": type(event).__name__}
    for each in fields(event):
        value: object = getattr(event, each.name)
        if isinstance(value, Verdict):
            rule = value.rule
            found |= {"url": value.url, "allowed": value.allowed, "reason": value.reason}
            found |= {"robots_url": value.robots_url, "rule": rule, "rule_line": rule and rule.line}
        elif isinstance(value, Origin):
            found |= {"origin": value, "host": value.host}
        elif isinstance(value, Exception):
            found |= {"error": type(value).__name__, "message": str(value)}
        else:
            found[each.name] = value
    return {f"{FIELD_PREFIX}{name}": _log_value(value) for name, value in found.items()}


def _log_value(value: object) -> object:
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float) else one_line(str(value))


logger: Final = logging.getLogger("robotgate")

LEVELS: Final[Mapping[type[Event], int]] = {
    TurnBegan: logging.DEBUG,
    TurnEnded: logging.DEBUG,
    # Where robots.txt could not be reached: the site is closed, or an old copy holds.
    RobotsFetched: logging.WARNING,
    VerdictRefused: logging.INFO,
    TurnRefused: logging.INFO,
    HostRecovered: logging.INFO,
    HostBlocked: logging.WARNING,
    # So that a log with warnings has the end of an ERROR too.
    StoreRecovered: logging.WARNING,
    StoreLost: logging.ERROR,
}
"""The level of each kind, at most."""


def level_of(event: Event) -> int:
    """The level an event is logged at."""
    if isinstance(event, RobotsFetched) and event.access is not AccessResult.UNREACHABLE:
        return logging.INFO
    return LEVELS[type(event)]


class Events:
    """Passes events to the subscribers and to the logger."""

    __slots__ = ("_subscribers",)

    def __init__(self) -> None:
        self._subscribers: dict[type[Event], tuple[Callable[[Event], object], ...]] = dict.fromkeys(
            LEVELS, ()
        )

    def subscribe(
        self, callback: Callable[[Event], object], *kinds: type[Event], at_once: bool = False
    ) -> Callable[[], None]:
        """Call `callback` with every event of these kinds, or of all kinds, from now on and in order.

        The event loop calls it soon after the event. An error that it raises goes to the loop's exception handler and
        affects neither other subscribers nor requests.

        Args:
            callback: a plain function; its result is ignored.
            at_once: call it within the request that the event is about, and in its context, before that goes on. This
                is for metrics and tracing. It has to be quick, and must not use the gate.

        Returns:
            A function that ends the subscription at once, for events that have already happened too. Calling it again
            changes nothing.

        Raises:
            OptionError: `callback` is not callable or is a coroutine function, or a kind is no class of event.
        """
        check_callback("callback", callback)
        for kind in kinds:
            if kind not in LEVELS:
                raise OptionError(f"kinds: {kind!r} is no class of event")
        # Not the context of the request that an event is about: a task that the callback starts there would count as
        # part of that request.
        context = copy_context()

        def hear(event: Event) -> None:
            if at_once:
                _at_once(partial(callback, event), context)
            else:
                _soon(partial(call, event), context)

        def call(event: Event) -> None:
            if hear in self._subscribers[type(event)]:
                callback(event)

        for kind in set(kinds or LEVELS):
            self._subscribers[kind] += (hear,)

        def unsubscribe() -> None:
            for kind, known in self._subscribers.items():
                self._subscribers[kind] = tuple(each for each in known if each is not hear)

        return unsubscribe

    def is_heard(self, kind: type[Event]) -> bool:
        """Whether an event of this kind has a subscriber or is logged. If not, it need not be made."""
        return self._subscribers[kind] != () or logger.isEnabledFor(LEVELS[kind])

    def emit(self, event: Event) -> None:
        """Log an event and pass it on, both in a later iteration of the loop, so that no callback fails a request.

        Subscribers that asked for it are called at once.
        """
        level = level_of(event)
        if logger.isEnabledFor(level):
            _soon(partial(_log, level, event), copy_context())
        for hear in self._subscribers[type(event)]:
            hear(event)


def _log(level: int, event: Event) -> None:
    logger.log(level, "%s", event, extra=log_fields(event))


def _at_once(call: Callable[[], object], context: Context) -> None:
    """Make a call now. What it raises is raised soon: the request, or the work of the store, has to go on."""

    def fail(error: Exception) -> None:
        raise error

    try:
        call()
    except Exception as error:  # noqa: BLE001  # A subscriber may raise anything.
        _soon(partial(fail, error), context)


def _soon(call: Callable[[], object], context: Context) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        # Outside the loop there is no request to protect.
        call()
    else:
        loop.call_soon(call, context=context)
