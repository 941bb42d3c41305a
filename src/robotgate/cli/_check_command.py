"""``robotgate check``: its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from robotgate import RobotGate
from robotgate.cli._check import check_file, check_online
from robotgate.cli._check_show import show
from robotgate.cli._common import (
    CONTACT_HELP,
    MAX_BYTES_READ,
    agent_option,
    console,
    private_option,
    token_option,
    usage_errors,
)
from robotgate.cli._store import run_with, store_of, store_options

if TYPE_CHECKING:
    from typing import BinaryIO


@click.command()
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@agent_option
@click.option(
    "--contact", envvar="ROBOTGATE_CONTACT", show_envvar=True, help=f"{CONTACT_HELP} Not for --robots."
)
@token_option
@click.option(
    "--robots", type=click.File("rb"), help="Check against this file, offline; - is standard input."
)
@private_option
@store_options
def check(
    *,
    urls: tuple[str, ...],
    agent: str,
    contact: str | None,
    token: str | None,
    robots: BinaryIO | None,
    allow_private_addresses: bool,
    store_path: str | None,
    no_store: bool,
) -> None:
    """Tell whether URLs may be fetched, and show the line of robots.txt that decides.

    A robots.txt is asked for once and kept until it expires: `robotgate cache` shows what is kept. With --robots, a
    URL may also be a path that begins with /.

    Exit status: 0 when all are allowed, 1 when any is disallowed, 2 when there is no answer for any (an invalid URL,
    a robots.txt that cannot be read) or for wrong usage.
    """
    name = token or agent
    if robots is not None:
        findings = check_file(_read(robots), urls, name)
    elif contact is None:
        raise click.UsageError("Give --contact (or set ROBOTGATE_CONTACT), or a file with --robots.")
    else:
        with usage_errors():
            store = store_of(store_path, no_store=no_store)
            gate = RobotGate(
                agent,
                contact=contact,
                token=token,
                allow_private_addresses=allow_private_addresses,
                store=store,
            )
        findings = run_with(store, check_online(gate, urls, name))
    show(console(), findings)
    raise SystemExit(max(finding.exit for finding in findings))


def _read(robots: BinaryIO) -> bytes:
    try:
        return robots.read(MAX_BYTES_READ)
    except OSError as error:
        raise click.UsageError(f"cannot read {robots.name}: {error.strerror}") from error
