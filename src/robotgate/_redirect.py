"""How a redirected request goes on: RFC 9110 §15.4, as aiohttp does it, and without telling others our secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from yarl import URL

from robotgate._errors import InvalidURLError

REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_LOST_HOST: Final = re.compile(r"https?:///", re.IGNORECASE)
"""To some a path of the same host, to others a host of that name."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """The next hop of a page."""

    method: str
    url: URL
    drops_body: bool
    """The method became GET: what was to be sent is not sent again."""
    leaves_origin: bool
    """Another origin answers next: credentials stay behind."""


def page_redirect(method: str, url: URL, *, status: int, location: str | None) -> Redirect | None:
    """The hop an answer asks for; None when it is the end.

    Raises:
        InvalidURLError: the Location is no URL.
    """
    if status not in REDIRECT_STATUSES or not location:
        return None
    try:
        target = url.join(URL(location.strip()))
        if _LOST_HOST.match(location.strip()):
            raise InvalidURLError(location, "redirected to a URL without a host")
        becomes_get = (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST")
        if url.raw_fragment and not target.raw_fragment:
            target = target.with_fragment(url.fragment)
        leaves_origin = _origin(target) != _origin(url)
        if not leaves_origin and target.user is None and target.password is None:
            target = target.with_user(url.user).with_password(url.password)
        return Redirect(
            method="GET" if becomes_get else method,
            url=target,
            drops_body=becomes_get,
            leaves_origin=leaves_origin,
        )
    except ValueError as error:
        raise InvalidURLError(location, f"redirected to no URL ({error})") from error


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.raw_host, url.port
