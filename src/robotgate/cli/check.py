"""``robotgate check``: whether URLs may be fetched, and the line of robots.txt that decides."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from robotgate import InvalidURLError, Reason, RobotGate, RobotGateError, RobotsTxt, Verdict
from robotgate.cli import common, output
from robotgate.cli.lists import STANDARD_INPUT, check_url, read_urls, read_whole, shown
from robotgate.preferences import Preference, Preferences, Purpose, Standard, Statement
from robotgate.preferences.robots import StatementRule
from robotgate.preferences.values import structured_fields
from robotgate.rules.grammar import readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINES_AROUND: Final = 2
"""Lines shown above and below the line that decides."""
MAX_SHOWN: Final = 20
"""Licences, policies and problems that are shown to a person, of each."""
_ANSWERS: Final = (("allowed", "green"), ("disallowed", "red"), ("no answer", "magenta"))
"""By exit status: the word, and its colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result for one URL."""

    url: str
    verdict: Verdict | None = None
    problem: str | None = None
    """Why there is no verdict."""
    body: bytes = b""
    """The robots.txt."""
    stored_at: float | None = None
    """When the robots.txt was fetched, if that was before this run."""
    slowed_by: tuple[str, ...] = ()
    """As `HostView.slowed_by`."""

    @property
    def exit(self) -> int:
        """The exit status for this URL alone."""
        if self.verdict is None or self.verdict.reason is Reason.ROBOTS_TXT_UNREACHABLE:
            return 2
        return 0 if self.verdict.allowed else 1


@click.command(cls=common.Command, short_help="Tell whether URLs may be fetched, and why.")
@common.url_options
@common.json_option
@click.option(
    "--robots", metavar="FILE", type=common.INPUT_FILE, help="Check against this file, offline; - is stdin."
)
@common.flag(
    "--preferences", "has_preferences", help="Also show what robots.txt says about the use of pages."
)
@common.purpose_option
@common.gate_options("Not needed with --robots.")
@common.store_options
async def check(
    *,
    urls: tuple[str, ...],
    source: str | None,
    as_json: bool,
    robots: str | None,
    has_preferences: bool,
    purposes: tuple[str, ...],
    **_: object,
) -> int:
    """Tell whether URLs may be fetched, and show the line of robots.txt that decides.

    A robots.txt is fetched once and stored until it expires: see `robotgate cache`. With --robots, a URL may also be a
    path that begins with /. In a file of -i, blank lines and lines that begin with # are skipped. With --purpose, a URL
    is disallowed too if robots.txt disallows what you do with it.

    Exit status: 0 when all are allowed, 1 when any is disallowed, 2 when there is no answer for any (an invalid URL,
    a robots.txt that cannot be read) or for wrong usage.
    """
    check_given(urls, source, has_preferences=has_preferences or bool(purposes))
    if source == robots == STANDARD_INPUT:
        raise click.UsageError("-i and --robots cannot both read standard input.")
    name = common.crawler_name()
    listed = [url async for url in read_urls(urls, source)]
    if robots is not None:
        with common.os_errors(f"read {robots}"):
            body = await read_whole(robots, max_bytes=common.MAX_ROBOTS_BYTES)
        results = [_check_offline(body, url, name, purposes) for url in listed]
    else:
        async with common.opened_gate(common.store_of_options()) as gate:
            results = await _check_online(gate, listed)
    screen = output.Screen()
    for number, result in enumerate(results):
        if as_json:
            output.row(row(result, has_preferences=has_preferences, purposes=purposes))
            continue
        if number:
            screen.print()
        show(screen, result, name, has_preferences=has_preferences, purposes=purposes)
    return max((result.exit for result in results), default=0)


def check_given(urls: tuple[str, ...], source: str | None, *, has_preferences: bool) -> None:
    """Refuse a command that was given no URLs, or that needs an extra for preferences."""
    if has_preferences:
        structured_fields()
    if not urls and source is None:
        raise click.UsageError("Give URLs, or a file of them with -i.")


def verdict_columns(verdict: Verdict | None) -> dict[str, object]:
    """Return the columns of a row that say why a verdict is what it is."""
    rule = None if verdict is None else verdict.rule
    return {
        **output.attributes(verdict, "reason"),
        "rule": None if rule is None else str(rule),
        **output.attributes(rule, "line"),
        **output.attributes(verdict, "robots_url"),
    }


def row(result: Checked, *, has_preferences: bool = False, purposes: Iterable[str] = ()) -> dict[str, object]:
    """Return the result for one URL as a row of JSON."""
    verdict = result.verdict
    cause = result.problem if verdict is None else verdict.cause
    return {
        "url": result.url,
        "answer": _ANSWERS[result.exit][0],
        "cause": None if cause is None else output.in_plain_words(cause),
        **verdict_columns(verdict),
        "group": None if verdict is None or verdict.rule is None else ", ".join(verdict.group),
        **output.attributes(verdict, "status", "fetched_at", "stale", "crawl_delay", "retry_after"),
        **({"reserved": [purpose for purpose, _ in _reserved(verdict, purposes)]} if purposes else {}),
        **({} if verdict is None or not has_preferences else preference_columns(verdict.preferences)),
    }


def _reserved(verdict: Verdict | None, purposes: Iterable[str]) -> Iterator[tuple[str, Statement]]:
    """The purposes that robots.txt disallows, each with the first statement that does."""
    if verdict is not None:
        known = verdict.preferences
        for purpose in purposes:
            if known.preference(purpose) is Preference.DISALLOWED:
                yield purpose, known.deciding(purpose)[0]


def _check_offline(body: bytes, url: str, token: str, purposes: Iterable[str]) -> Checked:
    try:
        check_url(url)
        # A rule may be an absolute URL, which counts only for the site it names.
        robots = RobotsTxt.parse(body, None if url.startswith("/") else url)
        verdict = robots.verdict(url, token)
        for _, statement in _reserved(verdict, purposes):
            # As a gate says it.
            rule, reason = StatementRule.of(statement), Reason.DISALLOWED_BY_PREFERENCE
            if verdict.allowed:
                verdict = replace(verdict, allowed=False, reason=reason, rule=rule, opposing=verdict.rule)
        return Checked(url=url, verdict=verdict, body=body)
    except InvalidURLError as error:
        return Checked(url=shown(url), problem=error.problem)


async def _check_online(gate: RobotGate, urls: Iterable[str]) -> list[Checked]:
    began_at = time.time()

    async def checked(url: str) -> Checked:
        try:
            check_url(url)
            verdict = await gate.check(url)
            record = await gate.robots(url)
        except RobotGateError as error:
            return Checked(url=shown(url), problem=output.problem_of(error))
        stored_at = (record.fetched_at or record.checked_at) if record.checked_at < began_at else None
        slowed_by = tuple((await gate.known_host(url)).slowed_by)
        return Checked(
            url=verdict.url, verdict=verdict, body=record.body, stored_at=stored_at, slowed_by=slowed_by
        )

    return await asyncio.gather(*map(checked, urls))


def show(
    screen: output.Screen,
    result: Checked,
    token: str,
    *,
    has_preferences: bool = False,
    purposes: Iterable[str] = (),
) -> None:
    """Print the result for one URL, with the lines of robots.txt around the one that decides."""
    word, colour = _ANSWERS[result.exit]
    screen.paragraph((word, f"bold {colour}"), f"  {result.url}", indent=4)
    verdict = result.verdict
    if verdict is None:
        screen.paragraph(f"  {result.problem}", indent=4)
        return
    screen.paragraph(f"  {_reason(verdict)}", indent=4)
    for remark in (*_remarks(verdict, result.stored_at), *result.slowed_by):
        screen.paragraph((f"  {remark}", "dim"), indent=4)
    for parts in _excerpt(result.body, verdict, token):
        screen.excerpt(*parts)
    known = verdict.preferences if has_preferences or purposes else Preferences()
    for line in _preference_lines(known) if has_preferences else _purpose_lines(known, purposes):
        screen.paragraph(f"  {line}", indent=4)


def _reason(verdict: Verdict) -> str:
    if verdict.rule is not None:
        return f"{verdict.reason.value}, line {verdict.rule.line}, in the group of {', '.join(verdict.group)}"
    cause = f": {output.in_plain_words(verdict.cause)}" if verdict.cause else ""
    return verdict.reason.value + cause


def _remarks(verdict: Verdict, stored_at: float | None) -> Iterator[str]:
    if verdict.robots_url is not None:
        remark = verdict.robots_url
        if verdict.status is not None:
            remark += f", status {verdict.status}"
        if stored_at is not None:
            remark += f", kept since {output.moment(stored_at)}"
        elif verdict.fetched_at is not None:
            remark += f", read {output.moment(verdict.fetched_at)}"
        yield f"{remark}, stale" if verdict.stale else remark
    yield from (f"redirected from {url}" for url in verdict.redirects)
    if verdict.opposing is not None:
        yield f"against line {verdict.opposing.line}: {verdict.opposing}"
    yield from (f"note: {warning}" for warning in verdict.warnings)
    if verdict.crawl_delay is not None:
        yield f"Crawl-delay: {verdict.crawl_delay:g} s"
    if verdict.retry_after is not None:
        yield f"next attempt in {verdict.retry_after:.0f} s at the earliest"


def _excerpt(body: bytes, verdict: Verdict, token: str) -> Iterator[tuple[output.Part, ...]]:
    """The line that decides with the lines around it, and the User-agent line above that makes it apply to us."""
    if verdict.rule is None:
        return
    lines, deciding = readable(body).splitlines(), verdict.rule.line
    around = range(max(deciding - LINES_AROUND, 1), min(deciding + LINES_AROUND, len(lines)) + 1)
    numbers = sorted({_agent_line(body, lines, deciding, token.lower()), *around})
    texts = [lines[number - 1].decode(errors="backslashreplace").expandtabs(4).strip() for number in numbers]
    # Not the blank lines at either end.
    while not texts[-1]:
        texts.pop()
    while not texts[0]:
        del texts[0], numbers[0]
    yield ()
    before = numbers[0]
    for number, text in zip(numbers, texts, strict=False):
        if number > before + 1:
            yield (("        ...", "dim"),)
        mark, style = (">", "bold reverse") if number == deciding else (" ", "")
        yield (f"  {mark} ", (f"{number:>5}", "dim"), "  ", (text, style))
        before = number


def _agent_line(body: bytes, lines: list[bytes], deciding: int, token: str) -> int:
    """The number of the User-agent line by which the group of the deciding rule is ours."""
    above = [group for group in RobotsTxt.parse(body).groups if group.line < deciding]
    if not above:
        return deciding
    group = above[-1]
    name = token if group.names(token) else "*"
    for number in range(group.line, deciding):
        if any(each.names(name) for each in RobotsTxt.parse(lines[number - 1]).groups):
            return number
    return group.line


def _purpose_lines(preferences: Preferences, purposes: Iterable[str]) -> Iterator[str]:
    """What is known for each purpose."""
    for purpose in purposes:
        if deciding := preferences.deciding(purpose):
            more = f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else ""
            yield f"{purpose}: {preferences.preference(purpose).value} by {deciding[0]}{more}"


def _preference_lines(preferences: Preferences) -> Iterator[str]:
    """What is known for each purpose, the statements it comes from, licences, policies and problems."""
    yield from _purpose_lines(preferences, Purpose)
    yield f"unknown: {', '.join(purpose for purpose in Purpose if not preferences.deciding(purpose))}"
    priced = {each.reference for each in preferences.statements if each.standard is Standard.RSL}
    for url in preferences.licenses[:MAX_SHOWN]:
        yield f"licence: {url}{' (RSL: it may ask for a payment)' if url in priced else ''}"
    yield from (f"policy: {url}" for url in preferences.policies[:MAX_SHOWN])
    yield from (f"cannot be read: {statement}" for statement in preferences.problems[:MAX_SHOWN])


def preference_columns(preferences: Preferences) -> dict[str, object]:
    """A column for each purpose, null where nothing is known, the licences in one, and the statements."""
    known = {each: preferences.preference(each) if preferences.deciding(each) else None for each in Purpose}
    return {
        **{f"preference_{purpose}": preference for purpose, preference in known.items()},
        "licenses": " ".join(preferences.licenses) or None,
        "preference_statements": list(map(_as_row, preferences.statements)),
    }


def _as_row(statement: Statement) -> dict[str, object]:
    """A statement without what it does not have."""
    values = asdict(statement) | {"says": dict(statement.says)}
    return {name: value for name, value in values.items() if value not in (None, {})}
