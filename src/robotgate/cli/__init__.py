"""The command line: ``robotgate`` with ``fetch``, ``check``, ``lint``, ``cache``, ``why`` and others.

Needs the extra ``robotgate[cli]``; nothing else in the package imports from here.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from io import TextIOWrapper
from typing import Final

EXTRA: Final = ("click", "platformdirs", "rich")


def main() -> None:
    """Run the command line; without its extra, say what to install and exit with 2."""
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f'robotgate: the command line needs {" and ".join(missing)}: pip install "robotgate[cli]"\n'
        )
        raise SystemExit(2)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        _replace_if_closed(descriptor, name)
    if isinstance(sys.stdout, TextIOWrapper):
        # As standard error: a letter that its encoding lacks is no error.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Not at the top: without click this module could not say so.
    from robotgate.cli.app import robotgate

    robotgate(prog_name="robotgate")


def _replace_if_closed(descriptor: int, name: str) -> None:
    """Have no other file take the place of a standard stream that is closed.

    To read the input and to write the output is an error then. Errors are dropped: nobody reads them.
    """
    try:
        os.fstat(descriptor)
    except OSError:
        # It takes the lowest free number, which is this one.
        os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
