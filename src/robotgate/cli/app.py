"""The command group ``robotgate``."""

from __future__ import annotations

import click

from robotgate import __version__
from robotgate.cli import common
from robotgate.cli.cache import cache
from robotgate.cli.check import check
from robotgate.cli.fetch import fetch
from robotgate.cli.lint import lint
from robotgate.cli.signing import directory, keygen
from robotgate.cli.why import why
from robotgate.demo.command import demo


@click.group(cls=common.Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="robotgate")
def robotgate() -> None:
    """Fetch from the web: obey every site's robots.txt, and visit every host at its own pace."""


for _command in (fetch, check, lint, cache, why, keygen, directory, demo):
    robotgate.add_command(_command)
