"""The server of the sites: a proxy on 127.0.0.1 that answers for every site itself, and logs each request.

Through a proxy a crawler can use ordinary URLs: their names need no DNS, and they may have any port. Crawlers that use
no proxy find some of the sites at addresses of their own.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import ssl
import time
import zlib
from base64 import b64decode, urlsafe_b64decode
from collections import Counter, deque
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click
from aiohttp import web
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from trustme import CA
from yarl import URL

from robotgate.judge.sites import CHANGE_DELAY, ROBOTS_PATH, Answer, Kind, Page, Plan, Site, examples
from robotgate.signing.signer import DERIVED, Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

LOOPBACK: Final = "127.0.0.1"
TICK_DELAY: Final = 0.005
SHUTDOWN_TIMEOUT: Final = 0.5
START: Final = "start.test"
UNKNOWN: Final = "unknown"
"""The name for which rules are written while there is none."""
ASKS: Final = {"Accept-Signature": 'sig1=("@authority" "signature-agent");created;expires;tag="web-bot-auth"'}
"""The header of an answer that only signed requests get (RFC 9421 section 5.1)."""
MISSING: Final = Answer(status=404, text="no such page\n")
TOO_FAST: Final = Answer(status=429)
NO_SITE: Final = Answer(status=502, text="no such site\n")
_SIGNED: Final = re.compile(
    r'([a-z*][\w.*-]*)=(\(([^()]*"@(?:authority|target-uri)"[^()]*)\);(?:.*;)?expires=(\d{1,15})(?:;.*)?)'
)
"""A Signature-Input: its label, its parameters, the components that are covered, and when it expires."""
_HTTP_LOGGER: Final = logging.getLogger(__name__)
"""Gets a traceback for each request that is no HTTP. Its client is told 400."""
_HTTP_LOGGER.setLevel(logging.CRITICAL)
_TOKEN: Final = re.compile(r"[\w.-]+", re.ASCII)
_GZIP: Final = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)
"""In an Accept-Encoding that takes it."""
_COMPONENT: Final = re.compile(r'("([^"]+)"(?:;key="([^"]+)")?)')
_URLSET: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
)


class JudgeError(click.ClickException):
    """Nothing can be judged: a port is taken, or the command does not start."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Visit:
    """One request as the server saw it."""

    site: str
    """`Site.name` of the site that was asked."""
    path: str
    """The page's path in the plan; as it came if the plan has no such page."""
    started_at: float
    """When the request had arrived: seconds on the server's monotonic clock."""
    ended_at: float
    """Just before the answer was sent, so that the crawler cannot have had it earlier. Same clock."""
    status: int
    agent: str = ""
    """The User-Agent."""
    pause: float = 0.0
    """Seconds for which the answer asked the crawler to stay away."""


def token_of(user_agent: str) -> str:
    """The product token in a User-Agent: its first name but Mozilla, or the first that it says to be compatible."""
    _, says_so, rest = user_agent.partition("compatible;")
    found = _TOKEN.search(rest if says_so else user_agent)
    return found[0] if found and found[0] != "Mozilla" else UNKNOWN


