"""The command group ``robotgate``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

import click

from robotgate import __version__
from robotgate.cli.output import printable_errors

COMMANDS: Final = (
    "cache",
    "check",
    "demo",
    "directory",
    "fetch",
    "judge",
    "keygen",
    "lint",
    "sitemap",
    "why",
)
_MODULES: Final = {"directory": "signing", "keygen": "signing"}
"""Those of commands that have no module of their name."""


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
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, only when it is named: all together take as long as a start."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"robotgate.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command


def _configure(ctx: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    if path is not None:
        # It imports all commands.
        from robotgate.cli.config import configure  # noqa: PLC0415

        configure(ctx, path)
    return path


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="robotgate")
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="ROBOTGATE_CONFIG",
    show_envvar=True,
    callback=_configure,
    help="Read options from a TOML file. Those of the command line and the environment go before.",
)
@click.option("--show-config", is_flag=True, help="Print the options of the command; do not run it.")
def robotgate(**_: object) -> None:
    """Fetch from the web: obey every site's robots.txt, and visit every host at its own pace."""
