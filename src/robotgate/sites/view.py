"""What is known of a host, for people to look at: `RobotGate.host` and `RobotGate.hosts`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from robotgate.pace.state import is_open
from robotgate.sites.record import Standing

if TYPE_CHECKING:
    from robotgate.sites.site import Site


class HostAccess(Enum):
    """How much of a site may be fetched, in the terms of ``LWP::ElephantUA``."""

    EXCLUDED = "excluded"
    """Nothing may be fetched."""
    OPEN = "open"
    """Everything may be fetched."""
    CONTROLLED = "controlled"
    """Its rules say what may be fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """A host as it is known now. Instants are seconds since the epoch."""

    origin: str
    """The URL's origin, whose rules these are."""
    host: str
    """The pace key: what is paced together."""
    access: HostAccess | None
    """How much of the origin may be fetched; None while its rules are not known."""
    checked_at: float | None
    """When the origin's robots.txt was last requested."""
    fresh_until_at: float | None
    """Until when its rules are used without another request; None while they are not known, and for a host whose
    robots.txt is not obeyed."""
    stale: bool
    """Whether the last request for it failed, so that the last good rules hold."""
    visits: int
    """Requests sent, those for robots.txt included."""
    refused: int
    """Turns refused because the rules of the URL's origin disallow the URL."""
    bytes_read: int
    last_visit_at: float | None
    """When the last response ended, or the last request began if that came later. The moment of a crash counts."""
    next_allowed_at: float
    """No turn begins earlier."""
    blocked_until_at: float | None
    """Until when the host asked us to stay away; None when it does not."""
    blocked_by_operator_until_at: float | None
    """Until when `RobotGate.block` keeps us away from the URL's host; None when it does not."""
    unreachable_until_at: float | None
    """Until when no request is sent to the origin because it could not be reached; None when one may be."""
    failures: int
    """Blocks in a row."""
    latency: float | None
    """Seconds the host takes to begin a response, as a moving average; None while unknown."""
    delay: float
    """Seconds between visits: the longest of the operator's, the site's and the one its latency calls for."""
    waiting: int
    """Tasks waiting for a turn."""
    open_turns: int
    """Requests under way."""

    @classmethod
    def of(cls, site: Site, *, now: float, next_allowed_at: float) -> Self:
        """Return what is known of the host of an origin, from memory."""
        host, ruling = site.host, site.ruling
        record = None if ruling is None else ruling.record
        return cls(
            origin=site.key,
            host=host.key,
            access=None if ruling is None else ruling.access,
            checked_at=None if record is None else record.checked_at,
            fresh_until_at=None if ruling is None or record is None else ruling.fresh_until_at,
            stale=ruling is not None and ruling.standing is Standing.STALE_RULES,
            visits=host.visits,
            refused=site.refused,
            bytes_read=host.bytes_read,
            last_visit_at=host.snapshot().last_visit_at,
            next_allowed_at=next_allowed_at,
            blocked_until_at=host.blocked_until_at if host.blocked_until_at > now else None,
            blocked_by_operator_until_at=site.operator_until_at if site.operator_until_at > now else None,
            unreachable_until_at=site.circuit.retry_at if is_open(site.circuit, now=now) else None,
            failures=host.failures,
            latency=host.latency,
            delay=host.delay,
            waiting=host.waiting,
            open_turns=len(host.open),
        )

    def __str__(self) -> str:
        """One line for the host."""
        access = "unknown" if self.access is None else self.access.value
        if self.stale:
            access += " by stale rules"
        marks = [
            f"{name} until {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}Z" if at < _YEAR_3000 else name
            for name, at in (
                ("blocked", self.blocked_until_at),
                ("blocked by the operator", self.blocked_by_operator_until_at),
                ("unreachable", self.unreachable_until_at),
            )
            if at is not None
        ]
        return ", ".join(
            [
                f"{self.origin}: {access}",
                f"{self.visits} visits",
                f"{self.bytes_read} bytes",
                f"{self.refused} refused",
                f"{self.delay:g} s apart",
                f"{self.waiting} waiting",
                f"{self.open_turns} under way",
                *marks,
            ]
        )


_YEAR_3000: Final = 32_503_680_000.0
