"""The command line: ``robotgate`` with ``fetch``, ``check``, ``lint``, ``cache``, ``why`` and others.

Needs the extra ``robotgate[cli]``; nothing else in the package imports from here.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

EXTRA: Final = ("click", "platformdirs", "rich")


def main() -> None:
    """Run the command line; without its extra, say what to install and exit with 2."""
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"robotgate: the command line needs {' and '.join(missing)}: pip install 'robotgate[cli]'\n"
        )
        raise SystemExit(2)
    try:
        os.fstat(1)
    except OSError:
        # Standard output is closed. Whatever is written to this stream instead is an error.
        sys.stdout = Path(os.devnull).open("r")  # noqa: SIM115 - open until the program ends
    # Not at the top: without click this module could not say so.
    from robotgate.cli.app import robotgate

    robotgate(prog_name="robotgate")
