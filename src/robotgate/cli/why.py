"""``robotgate why``: when, how often and by which rule a crawler came to a URL, as far as its store and its rows know.

Nothing is requested. What a store does not keep is told with the answer, so that nobody takes silence for a fact.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.text import Text

from robotgate import InvalidURLError, RobotsTxt, StatusPolicy
from robotgate.cli import check, common, output
from robotgate.cli.cache import Selection, ago, show_facts, state_facts
from robotgate.cli.lines import is_too_long
from robotgate.options import HostOptions
from robotgate.rules.grammar import read_delay, read_rate
from robotgate.rules.robotstxt import product_token
from robotgate.sites.site import ruling_of
from robotgate.urls import split_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate import HostState, Origin, RobotsRecord
    from robotgate.rules.parser import Record
    from robotgate.sites.site import Ruling

MAX_SHOWN: Final = 20
"""Requests to the URL that are shown; of more, the last."""
OUTCOMES: Final = frozenset(outcome.value for outcome in output.Outcome)
MAX_ROW_BYTES: Final = 1024 * 1024
"""Of a longer line, nothing is read."""
NOT_KNOWN: Final = (
    "A store has the totals of a host, not its single requests. The rows of robotgate fetch have them: see --rows.",
    "A store has the last robots.txt: what an earlier one allowed is not known.",
    "The crawler's own delay is not stored: it is --delay. Its operator's blocks (gate.block) are not looked at.",
)


@dataclass(frozen=True, slots=True)
class Request:
    """One row of ``robotgate fetch``."""

    at: float | None
    """When it was sent, or when the URL was refused; seconds since the epoch."""
    outcome: str
    status: int | None
    reason: str | None

    @classmethod
    def of(cls, row: dict[str, object]) -> Request:
        """Read a row. Values of other types than they should have count as missing."""
        sent_at, ended_at = row.get("sent_at"), row.get("ended_at")
        outcome, status = str(row.get("outcome")), row.get("status")
        at = next((at for at in (sent_at, ended_at) if isinstance(at, int | float) and at >= 0), None)
        reason = row.get("reason") or row.get("message")
        line = row.get("line")
        if isinstance(line, int):
            reason = f"{reason}, line {line}: {row.get('rule')}"
        return cls(
            at=at,
            outcome=outcome if outcome in OUTCOMES else "unknown",
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

    outcomes: Counter[str] = field(default_factory=Counter)
    """Of all requests to the host."""
    first_at: float | None = None
    last_at: float | None = None
    of_url: deque[Request] = field(default_factory=lambda: deque(maxlen=MAX_SHOWN))
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
        self.outcomes[request.outcome] += 1
        if request.at is not None:
            self.first_at = request.at if self.first_at is None else min(self.first_at, request.at)
            self.last_at = request.at if self.last_at is None else max(self.last_at, request.at)
        if is_of_url:
            self.of_url.append(request)
            self.count_of_url += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All that is known of one URL and its host."""

    checked: check.Checked
    record: RobotsRecord | None
    states: dict[str, HostState]
    """By pace key."""
    delay: float
    """Seconds between visits that hold: the site's, or the crawler's own."""
    asked_by: Record | None
    """The line of robots.txt that asks for `delay`; None: it is the crawler's own."""
    requests: Requests | None
    """None where no rows were given."""


@click.command(cls=common.Command, short_help="Tell when and by which rule a site was visited.")
@click.argument("url", metavar="URL")
@common.store_option
@common.name_options
@common.policy_option
@click.option("--delay", default=1.0, show_default=True, help="The crawler's own seconds between requests.")
@click.option(
    "--rows", metavar="FILE", type=common.INPUT_FILE, help="Rows of `robotgate fetch` to look into."
)
@click.option("--json", "as_json", is_flag=True, help="Print one row of JSON.")
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
        if is_too_long(url):
            raise click.BadParameter("it is too long", param_hint="URL")
        origin, target = split_url(url)
    except InvalidURLError as error:
        raise click.BadParameter(f"{output.printable(url)}: {error.problem}", param_hint="URL") from error
    store, name, now = common.existing_store(store_path), product_token(token or agent), time.time()
    options = HostOptions(delay=delay, status_policy=status_policy)
    requests = None if rows is None else _read(rows, origin, target)

    async def run() -> tuple[RobotsRecord | None, dict[str, HostState]]:
        record = await store.load_record(origin)
        selection = Selection(origin.host, origin.port, origin.scheme)
        return record, await selection.states(store, [] if record is None else [record])

    record, states = common.run_with(store, run)
    if record is None and not states and not (requests is not None and requests.outcomes):
        output.say(f"nothing is stored about {origin.host}")
        raise SystemExit(1)
    ruling = None if record is None else ruling_of(record, token=name, options=options, now=now)
    answer = _answer(f"{origin}{target}", ruling, states, requests, delay, now)
    if as_json:
        output.line(json.dumps(_row(answer)))
    else:
        _show(answer, origin, name, now)


