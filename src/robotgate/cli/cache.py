"""``robotgate cache``: what a store knows of sites is listed, shown, refreshed and removed."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Unpack

import click
from click.core import ParameterSource
from rich.text import Text
from yarl import URL

from robotgate import HostAccess, InvalidURLError, Origin, Outcome, RobotGateError, RobotsTxt, SQLiteStore
from robotgate.cli import common, output
from robotgate.cli.lines import open_input, read_lines
from robotgate.cli.transfer import Import, TargetError, exported, replaced
from robotgate.options import HostOptions
from robotgate.rules.robotstxt import product_token
from robotgate.rules.verdict import AccessResult
from robotgate.sites.site import ruling_of
from robotgate.sites.status import STATUS_TABLE
from robotgate.stores.codec import MAX_LINE_BYTES
from robotgate.stores.sqlite import MAX_AGE, MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from robotgate import HostState, RobotGate, RobotsRecord
    from robotgate.stores.base import Catalogue

_DEFAULT_OPTIONS: Final = HostOptions()
"""The options of a gate that is given none. ACCESS is computed with them."""
HEADS: Final = ("ORIGIN", "ACCESS", "CHECKED", "FRESH FOR", "VISITS", "NEXT")
_WIDTHS: Final = (11, 7, 9, 6, 13)
"""Columns of a terminal for all but the first."""
_DATABASE_FILES: Final = ("", "-wal", "-shm", "-journal")
"""What SQLite adds to the path of a database for the files that belong to it."""
_UNREACHABLE: Final = "unreachable"
_STYLES: Final = {
    HostAccess.OPEN.value: "green",
    HostAccess.CONTROLLED.value: "yellow",
    HostAccess.EXCLUDED.value: "red",
    _UNREACHABLE: "magenta",
}
_MAX_SITEMAPS: Final = 5
_MAX_VALUE: Final = 1000
"""Characters that are shown of one value: a site decides how long some are."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What HOST on the command line selects: a host; or its origins on one port; or one origin."""

    host: str
    port: int | None = None
    scheme: str | None = None

    @classmethod
    def parse(cls, text: str) -> Selection:
        """Read ``example.org``, ``example.org:8080``, ``https://example.org``, ``::1``, ``[::1]:8080``.

        International names may be written as such.

        Raises:
            InvalidURLError: it is none of these.
        """
        if "://" in text:
            origin = Origin.of(text)
            return cls(origin.host, origin.port, origin.scheme)
        authority = f"[{text}]" if text.count(":") > 1 and "[" not in text else text
        origin = Origin.of(f"https://{authority}")
        return cls(origin.host, URL(f"https://{authority}").explicit_port)

    @property
    def first_origin(self) -> Origin:
        """The origin to visit if none is known."""
        return Origin(self.scheme or ("http" if self.port == 80 else "https"), self.host, self.port or 443)

    def matches(self, origin: Origin) -> bool:
        """Return whether an origin is selected."""
        port, scheme = self.port or origin.port, self.scheme or origin.scheme
        return origin == Origin(scheme, self.host, port)

    async def records(self, store: Catalogue) -> list[RobotsRecord]:
        """Return the records of the selected origins."""
        origins = [origin for origin in await store.origins_of(self.host) if self.matches(origin)]
        found = [await store.load_record(origin) for origin in origins]
        return [record for record in found if record is not None]

    async def states(self, store: Catalogue, records: list[RobotsRecord]) -> dict[str, HostState]:
        """Return what was saved of the host's pace, and of its origins' if they are paced apart, by pace key."""
        origins = [record.origin for record in records] or [self.first_origin]
        keys = dict.fromkeys([self.host, *map(str, origins)])
        found = {key: await store.host(key) for key in keys}
        return {key: state for key, state in found.items() if state is not None}

    def __str__(self) -> str:
        if self.port is None:
            return self.host
        return self.first_origin.text if self.scheme is not None else self.first_origin.authority


def _selection(text: str) -> Selection:
    try:
        return Selection.parse(text)
    except InvalidURLError as error:
        raise click.BadParameter(f"{output.printable(text)}: {error.problem}") from error


host_argument = click.argument("selection", metavar="HOST", type=_selection)


