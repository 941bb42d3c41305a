"""Shows what is kept: a line for each origin, or all there is to know of one host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click
from rich.text import Text

from robotgate import HostAccess, Outcome, RobotsTxt
from robotgate.cli._cache import due_at, site_for
from robotgate.cli._rows import with_our_options
from robotgate.cli._text import moment, printable, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from robotgate import HostState, RobotsRecord
    from robotgate.cli._cache import Listed

HEADS: Final = ("ORIGIN", "ACCESS", "CHECKED", "FRESH FOR", "VISITS", "NEXT")
_WIDTHS: Final = (10, 7, 9, 7, 11)
_MIN_NAME: Final = 20
_MAX_NAME: Final = 80
_GAP: Final = "  "
_STYLES: Final = {HostAccess.OPEN: "green", HostAccess.CONTROLLED: "yellow", HostAccess.EXCLUDED: "red"}
_NOTHING: Final = "-"
_MAX_SITEMAPS: Final = 5
_MAX_VALUE: Final = 1000
"""Characters; a site may name itself, and a file its agents, at any length."""
Fact = tuple[str, str]


class Table:
    """Lines in columns on a terminal, whose width they keep to; values between tabs, in full, anywhere else.

    Each line is shown at once: a list may be longer than memory.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        room = console.width - sum(_WIDTHS) - len(_GAP) * len(_WIDTHS)
        self._name_width = min(max(room, _MIN_NAME), _MAX_NAME)

    def head(self) -> None:
        """The names of the columns."""
        self._line(HEADS, ["bold"] * len(HEADS))

    def line(self, item: Listed, now: float) -> None:
        """One origin or host."""
        access = "" if item.access is None else _STYLES[item.access]
        self._line(_cells(item, now), ["", access, "", "", "", ""])

    def _line(self, cells: tuple[str, ...], styles: list[str]) -> None:
        if not self._console.is_terminal:
            click.echo("\t".join(cells))
            return
        line = Text()
        for cell, style, width in zip(cells, styles, (self._name_width, *_WIDTHS), strict=True):
            text = Text(cell, style)
            text.truncate(width, overflow="ellipsis", pad=True)
            line.append_text(text).append(_GAP)
        line.rstrip()
        self._console.print(line, no_wrap=True, overflow="ellipsis", highlight=False)


def _cells(item: Listed, now: float) -> tuple[str, ...]:
    record, state = item.record, item.state
    return (
        printable(item.name),
        _NOTHING if item.access is None else item.access.value,
        _NOTHING if record is None else f"{span(now - record.checked_at)} ago",
        _NOTHING if record is None else _left(record.fresh_until_at, now),
        _NOTHING if state is None else str(state.visits),
        _NOTHING if state is None else _next(state, now),
    )


def row(item: Listed) -> str:
    """One origin or host, as a row of JSON."""
    record, state = item.record, item.state
    return json.dumps(
        {
            "name": item.name,
            "access": None if item.access is None else item.access.value,
            "outcome": None if record is None else record.outcome.name.lower(),
            "status": None if record is None else record.status,
            "checked_at": None if record is None else record.checked_at,
            "fresh_until_at": None if record is None else record.fresh_until_at,
            "visits": None if state is None else state.visits,
            "last_visit_at": None if state is None else state.last_visit_at,
            "next_allowed_at": None if state is None else state.next_allowed_at,
            "blocked_until_at": None if state is None else state.blocked_until_at,
        }
    )


def show_record(console: Console, record: RobotsRecord, *, token: str, now: float) -> None:
    """All that is kept of an origin's robots.txt, and what it means for a product token."""
    access = site_for(record, token=token, now=now).access
    heading = Text.assemble((record.origin.text, "bold"), "  ", (access.value, _STYLES[access]))
    _show(console, heading, _record_facts(record, token, now))


def show_state(console: Console, pace_key: str, state: HostState, *, now: float) -> None:
    """All that is kept of a host's pace."""
    _show(
        console, Text.assemble(("pace of ", "dim"), (printable(pace_key), "bold")), _state_facts(state, now)
    )


def _show(console: Console, heading: Text, facts: Iterable[Fact]) -> None:
    console.print(heading, soft_wrap=True)
    for name, value in facts:
        shown = printable(value[:_MAX_VALUE])
        console.print(Text.assemble((f"  {name:<14}", "dim"), shown), soft_wrap=True)


def _record_facts(record: RobotsRecord, token: str, now: float) -> Iterator[Fact]:
    status = "no answer" if record.status is None else f"status {record.status}"
    yield "robots.txt", f"{record.robots_url or record.origin.robots_url}, {status}"
    yield from (("redirected by", url) for url in record.redirects)
    yield "checked", _ago(record.checked_at, now)
    yield "fresh for", _until(record.fresh_until_at, now, over="expired; asked again when it is needed next")
    if record.outcome is not Outcome.SUCCESS:
        yield "outcome", with_our_options(record.cause or record.outcome.value)
    if record.failing_since_at is not None:
        yield "failing", f"{record.failures} times in a row, since {_ago(record.failing_since_at, now)}"
    if record.fetched_at is not None:
        stale = "" if record.outcome is Outcome.SUCCESS else ", stale"
        yield "copy", f"{len(record.body):,} octets, {_ago(record.fetched_at, now)}{stale}"
        yield from _rules_facts(record, token)
    if record.etag is not None:
        yield "ETag", record.etag
    if record.last_modified is not None:
        yield "Last-Modified", record.last_modified


def _rules_facts(record: RobotsRecord, token: str) -> Iterator[Fact]:
    robots = RobotsTxt.parse(record.body, record.origin.robots_url)
    rules = robots.rules(token)
    ours = [group for group in robots.groups if group.names(token)] or [
        group for group in robots.groups if group.names("*")
    ]
    count = sum(len(group.rules) for group in ours)
    whose = f" in the group of {', '.join(rules.agents)}" if rules.agents else ""
    groups = f"{len(robots.groups):,} {'group' if len(robots.groups) == 1 else 'groups'}"
    yield "rules", f"{count:,} for {token}{whose}; {groups} in all"
    if rules.crawl_delay is not None:
        yield "Crawl-delay", f"{rules.crawl_delay:g} s"
    yield from (("sitemap", url) for url in robots.sitemaps[:_MAX_SITEMAPS])
    if len(robots.sitemaps) > _MAX_SITEMAPS:
        yield "sitemaps", f"{len(robots.sitemaps):,} in all"


def _state_facts(state: HostState, now: float) -> Iterator[Fact]:
    yield "visits", f"{state.visits:,}, {state.bytes_read:,} octets"
    if state.last_visit_at is not None:
        yield "last visit", _ago(state.last_visit_at, now)
    yield "next visit", _until(due_at(state), now, over="now")
    if state.failures:
        is_over = "" if state.blocked_until_at > now else ", over"
        yield "blocks", f"{state.failures} in a row, the last since {_ago(state.blocked_at, now)}{is_over}"
    if state.latency is not None:
        yield "latency", f"{state.latency:.3f} s"


def _left(until_at: float, now: float) -> str:
    return span(until_at - now) if until_at > now else "expired"


def _next(state: HostState, now: float) -> str:
    if due_at(state) <= now:
        return "now"
    word = "blocked" if state.blocked_until_at >= state.next_allowed_at else "in"
    return f"{word} {span(due_at(state) - now)}"


def _ago(at: float, now: float) -> str:
    return f"{moment(at)}, {span(now - at)} ago" if at <= now else moment(at)


def _until(at: float, now: float, *, over: str) -> str:
    return f"{span(at - now)}, until {moment(at)}" if at > now else over
