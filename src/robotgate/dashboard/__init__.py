"""A dashboard of a running gate: rates, the hosts that wait, are blocked, slow or failing, and a page of each host.

`serve` serves it on loopback; `app` is an aiohttp application to mount or run. docs/dashboard.md shows both.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from yarl import URL

from robotgate.dashboard.application import Dashboard
from robotgate.dashboard.guard import Guard, is_loopback
from robotgate.errors import OptionError
from robotgate.options import check_kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from robotgate.gate import RobotGate

__all__ = ["app", "serve"]


def app(
    gate: RobotGate, *, token: str | None = None, controls: bool = False, hosts: Iterable[str] = ()
) -> web.Application:
    """The dashboard of a gate, as an aiohttp application.

    Run it, or mount it with ``main.add_subapp("/status", app(gate))`` and open ``/status/``. It has to run in the
    gate's event loop. It may start before the gate opens, and end after it closes. While it runs, it listens to the
    gate's events.

    A request is answered only if its Host is a name of loopback, the address that it was sent to, or one of `hosts`.
    Requests that come from pages of other sites are refused.

    Args:
        gate: the gate to show.
        token: what readers have to give, at least 16 characters; the page asks for it. None: only connections to a
            loopback address are answered.
        controls: whether the page has buttons that block and unblock hosts and request robots.txt again. By default it
            is read-only.
        hosts: further names that the page is reached by, without port, such as a reverse proxy's; they need a token.

    Raises:
        OptionError: the token is too short, or there are `hosts` without a token.
    """
    check_kind("token", token, str | None)
    check_kind("controls", controls, bool)
    return Dashboard(gate, Guard(token=token, controls=controls, hosts=hosts)).application()


@asynccontextmanager
async def serve(
    gate: RobotGate,
    host: str = "127.0.0.1",
    port: int = 8099,
    *,
    token: str | None = None,
    controls: bool = False,
    hosts: Iterable[str] = (),
) -> AsyncIterator[str]:
    """Serve the dashboard until the end of an ``async with`` block.

    Args:
        host: the address to listen on. One that other machines can reach needs a token.
        port: 0 is for any free port.
        token, controls, hosts: as `app`.

    Yields:
        The URL of the page.

    Raises:
        OptionError: as `app`; or the address is not one of loopback, and there is no token.
        OSError: the address or the port cannot be used.
    """
    if token is None and not is_loopback(host):
        raise OptionError(f"host={host!r}: other machines can reach it, so give a token, too")
    application = app(gate, token=token, controls=controls, hosts=hosts)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield str(URL.build(scheme="http", host=host, port=runner.addresses[0][1], path="/"))
    finally:
        await runner.cleanup()
