"""``robotgate check``: a verdict, and the line that decides, as it stands in its file."""

from __future__ import annotations

import asyncio
import time
from codecs import BOM_UTF8
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from robotgate import InvalidURLError, Reason, RobotGateError, RobotsTxt, Verdict
from robotgate._robotstxt import product_token
from robotgate.cli._rows import in_our_words
from robotgate.cli._text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robotgate import Group, RobotGate

LINES_AROUND: Final = 2


class Exit(IntEnum):
    """What ``check`` says to the shell; the worst of its URLs counts."""

    ALLOWED = 0
    DISALLOWED = 1
    NO_ANSWER = 2


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a robots.txt, to be shown."""

    number: int
    text: str
    """Without controls: a file must not be able to steer the terminal it is shown on."""
    is_deciding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What there is to say of one URL."""

    url: str
    exit: Exit
    verdict: Verdict | None = None
    lines: tuple[Line, ...] = ()
    """The deciding line, what stands around it, and the User-agent line above that makes it ours."""
    problem: str | None = None
    """Why there is no verdict."""
    kept_since: float | None = None
    """When the robots.txt was asked for, if that was before this run (wall clock)."""


def check_file(body: bytes, urls: Iterable[str], agent: str) -> list[Finding]:
    """Check URLs against a robots.txt at hand."""
    findings = []
    for url in urls:
        try:
            # A rule may be an absolute URL, which counts only against the site it names.
            robots = RobotsTxt.parse(body, None if url.startswith("/") else url)
            findings.append(_finding(robots.verdict(url, agent), body, agent))
        except InvalidURLError as error:
            findings.append(Finding(url=url, exit=Exit.NO_ANSWER, problem=str(error)))
    return findings


async def check_online(gate: RobotGate, urls: Iterable[str], agent: str) -> list[Finding]:
    """Check URLs against their sites' robots.txt, in the order given."""
    began_at = time.time()
    async with gate:
        return await asyncio.gather(*(_check(gate, url, agent, began_at) for url in urls))


async def _check(gate: RobotGate, url: str, agent: str, began_at: float) -> Finding:
    try:
        verdict = await gate.check(url)
        record = await gate.robots(url)
    except RobotGateError as error:
        return Finding(url=url, exit=Exit.NO_ANSWER, problem=in_our_words(error))
    finding = _finding(verdict, record.body, agent)
    if record.checked_at >= began_at:
        return finding
    return replace(finding, kept_since=record.fetched_at or record.checked_at)


def _finding(verdict: Verdict, body: bytes, agent: str) -> Finding:
    lines = context(body, verdict, agent)
    return Finding(url=verdict.url, exit=_exit(verdict), verdict=verdict, lines=lines)


def _exit(verdict: Verdict) -> Exit:
    if verdict.allowed:
        return Exit.ALLOWED
    return Exit.NO_ANSWER if verdict.reason is Reason.ROBOTS_TXT_UNREACHABLE else Exit.DISALLOWED


def context(body: bytes, verdict: Verdict, agent: str) -> tuple[Line, ...]:
    """The lines of a file that explain a verdict; none when no line decided."""
    if verdict.rule is None:
        return ()
    lines = body.removeprefix(BOM_UTF8).splitlines()
    deciding = verdict.rule.line
    numbers = set(range(deciding - LINES_AROUND, deciding + LINES_AROUND + 1))
    numbers |= _agent_line(body, lines, deciding, product_token(agent).lower())
    shown = [
        Line(number, _printable(lines[number - 1]), number == deciding)
        for number in sorted(numbers)
        if 1 <= number <= len(lines)
    ]
    return tuple(_without_blank_ends(shown))


def _without_blank_ends(lines: list[Line]) -> list[Line]:
    with_text = [index for index, line in enumerate(lines) if line.text]
    return lines[with_text[0] : with_text[-1] + 1]


def _agent_line(body: bytes, lines: list[bytes], deciding: int, token: str) -> set[int]:
    """The User-agent line by which the deciding rule's group is ours."""
    group = next((group for group in RobotsTxt.parse(body).groups if _holds(group, deciding)), None)
    if group is None:
        return set()
    name = token if group.names(token) else "*"
    heads = range(group.line, deciding)
    return {next((number for number in heads if _names(lines[number - 1], name)), group.line)}


def _holds(group: Group, line: int) -> bool:
    return any(rule.line == line for rule in group.rules)


def _names(line: bytes, token: str) -> bool:
    return any(group.names(token) for group in RobotsTxt.parse(line).groups)


def _printable(line: bytes) -> str:
    return printable(line.decode(errors="backslashreplace").expandtabs(4).strip())
