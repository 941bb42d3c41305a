"""``robotgate why``: when, how often and by which rule a crawler came to a URL, as far as its store and its rows know.

It sends no request. The answer also says what the store does not keep.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from robotgate import InvalidURLError, Origin, RobotsTxt, StatusPolicy
from robotgate.cli import check, common, lists, output
from robotgate.cli.cache import Selection, nothing_stored, state_facts
from robotgate.cli.lists import check_url
from robotgate.cli.rows import Outcome, row_of
from robotgate.options import DEFAULTS, HostBlocks, HostOptions
from robotgate.sites.site import ruling_of
from robotgate.stores import HostState, OperatorBlock
from robotgate.stores.codec import MAX_AMOUNT
from robotgate.urls import HostPattern, split_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate.rules.parser import Record
    from robotgate.sites import RobotsRecord
    from robotgate.stores.base import OwnStore

MAX_SHOWN: Final = 20
"""Requests to the URL that are shown; of more, the last."""
NEWS_TIMEOUT: Final = 0.3
"""Seconds to wait for blocks: a store reports them as soon as a session is open."""
MAX_ROW_BYTES: Final = 1024 * 1024
"""Of a longer line, nothing is read."""
NOT_KNOWN: Final = (
    "A store has the totals of a host, not its single requests. The rows of robotgate fetch have them: see --rows.",
    "A store has the last robots.txt: what an earlier one allowed is not known.",
    "The crawler's own delay is not stored: it is --delay.",
)


@dataclass(frozen=True, slots=True)
class Request:
    """One row of ``robotgate fetch``, whether or not a request was sent for it.

    Values of other types than they should have count as missing.
    """

    at: float | None
    """When it was sent, or when the URL was refused; seconds since the epoch."""
    outcome: str
    status: int | None
    reason: str | None
    was_sent: bool
    """Whether it was sent, as far as the row tells: it may have redirected to a page that is blocked."""

    @classmethod
    def of(cls, row: dict[str, object]) -> Request:
        """Read a row."""
        end = row.get("final_url")
        times = (row.get("sent_at"), row.get("ended_at"))
        outcome, status, line = row.get("outcome"), row.get("status"), row.get("line")
        reason = row.get("reason") or row.get("message")
        if isinstance(line, int):
            reason = f"{reason}, line {line}: {row.get('rule')}"
        return cls(
            at=next((at for at in times if isinstance(at, int | float) and at >= 0), None),
            outcome=outcome if isinstance(outcome, str) and outcome in set(Outcome) else "unknown",
            status=status if isinstance(status, int) else None,
            reason=reason if isinstance(reason, str) else None,
            was_sent=outcome in (Outcome.FETCHED, Outcome.FAILED)
            or (isinstance(end, str) and lists.key_of(end) != lists.key_of(str(row.get("url")))),
        )

    def __str__(self) -> str:
        when = "at an unknown time" if self.at is None else output.moment(self.at)
        status = "" if self.status is None else f", status {self.status}"
        return f"{when}  {self.outcome}{status}{'' if self.reason is None else f': {self.reason}'}"


@dataclass(slots=True)
class Requests:
    """What the rows of runs have of one host, and of one URL."""

    outcomes: dict[str, int] = field(default_factory=dict)
    """Of all rows of the host."""
    sent: dict[str, int] = field(default_factory=dict)
    """Of the requests that were sent."""
    first_at: float | None = None
    last_at: float | None = None
    of_url: list[Request] = field(default_factory=list)
    """The last rows of the URL."""
    count_of_url: int = 0
    unread: int = 0
    """Lines that are no rows."""

    def read(self, path: Path, origin: Origin, target: str) -> None:
        """Read the rows of a file.

        Raises:
            OSError: it cannot be read.
        """
        with path.open("rb") as file:
            while line := file.readline(MAX_ROW_BYTES):
                row = row_of(line)
                try:
                    asked = split_url(str(row.get("url")))
                except InvalidURLError:
                    self.unread += bool(line.strip())
                    continue
                if asked[0].host == origin.host:
                    self._add(Request.of(row), is_of_url=asked == (origin, target))

    def _add(self, request: Request, *, is_of_url: bool) -> None:
        self.outcomes[request.outcome] = self.outcomes.get(request.outcome, 0) + 1
        if request.was_sent:
            self.sent[request.outcome] = self.sent.get(request.outcome, 0) + 1
            self.count_of_url += is_of_url
            if (at := request.at) is not None:
                self.first_at = min(at, self.first_at or at)
                self.last_at = max(at, self.last_at or at)
        if is_of_url:
            self.of_url = [*self.of_url[1 - MAX_SHOWN :], request]

    def lines(self) -> Iterator[str]:
        """Yield what a person is shown."""
        sent = Counter(self.sent)
        for words, counts in (("", sent), ("not requested: ", Counter(self.outcomes) - sent)):
            if counts or not words:
                told = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common())
                yield f"{words}{told or 'none'}"
        if self.first_at is not None and self.last_at is not None:
            yield f"from {output.moment(self.first_at)} to {output.moment(self.last_at)}"
        if self.unread:
            yield f"{output.counted(self.unread, 'line')} could not be read"
        yield f"{output.counted(self.count_of_url, 'request')} for this URL"
        yield from map(str, self.of_url)


@click.command(cls=common.Command, short_help="Tell when and by which rule a site was visited.")
@click.argument("url", metavar="URL")
@common.store_option
@common.name_options
@common.policy_option
@common.gate_setting("--delay", help="The crawler's own seconds between requests.")
@click.option(
    "--rows", metavar="FILE", type=common.INPUT_FILE, help="Rows of `robotgate fetch` to look into."
)
@common.json_option
async def why(
    *, url: str, status_policy: StatusPolicy, delay: float, rows: str | None, as_json: bool, **_: object
) -> int:
    """Tell when, how often and by which rule a crawler came to the host of a URL: what you can answer a site owner.

    It reads the crawler's store, and with --rows the rows of `robotgate fetch`; nothing is requested. --agent, --delay
    and --policy are those of the crawler.

    Exit status: 0, 1 when nothing is known of the host, or 2 when the URL is invalid or the store or the rows cannot be
    read.
    """
    try:
        check_url(url)
        origin, target = split_url(url)
    except InvalidURLError as error:
        raise click.BadParameter(f"{url}: {error.problem}", param_hint="URL") from error
    store, name, now = common.existing_store(), common.crawler_name(), time.time()
    requests = None
    if rows is not None:
        requests = Requests()
        with common.os_errors(f"read {rows}"):
            requests.read(Path("/dev/stdin" if rows == "-" else rows), origin, target)
    selection = Selection(origin.host, origin.port, origin.scheme)

    async with store:
        records, states = await selection.found(store)
        blocked_until_at = await _blocked_until(store, origin.host, now)
    if not (records or states or blocked_until_at or (requests is not None and requests.outcomes)):
        return nothing_stored(origin.host)
    record = records[0] if records else None
    checked, asked = check.Checked(url=f"{origin}{target}", problem="its robots.txt is not stored"), None
    if record is not None:
        options = DEFAULTS | HostOptions(delay=delay, status_policy=status_policy)
        ruling = ruling_of(record, token=name, options=options, now=now)
        verdict, stored_at = ruling.verdict(target, now=now), record.fetched_at
        checked = check.Checked(url=checked.url, verdict=verdict, body=record.body, stored_at=stored_at)
        if ruling.asked.delay > delay:
            delay = ruling.asked.delay
            asked = _asking(record, name, delay)
    if as_json:
        answer = {
            **check.row(checked),
            **output.attributes(record, "checked_at", "fresh_until_at"),
            "delay": delay,
            "delay_line": None if asked is None else asked.line,
            "blocked_by_operator_until_at": blocked_until_at,
            "hosts": {key: asdict(state) for key, state in states.items()},
            "requests": None if requests is None else asdict(requests),
            "not_known": NOT_KNOWN,
        }
        output.row(answer)
        return 0
    screen = output.Screen()
    check.show(screen, checked, name)
    screen.print()
    facts = _facts(record, delay, asked, blocked_until_at, now)
    screen.facts([("the rules", "bold")], [("crawler", f"{name}, the name in robots.txt"), *facts])
    _show_requests(screen, origin.host, states, requests, now)
    screen.print()
    screen.paragraph(("not known", "bold"))
    for text in NOT_KNOWN:
        screen.paragraph((f"  {text}", "dim"), indent=4)
    return 0


def _facts(
    record: RobotsRecord | None,
    delay: float,
    asked: Record | None,
    blocked_until_at: float | None,
    now: float,
) -> Iterator[tuple[str, str]]:
    asked_by = "the crawler's own"
    if record is not None:
        yield "checked", output.ago(record.checked_at, now)
        asked_by += "; robots.txt asks for no more"
    if asked is not None:
        asked_by = f"line {asked.line} of robots.txt, {asked.field}: {asked.value}"
    yield "delay", f"{delay:g} s between visits, {asked_by}"
    if blocked_until_at is not None:
        until = "it is lifted" if blocked_until_at >= MAX_AMOUNT else output.moment(blocked_until_at)
        yield "blocked", f"by the crawler's operator, until {until}"


def _show_requests(
    screen: output.Screen, host: str, states: dict[str, HostState], requests: Requests | None, now: float
) -> None:
    """Print what the store and the rows have of requests."""
    for key, state in states.items():
        screen.print()
        heading = [("requests to ", "dim"), (key, "bold"), (", robots.txt included", "dim")]
        screen.facts(heading, state_facts(state, now))
    if requests is not None:
        screen.print()
        screen.paragraph(("requests to ", "dim"), (host, "bold"), (" in the rows", "dim"))
        for text in requests.lines():
            screen.paragraph(f"  {text}", indent=4)


async def _blocked_until(store: OwnStore, host: str, now: float) -> float | None:
    """Until when the operator of the crawler blocks a host, if so: a new session of the store gets the blocks."""
    blocks, session = HostBlocks(), await store.session()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(NEWS_TIMEOUT):
                for news in await session.news():
                    if isinstance(news, OperatorBlock):
                        blocks[HostPattern.parse(news.pattern)] = news.until_at
    finally:
        await session.aclose()
    until_at = min(blocks.until_at(host), MAX_AMOUNT)
    return until_at if until_at > now else None


def _asking(record: RobotsRecord, token: str, delay: float) -> Record | None:
    """Return the line that asks a crawler for a delay."""
    robots = RobotsTxt.parse(record.body, record.origin.robots_url)
    agents = set(robots.rules(token).agents)
    for line in robots.records:
        # Above the first group, it is asked of everybody.
        if line.group is None or not agents.isdisjoint(robots.groups[line.group].agents):
            alone = RobotsTxt.parse(f"User-agent: *\n{line.field}: {line.value}".encode(errors="replace"))
            rate = alone.request_rate("*")
            if delay in {alone.crawl_delay("*"), None if rate is None else rate.seconds_per_document}:
                return line
    return None
