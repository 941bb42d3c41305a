"""Credentials, and how they are kept from an origin that they were not given for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp
from multidict import CIMultiDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CREDENTIAL_HEADERS: Final = ("Authorization", "Cookie", "Proxy-Authorization")
CREDENTIAL_OPTIONS: Final = frozenset({"auth", "cookies"})
"""Of `aiohttp.ClientSession.request`."""
BLANKS: Final = frozenset({"", "Basic Og=="})
"""What stands where a session's own credentials would: nothing, or nobody's name with no password."""


def drop_credentials(headers: CIMultiDict[str]) -> None:
    """Take a request's own away."""
    for name in CREDENTIAL_HEADERS:
        headers.popall(name, None)


def with_blank_credentials(
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None, session: aiohttp.ClientSession
) -> CIMultiDict[str]:
    """The headers of a request that is not to bear those of its session.

    aiohttp has no way to leave a session's header out: an empty one goes in its place.
    """
    completed = CIMultiDict(headers or ())
    for name in CREDENTIAL_HEADERS:
        if name in session.headers:
            completed[name] = ""
    return completed


def blank_auth(session: aiohttp.ClientSession) -> aiohttp.BasicAuth | None:
    """What goes in place of a session's own ``auth=``; None if it has none."""
    return None if getattr(session, "auth", None) is None else aiohttp.BasicAuth("")


def leave_out_blank_credentials(headers: CIMultiDict[str]) -> None:
    """Send nothing where a blank stands: what a middleware can do, and the caller of a session cannot."""
    for name in CREDENTIAL_HEADERS:
        if headers.get(name) in BLANKS:
            del headers[name]
