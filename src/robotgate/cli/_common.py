"""What the commands share: options, consoles, and how wrong usage is told."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.text import Text

from robotgate import OptionError, __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

PIPE_WIDTH: Final = 100
"""Columns where there is no terminal to ask."""
MAX_BYTES_READ: Final = 1024 * 1024
"""Of a robots.txt on disk; more than counts."""
INTERRUPTED: Final = 130
"""The exit status of a program that Ctrl-C ended."""

agent_option = click.option(
    "--agent", default=f"robotgate/{__version__}", show_default=True, help="The User-Agent to crawl as."
)
token_option = click.option(
    "--token", help="The name in robots.txt, when it is not the first word of --agent."
)
private_option = click.option(
    "--allow-private-addresses", is_flag=True, help="Let localhost and private networks be fetched from."
)
CONTACT_HELP: Final = "How site owners reach you: an e-mail address or a URL."


def console(*, stderr: bool = False) -> Console:
    """A console of the terminal's width; of `PIPE_WIDTH`, and without colours, where there is none."""
    terminal = Console(stderr=stderr)
    return terminal if terminal.is_terminal else Console(stderr=stderr, width=PIPE_WIDTH)


def say(message: str) -> None:
    """One plain line on standard error."""
    console(stderr=True).print(Text(message), soft_wrap=True)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn the library's complaints about options into the command line's; its warnings into lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except OptionError as error:
            raise click.UsageError(str(error)) from error
    for warning in caught:
        say(f"robotgate: {warning.message}")
