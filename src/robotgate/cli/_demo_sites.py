"""The words of the demonstration's web: a page, a robots.txt as it is answered, a site, and a plan of many sites.

Whether a page is open is a fact of the site, decided when it is drawn; nothing here parses a robots.txt or matches a
path. The judge can therefore hold the gate to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

FLOOR_DELAY: Final = 0.15
"""Seconds: the gate's own ``delay`` in the demonstration."""
CRAWLER: Final = "RobotgateDemo"
"""The name by which the sites' rules address the crawler: its product token."""
ROBOTS_PATH: Final = "/robots.txt"
_AGENT: Final = re.compile(rf"{CRAWLER}/1\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One address of a site, and how the server answers there."""

    path: str
    is_open: bool = True
    """Whether the site lets the demonstration's crawler fetch it."""
    is_asked: bool = True
    """Whether the crawler is given this URL; other pages are reached through redirects only."""
    status: int = 200
    location: str | None = None
    retry_after: int | None = None
    """Seconds for which the answer asks the crawler to stay away."""
    busy_delay: float = 0.0
    """Seconds the server takes."""
    size: int = 2000
    """Octets of the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsReply:
    """How a site answers for its robots.txt."""

    body: bytes = b""
    status: int = 200
    location: str | None = None
    busy_delay: float = 0.0
    """Seconds the server takes."""
    is_cut_off: bool = False
    """Whether the connection breaks before the announced length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One origin of the demonstration."""

    host: str
    story: str
    """What is peculiar about it, in a few words."""
    robots: RobotsReply
    pages: tuple[Page, ...]
    port: int = 80
    """The port in its URLs; its server listens elsewhere."""
    crawl_delay: float = 0.0
    """Seconds that the rules binding this origin ask for."""
    is_closed: bool = False
    """Whether its robots.txt could not be had, so that no page may be fetched."""

    @property
    def name(self) -> str:
        """The host, and the port unless it is 80."""
        return self.host if self.port == 80 else f"{self.host}:{self.port}"

    @property
    def delay(self) -> float:
        """Seconds that must lie between the end of one response and the start of the next request."""
        return max(FLOOR_DELAY, self.crawl_delay)

    def url(self, path: str) -> str:
        """The absolute URL of a path."""
        return f"http://{self.name}{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All of one seed: the sites, and the URLs in the order in which the crawler is given them."""

    seed: int
    sites: tuple[Site, ...]
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request as a server saw it."""

    site: str
    """`Site.name` of the server that was asked."""
    path: str
    """The page's path in the plan; as it came where the plan has no such page."""
    started_at: float
    """When the request had arrived: seconds on the servers' monotonic clock."""
    ended_at: float
    """Just before the last octets of the answer were sent, so that the crawler cannot have had them earlier."""
    status: int
    worker: int = 1
    """Which of the crawler's processes asked."""


def agent_of(worker: int) -> str:
    """The name under which one of the crawler's processes asks, and by which the servers tell it from the others."""
    return f"{CRAWLER}/1.{worker}"


def worker_of(user_agent: str) -> int:
    """Which of the crawler's processes bears this name; 0 when none does."""
    found = _AGENT.match(user_agent)
    return int(found[1]) if found else 0