@click.group(short_help="Show and remove what is stored about sites.")
def cache() -> None:
    """Show and remove what is stored about sites.

    HOST is a host with all its origins (example.org), those on one port (example.org:8080), or one origin
    (https://example.org).
    """


cache.command_class = common.Command


@cache.command("ls", short_help="List the stored sites, and when each is due.")
@common.store_option
@common.name_options
@click.option("--json", "as_json", is_flag=True, help="Print one row of JSON for each.")
def list_(*, store_path: str | None, agent: str, token: str | None, as_json: bool) -> None:
    """List the stored sites, and when each may be visited next.

    ACCESS is what robots.txt allows --agent: open (everything), controlled (some), excluded (nothing); or unreachable:
    robots.txt could not be read, so nothing may be fetched. Where the output is no terminal, tabs separate the columns.

    Exit status: 0, or 2 when the store cannot be read.
    """
    store, name = common.existing_store(store_path), product_token(token or agent)

    async def run() -> None:
        screen, now = output.console(), time.time()
        if not as_json:
            _print_row(screen, HEADS, ["bold"] * len(HEADS))
        async for item in listed(store):
            access = None if item.record is None else _access(item.record, name, now)
            if as_json:
                output.line(_json_row(item, access))
            else:
                _print_row(screen, _cells(item, access, now), ["", _STYLES[access] if access else ""])

    common.run_with(store, run)


@cache.command(short_help="Show everything that is stored about a host.")
@host_argument
@common.store_option
@common.name_options
def show(*, selection: Selection, store_path: str | None, agent: str, token: str | None) -> None:
    """Show everything that is stored about a host.

    Exit status: 0, 1 when nothing is stored, or 2 when the store cannot be read.
    """
    store, name = common.existing_store(store_path), product_token(token or agent)

    async def run() -> tuple[list[RobotsRecord], dict[str, HostState]]:
        records = await selection.records(store)
        return records, await selection.states(store, records)

    records, states = common.run_with(store, run)
    if not records and not states:
        _nothing_stored(selection)
    screen, now = output.console(), time.time()
    for record in records:
        access = _access(record, name, now)
        heading = Text.assemble((record.origin.text, "bold"), "  ", (access, _STYLES[access]))
        show_facts(screen, heading, _record_facts(record, name, now))
    for pace_key, state in states.items():
        heading = Text.assemble(("pace of ", "dim"), (output.printable(pace_key), "bold"))
        show_facts(screen, heading, state_facts(state, now))


@cache.command(short_help="Fetch a host's robots.txt now.")
@host_argument
@common.store_option
@common.gate_options()
def refresh(*, selection: Selection, store_path: str | None, **options: Unpack[common.GateOptions]) -> None:
    """Fetch a host's robots.txt now, in the host's turn, whether or not the stored copy has expired.

    Exit status: 0, 1 when any cannot be read, or 2 when the store cannot be used.
    """
    store = common.stated_store(store_path)

    async def run(gate: RobotGate) -> bool:
        known = {record.origin: record for record in await selection.records(store)}
        origins = known or [selection.first_origin]
        return any([await _refresh(gate, origin, known.get(origin)) for origin in origins])

    raise SystemExit(1 if common.run_with_gate(store, run, options) else 0)


async def _refresh(gate: RobotGate, origin: Origin, known: RobotsRecord | None) -> bool:
    """Fetch one robots.txt, print what came of it, and return whether it failed."""
    try:
        record = await gate.refresh(origin.robots_url)
    except RobotGateError as error:
        output.tell(f"{origin}  not fetched: {output.problem_of(error)}")
        return True
    status = "no answer" if record.status is None else f"status {record.status}"
    is_unreachable = STATUS_TABLE[record.outcome].access is AccessResult.UNREACHABLE
    if record.failures or is_unreachable:
        stands = "" if is_unreachable else "; the stored copy stays valid"
        output.tell(
            f"{origin}  failed: {output.printable(output.in_plain_words(record.cause or status))}{stands}"
        )
        return True
    is_same = known is not None and (known.outcome, known.body) == (record.outcome, record.body)
    word = "read" if known is None else "unchanged" if is_same else "changed"
    output.tell(f"{origin}  {word}, {status}")
    return False


