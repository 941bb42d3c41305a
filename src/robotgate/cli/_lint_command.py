"""``robotgate lint``: its options."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from robotgate import RobotGate
from robotgate.cli._common import (
    CONTACT_HELP,
    agent_option,
    console,
    private_option,
    token_option,
    usage_errors,
)
from robotgate.cli._lint import Report, lint_file, lint_online
from robotgate.cli._lint_show import rows, show
from robotgate.cli._store import run_with, store_of, store_options

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command()
@click.argument("sources", metavar="FILE|URL...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one row of JSON for each finding.")
@agent_option
@click.option(
    "--contact", envvar="ROBOTGATE_CONTACT", show_envvar=True, help=f"{CONTACT_HELP} Only for URLs."
)
@token_option
@private_option
@store_options
def lint(
    *,
    sources: tuple[str, ...],
    as_json: bool,
    agent: str,
    contact: str | None,
    token: str | None,
    allow_private_addresses: bool,
    store_path: str | None,
    no_store: bool,
) -> None:
    """Find what is wrong with robots.txt files, line by line, and what to write instead.

    A FILE of - is standard input. Of a URL, its site's /robots.txt is read, no more of it than crawlers read:
    the copy that is kept, if it has not expired.

    Exit status: 0 when no file has errors (warnings are none), 1 when any has, 2 when any cannot be read, or for
    wrong usage.
    """
    urls = list(dict.fromkeys(filter(_is_url, sources)))
    online: dict[str, Report] = {}
    if urls:
        if contact is None:
            raise click.UsageError("Give --contact (or set ROBOTGATE_CONTACT) to read a site's robots.txt.")
        with usage_errors():
            store = store_of(store_path, no_store=no_store)
            gate = RobotGate(
                agent,
                contact=contact,
                token=token,
                allow_private_addresses=allow_private_addresses,
                store=store,
            )
        online = dict(zip(urls, run_with(store, lint_online(gate, urls)), strict=True))
    reports = [online[source] if source in online else _read(source) for source in sources]
    if as_json:
        for line in _json(reports):
            click.echo(line)
    else:
        show(console(), reports)
    raise SystemExit(max(report.exit for report in reports))


def _is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def _read(source: str) -> Report:
    try:
        with click.open_file(source, "rb") as file:
            return lint_file(source, file)
    except OSError as error:
        return Report(source=source, problem=f"cannot be read: {error.strerror}")


def _json(reports: list[Report]) -> Iterator[str]:
    return (json.dumps(row) for row in rows(reports))
