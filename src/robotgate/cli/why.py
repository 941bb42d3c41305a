"""``robotgate why``: when, how often and by which rule a crawler came to a URL, as far as its store and its rows know.

Nothing is requested. What a store does not keep is told with the answer, so that nobody takes silence for a fact.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from robotgate import InvalidURLError, OperatorBlock, RobotsTxt, StatusPolicy
from robotgate.cli import check, common, output
from robotgate.cli.cache import Selection, nothing_stored, state_facts
from robotgate.cli.files import check_length
from robotgate.cli.progress import Outcome
from robotgate.options import HostBlocks, HostOptions
from robotgate.rules.grammar import read_delay, read_rate
from robotgate.rules.robotstxt import product_token
from robotgate.sites.site import ruling_of
from robotgate.stores.codec import MAX_AMOUNT
from robotgate.urls import split_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate import HostState, Origin, RobotsRecord
    from robotgate.stores import OwnStore

MAX_SHOWN: Final = 20
"""Requests to the URL that are shown; of more, the last."""
OUTCOMES: Final = frozenset(outcome.value for outcome in Outcome)
NEWS_TIMEOUT: Final = 0.3
"""Seconds. What a session is told of blocks is there once it is open."""
MAX_ROW_BYTES: Final = 1024 * 1024
"""Of a longer line, nothing is read."""
NOT_KNOWN: Final = (
    "A store has the totals of a host, not its single requests. The rows of robotgate fetch have them: see --rows.",
    "A store has the last robots.txt: what an earlier one allowed is not known.",
    "The crawler's own delay is not stored: it is --delay.",
)


@dataclass(frozen=True, slots=True)
class Request:
    """One row of ``robotgate fetch``. Values of other types than they should have count as missing."""

    at: float | None
    """When it was sent, or when the URL was refused; seconds since the epoch."""
    outcome: str
    status: int | None
    reason: str | None

    @classmethod
    def of(cls, row: dict[str, object]) -> Request:
        """Read a row."""
        times = (row.get("sent_at"), row.get("ended_at"))
        outcome, status, line = row.get("outcome"), row.get("status"), row.get("line")
        reason = row.get("reason") or row.get("message")
        if isinstance(line, int):
            reason = f"{reason}, line {line}: {row.get('rule')}"
        return cls(
            at=next((at for at in times if isinstance(at, int | float) and at >= 0), None),
            outcome=outcome if isinstance(outcome, str) and outcome in OUTCOMES else "unknown",
            status=status if isinstance(status, int) else None,
            reason=reason if isinstance(reason, str) else None,
        )

    def __str__(self) -> str:
        when = "at an unknown time" if self.at is None else output.moment(self.at)
        status = "" if self.status is None else f", status {self.status}"
        return f"{when}  {self.outcome}{status}{'' if self.reason is None else f': {self.reason}'}"


@dataclass(slots=True)
class Requests:
    """What the rows of runs tell of one host, and of one URL."""

    outcomes: dict[str, int] = field(default_factory=dict)
    """Of all requests to the host."""
    first_at: float | None = None
    last_at: float | None = None
    of_url: list[Request] = field(default_factory=list)
    """The last requests to the URL."""
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
                try:
                    row = json.loads(line)
                    url = row.get("url") if isinstance(row, dict) else None
                    place, asked = split_url(url if isinstance(url, str) else "")
                except (ValueError, RecursionError, InvalidURLError):
                    self.unread += bool(line.strip())
                    continue
                if place.host == origin.host:
                    self._add(Request.of(row), is_of_url=(place, asked) == (origin, target))

    def _add(self, request: Request, *, is_of_url: bool) -> None:
        self.outcomes[request.outcome] = self.outcomes.get(request.outcome, 0) + 1
        if (at := request.at) is not None:
            self.first_at = min(at, self.first_at or at)
            self.last_at = max(at, self.last_at or at)
        if is_of_url:
            self.of_url = [*self.of_url[1 - MAX_SHOWN :], request]
            self.count_of_url += 1

    def told(self) -> Iterator[str]:
        """Yield what they tell, in lines."""
        yield (
            ", ".join(f"{count:,} {outcome}" for outcome, count in Counter(self.outcomes).most_common())
            or "none"
        )
        if self.first_at is not None and self.last_at is not None:
            yield f"from {output.moment(self.first_at)} to {output.moment(self.last_at)}"
        if self.unread:
            yield f"{output.counted(self.unread, 'line')} could not be read"
        yield f"{output.counted(self.count_of_url, 'request')} for this URL"
        yield from map(str, self.of_url)


@dataclass(slots=True, kw_only=True)
class Answer:
    """All that is known of one URL and its host."""

    name: str
    """The crawler's, in robots.txt."""
    now: float
    checked: check.Checked
    delay: float
    """Seconds between visits that hold: the site's, or the crawler's own."""
    states: dict[str, HostState]
    """By pace key."""
    requests: Requests | None
    """None where no rows were given."""
    blocked_until_at: float | None = None
    """Until when the crawler's operator blocks the host (`RobotGate.block`), if so."""
    record: RobotsRecord | None = None
    line: int | None = None
    """The number of the line of robots.txt that asks for `delay`."""
    asked_by: str = "the crawler's own"
    """Who asks for `delay`."""

    def judge(self, record: RobotsRecord, options: HostOptions, target: str) -> None:
        """Answer by a record."""
        ruling = ruling_of(record, token=self.name, options=options, now=self.now)
        verdict, url = ruling.verdict(target, now=self.now), self.checked.url
        self.record = record
        self.checked = check.Checked(url=url, verdict=verdict, body=record.body, stored_at=record.fetched_at)
        self.asked_by += "; robots.txt asks for no more"
        if ruling.asked.delay > self.delay:
            self.delay = ruling.asked.delay
            self.line, self.asked_by = _asking(record, self.name, self.delay)

    def row(self) -> dict[str, object]:
        """Return the answer for JSON."""
        return {
            **check.row(self.checked),
            "checked_at": None if self.record is None else self.record.checked_at,
            "fresh_until_at": None if self.record is None else self.record.fresh_until_at,
            "delay": self.delay,
            "delay_line": self.line,
            "blocked_by_operator_until_at": None
            if self.blocked_until_at is None
            else min(self.blocked_until_at, MAX_AMOUNT),
            "hosts": {key: asdict(state) for key, state in self.states.items()},
            "requests": None if self.requests is None else asdict(self.requests),
            "not_known": NOT_KNOWN,
        }

    def show(self, screen: output.Screen, host: str) -> None:
        """Print the answer."""
        check.show(screen, self.checked, self.name)
        screen.print()
        screen.facts([("the rules", "bold")], self._facts())
        for key, state in self.states.items():
            screen.print()
            heading = [("requests to ", "dim"), (key, "bold"), (", robots.txt included", "dim")]
            screen.facts(heading, state_facts(state, self.now))
        if self.requests is not None:
            screen.print()
            screen.paragraph(("requests to ", "dim"), (host, "bold"), (" in the rows", "dim"))
            for text in self.requests.told():
                screen.paragraph(f"  {text}", indent=4)
        screen.print()
        screen.paragraph(("not known", "bold"))
        for text in NOT_KNOWN:
            screen.paragraph((f"  {text}", "dim"), indent=4)

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "crawler", f"{self.name}, the name in robots.txt"
        if self.record is not None:
            yield "checked", output.ago(self.record.checked_at, self.now)
        yield "delay", f"{self.delay:g} s between visits, {self.asked_by}"
        if self.blocked_until_at is not None:
            is_endless = self.blocked_until_at >= MAX_AMOUNT
            until = "it is lifted" if is_endless else output.moment(self.blocked_until_at)
            yield "blocked", f"by the crawler's operator, until {until}"


