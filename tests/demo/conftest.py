"""What the tests of the demonstration share: the command in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of ``robotgate demo`` ended."""

    status: int | None
    out: str
    err: str


async def start_demo(*arguments: str) -> asyncio.subprocess.Process:
    """Start ``robotgate demo``."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "robotgate", "demo", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
    )


async def run_demo(*arguments: str) -> Ended:
    """Run ``robotgate demo`` to its end."""
    process = await start_demo(*arguments)
    out, err = await process.communicate()
    return Ended(process.returncode, out.decode(), err.decode())
