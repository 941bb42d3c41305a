"""Errors that say whose fault it is and what to do.

::

    RobotGateError
    ├── OptionError (also ValueError)           you: an option's value makes no sense
    └── ‹also aiohttp.ClientError›
        ├── GateClosedError                     you: the gate was closed, or never opened
        ├── NestedTurnError                     you: a task waits for a turn that only it can end
        ├── StoreError                          your store: it names the cause and the remedy
        ├── InvalidURLError (also ValueError)   the URL: it names no http(s) resource
        │   └── NonPublicAddressError           the URL: it points, or resolves, into a private network
        ├── DisallowedError                     the site said no; asking again changes nothing
        ├── TooSoonError                        nobody: the turn comes later than `max_wait`
        ├── HostUnavailableError                the host is down or is blocking us; come back later
        └── ResponseTooLargeError               the site: a body over `max_bytes`

Those that can leave an aiohttp call in the course of a crawl are `aiohttp.ClientError` as well, so that handlers
already written see them, and never `OSError` or `aiohttp.ClientOSError`: aiohttp silently sends such requests again or
rewraps them. A blanket ``except ClientError: retry`` therefore retries refusals too; catch `DisallowedError` before it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final

from aiohttp import ClientError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robotgate._verdict import Verdict

_NOT_IN_OUR_TIME: Final = 1e9
"""Seconds; whoever asks us to wait longer does not want us back."""
_SHOWN_ADDRESSES: Final = 3
"""Of a name's addresses, in a message; whose names they are may give hundreds."""
_CREDENTIALS: Final = re.compile(r"//[^/?#]*@")
"""What of a URL must not stand in a log."""
PERMITS: Final = "allow_private_addresses=True permits it"


class RobotGateError(Exception):
    """The base of every error robotgate raises on its own account."""


class OptionError(RobotGateError, ValueError):
    """An option that makes no sense, refused when it is given; the message names it."""


class GateClosedError(RobotGateError, ClientError):
    """The gate is closed, or was not opened with ``async with``."""

    def __init__(self, message: str = "the gate was closed") -> None:
        super().__init__(message)


class NestedTurnError(RobotGateError, ClientError):
    """A task asked for a turn of a host while holding that host's only turn: waiting would never end."""


class StoreError(RobotGateError, ClientError):
    """The store failed; the message names the cause and the remedy."""


class InvalidURLError(RobotGateError, ClientError, ValueError):
    """Not an absolute http or https URL of a host that can exist."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"{problem}: {_CREDENTIALS.sub('//', url[:200])!r}")
        self.url = url
        self.problem = problem

    def __reduce__(self) -> tuple[type[InvalidURLError], tuple[str, str]]:
        return type(self), (self.url, self.problem)


class NonPublicAddressError(InvalidURLError):
    """The URL leads to an address that no public site has; only ``allow_private_addresses`` lets it pass.

    Of an address in the URL that is so for good, and of one in another spelling than dotted decimals or RFC 5952 it is
    so whatever is allowed: clients read it differently. Of a name it is so for as long as it resolves to no other
    address.
    """

    def __init__(self, url: str, problem: str | None = None) -> None:
        super().__init__(url, problem or f"not a public address ({PERMITS})")

    @classmethod
    def of_name(
        cls, url: str, host: str, addresses: Sequence[str], *, permits: str = PERMITS
    ) -> NonPublicAddressError:
        """The error for a URL whose host has these addresses, and no public one.

        Args:
            permits: what would let it pass, in words.
        """
        shown = ", ".join(addresses[:_SHOWN_ADDRESSES])
        more = ", ..." if len(addresses) > _SHOWN_ADDRESSES else ""
        return cls(url, f"{host} resolves to {shown}{more}, not to a public address ({permits})")


class DisallowedError(RobotGateError, ClientError):
    """The site's robots.txt does not let us fetch this URL."""

    status: ClassVar[int] = 403

    def __init__(self, verdict: Verdict, chain: tuple[str, ...] = ()) -> None:
        message = str(verdict)
        if chain:
            message = f"{message}; redirected from {' -> '.join(chain)}"
        super().__init__(message)
        self.verdict = verdict
        """Why it may not be fetched, and by which line of which file."""
        self.chain = chain
        """The URLs that redirected to the refused one, first to last."""

    def __reduce__(self) -> tuple[type[DisallowedError], tuple[Verdict, tuple[str, ...]]]:
        return type(self), (self.verdict, self.chain)


class TooSoonError(RobotGateError, ClientError):
    """The host's turn comes later than the caller was ready to wait (``max_wait``)."""

    status: ClassVar[int] = 503

    def __init__(self, host: str, retry_after: float) -> None:
        when = (
            f"in {retry_after:.3f} s at the earliest" if retry_after < _NOT_IN_OUR_TIME else "not in our time"
        )
        super().__init__(f"{host} is not due within max_wait; {when}")
        self.host = host
        self.retry_after = retry_after
        """Seconds until the turn can come, at the earliest."""

    def __reduce__(self) -> tuple[type[TooSoonError], tuple[str, float]]:
        return type(self), (self.host, self.retry_after)


class HostUnavailableError(RobotGateError, ClientError):
    """The host is down, or asked us to stay away for longer than we wait (``max_block``)."""

    status: ClassVar[int] = 503

    def __init__(self, host: str, retry_after: float, cause: str, verdict: Verdict | None = None) -> None:
        again = f"; try again in {retry_after:.0f} s" if retry_after < _NOT_IN_OUR_TIME else ""
        super().__init__(f"{host} is unavailable: {cause}{again}")
        self.host = host
        self.retry_after = retry_after
        """Seconds until it is worth asking again; infinity where nobody knows."""
        self.cause = cause
        self.verdict = verdict
        """The verdict, when it was robots.txt that could not be read."""

    def __reduce__(self) -> tuple[type[HostUnavailableError], tuple[str, float, str, Verdict | None]]:
        return type(self), (self.host, self.retry_after, self.cause, self.verdict)


class ResponseTooLargeError(RobotGateError, ClientError):
    """A body longer than ``max_bytes``; its connection was closed."""

    def __init__(self, url: str, max_bytes: int) -> None:
        super().__init__(f"the body of {url} is over max_bytes={max_bytes}")
        self.url = url
        self.max_bytes = max_bytes

    def __reduce__(self) -> tuple[type[ResponseTooLargeError], tuple[str, int]]:
        return type(self), (self.url, self.max_bytes)
