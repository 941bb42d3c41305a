"""The command group."""

from __future__ import annotations

import click

from robotgate import __version__
from robotgate.cli._cache_command import cache
from robotgate.cli._check_command import check
from robotgate.cli._demo_command import demo
from robotgate.cli._fetch_command import fetch
from robotgate.cli._lint_command import lint


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="robotgate")
def robotgate() -> None:
    """Fetch from the web with every site's robots.txt obeyed, and every host at its own pace."""


for command in (fetch, check, lint, cache, demo):
    robotgate.add_command(command)
