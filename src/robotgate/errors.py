"""The errors, and what each one calls for.

::

    RobotGateError
    ├── OptionError (also ValueError)           you: an option's value makes no sense
    ├── EventLoopError (also RuntimeError)      you: the gate belongs to another event loop
    └── ‹also aiohttp.ClientError›
        ├── GateClosedError                     you: the gate was closed, or never opened
        ├── NestedTurnError                     you: a task waits for a turn that only it can end
        ├── StoreError                          your store: the message names the cause and the remedy
        ├── InvalidURLError (also ValueError)   the URL: it is no http(s) URL
        │   └── NonPublicAddressError           the URL: it leads into a private network
        ├── DisallowedError                     the site disallows the URL; do not retry
        ├── PreferenceError                     the site disallows what you declared to do; do not retry
        ├── TooSoonError                        wait longer, or try again later
        ├── HostUnavailableError                the host is down or blocks us; try again later
        ├── BudgetExceededError                 your budget is used up; it may be there anew later
        ├── ProxyUnavailableError               your proxy, or one on the way: it failed, or wants credentials
        └── ResponseTooLargeError               the site: a body over `max_bytes`

Errors that a request can raise are also `aiohttp.ClientError`, so that existing handlers catch them. None of them is an
`OSError` or `aiohttp.ClientOSError`, because aiohttp sends such requests again or wraps the error. A general ``except
ClientError: retry`` therefore retries refusals too; catch `DisallowedError` before it.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final

from aiohttp import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate.rules.verdict import Verdict
    from robotgate.statements import Preferences


_NEVER: Final = 1e9
"""Seconds, some 30 years; a longer wait is shown as endless."""
_CREDENTIALS: Final = re.compile(r"//[^/?#]*@")
"""The part of a URL that must not appear in a log."""
PERMITS: Final = "allow_private_addresses=True permits it"


class RobotGateError(Exception):
    """The base of all errors of robotgate."""

    def __reduce__(self) -> tuple[object, ...]:
        # Without a call of `__init__`, whose arguments are not those of `Exception`.
        return type(self).__new__, (type(self), *self.args), vars(self)


class OptionError(RobotGateError, ValueError):
    """An option's value makes no sense. Raised when the option is given; the message names it."""


class EventLoopError(RobotGateError, RuntimeError):
    """The gate was opened in another event loop than the one that runs here. `RobotGate.threadsafe` is for threads."""


class GateClosedError(RobotGateError, ClientError):
    """The gate is closed, or was not opened with ``async with``."""

    def __init__(self, message: str = "the gate was closed") -> None:
        super().__init__(message)


class NestedTurnError(RobotGateError, ClientError):
    """A task waits for itself: it holds the host's only turn, or all turns that `concurrency` allows."""


class StoreError(RobotGateError, ClientError):
    """The store failed; the message names the cause and the remedy."""

    retry_after: Final = 30.0
    """Seconds after which a task may ask again, as of other errors. When the store will work again is not known."""


class InvalidURLError(RobotGateError, ClientError, ValueError):
    """A URL that is not an absolute http or https URL of a possible host."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"{problem}: {_CREDENTIALS.sub('//', url[:200])!r}")
        self.url = url
        self.problem = problem


class NonPublicAddressError(InvalidURLError):
    """The URL leads to an address that no public site has; ``allow_private_addresses`` permits it.

    The host is such an address, or a name that resolves to no other address at the moment. An address in another
    spelling than dotted decimals or RFC 5952 is always refused, because clients read it differently.
    """

    def __init__(self, url: str, problem: str | None = None) -> None:
        super().__init__(url, problem or f"not a public address ({PERMITS})")


class DisallowedError(RobotGateError, ClientError):
    """The site's robots.txt disallows this URL."""

    status: ClassVar[int] = 403

    def __init__(self, verdict: Verdict, chain: tuple[str, ...] = ()) -> None:
        redirected = f"; redirected from {' -> '.join(chain)}" if chain else ""
        super().__init__(f"{verdict}{redirected}")
        self.verdict = verdict
        """Why, and by which line of which file."""
        self.chain = chain
        """The URLs that redirected to the disallowed one, first to last."""