@click.command(cls=common.Command, short_help="Tell when and by which rule a site was visited.")
@click.argument("url", metavar="URL")
@common.store_option
@common.name_options
@common.policy_option
@common.shown("--delay", default=1.0, help="The crawler's own seconds between requests.")
@common.option(
    "--rows", metavar="FILE", type=common.INPUT_FILE, help="Rows of `robotgate fetch` to look into."
)
@common.json_option
def why(
    *,
    url: str,
    store_path: str | None,
    agent: str,
    token: str | None,
    status_policy: StatusPolicy,
    delay: float,
    rows: str | None,
    as_json: bool,
) -> None:
    """Tell when, how often and by which rule a crawler came to the host of a URL: what you can answer a site owner.

    It reads the crawler's store, and with --rows the rows of `robotgate fetch`; nothing is requested. --agent, --delay
    and --policy are those of the crawler.

    Exit status: 0, 1 when nothing is known of the host, or 2 when the URL is invalid or the store or the rows cannot be
    read.
    """
    try:
        check_length(url)
        origin, target = split_url(url)
    except InvalidURLError as error:
        raise click.BadParameter(f"{url}: {error.problem}", param_hint="URL") from error
    store, name, now = common.existing_store(store_path), product_token(token or agent), time.time()
    requests = None
    if rows is not None:
        requests = Requests()
        with common.doing(f"read {rows}"):
            requests.read(Path("/dev/stdin" if rows == "-" else rows), origin, target)
    selection = Selection(origin.host, origin.port, origin.scheme)

    async def find() -> tuple[list[RobotsRecord], dict[str, HostState], float]:
        return *await selection.found(store), await _blocked_until(store, origin.host)

    records, states, blocked_until_at = common.run_with(store, find)
    is_blocked = blocked_until_at > now
    if not records and not states and not is_blocked and not (requests is not None and requests.outcomes):
        nothing_stored(origin.host)
    checked = check.Checked(url=f"{origin}{target}", problem="its robots.txt is not stored")
    answer = Answer(name=name, now=now, checked=checked, delay=delay, states=states, requests=requests)
    answer.blocked_until_at = blocked_until_at if is_blocked else None
    if records:
        answer.judge(records[0], HostOptions(delay=delay, status_policy=status_policy), target)
    if as_json:
        output.line(json.dumps(answer.row()))
    else:
        answer.show(output.Screen(), origin.host)


async def _blocked_until(store: OwnStore, host: str) -> float:
    """Until when the operator of the crawler blocks a host: what a new session of the store is told; 0 for not."""
    blocks, session = HostBlocks(), await store.session()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(NEWS_TIMEOUT):
                for news in await session.news():
                    if isinstance(news, OperatorBlock):
                        blocks.set(news.pattern, news.until_at)
    finally:
        await session.aclose()
    return blocks.until_at(host)


def _asking(record: RobotsRecord, token: str, delay: float) -> tuple[int | None, str]:
    """Return the line that asks a crawler for a delay: its number, and the line as it is told."""
    robots = RobotsTxt.parse(record.body, record.origin.robots_url)
    bind = set(robots.rules(token).agents)
    for line in robots.records:
        if line.group is None or bind.isdisjoint(robots.groups[line.group].agents):
            continue
        asked, rate = None, read_rate(line.value)
        if line.field.lower() == "crawl-delay":
            asked = read_delay(line.value)
        elif line.field.lower() == "request-rate" and rate is not None:
            asked = rate.seconds_per_document
        if asked == delay:
            return line.line, f"line {line.line} of robots.txt, {line.field}: {line.value}"
    return None, "as robots.txt asks"
