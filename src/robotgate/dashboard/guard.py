"""Which requests a dashboard answers, and the headers of its answers.

A web page of another site can send requests to a server on loopback, with any name in Host that its owner lets resolve
to 127.0.0.1 (DNS rebinding). So names are checked, and every request for data has to come from the page itself.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING, Final

from aiohttp import web
from yarl import URL

from robotgate.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

MIN_TOKEN: Final = 16
"""Characters of a token: fewer might be guessed."""
JSON: Final = "application/json"

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Checks requests.

    Args:
        token: what requests for data have to carry; None: only loopback is served.
        controls: whether requests that change something are answered.
        hosts: names in Host beside those of loopback and the address that is connected to.

    Raises:
        OptionError: the token is short, or there are `hosts` without a token.
    """

    def __init__(self, *, token: str | None, controls: bool, hosts: Iterable[str]) -> None:
        if token is not None and len(token) < MIN_TOKEN:
            raise OptionError(f"token: give at least {MIN_TOKEN} characters, such as secrets.token_urlsafe()")
        self._names = frozenset(name.lower() for name in hosts)
        if self._names and token is None:
            raise OptionError("hosts: give a token, too: other machines can reach such a name")
        self._token = None if token is None else token.encode()
        self.controls = controls

    def check(self, request: web.Request, *, has_data: bool) -> None:
        """Check a request.

        Args:
            has_data: whether its answer tells of the crawl.

        Raises:
            web.HTTPForbidden, web.HTTPUnauthorized, web.HTTPUnsupportedMediaType: it is refused.
        """
        transport = request.transport
        # Of a Unix socket, it is a path.
        address: object = None if transport is None else transport.get_extra_info("sockname")
        own = str(address[0]) if isinstance(address, tuple) else "127.0.0.1"
        if self._token is None and not is_loopback(own):
            raise web.HTTPForbidden(text="Without a token, the dashboard is served on loopback only.")
        try:
            name = URL(f"http://{request.headers.get('Host', '')}").host or ""
        except ValueError:
            name = ""
        if not (is_loopback(name) or name == own or name in self._names):
            raise web.HTTPForbidden(text="This name in Host is not the dashboard's: see the option hosts.")
        if has_data:
            self._check_source(request)
        if request.method != "POST":
            return
        if not self.controls:
            raise web.HTTPForbidden(text="The dashboard is read-only: see the option controls.")
        # A form of another site can send neither JSON nor this Origin.
        if "Origin" not in request.headers:
            raise web.HTTPForbidden(text="The request names no Origin.")
        if request.content_type != JSON:
            raise web.HTTPUnsupportedMediaType(text="Send JSON.")

    def _check_source(self, request: web.Request) -> None:
        """Refuse a request that comes from a page of another site, or lacks the token."""
        origin = request.headers.get("Origin")
        is_own = origin is None or origin.partition("://")[2].lower() == request.headers["Host"].lower()
        if not is_own or request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
            raise web.HTTPForbidden(text="The request comes from a page of another site.")
        if self._token is None:
            return
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        # In constant time, so that the time of an answer reveals nothing of the token.
        is_right = hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)
        if kind.lower() != "bearer" or not is_right:
            raise web.HTTPUnauthorized(text="Give the token.", headers={"WWW-Authenticate": "Bearer"})


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Add the headers that every answer has."""
    response.headers.update(HEADERS)


def is_loopback(host: str) -> bool:
    """Whether a host, as in a URL, is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
