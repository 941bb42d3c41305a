"""What a file asks about our speed: Crawl-delay, Request-rate and Visit-time, none of which is in RFC 9309."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from robotgate._lines import Field
from robotgate._speed import RequestRate, VisitTime

_MAX_NUMBER_LENGTH: Final = 64
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_WINDOW: Final = re.compile(r"(?<![0-9])([0-9]{2})([0-9]{2}) ?- ?([0-9]{2})([0-9]{2})(?![0-9])")
_RATE: Final = re.compile(r"([0-9]{1,9}) ?/ ?([0-9]{1,9})(?![0-9]) ?([smhdSMHD]?)")
_UNIT_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

EVERYBODY: Final = "*"
"""The User-agent value of the rules for all whom no group names."""
_TOKEN_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def names(agent: str, token: str) -> bool:
    """Whether a User-agent value names this product token, given in lower case, or ``*`` (RFC 9309 §2.2.1)."""
    if token == EVERYBODY:
        return agent == EVERYBODY or agent.startswith(("* ", "*\t"))
    length = len(token)
    start = agent[:length]
    # Not lower() alone: it makes a "k" of the Kelvin sign.
    if not length or not start.isascii() or start.lower() != token:
        return False
    return len(agent) == length or agent[length] not in _TOKEN_CHARACTERS


@dataclass(frozen=True, slots=True)
class Pace:
    """What some User-agent lines of one group are asked about their speed."""

    agents: tuple[str, ...]
    """The values of these User-agent lines, as written."""
    crawl_delay: float | None = None
    """The largest Crawl-delay that could be read: seconds."""
    request_rates: tuple[RequestRate, ...] = ()
    visit_times: tuple[VisitTime, ...] = ()

    def names(self, token: str) -> bool:
        """As `Group.names`, for these lines."""
        return any(names(agent, token) for agent in self.agents)


class PaceReader:
    """Collects what one run of User-agent lines is asked about its speed."""

    __slots__ = ("_crawl_delay", "_request_rates", "_visit_times", "agents", "asked")

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.asked = False
        self._crawl_delay: float | None = None
        self._request_rates: dict[RequestRate, None] = {}
        self._visit_times: dict[VisitTime, None] = {}

    def add(self, field: Field, value: str) -> None:
        """Read one line, whatever its value."""
        self.asked = True
        if field is Field.CRAWL_DELAY:
            delay = _read_delay(value)
            if delay is not None and (self._crawl_delay is None or delay > self._crawl_delay):
                self._crawl_delay = delay
        elif field is Field.REQUEST_RATE:
            rate = _read_rate(value)
            if rate is not None:
                self._request_rates[rate] = None
        else:
            window = _read_window(value)
            if window is not None:
                self._visit_times[VisitTime(*window)] = None

    def finish(self) -> Pace:
        """What was asked, all in all."""
        return Pace(
            tuple(self.agents), self._crawl_delay, tuple(self._request_rates), tuple(self._visit_times)
        )


def _read_delay(value: str) -> float | None:
    match = _NUMBER.match(value[:_MAX_NUMBER_LENGTH])
    return float(match[0]) if match else None


def _read_rate(value: str) -> RequestRate | None:
    match = _RATE.match(value)
    if match is None:
        return None
    documents, seconds = int(match[1]), int(match[2]) * _UNIT_SECONDS[match[3].lower()]
    if not documents or not seconds:
        return None
    # A window that makes no sense leaves a rate that always holds: the slower reading.
    window = _read_window(value, match.end())
    return RequestRate(documents, seconds, *window) if window else RequestRate(documents, seconds)


def _read_window(value: str, position: int = 0) -> tuple[int, int] | None:
    match = _WINDOW.search(value, position)
    if match is None:
        return None
    start_hour, start_minute, end_hour, end_minute = map(int, match.groups())
    start, end = start_hour * 60 + start_minute, end_hour * 60 + end_minute
    if start_minute > 59 or end_minute > 59 or max(start, end) > 24 * 60:
        return None
    return start, end
