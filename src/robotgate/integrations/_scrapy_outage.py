"""Which of Scrapy's and Twisted's errors say that a host cannot be reached. `_outage` tells of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from robotgate._outage import outage_of

if TYPE_CHECKING:
    from scrapy import Request

OUTAGES: Final = {
    "CannotResolveHostError": "its name cannot be resolved",
    "DNSLookupError": "its name cannot be resolved",
    "ConnectionRefusedError": "it refuses connections",
    "DownloadConnectionRefusedError": "it refuses connections",
    "DownloadTimeoutError": "it does not answer in time",
    "TimeoutError": "it does not answer in time",
    "NoRouteError": "it takes no connection (no route)",
    "TCPTimedOutError": "it takes no connection in time",
}
"""By the names of the classes: Scrapy has its own since 2.15 only, and before hands on those of Twisted."""


def scrapy_outage_of(error: BaseException, request: Request) -> str | None:
    """Why a host cannot be reached, in words that follow its name; None when the error says nothing of that."""
    if request.meta.get("proxy"):
        # Whom we could not reach may be the proxy.
        return None
    causes = (OUTAGES.get(kind.__name__) for kind in type(error).__mro__)
    return next((cause for cause in causes if cause is not None), None) or outage_of(error)
