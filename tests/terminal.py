"""The command line on a terminal: what a program shows where its output is not a pipe."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress


async def shown_on_terminal(*arguments: str, columns: int, kind: str) -> bytes:
    """Run `python -m robotgate` to its end with both outputs on one terminal, and return what was written there.

    Args:
        kind: the terminal's TERM.
    """
    terminal, side = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "robotgate", *arguments),
        stdout=side,
        stderr=side,
        env=os.environ | {"COLUMNS": str(columns), "TERM": kind},
    )
    os.close(side)
    shown = b""
    with suppress(OSError):
        while chunk := await asyncio.to_thread(os.read, terminal, 65536):
            shown += chunk
    await process.wait()
    os.close(terminal)
    return shown
