"""``robotgate fetch --status``: the status page of the gate of a command."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import click

from robotgate.cli import common, output
from robotgate.status import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from robotgate import RobotGate


def _address(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Read ``127.0.0.1:8099`` or ``[::1]:8099``."""
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (host and colon and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536):
        raise click.BadParameter("give an address and a port, such as 127.0.0.1:8099")
    return host, int(port)


def status_options(command: Callable[common.P, common.R]) -> Callable[common.P, common.R]:
    """The options of a command that can serve a status page."""
    status_option = click.option(
        "--status",
        "status_address",
        metavar="HOST:PORT",
        callback=_address,
        help="Serve a status page, such as at 127.0.0.1:8099, while the command runs.",
    )
    token_option = click.option(
        "--status-token",
        envvar="ROBOTGATE_STATUS_TOKEN",
        show_envvar=True,
        help="What readers of the status page have to give; other machines can read it only with one.",
    )
    controls_option = click.option(
        "--status-controls",
        is_flag=True,
        help="The status page has buttons that block hosts and request robots.txt again.",
    )
    return status_option(token_option(controls_option(command)))


@asynccontextmanager
async def shown(
    gate: RobotGate, address: tuple[str, int] | None, token: str | None, *, controls: bool
) -> AsyncIterator[None]:
    """Serve the page, if an address was given, until the end of the block; its URL goes to standard error.

    Raises:
        OptionError: the address or the token makes no sense.
        common.CommandError: the address cannot be used.
    """
    async with AsyncExitStack() as stack:
        if address is not None:
            serving = serve(gate, *address, token=token, controls=controls)
            try:
                url = await stack.enter_async_context(serving)
            except OSError as error:
                where = f"{address[0]}:{address[1]}"
                raise common.CommandError(f"cannot serve --status at {where}: {error.strerror}") from error
            output.say(f"status page: {url}")
        yield
