"""Other processes of the demonstration: this Python, a module of this package, and lines of JSON either way."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DIED: Final = 1
"""The exit status of a process whose parent is gone."""


class DemoError(Exception):
    """A process of the demonstration did not start, or died."""


@asynccontextmanager
async def started(module: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that runs a module, ended at the end of the block if it has not ended by itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # Ctrl-C at a terminal reaches the parent alone, which decides when the others end: while they start, too.
        process_group=0,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: asyncio.subprocess.Process) -> bytes:
    """The next line of its standard output; nothing when there will be none."""
    return b"" if process.stdout is None else await process.stdout.readline()


def tell(document: object) -> None:
    """Write a line of JSON to standard output, at once."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """Have this process end when its standard input does: whoever held the other end is gone."""
    threading.Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    # Not through `sys.stdin`, whose lock a thread must not hold when the interpreter ends.
    while os.read(0, 1024):
        pass
    os._exit(DIED)