@cache.command(short_help="Remove what is stored about a host.")
@host_argument
@common.store_option
@click.option("--pace", is_flag=True, help="Remove the pace even if the host's wait is not over.")
def forget(*, selection: Selection, store_path: str | None, pace: bool) -> None:
    """Remove what is stored about a host: its robots.txt is fetched again when it is needed.

    Its pace is removed too, unless that would let the host be visited earlier than it may be. A crawler that is using
    the store goes by what it has in memory, and may write that again.

    Exit status: 0, 1 when nothing is stored, or 2 when the store cannot be used.
    """
    store = common.existing_store(store_path)

    async def run() -> list[str]:
        records = await selection.records(store)
        states = await selection.states(store, records)
        files = [("robots.txt", record.origin, record.origin) for record in records]
        files += [("tdmrep.json", record.origin, record.origin.tdmrep) for record in records]
        lines = [
            f"removed the {name} of {origin}" for name, origin, key in files if await store.forget_record(key)
        ]
        now = time.time()
        for pace_key, state in states.items():
            if not pace and _due_at(state) > now:
                lines.append(
                    f"kept the pace of {output.printable(pace_key)}: it may not be visited before"
                    f" {output.moment(_due_at(state))}; --pace removes it all the same"
                )
            elif (pace or selection.port is None) and await store.forget_host(pace_key):
                lines.append(f"removed the pace of {output.printable(pace_key)}")
        return lines

    lines = common.run_with(store, run)
    if not lines:
        _nothing_stored(selection)
    for line in lines:
        output.tell(line)
    if any(line.startswith("removed") for line in lines):
        output.say(
            "note: a crawler that uses this store at the moment goes by its memory, and may write it again"
        )


@cache.command(short_help="Remove what is old.")
@common.store_option
@click.option("--max-bytes", default=MAX_BYTES, show_default=True, help="How large the file may be.")
@click.option(
    "--max-age",
    default=MAX_AGE,
    show_default=f"{MAX_AGE / 86_400:.0f} days",
    help="Remove what was written longer ago than so many seconds.",
)
def prune(*, store_path: str | None, max_bytes: int, max_age: float) -> None:
    """Remove what is old, as a store does by itself from time to time; no wait is cut short.

    A server has nothing to prune: every key in it expires by itself.

    Exit status: 0, or 2 when the store cannot be used.
    """
    store = common.existing_store(store_path)
    if isinstance(store, SQLiteStore):
        store = SQLiteStore(store.path, max_bytes=max_bytes, max_age=max_age)
        pruned = common.run_with(store, lambda: store.prune(now=time.time()))
        hosts = output.counted(pruned.hosts, "host")
        output.tell(f"removed {pruned.records:,} robots.txt and the pace of {hosts}")
        return
    source_of = click.get_current_context().get_parameter_source
    if ParameterSource.COMMANDLINE in {source_of("max_bytes"), source_of("max_age")}:
        raise click.UsageError("--max-bytes and --max-age are bounds of a file, not of a server.")
    common.run_with(store, lambda: store.prune(now=time.time()))
    output.tell("nothing to do: in a server, every key expires by itself")


@cache.command("export", short_help="Write the contents of a store as JSON Lines.")
@click.argument("target", metavar="[FILE]", default="-", type=common.OUTPUT_FILE)
@click.option("--force", is_flag=True, help="Replace FILE if it exists already.")
@common.store_option
def export_(*, target: str, force: bool, store_path: str | None) -> None:
    """Write everything that is stored as JSON Lines, to a file or to standard output.

    FILE is a new file, or with --force an existing regular one; - is standard output. Only you may read the file. It
    takes its name when it is complete.

    Exit status: 0, or 2 when the store cannot be read or the file cannot be written.
    """
    store = common.existing_store(store_path)
    database = store.path if isinstance(store, SQLiteStore) else None
    files = [] if database is None else [Path(f"{database}{suffix}") for suffix in _DATABASE_FILES]

    async def run(write: Callable[[str], object]) -> None:
        async for line in exported(store):
            write(line)

    if target == "-":
        common.run_with(store, lambda: run(output.line))
        return
    try:
        with replaced(Path(target), force=force, not_these=files) as file:
            common.run_with(store, lambda: run(lambda line: file.write(f"{line}\n")))
    except TargetError as error:
        raise common.CommandError(f"cannot write {target}: {error}") from error
    except OSError as error:
        raise common.CommandError(f"cannot write {target}: {error.strerror}") from error