class PreferenceError(RobotGateError, ClientError):
    """A response disallows a purpose that the gate declares; its body is withheld.

    What robots.txt disallows is refused by `DisallowedError` before the request.
    """

    status: ClassVar[int] = 403

    def __init__(self, url: str, preferences: Preferences, purposes: tuple[str, ...]) -> None:
        words = [str(statement) for statement in preferences.deciding(purposes[0])[:1]]
        super().__init__(f"{url} is not for {', '.join(purposes)}: {'; '.join(words)}")
        self.url = url
        self.preferences = preferences
        """All that was found; `robotgate.preferences.Preferences.deciding` tells the statements."""
        self.purposes = purposes
        """The declared purposes that are disallowed."""


class TooSoonError(RobotGateError, ClientError):
    """The wait for the host's turn would be longer than ``max_wait``; or, with `try_turn`, it has not come."""

    status: ClassVar[int] = 503

    def __init__(self, host: str, retry_after: float) -> None:
        when = f"in {retry_after:.3f} s at the earliest" if retry_after < _NEVER else "not in the next years"
        super().__init__(f"{host} is not due within max_wait; {when}")
        self.host = host
        self.retry_after = retry_after
        """Seconds until the turn could begin, at the earliest; with `try_turn`, until the turn of this task."""


class HostUnavailableError(RobotGateError, ClientError):
    """The host is given up, its robots.txt cannot be read, or it is blocked for longer than ``max_block``.

    It is given up when it could not be reached for ``give_up_after``, until it is tried again.

    It is blocked by 429 and 503, by `gate.block`, and outside of its Visit-time and of your `open_hours`.
    """

    status: ClassVar[int] = 503

    def __init__(self, host: str, retry_after: float, cause: str, verdict: Verdict | None = None) -> None:
        again = "try again" if verdict is None else "robots.txt is requested again"
        when = f"; {again} in {retry_after:.0f} s" if retry_after < _NEVER else ""
        super().__init__(f"{host} is unavailable: {cause}{when}")
        self.host = host
        self.retry_after = retry_after
        """Seconds until a retry makes sense; infinity where that is unknown."""
        self.cause = cause
        self.verdict = verdict
        """The verdict, when robots.txt could not be read."""


class BudgetExceededError(RobotGateError, ClientError):
    """The budget is used up: the gate's `budget`, or another that the message names. Nothing was requested."""

    status: ClassVar[int] = 503

    def __init__(self, host: str, budget: str, retry_after: float | None) -> None:
        when = "" if retry_after is None else f"; it is there anew in {retry_after:.0f} s"
        super().__init__(f"the budget of {host} is used up: {budget}{when}")
        self.host = host
        """What it is for: a host, an origin, ``the group ...``, or ``all hosts``."""
        self.budget = budget
        """In words."""
        self.retry_after = retry_after
        """Seconds until it is there anew; None: never."""


class ProxyUnavailableError(RobotGateError, ClientError):
    """A proxy on the way to the host failed, or answered for itself, as by 407 (RFC 9110 §15.5.8).

    Nothing was heard of the site, and nothing is recorded of it: the next request may be sent at once by another way.
    """

    def __init__(self, host: str, cause: str, verdict: Verdict | None = None) -> None:
        super().__init__(f"{host} was not reached: {cause}")
        self.host = host
        self.cause = cause
        """In words that name the proxy, where it is known."""
        self.verdict = verdict
        """The verdict, when it was robots.txt that could not be read."""


class ResponseTooLargeError(RobotGateError, ClientError):
    """A body is longer than ``max_bytes``; its connection was closed."""

    def __init__(self, url: str, max_bytes: int) -> None:
        super().__init__(f"the body of {url} is over max_bytes={max_bytes}")
        self.url = url
        self.max_bytes = max_bytes


@contextmanager
def needs_extra(extra: str, module: str) -> Iterator[None]:
    """Import the library of an extra within this block: the error for a missing one says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or extra).partition(".")[0]
        raise ModuleNotFoundError(
            f'{module} needs {library}: pip install "robotgate[{extra}]"', name=error.name, path=error.path
        ) from error
