"""``robotgate lint``: what there is to say of a file on disk, or of a site's robots.txt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from robotgate import Outcome, RobotGateError, Severity, lint
from robotgate.cli._common import MAX_BYTES_READ
from robotgate.cli._rows import in_our_words, with_our_options
from robotgate.cli._text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO

    from robotgate import Finding, RobotGate, RobotsRecord


class Exit(IntEnum):
    """What ``lint`` says to the shell; the worst of its files counts."""

    NO_ERROR = 0
    ERRORS = 1
    NOT_READ = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What there is to say of one robots.txt."""

    source: str
    """The file or URL, as it was given."""
    findings: tuple[Finding, ...] = ()
    problem: str | None = None
    """Why it could not be read."""

    @property
    def exit(self) -> Exit:
        """What this one says to the shell."""
        if self.problem is not None:
            return Exit.NOT_READ
        has_errors = any(finding.severity is Severity.ERROR for finding in self.findings)
        return Exit.ERRORS if has_errors else Exit.NO_ERROR


def lint_file(source: str, file: IO[bytes]) -> Report:
    """Read an open file, and lint it."""
    try:
        return Report(source=source, findings=lint(file.read(MAX_BYTES_READ)))
    except OSError as error:
        return Report(source=source, problem=f"cannot be read: {error.strerror}")


async def lint_online(gate: RobotGate, urls: Iterable[str]) -> list[Report]:
    """Lint the robots.txt of URLs' sites, in the order given."""
    async with gate:
        return await asyncio.gather(*(_lint_site(gate, url) for url in urls))


async def _lint_site(gate: RobotGate, url: str) -> Report:
    try:
        record = await gate.robots(url)
    except RobotGateError as error:
        return Report(source=url, problem=in_our_words(error))
    if record.outcome is not Outcome.SUCCESS:
        return Report(source=url, problem=_problem(record))
    return Report(source=url, findings=lint(record.body, url))


def _problem(record: RobotsRecord) -> str:
    status = "" if record.status is None else f", status {record.status}"
    cause = "" if record.cause is None else f": {with_our_options(record.cause)}"
    # What is kept may have been brought here from anywhere.
    return printable(f"{record.robots_url or record.origin.robots_url} cannot be read{status}{cause}")
