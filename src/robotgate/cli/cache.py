"""``robotgate cache``: lists, shows, refreshes, removes, exports and imports what is stored of sites.

An export has each record of an origin, and each host, in a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from base64 import b64decode, b64encode
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import click
from click.core import ParameterSource
from yarl import URL

from robotgate import InvalidURLError, Origin, RobotGate, RobotGateError, RobotsTxt, SQLiteStore
from robotgate.cli import common, output
from robotgate.cli.files import replaced
from robotgate.cli.lists import open_input, read_lines
from robotgate.options import DEFAULTS
from robotgate.pace.state import merged
from robotgate.rules.grammar import MAX_BYTES as MAX_ROBOTS_BYTES
from robotgate.rules.verdict import AccessResult
from robotgate.sites import HostAccess, Outcome, RobotsRecord
from robotgate.sites.record import newer, whole_lines
from robotgate.sites.site import ruling_of
from robotgate.sites.status_table import MAX_SKEW, STATUS_TABLE
from robotgate.stores import codec
from robotgate.stores.base import in_pages
from robotgate.stores.codec import MAX_LINE_BYTES, FieldError, quoted, take, text_value
from robotgate.stores.grants import not_before
from robotgate.stores.sqlite import MAX_AGE, MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from robotgate.stores import HostState
    from robotgate.stores.base import Catalogue, OwnStore

HEADS: Final = ("ORIGIN", "ACCESS", "CHECKED", "FRESH FOR", "VISITS", "NEXT")
_WIDTHS: Final = (11, 7, 9, 6, 13)
"""Columns of a terminal for all but the first."""
_STYLES: Final = {
    None: "",
    HostAccess.OPEN.value: "green",
    HostAccess.CONTROLLED.value: "yellow",
    HostAccess.EXCLUDED.value: "red",
    HostAccess.UNREACHABLE.value: "magenta",
}
_MAX_SITEMAPS: Final = 5
_DATABASE_FILES: Final = ("", "-wal", "-shm", "-journal")
VERSION: Final = 1
"""Of the format of lines; another set of fields is another version."""
MAX_COMPLAINTS: Final = 100
"""Refused lines that are reported one by one; the others are only counted."""
_PAST: Final = ("checked_at", "fetched_at", "failing_since_at", "last_visit_at", "blocked_at")
"""The fields that say when something happened."""
Entry: TypeAlias = "RobotsRecord | tuple[str, HostState]"
"""What one line is of: the record of an origin, or what is kept of a host, behind what it is paced by."""


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
        url = f"https://[{text}]" if text.count(":") > 1 and "[" not in text else f"https://{text}"
        return cls(Origin.of(url).host, URL(url).explicit_port)

    @property
    def first_origin(self) -> Origin:
        """The origin to visit if none is known."""
        return Origin(self.scheme or ("http" if self.port == 80 else "https"), self.host, self.port or 443)

    def matches(self, origin: Origin) -> bool:
        """Return whether an origin is selected."""
        return origin == Origin(self.scheme or origin.scheme, self.host, self.port or origin.port)

    async def found(self, store: Catalogue) -> tuple[list[RobotsRecord], dict[str, HostState]]:
        """Return the records of the selected origins, and the saved states of their host by pace key.

        The host's origins have states of their own if they are paced apart.
        """
        origins = [origin for origin in await store.origins_of(self.host) if self.matches(origin)]
        records = [record for each in origins if (record := await store.load_record(each)) is not None]
        keys = dict.fromkeys([self.host, *map(str, origins or [self.first_origin])])
        return records, {key: state for key in keys if (state := await store.host(key)) is not None}

    def __str__(self) -> str:
        if self.port is None:
            return self.host
        return self.first_origin.text if self.scheme is not None else self.first_origin.authority


def _selection(text: str) -> Selection:
    try:
        return Selection.parse(text)
    except InvalidURLError as error:
        raise click.BadParameter(f"{text}: {error.problem}") from error


host_argument: Final = click.argument("selection", metavar="HOST", type=_selection)


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
@common.json_option
async def list_(*, as_json: bool, **_: object) -> None:
    """List the stored sites, and when each may be visited next.

    ACCESS is what robots.txt allows --agent: open (everything), controlled (some), excluded (nothing); or unreachable:
    robots.txt could not be read, so nothing may be fetched. Where the output is no terminal, tabs separate the columns.

    Exit status: 0, or 2 when the store cannot be read.
    """
    name, screen, now = common.crawler_name(), output.Screen(), time.time()
    async with common.existing_store() as store:
        if not as_json:
            _print_row(screen, *((head, "bold") for head in HEADS))
        async for host, record, state in listed(store):
            access = None if record is None else _access(record, name, now)
            if as_json:
                output.row(_row(host, record, state, access))
            else:
                shown = host if record is None else record.origin.text
                _print_row(screen, shown, (access or "-", _STYLES[access]), *_cells(record, state, now))


@cache.command(short_help="Show everything that is stored about a host.")
@host_argument
@common.store_option
@common.name_options
async def show(*, selection: Selection, **_: object) -> int:
    """Show everything that is stored about a host.

    Exit status: 0, 1 when nothing is stored, or 2 when the store cannot be read.
    """
    name, screen, now = common.crawler_name(), output.Screen(), time.time()
    async with common.existing_store() as store:
        records, states = await selection.found(store)
    if not records and not states:
        return nothing_stored(selection)
    for record in records:
        access = _access(record, name, now)
        heading = (record.origin.text, "bold"), "  ", (access, _STYLES[access])
        screen.facts(heading, _record_facts(record, name, now))
    for pace_key, state in states.items():
        screen.facts((("pace of ", "dim"), (pace_key, "bold")), state_facts(state, now))
    return 0


@cache.command(short_help="Fetch a host's robots.txt now.")
@host_argument
@common.store_option
@common.gate_options()
async def refresh(*, selection: Selection, store_path: str | None, **_: object) -> int:
    """Fetch a host's robots.txt now, in the host's turn, whether or not the stored copy has expired.

    Exit status: 0, 1 when any cannot be read, or 2 when the store cannot be used.
    """
    store = common.stated_store(store_path)

    async with common.opened_gate(store) as gate:
        records = (await selection.found(store))[0]
        known = {record.origin: record for record in records}
        failed = [
            await _refresh(gate, origin, known.get(origin)) for origin in known or [selection.first_origin]
        ]
    return 1 if any(failed) else 0


async def _refresh(gate: RobotGate, origin: Origin, known: RobotsRecord | None) -> bool:
    """Fetch one robots.txt, print what came of it, and return whether it failed."""
    try:
        record = await gate.refresh(origin.robots_url)
    except RobotGateError as error:
        output.to_stdout(f"{origin}  not fetched: {output.problem_of(error)}")
        return True
    status = _status(record)
    is_unreachable = STATUS_TABLE[record.outcome].access is AccessResult.UNREACHABLE
    if record.failures or is_unreachable:
        stands = "" if is_unreachable else "; the stored copy stays valid"
        if record.outcome is Outcome.PROXY:
            stands = "; what is stored stays as it was"
        output.to_stdout(f"{origin}  failed: {output.in_plain_words(record.cause or status)}{stands}")
        return True
    is_same = known is not None and (known.outcome, known.body) == (record.outcome, record.body)
    word = "read" if known is None else "unchanged" if is_same else "changed"
    output.to_stdout(f"{origin}  {word}, {status}")
    return False


@cache.command(short_help="Remove what is stored about a host.")
@host_argument
@common.store_option
@common.flag("--pace", help="Remove the pace even if the host's wait is not over.")
async def forget(*, selection: Selection, pace: bool, **_: object) -> int:
    """Remove what is stored about a host: its robots.txt is fetched again when it is needed.

    Its pace is removed too, unless that would let the host be visited earlier than it may be. A crawler that is using
    the store goes by what it has in memory, and may write that again.

    Exit status: 0, 1 when nothing is stored, or 2 when the store cannot be used.
    """
    kept, now = [], time.time()
    async with common.existing_store() as store:
        records, states = await selection.found(store)
        origins = [record.origin for record in records]
        removed = [f"the robots.txt of {origin}" for origin in origins if await store.forget_record(origin)]
        for pace_key, state in states.items():
            due_at = not_before(state)
            if not pace and due_at > now:
                kept.append(f"the pace of {pace_key}: it may not be visited before {output.moment(due_at)}")
            elif (pace or selection.port is None) and await store.forget_host(pace_key):
                removed.append(f"the pace of {pace_key}")
    if not removed and not kept:
        return nothing_stored(selection)
    for what in removed:
        output.to_stdout(f"removed {what}")
    for what in kept:
        output.to_stdout(f"kept {what}; --pace removes it all the same")
    if removed:
        output.to_stderr(
            "note: a crawler that uses this store at the moment goes by its memory, and may write it again"
        )
    return 0


@cache.command(short_help="Remove what is old.")
@common.store_option
@common.setting("--max-bytes", "most_bytes", default=MAX_BYTES, help="How large the file may be.")
@click.option(
    "--max-age", default=MAX_AGE, show_default="90 days", help="Remove what is older than so many seconds."
)
async def prune(*, most_bytes: int, max_age: float, **_: object) -> None:
    """Remove what is old, as a store does by itself from time to time; no wait is cut short.

    A server has nothing to prune: every key in it expires by itself.

    Exit status: 0, or 2 when the store cannot be used.
    """
    store = common.existing_store()
    source_of = click.get_current_context().get_parameter_source
    if isinstance(store, SQLiteStore):
        store = SQLiteStore(store.path, max_bytes=most_bytes, max_age=max_age)
    elif ParameterSource.COMMANDLINE in {source_of("most_bytes"), source_of("max_age")}:
        raise click.UsageError("--max-bytes and --max-age are bounds of a file, not of a server.")
    async with store:
        pruned = await store.prune(now=time.time())
    if isinstance(store, SQLiteStore):
        hosts = output.counted(pruned.hosts, "host")
        output.to_stdout(f"removed {pruned.records:,} robots.txt and the pace of {hosts}")
    else:
        output.to_stdout("nothing to do: in a server, every key expires by itself")


@cache.command("export", short_help="Write the contents of a store as JSON Lines.")
@click.argument("target", metavar="[FILE]", default="-", type=common.OUTPUT_FILE)
@common.flag("--force", help="Replace FILE if it exists already.")
@common.store_option
async def export_(*, target: str, force: bool, **_: object) -> None:
    """Write everything that is stored as JSON Lines, to a file or to standard output.

    FILE is a new file, or with --force an existing regular one; - is standard output. Only you may read the file. It
    takes its name when it is complete.

    Exit status: 0, or 2 when the store cannot be read or the file cannot be written.
    """
    store = common.existing_store()
    with common.os_errors("write" if target == "-" else f"write {target}"):
        if target != "-":
            _check_target(Path(target), store, force=force)
        async with store:
            with nullcontext() if target == "-" else replaced(Path(target)) as file:
                async for line in exported(store):
                    click.echo(line.encode("ascii"), file=file)


def _check_target(path: Path, store: OwnStore, *, force: bool) -> None:
    """Refuse to replace what is no regular file, the files of the store, and what --force was not given for."""
    exists, problem = os.path.lexists(path), None
    if exists and not stat.S_ISREG(path.lstat().st_mode):
        problem = "it is not a regular file; to write to one that is not, redirect standard output"
    elif isinstance(store, SQLiteStore) and _is_part_of(store, path):
        problem = "it belongs to the store"
    elif exists and not force:
        problem = "it exists already; --force replaces it"
    if problem is not None:
        raise common.CommandError(f"cannot write {path}: {problem}")


def _is_part_of(store: SQLiteStore, path: Path) -> bool:
    """Return whether a path is the file of a store, by any of its names, or one that SQLite makes beside it."""
    names = [os.path.realpath(store.path) + end for end in _DATABASE_FILES]
    return os.path.realpath(path) in names or (path.exists() and path.samefile(store.path))


@cache.command("import", short_help="Read JSON Lines into a store.")
@click.argument("source", metavar="[FILE]", default="-", type=common.INPUT_FILE)
@common.store_option
async def import_(*, source: str, store_path: str | None) -> int:
    """Read JSON Lines from a file or from standard input, and merge them into what is stored.

    Of two records of a site the newer is kept, and no host may be visited earlier than either side says. A wrong line
    is reported and skipped.

    Exit status: 0, 1 when a line was refused, or 2 when the store cannot be used or the file cannot be read.
    """
    store = common.stated_store(store_path)
    result = Import(store)

    with common.os_errors(f"read {source}"):
        async with store:
            async for lines in read_lines(open_input(source), max_bytes=MAX_LINE_BYTES):
                for complaint in await result.add(lines, now=time.time()):
                    output.to_stderr(complaint)
    output.to_stderr(
        f"imported {result.records:,} robots.txt and the pace of {output.counted(result.hosts, 'host')};"
        f" {result.known:,} known as new or newer, {output.counted(result.refused, 'line')} refused"
    )
    return 1 if result.refused else 0


def record_line(record: RobotsRecord) -> str:
    """A record as one line, without its end.

    Of a body that is longer than counts (`RobotGate.learn` takes any), what counts is written.
    """
    body = whole_lines(record.body)
    try:
        written = {"body": body.decode()}
    except UnicodeDecodeError:
        written = {"body_base64": b64encode(body).decode("ascii")}
    values = {"version": VERSION, "kind": "record", "origin": record.origin.text}
    return json.dumps({**values, **codec.record_fields(record), **written}, allow_nan=False)


def host_line(pace_key: str, state: HostState) -> str:
    """A host's state as one line, without its end."""
    values = {"version": VERSION, "kind": "host", "pace_key": pace_key}
    return json.dumps({**values, **codec.host_fields(state)}, allow_nan=False)


