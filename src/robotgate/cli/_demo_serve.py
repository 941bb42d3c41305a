"""``robotgate demo --serve``: the sites for programs of the reader's own, behind a proxy on this machine.

A proxy, because then the program's URLs are ordinary: names that nobody has to resolve, ports that are free, and one
argument of the session that tells the exercise from the web.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from robotgate.cli._demo_examples import EXAMPLES
from robotgate.cli._demo_process import DemoError
from robotgate.cli._demo_servers import LOOPBACK, SHUTDOWN_TIMEOUT, SiteServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate.cli._demo_sites import Plan

DEFAULT_PORT: Final = 8009


class Exchange:
    """Answers for every site, whichever way a request came: the URL says for which."""

    def __init__(self, plan: Plan, note: Callable[[str], object]) -> None:
        self._note = note
        self._began_at: float | None = None
        # Nobody judges what is seen here.
        self._servers = {site.name: SiteServer(site, deque(maxlen=0)) for site in plan.sites}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, and note it."""
        arrived_at = time.monotonic()
        self._began_at = arrived_at if self._began_at is None else self._began_at
        response = await self._answer(request)
        agent = request.headers.get(hdrs.USER_AGENT, "-")
        self._note(
            f"{arrived_at - self._began_at:7.1f} s  {response.status}  {request.method} {request.url}  {agent}"
        )
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == hdrs.METH_CONNECT:
            return web.Response(status=501, text="there is no https here: ask for http://\n")
        host = request.url.host or ""
        if host in EXAMPLES:
            return EXAMPLES[host].answer(request)
        site = self._servers.get(host if request.url.is_default_port() else f"{host}:{request.url.port}")
        return web.Response(status=502, text="no such site\n") if site is None else await site.answer(request)


def greeting(proxy: str, plan: Plan) -> str:
    """Where the sites are."""
    width = max(map(len, EXAMPLES)) + len("http:///")
    listed = [f"  {f'http://{host}/':{width}}  {site.story}" for host, site in EXAMPLES.items()]
    first = plan.sites[0]
    return "\n".join(
        [
            f"{proxy} is a proxy to these sites, until Ctrl-C:",
            *listed,
            f"and to the {len(plan.sites)} sites of the demonstration, as {first.url(first.pages[-1].path)}",
            "What they are asked for:",
        ]
    )


async def serve_plan(plan: Plan, port: int, note: Callable[[str], object]) -> None:
    """Play the sites until cancelled.

    Args:
        port: of 127.0.0.1; 0 for any that is free.
        note: told where the sites are, and of each request.

    Raises:
        DemoError: the port is taken.
    """
    server = web.Server(Exchange(plan, note).answer)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.shutdown, SHUTDOWN_TIMEOUT)
        try:
            listener = await asyncio.get_running_loop().create_server(server, LOOPBACK, port)
        except OSError as error:
            raise DemoError(f"port {port} cannot be had ({error.strerror}): try another by --port") from error
        stack.callback(listener.close)
        note(greeting(f"http://{LOOPBACK}:{listener.sockets[0].getsockname()[1]}", plan))
        await asyncio.Event().wait()