@cache.command("import", short_help="Read JSON Lines into a store.")
@click.argument("source", metavar="[FILE]", default="-", type=common.INPUT_FILE)
@common.store_option
def import_(*, source: str, store_path: str | None) -> None:
    """Read JSON Lines from a file or from standard input, and merge them into what is stored.

    Of two records of a site the newer is kept, and no host may be visited earlier than either side says. A wrong line
    is reported and skipped.

    Exit status: 0, 1 when a line was refused, or 2 when the store cannot be used or the file cannot be read.
    """
    store = common.stated_store(store_path)
    result = Import(store)

    async def run() -> None:
        async for lines in read_lines(open_input(source), max_bytes=MAX_LINE_BYTES):
            await result.add(lines, now=time.time())
            for complaint in result.complaints:
                output.say(complaint)

    try:
        common.run_with(store, run)
    except OSError as error:
        raise common.CommandError(f"cannot read {source}: {error.strerror}") from error
    output.say(
        f"imported {result.records:,} robots.txt and the pace of {output.counted(result.hosts, 'host')};"
        f" {result.known:,} known as new or newer, {result.refused:,} lines refused"
    )
    raise SystemExit(1 if result.refused else 0)


def _nothing_stored(selection: Selection) -> NoReturn:
    output.say(f"nothing is stored about {selection}")
    raise SystemExit(1)


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list: an origin with its host's pace, or a host without an origin."""

    name: str
    record: RobotsRecord | None
    state: HostState | None


async def listed(store: Catalogue) -> AsyncIterator[Listed]:
    """Yield every origin with its host's pace, and every host without an origin.

    Both come ordered by host, so one pass joins them in bounded memory.
    """
    hosts = store.hosts()
    head = await anext(hosts, None)
    joined: tuple[str, HostState] | None = None
    async for record in store.records():
        host = record.origin.host
        while head is not None and head[0] <= host:
            if head[0] == host:
                joined = head
            else:
                yield Listed(head[0], None, head[1])
            head = await anext(hosts, None)
        yield Listed(
            record.origin.text, record, joined[1] if joined is not None and joined[0] == host else None
        )
    while head is not None:
        yield Listed(head[0], None, head[1])
        head = await anext(hosts, None)


def _access(record: RobotsRecord, token: str, now: float) -> str:
    access = ruling_of(record, token=token, options=_DEFAULT_OPTIONS, now=now).access
    is_unreachable = STATUS_TABLE[record.outcome].access is AccessResult.UNREACHABLE
    # A good copy may still rule a site that cannot be reached.
    return _UNREACHABLE if is_unreachable and access is HostAccess.EXCLUDED else access.value


def _due_at(state: HostState) -> float:
    return max(state.next_allowed_at, state.blocked_until_at)


def _print_row(screen: output.Screen, cells: Iterable[str], styles: list[str]) -> None:
    """A line of columns that fit a terminal; elsewhere whole values between tabs."""
    if not screen.folds:
        output.line(*cells)
        return
    name_width = min(max(screen.width - sum(_WIDTHS) - 2 * len(_WIDTHS), 20), 80)
    line = Text()
    styles += [""] * (len(HEADS) - len(styles))
    for cell, style, width in zip(cells, styles, (name_width, *_WIDTHS), strict=True):
        text = Text(output.shortened(cell, width), style)
        text.truncate(width, overflow="ellipsis", pad=True)
        line.append_text(text).append("  ")
    line.rstrip()
    screen.print(line, no_wrap=True, overflow="ellipsis", highlight=False)


def _cells(item: Listed, access: str | None, now: float) -> tuple[str, ...]:
    record, state = item.record, item.state
    left = 0.0 if record is None else record.fresh_until_at - now
    return (
        output.printable(item.name),
        access or "-",
        "-" if record is None else f"{output.span(now - record.checked_at)} ago",
        "-" if record is None else output.span(left) if left > 0 else "expired",
        "-" if state is None else output.short(state.visits),
        "-" if state is None else _next(state, now),
    )


def _next(state: HostState, now: float) -> str:
    if _due_at(state) <= now:
        return "now"
    word = "blocked" if state.blocked_until_at >= state.next_allowed_at else "in"
    return f"{word} {output.span(_due_at(state) - now)}"


