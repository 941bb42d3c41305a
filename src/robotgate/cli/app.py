"""The command group ``robotgate``."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from robotgate import __version__
from robotgate.cli.output import printable_errors

MODULES: Final = {
    "cache": "robotgate.cli.cache",
    "check": "robotgate.cli.check",
    "demo": "robotgate.demo.command",
    "directory": "robotgate.cli.signing",
    "fetch": "robotgate.cli.fetch",
    "keygen": "robotgate.cli.signing",
    "lint": "robotgate.cli.lint",
    "why": "robotgate.cli.why",
}
"""The modules of the commands. Each is imported when its command is named: together they take as long as a start."""


class Program(click.Group):
    """A group of commands; no error prints a control character, whatever its message has from outside."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read the options of the group itself."""
        with printable_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        with printable_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in MODULES:
            return None
        command: click.Command = getattr(import_module(MODULES[cmd_name]), cmd_name)
        return command


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="robotgate")
def robotgate() -> None:
    """Fetch from the web: obey every site's robots.txt, and visit every host at its own pace."""