def read_line(line: bytes, *, now: float) -> Entry:
    """Read a line, with its end or without.

    Raises:
        FieldError: it is no record and no host, a field is wrong, or an instant is in the future.
    """
    values = codec.object_of(line)
    if take(values, "version", codec.count) != VERSION:
        raise FieldError(f"not {VERSION}, the only one known here", "version")
    checks = take(values, "kind", partial(codec.choice, known={"record": codec.RECORD, "host": codec.HOST}))
    for name, value in values.items():
        if name in checks and isinstance(value, int | float):
            if value < 0:
                raise FieldError(f"{quoted(value)} is less than 0", name)
            if name in _PAST and value > now + MAX_SKEW:
                raise FieldError("in the future: one of two clocks is wrong", name)
    if checks is codec.HOST:
        pace_key = take(values, "pace_key", text_value)
        if not pace_key:
            raise FieldError("a host has a name", "pace_key")
        state = codec.host_of(values)
        if any(not 0 <= at <= now + MAX_SKEW for at, _ in state.starts):
            raise FieldError("an instant is less than 0, or in the future", "starts")
        return pace_key, state
    origin = take(values, "origin", _origin)
    name = "body_base64" if "body_base64" in values else "body"
    decode = partial(b64decode, validate=True) if name == "body_base64" else str.encode
    body = take(values, name, partial(_body, decode=decode))
    return codec.make_record(origin=origin, body=body, **codec.take_all(values, codec.RECORD))