def _read(path: str, origin: Origin, target: str) -> Requests:
    requests = Requests()
    try:
        requests.read(Path("/dev/stdin" if path == "-" else path), origin, target)
    except OSError as error:
        raise common.CommandError(f"cannot read {path}: {error.strerror}") from error
    return requests


def _answer(
    url: str,
    ruling: Ruling | None,
    states: dict[str, HostState],
    requests: Requests | None,
    delay: float,
    now: float,
) -> Answer:
    asked_by = record = None
    checked = check.Checked(url=url, problem="its robots.txt is not stored")
    if ruling is not None and (record := ruling.record) is not None:
        verdict = ruling.verdict(url.removeprefix(record.origin.text), now=now)
        checked = check.Checked(url=url, verdict=verdict, body=record.body, stored_at=record.fetched_at)
        if ruling.asked.delay > delay:
            delay, asked_by = ruling.asked.delay, _asking(record, ruling.token, ruling.asked.delay)
    return Answer(
        checked=checked, record=record, states=states, delay=delay, asked_by=asked_by, requests=requests
    )


def _asking(record: RobotsRecord, token: str, delay: float) -> Record | None:
    """Return the line that asks a crawler for a delay."""
    robots = RobotsTxt.parse(record.body, record.origin.robots_url)
    bind = set(robots.rules(token).agents)
    for line in robots.records:
        if line.group is None or bind.isdisjoint(robots.groups[line.group].agents):
            continue
        asked = None
        if line.field.lower() == "crawl-delay":
            asked = read_delay(line.value)
        elif line.field.lower() == "request-rate" and (rate := read_rate(line.value)) is not None:
            asked = rate.seconds_per_document
        if asked == delay:
            return line
    return None


def _row(answer: Answer) -> dict[str, object]:
    record, requests = answer.record, answer.requests
    return {
        **check.row(answer.checked),
        "checked_at": None if record is None else record.checked_at,
        "fresh_until_at": None if record is None else record.fresh_until_at,
        "delay": answer.delay,
        "delay_line": None if answer.asked_by is None else answer.asked_by.line,
        "hosts": {key: asdict(state) for key, state in answer.states.items()},
        "requests": None
        if requests is None
        else {
            "outcomes": dict(requests.outcomes),
            "first_at": requests.first_at,
            "last_at": requests.last_at,
            "of_url": [asdict(request) for request in requests.of_url],
            "count_of_url": requests.count_of_url,
        },
        "not_known": NOT_KNOWN,
    }


def _show(answer: Answer, origin: Origin, token: str, now: float) -> None:
    screen = output.console()
    check.show(screen, answer.checked, token)
    screen.print()
    show_facts(screen, Text("the rules", "bold"), _facts(answer, token, now))
    for pace_key, state in answer.states.items():
        screen.print()
        name = output.printable(pace_key)
        heading = Text.assemble(("requests to ", "dim"), (name, "bold"), (", robots.txt included", "dim"))
        show_facts(screen, heading, state_facts(state, now))
    if answer.requests is not None:
        _show_requests(screen, answer.requests, origin)
    screen.print()
    screen.print(Text("not known", "bold"))
    for text in NOT_KNOWN:
        screen.paragraph(Text(f"  {text}", "dim"), indent=4)


def _facts(answer: Answer, token: str, now: float) -> Iterator[tuple[str, str]]:
    yield "crawler", f"{token}, the name in robots.txt"
    if answer.record is not None:
        yield "checked", ago(answer.record.checked_at, now)
    line = answer.asked_by
    if line is not None:
        by = f"line {line.line} of robots.txt, {line.field}: {line.value}"
    else:
        by = (
            "the crawler's own" if answer.record is None else "the crawler's own; robots.txt asks for no more"
        )
    yield "delay", f"{answer.delay:g} s between visits, {by}"


def _show_requests(screen: output.Screen, requests: Requests, origin: Origin) -> None:
    screen.print()
    screen.paragraph(Text.assemble(("requests to ", "dim"), (origin.host, "bold"), (" in the rows", "dim")))
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in requests.outcomes.most_common(10))
    lines = [counts or "none"]
    if requests.first_at is not None and requests.last_at is not None:
        lines.append(f"from {output.moment(requests.first_at)} to {output.moment(requests.last_at)}")
    if requests.unread:
        lines.append(f"{output.counted(requests.unread, 'line')} could not be read")
    lines.append(f"{output.counted(requests.count_of_url, 'request')} for this URL")
    for text in (*lines, *map(str, requests.of_url)):
        screen.paragraph(Text(f"  {output.printable(text)}"), indent=4)