class SiteServer:
    """Answers for every site of a plan, for the examples, and for a start page that leads to all.

    Args:
        note: called with each request once its answer is ready.
        agent: the product token for which the rules are written; empty: that of the first request for one of its sites.
        start: the root of the start page.
        keys: those of signatures.
    """

    def __init__(
        self,
        plan: Plan,
        note: Callable[[web.BaseRequest, Visit], object],
        agent: str = "",
        start: str = f"http://{START}",
        keys: Sequence[Ed25519PublicKey] = (),
    ) -> None:
        self._note = note
        self._keys = keys
        self.agent: str = agent
        sites = (*plan.sites, *examples(), _start(plan, start))
        self.sites: dict[str, Site] = {site.root: site for site in sites}
        self._pages = {
            # What arrives is the path as the client escaped it.
            root: {URL(root + page.path).raw_path_qs: page for page in site.resources}
            for root, site in self.sites.items()
        }
        self._taken: dict[str, deque[float]] = {}
        """When the last two requests were that each site with a limit has answered."""
        self.tunnels: Counter[str] = Counter()
        """The names for which a CONNECT asked, but for those of sites without TLS."""
        self._asked = dict.fromkeys(self.sites, 0)
        """The requests for pages of each site."""
        self._began_at: dict[str, float] = {}
        """When a robots.txt was first requested."""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        started_at = time.monotonic()
        url, user_agent = URL(str(request.url)), request.headers.get("User-Agent", "")
        # The rules are the same with any query.
        root, path = str(url.origin()), ROBOTS_PATH if url.raw_path == ROBOTS_PATH else url.raw_path_qs
        # The examples are the same with https.
        site = self.sites.get(root) or self.sites.get(root.replace("https:", "http:"))
        name, answer = root.removeprefix("http://"), NO_SITE
        if site is not None:
            # A browser has requests of its own, for updates.
            self.agent = self.agent or token_of(user_agent)
            name, answer = site.name, MISSING
            page = self._pages[site.root].get(path)
            if page is not None:
                path = page.path
                answer = self._answer_of(site, page, request, started_at)
        await asyncio.sleep(answer.delay)
        response = self._response(request, answer)
        served = (name, path, started_at, time.monotonic(), response.status)
        self._note(request, Visit(*served, user_agent, answer.pause))
        return response

    def _answer_of(self, site: Site, page: Page, request: web.BaseRequest, now: float) -> Answer:
        """What a site answers to a request for one of its pages, or for its robots.txt."""
        if page.access == "robots":
            is_changed = now - self._began_at.setdefault(site.root, now) >= CHANGE_DELAY
            return replace(page, text=site.kind.changed or page.text) if is_changed else page
        self._asked[site.root] += 1
        kind = site.kind
        if kind.declared == "signatures":
            is_welcome = is_signed(request, site.root + page.path, self._keys)
            return replace(page, headers=ASKS) if is_welcome else Answer(status=403, headers=ASKS)
        if kind.told is not None and self._asked[site.root] in kind.told.at:
            return kind.told
        if kind.limit is not None:
            taken = self._taken.setdefault(site.root, deque(maxlen=2))
            if len(taken) == 2 and now - taken[0] < 2 / kind.limit:
                return TOO_FAST
            taken.append(now)
        return page

    def _response(self, request: web.BaseRequest, answer: Answer) -> web.Response:
        form = "html" if answer.text.startswith("<!doctype html>") else "plain"
        headers = {"Content-Type": f"text/{form}", **answer.headers}
        if headers.get("Retry-After") == "{date}":
            # A date has whole seconds.
            headers["Retry-After"] = formatdate(time.time() + answer.pause + 1, usegmt=True)
        body = answer.content(self.agent)
        etag = f'"{zlib.crc32(body):08x}"'
        if answer.coding and _GZIP.search(request.headers.get("Accept-Encoding", "")):
            headers["Content-Encoding"] = ", ".join(answer.coding)
            for _ in answer.coding:
                body = gzip.compress(body)
        if answer.is_silent and request.transport is not None:
            request.transport.close()
        if answer.is_cut:
            headers["Content-Length"] = str(len(body))
            response = web.Response(status=answer.status, body=body[: len(body) // 2], headers=headers)
            response.force_close()
            return response
        if answer.status == 200:
            headers["ETag"] = etag
            if request.headers.get("If-None-Match") == etag:
                return web.Response(status=304, headers=headers)
        return web.Response(status=answer.status, body=body, headers=headers)


def _start(plan: Plan, root: str) -> Site:
    """The site with the start page, and with a sitemap: both have all URLs of a plan."""
    links = "\n".join(f'<p><a href="{escape(url)}">{escape(url)}</a></p>' for url in plan.urls)
    locations = "\n".join(f"<url><loc>{escape(url)}</loc></url>" for url in plan.urls)
    page = f"<!doctype html>\n<title>Start</title>\n{links}\n"
    sitemap = f"{_URLSET}{locations}\n</urlset>\n"
    pages = (
        Page(path="/", text=page),
        Page(path="/sitemap.xml", text=sitemap, headers={"Content-Type": "text/xml"}),
    )
    address, robots = urlsplit(root), Page(path=ROBOTS_PATH, access="robots", status=404)
    return Site(address.hostname or START, Kind(name="start"), robots, pages, address.port or 80)


def public_keys(text: bytes) -> list[Ed25519PublicKey]:
    """The keys of a JWK, or of a set of these, as an agent's directory is one (RFC 7517, RFC 8037).

    Raises:
        ValueError: there is no such key.
    """
    try:
        document = json.loads(text)
        encoded = [key["x"] for key in document.get("keys", [document])]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("no JWK") from error
    return [Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(f"{x}=")) for x in encoded]


def is_signed(request: web.BaseRequest, url: str, keys: Sequence[Ed25519PublicKey]) -> bool:
    """Whether a request has a valid signature by one of some keys (RFC 9421 section 3.2)."""
    found = _SIGNED.fullmatch(request.headers.get("Signature-Input", ""))
    if found is None or time.time() > int(found[4]):
        return False
    label, parameters, components, _ = found.groups()
    covered = []
    for identifier, name, key in _COMPONENT.findall(components):
        derive = DERIVED.get(name)
        value = derive(request.method, Target.of(url)) if derive else request.headers.get(name, "")
        covered.append(f"{identifier}: {value.partition(f'{key}=')[2] if key else value}\n")
    base = f'{"".join(covered)}"@signature-params": {parameters}'
    for public in keys:
        with suppress(InvalidSignature, ValueError):
            public.verify(b64decode(request.headers.get("Signature", "")[len(label) + 2 : -1]), base.encode())
            return True
    return False


@cache
def _tls_of(authority: CA, host: str, fault: str | None) -> ssl.SSLContext:
    """The TLS context for a host, with what is wrong with its certificate, if anything."""
    issuer = CA() if fault == "unknown" else authority
    name = "another.test" if fault == "name" else host
    # Some systems take no certificate that is valid for years.
    now, day = datetime.now(UTC), timedelta(days=1)
    expires_at = now - day if fault == "expired" else now + day
    certificate = issuer.issue_cert(name, not_before=now - 2 * day, not_after=expires_at)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    return context


async def _serve_tunnel(request: web.BaseRequest, http: web.Server, context: ssl.SSLContext | None) -> None:
    """Accept a CONNECT, and serve what comes through its tunnel: HTTP, mostly within TLS."""
    transport, protocol = request.transport, request.protocol
    if transport is None:
        return
    transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    # For the protocol that has read the CONNECT, the connection ends here.
    protocol.transport = None
    protocol.connection_lost(None)
    inner = http()
    if context is None:
        transport.set_protocol(inner)
        inner.connection_made(transport)
        return
    # The client may refuse the certificate.
    with suppress(OSError):
        secure = await asyncio.get_running_loop().start_tls(transport, inner, context, server_side=True)
        if secure is not None:
            inner.connection_made(secure)


@asynccontextmanager
async def listening(
    server: SiteServer, port: int, authority: CA | None = None, hosts: Sequence[str] = (LOOPBACK,)
) -> AsyncIterator[int]:
    """Serve on a port of some addresses until the end of the block; 0 is for any free port.

    Args:
        authority: signs the certificates of the sites with https; None: there are none.

    Yields:
        The port.

    Raises:
        JudgeError: the port is taken.
    """

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "CONNECT":
            return await server.answer(request)
        target = request.raw_path
        context, name = None, f"https://{target.removesuffix(':443')}"
        # Some clients ask for a tunnel to plain http, too.
        if f"http://{target.removesuffix(':80')}" not in server.sites:
            server.tunnels[name] += 1
            site = server.sites.get(name)
            if authority is None or site is None:
                return web.Response(status=502, reason="No such site")
            context = _tls_of(authority, site.host, site.kind.certificate)
        await _serve_tunnel(request, http, context)
        # It reaches nobody.
        return web.Response()

    async with AsyncExitStack() as stack:
        http = web.Server(answer, logger=_HTTP_LOGGER)
        stack.push_async_callback(http.shutdown, SHUTDOWN_TIMEOUT)
        what, option = ("addresses 127.0.x.y", "--direct") if hosts[1:] else (f"port {port}", "--port")
        try:
            listener = await asyncio.get_running_loop().create_server(http, hosts, port)
        except OSError as error:
            raise JudgeError(f"{what} cannot be used ({error.strerror}): see {option}") from error
        stack.callback(listener.close)
        yield listener.sockets[0].getsockname()[1]


async def measure_lag(worst: list[float]) -> None:
    """Measure by how many seconds this process is late at worst, until it is cancelled: the error of its clock."""
    while True:
        due_at = time.monotonic() + TICK_DELAY
        await asyncio.sleep(TICK_DELAY)
        worst[0] = max(worst[0], time.monotonic() - due_at)