def _origin(value: object) -> Origin:
    text = text_value(value)
    try:
        origin = Origin.of(text)
    except InvalidURLError as error:
        raise FieldError(error.problem) from None
    if origin.text != text:
        raise FieldError(f"{quoted(text)} is an origin, but not spelt as {quoted(origin.text)}")
    return origin


def _body(value: object, *, decode: Callable[[str], bytes]) -> bytes:
    text = text_value(value)
    try:
        body = decode(text)
    except ValueError:
        raise FieldError(f"{quoted(text)} is no text of UTF-8, or no base64") from None
    if len(body) > MAX_ROBOTS_BYTES:
        raise FieldError(f"longer than the {MAX_ROBOTS_BYTES} bytes that count")
    return body


async def exported(store: OwnStore) -> AsyncIterator[str]:
    """Yield everything in a store as lines without their ends.

    States include what is assumed after a crash: another store would not know to wait for it.
    """

    async def load(pace_key: str) -> HostState | None:
        saved, assumed = await store.host(pace_key), await store.load_host(pace_key)
        return saved and merged(assumed or saved, saved)

    async for record in store.records():
        yield record_line(record)
    async for pace_key, state in in_pages(await store.pace_keys(), load):
        if state is not None:
            yield host_line(pace_key, state)


@dataclass(slots=True)
class Import:
    """Merges lines into a store: of two records the newer is kept, of two states the later of each instant."""

    store: OwnStore
    records: int = 0
    """Records that were saved."""
    known: int = 0
    """Records that the store has already, as new or newer."""
    hosts: int = 0
    refused: int = 0
    """Lines that changed nothing, because they are wrong."""
    _lines: int = 0

    async def add(self, lines: list[bytes], *, now: float) -> list[str]:
        """Merge a batch of lines, and return why some of them were refused.

        Raises:
            StoreError: the store failed.
        """
        records: dict[Origin, RobotsRecord] = {}
        hosts: dict[str, HostState] = {}
        complaints = []
        for number, line in enumerate(lines, self._lines + 1):
            if not line.strip():
                continue
            try:
                entry = read_line(line, now=now)
            except FieldError as error:
                field = "" if error.field is None else f", {quoted(error.field)}"
                complaints.append(f"line {number}{field}: {error.problem}")
                continue
            if isinstance(entry, RobotsRecord):
                self.known += 1
                records[entry.origin] = newer(records.get(entry.origin), entry) or entry
            else:
                pace_key, state = entry
                hosts[pace_key] = merged(hosts.get(pace_key, state), state)
        await self._save(records, hosts)
        told = complaints[: max(MAX_COMPLAINTS - self.refused, 0)]
        self._lines += len(lines)
        self.refused += len(complaints)
        return told

    async def _save(self, records: dict[Origin, RobotsRecord], hosts: dict[str, HostState]) -> None:
        async for origin, known in in_pages(list(records), self.store.load_record):
            if newer(known, records[origin]) is not records[origin]:
                del records[origin]
        await asyncio.gather(*map(self.store.save_record, records.values()))
        # With what was saved, not with what is assumed after a crash: an assumption is not to be saved.
        async for pace_key, saved in in_pages(list(hosts), self.store.host):
            hosts[pace_key] = merged(saved or hosts[pace_key], hosts[pace_key])
        if hosts:
            await self.store.save_hosts(hosts)
        self.records += len(records)
        self.known -= len(records)
        self.hosts += len(hosts)


