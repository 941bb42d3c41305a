"""What is asked of `gate.fetch`, and what a redirect makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypedDict

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from robotgate._credentials import CREDENTIAL_OPTIONS, blank_auth, drop_credentials, with_blank_credentials
from robotgate._robots_proxy import robots_proxy
from robotgate._urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from ssl import SSLContext

    from robotgate._identity import Identity
    from robotgate._redirect import Redirect

    RaiseForStatus = bool | Callable[[aiohttp.ClientResponse], Awaitable[None]]

BODY_OPTIONS: Final = frozenset({"data", "json", "compress", "chunked", "expect100"})


class RequestOptions(TypedDict, total=False):
    """What `aiohttp.ClientSession.request` takes, and means, besides the redirect options."""

    params: str | Mapping[str, str | int | float] | Sequence[tuple[str, str | int | float]] | None
    data: object
    json: object
    cookies: Mapping[str, str] | None
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None
    skip_auto_headers: Iterable[str] | None
    auth: aiohttp.BasicAuth | None
    compress: str | bool | None
    chunked: bool | None
    expect100: bool
    raise_for_status: RaiseForStatus | None
    read_until_eof: bool
    proxy: str | URL | None
    proxy_auth: aiohttp.BasicAuth | None
    timeout: aiohttp.ClientTimeout
    ssl: SSLContext | bool | aiohttp.Fingerprint
    server_hostname: str | None
    proxy_headers: Mapping[str, str] | None
    trace_request_ctx: object
    read_bufsize: int | None
    auto_decompress: bool | None
    max_line_size: int | None
    max_field_size: int | None
    middlewares: Sequence[aiohttp.ClientMiddlewareType] | None


_NO_OPTIONS: Final = RequestOptions()


@dataclass(slots=True, eq=False, kw_only=True)
class PageRequest:
    """One hop of what was asked of `gate.fetch`.

    Nobody changes it. It is not frozen, for that takes thrice as long to make.
    """

    method: str
    url: URL
    asked_url: str | URL
    """The same, as it was given: most texts are judged without being parsed."""
    options: RequestOptions
    """Our headers among them."""
    raise_for_status: RaiseForStatus | None
    """None leaves it to the session."""
    priority: int
    max_wait: float | None
    max_bytes: int
    max_redirects: int | None
    """None does not follow any."""
    is_bare: bool
    """Whether no options were given, so that all there are is ours."""
    has_left_origin: bool = False

    @property
    def shown_url(self) -> str:
        """The URL as it may be told: without credentials."""
        return str(self.url.with_user(None))

    def robots_proxy(self) -> AbstractContextManager[None]:
        """Within this block, robots.txt is asked for by the way of the page."""
        options = self.options
        return robots_proxy(
            options.get("proxy"), auth=options.get("proxy_auth"), headers=options.get("proxy_headers")
        )

    def options_in(self, session: aiohttp.ClientSession) -> RequestOptions:
        """What to give to a session, whose own credentials are for the first origin alone."""
        if not self.has_left_origin:
            return _NO_OPTIONS if self.is_bare and self._is_said_by(session) else self.options
        options = self.options.copy()
        options["headers"] = with_blank_credentials(options.get("headers"), session)
        auth = blank_auth(session)
        if auth is not None:
            options["auth"] = auth
        return options

    def _is_said_by(self, session: aiohttp.ClientSession) -> bool:
        """Whether a session does of itself what our own options ask, each of which takes aiohttp a while."""
        return session.headers == self.options["headers"] and not session.raise_for_status

    def after(self, redirect: Redirect) -> PageRequest:
        """The request of the next hop: no body for a GET, no credentials for another origin.

        Raises:
            aiohttp.ClientPayloadError: a body that can be read once only would have to be sent again.
        """
        dropped: set[str] = set()
        headers = CIMultiDict(self.options.get("headers") or ())
        if not redirect.drops_body and not _can_be_sent_again(self.options.get("data")):
            raise aiohttp.ClientPayloadError(
                f"{self.shown_url} redirects to {redirect.url}, but the body was spent on the first request:"
                " give it as bytes to have it sent again"
            )
        if redirect.drops_body:
            dropped |= BODY_OPTIONS
            headers.popall("Content-Length", None)
            headers.popall("Content-Type", None)
        if redirect.leaves_origin:
            dropped |= CREDENTIAL_OPTIONS
            drop_credentials(headers)
        options = RequestOptions(**{k: v for k, v in self.options.items() if k not in dropped})  # type: ignore[typeddict-item]
        options["headers"] = headers
        return replace(
            self,
            method=redirect.method,
            url=redirect.url,
            asked_url=redirect.url,
            options=options,
            has_left_origin=self.has_left_origin or redirect.leaves_origin,
        )


def page_request(
    url: str | URL,
    method: str,
    identity: Identity,
    middleware: aiohttp.ClientMiddlewareType,
    options: RequestOptions,
    *,
    priority: int,
    max_wait: float | None,
    max_bytes: int,
    max_redirects: int | None,
) -> PageRequest:
    """The first hop of what is asked of `gate.fetch`, with our name on it.

    Args:
        middleware: the gate's. It goes behind those that are given, which stand in place of the session's.

    Raises:
        InvalidURLError: the URL cannot be read.
        OptionError: it bears another's name.
    """
    parsed = url if isinstance(url, URL) else parse_url(url)
    is_bare = not options
    if is_bare:
        raise_for_status = None
        options = RequestOptions(headers=identity.page_headers, raise_for_status=False)
    else:
        options = options.copy()
        params = options.pop("params", None)
        if params:
            # What is judged must be what is sent.
            url = parsed = parsed.extend_query(params)
        headers = options.get("headers")
        options["headers"] = identity.page_headers if headers is None else _identified(headers, identity)
        middlewares = options.get("middlewares")
        if middlewares is not None:
            options["middlewares"] = (*middlewares, middleware)
        raise_for_status = options.pop("raise_for_status", None)
        options["raise_for_status"] = False
    return PageRequest(
        method=method.upper(),
        url=parsed,
        asked_url=url,
        options=options,
        raise_for_status=raise_for_status,
        priority=priority,
        max_wait=max_wait,
        max_bytes=max_bytes,
        max_redirects=max_redirects,
        is_bare=is_bare,
    )


def _identified(
    headers: Mapping[str, str] | Iterable[tuple[str, str]], identity: Identity
) -> CIMultiDict[str]:
    completed = CIMultiDict(headers)
    identity.complete(completed)
    return completed


def _can_be_sent_again(data: object) -> bool:
    """Whether a body is a value, through and through. Files and streams are at their end after the first request, and
    forms are spent.
    """
    if isinstance(data, Mapping):
        return all(map(_can_be_sent_again, data.values()))
    if isinstance(data, list | tuple):
        return all(map(_can_be_sent_again, data))
    return data is None or isinstance(data, bytes | bytearray | memoryview | str | int | float)
