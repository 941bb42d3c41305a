"""The demonstration's server: a proxy on 127.0.0.1 that answers for every site itself, and logs each request.

Through a proxy the crawler can use ordinary URLs: their names need no DNS, and they may have any port.
"""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from base64 import b64decode, urlsafe_b64decode
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click
from aiohttp import web
from yarl import URL

from robotgate.demo.sites import (
    ASKS,
    CRAWLER,
    EXAMPLES,
    MISSING,
    ROBOTS_PATH,
    TOO_FAST,
    Answer,
    Bucket,
    Page,
    Plan,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

LOOPBACK: Final = "127.0.0.1"
TICK_DELAY: Final = 0.005
SHUTDOWN_TIMEOUT: Final = 0.5
_AGENT: Final = re.compile(rf"{CRAWLER}/1\.(\d+)")
SECRET: Final = bytes(32)
"""The private key of the crawler. It is public, so it proves nothing outside the demonstration."""
_SIGNED: Final = re.compile(
    r'sig1=(\("@authority" "signature-agent"\);created=\d+;keyid="([\w-]+)";alg="ed25519";expires=(\d+);.*)'
)
_NO_SITE: Final = Answer(status=502, body=b"no such site\n")


class DemoError(click.ClickException):
    """The demonstration cannot be run: a port is taken, or one of its workers died."""


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
    worker: int = 1
    """Which of the crawler's processes asked; 0 for another program."""


def agent_of(worker: int) -> str:
    """The User-Agent of one of the crawler's processes, by which the server tells them apart."""
    return f"{CRAWLER}/1.{worker}"


def worker_of(user_agent: str) -> int:
    """Which of the crawler's processes has this User-Agent; 0 for another program."""
    found = _AGENT.match(user_agent)
    return int(found[1]) if found else 0


class SiteServer:
    """Answers for every site of a plan and for `EXAMPLES`; the URL names the site.

    Args:
        note: called with each request once its answer is ready.
    """

    def __init__(self, plan: Plan, note: Callable[[web.BaseRequest, Visit], object]) -> None:
        self._note = note
        self._pages = {
            # What arrives is the path as the client escaped it.
            site.name: {
                URL(site.url(page.path)).raw_path_qs: page
                for page in (Page(ROBOTS_PATH, site.robots), *site.pages)
            }
            for site in (*plan.sites, *EXAMPLES)
        }
        self._limits = {site.name: Bucket(site.limit) for site in plan.sites if site.limit is not None}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        started_at = time.monotonic()
        port = "" if request.url.is_default_port() else f":{request.url.port}"
        site, path = f"{request.url.host}{port}", request.rel_url.raw_path_qs
        answer = MISSING if site in self._pages else _NO_SITE
        page = self._pages.get(site, {}).get(path)
        if page is not None:
            path, answer = page.path, page.answer
            if answer.headers is ASKS and not is_signed(request.headers, site):
                answer = Answer(status=403, headers=ASKS)
            elif (limit := self._limits.get(site)) is not None and not limit.takes(started_at):
                answer = TOO_FAST
        await asyncio.sleep(answer.busy_delay)
        response = _response(request, answer)
        ended_at, worker = time.monotonic(), worker_of(request.headers.get("User-Agent", ""))
        visit = Visit(site, path, started_at, ended_at, response.status, worker)
        self._note(request, visit)
        return response


def _response(request: web.BaseRequest, answer: Answer) -> web.Response:
    body, headers = answer.content, {"Content-Type": "text/plain", **answer.headers}
    if answer.is_cut_off:
        headers["Content-Length"] = str(len(body))
        response = web.Response(status=answer.status, body=body[: len(body) // 2], headers=headers)
        response.force_close()
        return response
    if answer.status == 200:
        headers["ETag"] = f'"{zlib.crc32(answer.body):08x}"'
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
    return web.Response(status=answer.status, body=body, headers=headers)


def is_signed(headers: Mapping[str, str], authority: str) -> bool:
    """Whether a request has a valid signature of the crawler (RFC 9421 section 3.2)."""
    # Only some pages need these.
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    from robotgate.signing import SigningKey  # noqa: PLC0415

    key, found = SigningKey(SECRET), _SIGNED.fullmatch(headers.get("Signature-Input", ""))
    if found is None or found[2] != key.thumbprint or time.time() > int(found[3]):
        return False
    covered = f'"@authority": {authority}\n"signature-agent": {headers.get("Signature-Agent")}\n'
    public = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(f"{key.x}="))
    try:
        signature = b64decode(headers.get("Signature", "")[6:-1])
        public.verify(signature, f'{covered}"@signature-params": {found[1]}'.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


@asynccontextmanager
async def listening(server: SiteServer, port: int) -> AsyncIterator[int]:
    """Serve on a port of 127.0.0.1 until the end of the block; 0 is for any free port.

    Yields:
        The port.

    Raises:
        DemoError: the port is taken.
    """
    async with AsyncExitStack() as stack:
        http = web.Server(server.answer)
        stack.push_async_callback(http.shutdown, SHUTDOWN_TIMEOUT)
        try:
            listener = await asyncio.get_running_loop().create_server(http, LOOPBACK, port)
        except OSError as error:
            raise DemoError(f"port {port} cannot be used ({error.strerror}): see --port") from error
        stack.callback(listener.close)
        yield listener.sockets[0].getsockname()[1]


@asynccontextmanager
async def measured_lag() -> AsyncIterator[list[float]]:
    """Measure by how many seconds this process is late at worst until the end of the block: the error of its clock.

    Yields:
        The one figure, as it grows.
    """
    worst = [0.0]

    async def measure() -> None:
        while True:
            due_at = time.monotonic() + TICK_DELAY
            await asyncio.sleep(TICK_DELAY)
            worst[0] = max(worst[0], time.monotonic() - due_at)

    measuring = asyncio.create_task(measure())
    try:
        yield worst
    finally:
        measuring.cancel()