def nothing_stored(what: Selection | str) -> int:
    """Report that nothing is stored about a host, and return the exit status."""
    output.to_stderr(f"nothing is stored about {what}")
    return 1


async def listed(store: OwnStore) -> AsyncIterator[tuple[str, RobotsRecord | None, HostState | None]]:
    """Yield every origin's record with its host's name and pace, and every host without an origin, by host."""
    origins = await store.origins()
    named = {origin.host for origin in origins}
    lines: list[tuple[str, Origin | None]] = [(origin.host, origin) for origin in origins]
    lines += [(key, None) for key in await store.pace_keys() if key not in named]

    async def load(line: tuple[str, Origin | None]) -> tuple[RobotsRecord | None, HostState | None]:
        host, origin = line
        return None if origin is None else await store.load_record(origin), await store.host(host)

    async for (host, _), (record, state) in in_pages(sorted(lines, key=itemgetter(0)), load):
        # Either may have been removed meanwhile.
        if record is not None or state is not None:
            yield host, record, state


def _access(record: RobotsRecord, token: str, now: float) -> str:
    ruling = ruling_of(record, token=token, options=DEFAULTS, now=now)
    return ruling.access.value


def _status(record: RobotsRecord) -> str:
    return "no answer" if record.status is None else f"status {record.status}"