def _json_row(item: Listed, access: str | None) -> str:
    row = {
        "name": item.name,
        "access": access,
        "outcome": None if item.record is None else item.record.outcome.name.lower(),
    }
    of_record = ("status", "checked_at", "fresh_until_at")
    of_state = ("visits", "last_visit_at", "next_allowed_at", "blocked_until_at")
    row |= {name: getattr(item.record, name, None) for name in of_record}
    row |= {name: getattr(item.state, name, None) for name in of_state}
    return json.dumps(row)


def show_facts(screen: output.Screen, heading: Text, facts: Iterable[tuple[str, str]]) -> None:
    """Print a heading, and below it a line of name and value for each fact."""
    screen.paragraph(heading)
    for name, value in facts:
        shown = value if len(value) <= _MAX_VALUE else f"{value[:_MAX_VALUE]}..."
        screen.paragraph(Text.assemble((f"  {name:<14}", "dim"), output.printable(shown)), indent=16)


def _record_facts(record: RobotsRecord, token: str, now: float) -> Iterator[tuple[str, str]]:
    status = "no answer" if record.status is None else f"status {record.status}"
    yield "robots.txt", f"{record.robots_url or record.origin.robots_url}, {status}"
    yield from (("redirected by", url) for url in record.redirects)
    yield "checked", ago(record.checked_at, now)
    yield (
        "fresh for",
        _left(record.fresh_until_at, now, "until", over="expired; fetched again when it is needed"),
    )
    if record.outcome is not Outcome.SUCCESS:
        yield "outcome", output.in_plain_words(record.cause or record.outcome.value)
    if record.failing_since_at is not None:
        yield (
            "failing",
            f"{output.counted(record.failures, 'time')} in a row, since {ago(record.failing_since_at, now)}",
        )
    if record.fetched_at is not None:
        stale = "" if record.outcome is Outcome.SUCCESS else ", stale"
        yield "copy", f"{len(record.body):,} bytes, {ago(record.fetched_at, now)}{stale}"
        yield from _rules_facts(record, token)
    if record.etag is not None:
        yield "ETag", record.etag
    if record.last_modified is not None:
        yield "Last-Modified", record.last_modified


def _rules_facts(record: RobotsRecord, token: str) -> Iterator[tuple[str, str]]:
    robots = RobotsTxt.parse(record.body, record.origin.robots_url)
    rules = robots.rules(token)
    named = [group for group in robots.groups if group.names(token)]
    ours = named or [group for group in robots.groups if group.names("*")]
    whose = f" in the group of {', '.join(rules.agents)}" if rules.agents else ""
    count = sum(len(group.rules) for group in ours)
    yield "rules", f"{count:,} for {token}{whose}; {output.counted(len(robots.groups), 'group')} in all"
    if rules.crawl_delay is not None:
        yield "Crawl-delay", f"{rules.crawl_delay:g} s"
    yield from (("sitemap", url) for url in robots.sitemaps[:_MAX_SITEMAPS])
    if len(robots.sitemaps) > _MAX_SITEMAPS:
        yield "sitemaps", f"{len(robots.sitemaps):,} in all"


def state_facts(state: HostState, now: float) -> Iterator[tuple[str, str]]:
    """Yield what was saved of a host's pace, as names and values."""
    yield "visits", f"{state.visits:,}, {state.bytes_read:,} bytes"
    if state.last_visit_at is not None:
        yield "last visit", ago(state.last_visit_at, now)
    yield "next visit", _left(_due_at(state), now, "not before", over="now")
    if state.failures:
        over = "" if state.blocked_until_at > now else ", over"
        yield "blocks", f"{state.failures} in a row, the last since {ago(state.blocked_at, now)}{over}"
    if state.latency is not None:
        yield "latency", f"{state.latency:.3f} s"


def ago(at: float, now: float) -> str:
    """Return an instant as text, and how long ago it was."""
    return f"{output.moment(at)}, {output.span(now - at)} ago" if at <= now else output.moment(at)


def _left(at: float, now: float, word: str, *, over: str) -> str:
    return f"{output.span(at - now)}, {word} {output.moment(at)}" if at > now else over
