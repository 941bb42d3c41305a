"""From a robots.txt straight to what binds one product token; the rest of the file is passed over.

The User-agent lines are found first, then what stands between those that matter. Of the rules nothing is read yet:
where they stand is kept, and `Rules` reads them there when asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate._lines import AGENT_LINE, FIELDS, PACE_LINE, RULE_LINE, canonical, text_of
from robotgate._pace import EVERYBODY, Pace, PaceReader, names
from robotgate._rules import Rules, WrittenRules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate._urls import Origin

_AgentLine = tuple[int, int, str]
"""Where a User-agent line begins in the text, where its value ends, and the value."""


def compile_rules(file: bytes | str, token: str, origin: Origin | str | None = None) -> Rules:
    """What of a file binds a token (RFC 9309 §2.2.1): all groups that name it, else those for ``*``.

    Args:
        file: as it was served, or its canonical form. The rules keep it.
        token: in lower case.
        origin: whose file it is, or any URL of it; None if nobody knows.
    """
    text = canonical(file) if isinstance(file, bytes) else file
    lines = [(match.start(), match.end(), match[1]) for match in AGENT_LINE.finditer(text)]
    naming = _naming(lines, token)
    if not naming:
        token = EVERYBODY
        naming = _naming(lines, token)
    if not naming:
        return Rules(())
    parts: list[tuple[int, int, int]] = []
    agents: list[str] = []
    paces: list[Pace] = []
    warnings: list[str] = []
    counted = line = 0
    for first, last in _runs(text, lines, naming):
        begin, end = lines[last][1], _next_begin(text, lines, last)
        line += text.count("\n", counted, begin)
        counted = begin
        parts.append((begin, end, line))
        agents += [text_of(value) for _, _, value in lines[first : last + 1]]
        if PACE_LINE.search(text, lines[first][1], end):
            run = [_Asked(text, lines, index) for index in range(first, last + 1)]
            paces += _paces(run, token)
            warnings += _warnings(run, token)
    rules = WrittenRules(file, parts)
    bound = agents if len(agents) == 1 else dict.fromkeys(agents)
    if not paces and not warnings:
        return Rules(rules, agents=filter(None, bound), origin=origin)
    return Rules(
        rules,
        agents=filter(None, bound),
        crawl_delay=max((pace.crawl_delay for pace in paces if pace.crawl_delay is not None), default=None),
        request_rates=dict.fromkeys(rate for pace in paces for rate in pace.request_rates),
        visit_times=dict.fromkeys(time for pace in paces for time in pace.visit_times),
        origin=origin,
        warnings=warnings,
    )


def _naming(lines: list[_AgentLine], token: str) -> list[int]:
    """The indices of the User-agent lines that name a token."""
    if "%" in token:
        # An octet that is not UTF-8 appears as an escape.
        return [index for index, (_, _, value) in enumerate(lines) if names(text_of(value), token)]
    length = len(token)
    return [
        index
        for index, (_, _, value) in enumerate(lines)
        if value[:length].lower() == token and names(text_of(value), token)
    ]


def _runs(text: str, lines: list[_AgentLine], naming: list[int]) -> Iterator[tuple[int, int]]:
    """The first and the last line of each run of User-agent lines that one of these indices is in."""
    last = -1
    for index in naming:
        if index <= last:
            continue
        first, floor = index, last
        while first > floor + 1 and not _is_closed(text, lines, first - 1):
            first -= 1
        last = index
        while last + 1 < len(lines) and not _is_closed(text, lines, last):
            last += 1
        yield first, last


def _is_closed(text: str, lines: list[_AgentLine], index: int) -> bool:
    """Whether a rule stands between a User-agent line and the next."""
    begin, end = lines[index][1], lines[index + 1][0]
    return begin < end and RULE_LINE.search(text, begin, end + 1) is not None


def _next_begin(text: str, lines: list[_AgentLine], index: int) -> int:
    """Where what stands below a User-agent line ends; the line feed before the next one is part of it."""
    return lines[index + 1][0] + 1 if index + 1 < len(lines) else len(text)


class _Asked:
    """A User-agent line, and what is asked between it and the next."""

    __slots__ = ("agent", "line", "records")

    def __init__(self, text: str, lines: list[_AgentLine], index: int) -> None:
        _, begin, value = lines[index]
        found = list(PACE_LINE.finditer(text, begin, _next_begin(text, lines, index)))
        self.agent = text_of(value)
        self.records = [(match[0].partition(":")[0].strip(" \t\n"), text_of(match[1])) for match in found]
        self.line = text.count("\n", 0, found[0].start() + 1) if found else 0


def _paces(run: list[_Asked], token: str) -> Iterator[Pace]:
    """What is asked of a token about its speed: of the User-agent lines directly above only."""
    reader = PaceReader()
    for asked in run:
        if reader.asked:
            reader = PaceReader()
        reader.agents.append(asked.agent)
        for name, value in asked.records:
            reader.add(FIELDS[name.lower()], value)
        if reader.asked and any(names(agent, token) for agent in reader.agents):
            yield reader.finish()


def _warnings(run: list[_Asked], token: str) -> Iterator[str]:
    """What in a run of User-agent lines others read otherwise."""
    naming = [index for index, asked in enumerate(run) if names(asked.agent, token)]
    for index, asked in enumerate(run[:-1]):
        if not asked.records:
            continue
        name = asked.records[0][0]
        if naming[-1] <= index:
            yield (
                f"line {asked.line}, {name}, stands between our User-agent line and others: the rules below them"
                " bind us all the same (RFC 9309 §2.2.4), though some crawlers read it as the end of our group"
            )
            return
        if naming[0] > index:
            yield (
                f"line {asked.line}, {name}, is asked of the User-agent lines above it only, not of us,"
                " though we are named in the same group (RFC 9309 §2.2.4)"
            )