def _print_row(screen: output.Screen, *cells: output.Part) -> None:
    """A line of columns that fit a terminal; elsewhere whole values between tabs."""
    pairs = [(cell, "") if isinstance(cell, str) else cell for cell in cells]
    if not screen.folds:
        click.echo("\t".join(output.printable(text) for text, _ in pairs))
        return
    widths = min(max(screen.width - sum(_WIDTHS) - 2 * len(_WIDTHS), 20), 80), *_WIDTHS
    fitted = [
        (f"{output.shortened(output.printable(text), width):<{width}}  ", style)
        for (text, style), width in zip(pairs, widths, strict=True)
    ]
    screen.excerpt(*fitted[:-1], (fitted[-1][0].rstrip(), fitted[-1][1]))


def _cells(record: RobotsRecord | None, state: HostState | None, now: float) -> tuple[str, ...]:
    """The last four columns."""
    checked = fresh = visits = due = "-"
    if record is not None:
        checked, left = f"{output.span(now - record.checked_at)} ago", record.fresh_until_at - now
        fresh = output.span(left) if left > 0 else "expired"
    if state is not None:
        visits, due_at = output.short(state.visits), not_before(state)
        word = "blocked" if state.blocked_until_at >= state.next_allowed_at else "in"
        wait = output.span(due_at - now)
        due = "now" if due_at <= now else "never" if wait == output.ENDLESS else f"{word} {wait}"
    return checked, fresh, visits, due


def _row(
    host: str, record: RobotsRecord | None, state: HostState | None, access: str | None
) -> dict[str, object]:
    return {
        "name": host if record is None else record.origin.text,
        "access": access,
        "outcome": None if record is None else record.outcome.name.lower(),
        **output.attributes(record, "status", "checked_at", "fresh_until_at"),
        **output.attributes(state, "visits", "last_visit_at", "next_allowed_at", "blocked_until_at"),
    }


def _record_facts(record: RobotsRecord, token: str, now: float) -> Iterator[tuple[str, str]]:
    yield "robots.txt", f"{record.robots_url or record.origin.robots_url}, {_status(record)}"
    yield from (("redirected by", url) for url in record.redirects)
    yield "checked", output.ago(record.checked_at, now)
    expired = "expired; fetched again when it is needed"
    yield "fresh for", output.time_left(record.fresh_until_at, now, "until", over=expired)
    if record.outcome is not Outcome.SUCCESS:
        yield "outcome", output.in_plain_words(record.cause or record.outcome.value)
    if record.failing_since_at is not None:
        since = output.ago(record.failing_since_at, now)
        yield "failing", f"{output.counted(record.failures, 'time')} in a row, since {since}"
    if record.fetched_at is not None:
        size, stale = output.counted(len(record.body), "byte"), record.outcome is not Outcome.SUCCESS
        yield "copy", f"{size}, {output.ago(record.fetched_at, now)}{', stale' if stale else ''}"
        yield from _rules_facts(record, token)
    if record.etag is not None:
        yield "ETag", record.etag
    if record.last_modified is not None:
        yield "Last-Modified", record.last_modified


def _rules_facts(record: RobotsRecord, token: str) -> Iterator[tuple[str, str]]:
    robots = RobotsTxt.parse(record.body, record.origin.robots_url)
    rules = robots.rules(token)
    named = [group for group in robots.groups if group.names(token.lower())]
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
    yield "visits", f"{state.visits:,}"
    yield "read", output.counted(state.bytes_read, "byte")
    if state.last_visit_at is not None:
        yield "last visit", output.ago(state.last_visit_at, now)
    due_at = not_before(state)
    is_endless = output.span(due_at - now) == output.ENDLESS
    yield "next visit", "never" if is_endless else output.time_left(due_at, now, "not before", over="now")
    if state.failures:
        last = output.ago(state.blocked_at, now) + ("" if state.blocked_until_at > now else ", over")
        yield "blocks", f"{state.failures:,} in a row, the last since {last}"
    if state.budget_began_at is not None:
        pages, read = output.counted(state.budget_pages, "page"), output.counted(state.budget_bytes, "byte")
        is_endless = output.span(state.budget_ends_at - now) == output.ENDLESS
        anew = "it is there once" if is_endless else f"anew {output.moment(state.budget_ends_at)}"
        yield "budget", f"{pages} and {read} used since {output.ago(state.budget_began_at, now)}; {anew}"
    if state.learned_delay:
        yield "learned delay", f"{state.learned_delay:.3g} s between visits"
    if state.latency is not None:
        yield "latency", f"{state.latency:.3f} s"
