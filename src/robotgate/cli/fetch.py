"""``robotgate fetch``: any number of URLs through one gate, in bounded memory; a row of JSON for each.

`Crawl` is one run.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import sys
from contextlib import AsyncExitStack, closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import click
from multidict import CIMultiDict

from robotgate import (
    Budget,
    Dialect,
    OpenHours,
    Origin,
    PaceKey,
    Recheck,
    RobotGate,
    __version__,
    errors,
)
from robotgate.cli import check, common, config, files, lists, output, signing
from robotgate.cli.progress import Progress
from robotgate.cli.rows import Earlier, Outcome, Row, fetched, is_failed, is_passing, refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterable
    from typing import IO

MAX_TAKEN: Final = 20_000
"""URLs in memory: enough that a list sorted by host still keeps many hosts busy."""
MAX_VISITED: Final = 1000
"""URLs that are given to the gate at once. Most of the time each waits for its host's turn."""
_POSITIVE: Final = click.FloatRange(0, min_open=True)
_HEADER_NAME: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_NOT_YOURS: Final = {
    "user-agent": "it is that of --agent",
    "from": "it is that of --contact",
    **dict.fromkeys(("signature", "signature-agent", "signature-input"), "--sign makes it"),
    **dict.fromkeys(("host", "content-length", "transfer-encoding"), "each request has its own"),
}
"""Headers that --header does not take, in lower case, and why."""


@dataclass(slots=True, kw_only=True)
class Crawl:
    """One run of ``robotgate fetch``: what it fetches with, and what it writes of each page."""

    earlier: Earlier
    """What earlier runs have done."""
    seen: lists.Digests | None
    """The URLs of this run, by `lists.key_of`; None if each is visited as often as it comes."""
    folder: Path | None
    """For bodies."""
    has_headers: bool
    """Whether rows have the headers of the responses."""
    has_preferences: bool
    """Whether rows, files and records have what the site says about the use of the page."""
    timeout: float
    """Seconds of a request after its wait."""
    retries: int
    """Of each page, at most."""
    headers: CIMultiDict[str]
    """Of requests for pages."""
    per_host: int
    """URLs of a host that are given to the gate at once. More could only wait for each other."""
    rows: IO[str] | None = None
    """None for standard output."""
    warc: files.WarcFile | None = None
    progress: Progress = field(default_factory=Progress)
    is_read: bool = False
    """Whether the URLs have been read to their end."""
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_TAKEN))
    _visited: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_VISITED))
    _hosts: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    """Of each host that has URLs: limits them to `per_host`."""

    async def run(self, gate: RobotGate, urls: AsyncIterable[str], *, quiet: bool) -> None:
        """Fetch the URLs.

        Raises:
            CommandError: a row or a page could not be written, or the URLs not be read.
        """
        showing = nullcontext() if quiet else self.progress.shown(gate)
        try:
            async with showing, asyncio.TaskGroup() as tasks:
                async for url in urls:
                    await self._add(gate, url, tasks)
                self.is_read = True
        except BaseExceptionGroup as group:
            # The first task that failed is the reason.
            raise group.exceptions[0] from group.exceptions[0].__cause__

    async def _add(self, gate: RobotGate, url: str, tasks: asyncio.TaskGroup) -> None:
        shown = lists.shown(url)
        key = lists.key_of(shown)
        if not self._is_wanted(key):
            return
        attempt = self.earlier.attempts.get(key, 0) + 1
        try:
            lists.check_url(url)
            host = Origin.of(url).host
        except errors.InvalidURLError as error:
            self.progress.outcomes[Outcome.INVALID] += 1
            self._write(refused(shown, error) | {"attempt": attempt})
            return
        await self._room.acquire()
        self.progress.begin(host, url)
        tasks.create_task(self._visit(gate, host, url, attempt))

    def _is_wanted(self, key: bytes) -> bool:
        """Count a URL that has been done or has come before; return whether to visit it."""
        progress = self.progress
        if self.seen is not None and not self.seen.add(key):
            progress.repeated += 1
        elif key in self.earlier.done:
            progress.skipped += 1
            progress.lost += key in self.earlier.lost
        else:
            return True
        return False

    async def _visit(self, gate: RobotGate, host: str, url: str, attempt: int) -> None:
        """Fetch a URL after those of its host that came before, and write its row."""
        # Tasks that wait here are served in order, so every host makes progress.
        async with self._hosts.setdefault(host, asyncio.Semaphore(self.per_host)), self._visited:
            row = await self._fetch(gate, url)
            self._write(row | {"attempt": attempt})
        outcome = Outcome(str(row["outcome"]))
        self.progress.finish(host, outcome)
        self.progress.busy += outcome is Outcome.FETCHED and is_passing(row)
        if host not in self.progress.left:
            del self._hosts[host]
        self._room.release()

    async def _fetch(self, gate: RobotGate, url: str) -> Row:
        """Fetch and keep a page, and return its row."""
        if self.warc is not None:
            self.warc.begin()
        try:
            timeout = aiohttp.ClientTimeout(self.timeout)
            response = await gate.fetch(url, timeout=timeout, retries=self.retries, headers=self.headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return refused(url, error)
        row = fetched(url, response)
        said = check.preference_columns(response.preferences) if self.has_preferences else {}
        headers = {"headers": list(response.headers.items())}
        with common.os_errors(f"keep {url}"):
            if self.warc is not None:
                await self.warc.save(response, said)
            if self.folder is not None:
                row["file"] = name = files.file_name(url, files.media_type_of(response))
                await files.save(self.folder, name, response.body, row | headers | said)
        return row | (headers if self.has_headers else {}) | said

    def _write(self, row: Row) -> None:
        with common.os_errors("write"):
            # Looked up each time: while progress is shown on a terminal, rows go above it.
            rows = self.rows or sys.stdout
            rows.write(output.json_of(row) + "\n")
            # At once: what is done stays done, however the run ends.
            rows.flush()


def _rate(text: str) -> tuple[int, float]:
    """Read ``600/3600``: so many requests in so many seconds."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9}(?:\.[0-9]{1,9})?)", text)
    if found is None or not (int(found[1]) and float(found[2])):
        raise click.BadParameter("give requests/seconds, such as 600/3600")
    return int(found[1]), float(found[2])


def _budget(given: object) -> Budget:
    """Read ``1000``, or ``1000/86400``: so many pages, or so many in so many seconds. A file may have a number."""
    found = re.fullmatch(r"([0-9]{1,9})(?:/([0-9]{1,9}(?:\.[0-9]{1,9})?))?", str(given))
    try:
        return Budget(pages=int(found[1]), per=None if found[2] is None else float(found[2]))  # type: ignore[index]
    except (TypeError, errors.OptionError) as error:
        raise click.BadParameter("give pages or pages/seconds, such as 1000 or 1000/86400") from error


def _hours(text: str) -> OpenHours:
    try:
        return OpenHours.parse(text)
    except errors.OptionError as error:
        raise click.BadParameter(str(error)) from error


def _recheck(text: str) -> Recheck:
    """Read ``1000``, so many visits, or ``600s``, so many seconds."""
    found = re.fullmatch(r"([0-9]{1,9})(s?)", text)
    if found is None or not int(found[1]):
        raise click.BadParameter("give requests, such as 1000, or seconds, such as 600s")
    return Recheck(age=int(found[1])) if found[2] else Recheck(visits=int(found[1]))


def _header(text: str) -> str:
    """Check ``Accept-Language: de``."""
    name, colon, value = text.partition(":")
    if not colon or not _HEADER_NAME.fullmatch(name) or not value.isprintable():
        raise click.BadParameter("give a name and a value, such as 'Accept-Language: de'")
    if reason := _NOT_YOURS.get(name.lower()):
        raise click.BadParameter(f"{name}: {reason}")
    return text


_rate_option = partial(click.option, metavar="N/SECONDS", type=_rate)
_pace_options = common.all_of(
    common.gate_setting("--delay", help="Seconds between requests to a host, at least."),
    _rate_option("--rate", help="At most N requests to a host in so many seconds, such as 600/3600."),
    _rate_option("--total-rate", help="As --rate, for the requests to all hosts together."),
    click.option(
        *("--max-pages-per-host", "budget"),
        metavar="N[/SECONDS]",
        type=_budget,
        help="At most N pages of a host, or N in so many seconds, such as 1000/86400. The store remembers them for"
        " later runs; robotgate cache forget gives a host as many anew.",
    ),
    click.option(
        *("--max-pages-per-origin", "origin_budget"),
        metavar="N[/SECONDS]",
        type=_budget,
        help="As --max-pages-per-host, of each scheme, host and port.",
    ),
    click.option("--bytes-per-second", type=float, help="Bytes that are read from a host, on average."),
    click.option(
        "--total-bytes-per-second", type=float, help="As --bytes-per-second, of all hosts together."
    ),
    common.gate_setting("--concurrency-per-host", help="Requests to one host at once, at most."),
    common.gate_setting("--concurrency", help="Requests at once, over all hosts."),
    common.gate_setting(
        "--shared-total/--own-total",
        help="Whether --concurrency and the limits of all hosts are those of all processes with the same cache.",
    ),
    common.gate_setting("--robots-concurrency", help="Requests for robots.txt at once, over all hosts."),
    click.option("--max-wait", type=float, help="Seconds a URL may wait for its turn; unlimited by default."),
    common.gate_setting("--max-delay", help="Refuse sites that ask for more seconds."),
    common.gate_setting("--max-block", help="The longest Retry-After to wait out, in seconds."),
    common.gate_setting("--give-up-after", help="Seconds to wait for a host that cannot be reached."),
    common.gate_setting("--latency-factor", help="A delay of so many times the response time, at least."),
    common.gate_setting("--obey-crawl-delay/--ignore-crawl-delay", help="Whether Crawl-delay counts."),
    common.gate_setting(
        "--obey-rate-limit-fields/--ignore-rate-limit-fields", help="Whether RateLimit counts."
    ),
    common.gate_setting("--adaptive/--not-adaptive", help="Whether 429 and 503 teach a delay."),
    common.gate_setting("--obey-visit-time/--ignore-visit-time", help="Whether Visit-time counts."),
    click.option(
        *("--open-hours", "open_hours"),
        metavar="HOURS",
        type=_hours,
        help="Visit hosts only in these hours, such as 'Mo-Fr 22:00-06:00, Sa-Su Europe/Berlin'; UTC without a zone.",
    ),
    click.option(
        *("--pace-key", "pace_key"),
        type=click.Choice(common.names_of(PaceKey)),
        default="host",
        show_default=True,
        help="What is paced together.",
    ),
    common.gate_setting(
        "--address-delay", help="Seconds between requests to one server's address, at least."
    ),
    click.option("--address-concurrency", type=int, help="Requests to one address at once, at most."),
    click.option(
        "--address-exempt",
        metavar="NETWORK",
        multiple=True,
        help="Do not pace the addresses of this network, such as 203.0.113.0/24. May be repeated.",
    ),
    click.option(
        "--dialect",
        type=click.Choice(common.names_of(Dialect)),
        default="rfc9309",
        show_default=True,
        help="The standard by which robots.txt is read.",
    ),
    click.option(
        "--recheck",
        metavar="N|SECONDS",
        type=_recheck,
        help="Request robots.txt again after so many requests to a host, as 1000, or so many seconds, as 600s.",
    ),
    common.gate_setting("--max-hosts", help="Hosts that are kept in memory."),
    common.gate_setting("--max-bytes", help="The longest body to read."),
)


@click.command(cls=common.Command, short_help="Fetch URLs politely: one row of JSON for each.")
@common.url_options
@click.option(
    "-o", "--output", "target", type=common.OUTPUT_FILE, default="-", help="Write the rows to a file."
)
@common.flag(
    "--resume",
    help="Append to the file of -o, and skip the URLs that it has, but for failures that may pass.",
)
@common.flag("--retry-failed", help="With --resume: also ask again for what failed for good.")
@common.flag("--repeat", help="Visit a URL as often as it comes, instead of once.")
@common.flag("--headers", "has_headers", help="Put the responses' headers into the rows.")
@common.folder_option("--save-dir", "folder", help="Save each body in a file, its headers beside it.")
@click.option(
    *("--warc", "warc_path"),
    metavar="FILE",
    type=common.FILE,
    help="Write all requests and responses to a new WARC file, with --resume to pages-2.warc.gz if there is"
    " pages.warc.gz; needs robotgate[warc].",
)
@common.gate_options()
@_pace_options
@common.setting("--timeout", default=60.0, type=_POSITIVE, help="Seconds of a request after its wait.")
@common.setting(
    *("--retries", "retries"),
    default=0,
    type=click.IntRange(0),
    help="How often to repeat a request that got no answer, or a 429, 502, 503 or 504.",
)
@click.option(
    *("--header", "page_headers"),
    metavar="NAME:VALUE",
    type=_header,
    multiple=True,
    help="Send a header with each request for a page. May be repeated.",
)
@signing.sign_options
@common.flag(
    "--preferences",
    "has_preferences",
    help="Add what the site says about the use of each page to what is kept of it.",
)
@common.purpose_option
@common.flag("--tdmrep", help="Request the tdmrep.json of each site, for tdm.")
@common.address_option(
    "--dashboard",
    "dashboard_at",
    help="Serve a dashboard, such as at 127.0.0.1:8099, while the command runs.",
)
@click.option(
    "--dashboard-token",
    envvar="ROBOTGATE_STATUS_TOKEN",
    show_envvar=True,
    help="What readers of the dashboard have to give; other machines can read it only with one.",
)
@common.flag(
    "--dashboard-controls", help="The dashboard has buttons that block hosts and request robots.txt again."
)
@common.store_options
async def fetch(
    *,
    urls: tuple[str, ...],
    source: str | None,
    target: str,
    resume: bool,
    retry_failed: bool,
    repeat: bool,
    has_headers: bool,
    folder: Path | None,
    warc_path: Path | None,
    concurrency_per_host: int,
    timeout: float,
    retries: int,
    page_headers: tuple[str, ...],
    has_preferences: bool,
    dashboard_at: tuple[str, int] | None,
    dashboard_token: str | None,
    dashboard_controls: bool,
    **_: object,
) -> int:
    """Fetch URLs politely and write one row of JSON for each.

    A row's outcome is fetched (whatever the status), blocked (by robots.txt or --purpose), unavailable (the host is
    down, or asked us to stay away), too_soon (see --max-wait), over_budget (see --max-pages-per-host), invalid or
    failed. Rows come in the order in which the URLs are done, each written at once. In a file, which is in UTF-8 or has
    a byte order mark, blank lines and lines that begin with # are skipped. A URL that comes twice is visited once,
    whatever its fragment. What is learnt of hosts is stored for the next run: see `robotgate cache`.

    --dashboard shows the run as a web page, read-only unless --dashboard-controls is given.

    Bodies are kept only with --save-dir or --warc. After Ctrl-C, --resume continues a run that has -o. It also asks
    again for URLs that failed for a reason that may have passed: unavailable, too_soon, over_budget, failed, or fetched
    with status 429, 502, 503 or 504; `attempt` in their rows counts. It leaves what failed for good: blocked, invalid,
    too long, redirected without end, or fetched with another status; --retry-failed asks for these again, too.

    Exit status: 0 when every URL was fetched or blocked, by an earlier run of --resume too, 1 when any was not, or was
    fetched with status 429, 502, 503 or 504, 2 for wrong usage or when a file cannot be read or written, 130 after
    Ctrl-C, 141 when the rows are read no more.
    """
    check.check_given(urls, source, has_preferences=has_preferences)
    if resume and target == "-":
        raise click.UsageError("--resume needs the file of -o.")
    if retry_failed and not resume:
        raise click.UsageError("--retry-failed needs --resume.")
    if source is not None and _is_same_file(source, target):
        raise click.UsageError("-o would overwrite the URLs of -i.")
    store = common.store_of_options()
    signer = signing.signer_of_options()
    with common.os_errors(f"read {target}"):
        earlier = Earlier(is_failed if retry_failed else is_passing)
        if resume:
            earlier.read(Path(target))
    pairs = (text.partition(":") for text in page_headers)
    headers = CIMultiDict((name, value.strip()) for name, _, value in pairs)
    warc = None
    if warc_path is not None:
        warc = files.WarcFile(files.free_path(warc_path) if resume else warc_path, f"robotgate/{__version__}")
        # The file has bodies as the server sends them, so they are asked for without a Content-Encoding.
        headers["Accept-Encoding"] = "identity"
    overrides = config.hosts_of(click.get_current_context()).overrides.values()
    of_hosts = [each.given.get("concurrency_per_host", 1) for each in overrides]
    crawl = Crawl(
        earlier=earlier,
        seen=None if repeat else lists.Digests(),
        folder=folder,
        has_headers=has_headers,
        has_preferences=has_preferences,
        timeout=timeout,
        retries=retries,
        headers=headers,
        warc=warc,
        per_host=max([concurrency_per_host, *of_hosts]),
    )
    is_quiet = common.verbosity() < 0

    try:
        async with common.opened_gate(store, signer, crawl.warc) as gate, AsyncExitStack() as stack:
            if dashboard_at is not None:
                await _serve_dashboard(
                    stack, gate, *dashboard_at, token=dashboard_token, controls=dashboard_controls
                )
            # Only now: a command that fails before it requests anything empties no file.
            crawl.rows = _opened(stack, target, folder, crawl.warc, has_rows=resume)
            await crawl.run(gate, lists.read_urls(urls, source), quiet=is_quiet)
    except asyncio.CancelledError:
        left = output.counted(crawl.progress.left.total(), "URL")
        rest = "" if crawl.is_read else " and what was left to read"
        output.to_stderr(f"interrupted: {crawl.progress.summary()}; {left}{rest} not done")
        raise
    if not is_quiet:
        output.to_stderr(crawl.progress.summary())
    return 1 if crawl.progress.failed else 0


async def _serve_dashboard(
    stack: AsyncExitStack, gate: RobotGate, host: str, port: int, *, token: str | None, controls: bool
) -> None:
    """Serve the dashboard until the stack is closed, and tell its URL."""
    # A server takes a tenth of a start to import.
    from robotgate.dashboard import serve  # noqa: PLC0415

    page = serve(gate, host, port, token=token, controls=controls)
    try:
        with common.os_errors(f"serve --dashboard at {host}:{port}"):
            url = await stack.enter_async_context(page)
    except errors.OptionError as error:
        name, _, problem = str(error).partition(": ")
        option = "--dashboard-token" if name == "token" else "--dashboard"
        raise click.UsageError(f"{option}: {problem}") from error
    output.to_stderr(f"dashboard: {url}")


def _is_same_file(source: str, target: str) -> bool:
    return Path(source).is_file() and Path(target).exists() and Path(target).samefile(source)


def _opened(
    stack: AsyncExitStack, target: str, folder: Path | None, warc: files.WarcFile | None, *, has_rows: bool
) -> IO[str] | None:
    """Open the WARC file, and that of rows, which the stack closes, and make the folder of bodies."""
    rows = None
    if target != "-":
        with common.os_errors(f"write {target}"):
            rows = stack.enter_context(click.open_file(target, "a", encoding="utf-8"))
    if folder is not None:
        with common.os_errors(f"make {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
    if warc is not None:
        with common.os_errors(f"write {warc.path}"):
            stack.enter_context(closing(warc.open()))
    if rows is not None and not has_rows and stat.S_ISREG(os.fstat(rows.fileno()).st_mode):
        rows.truncate(0)
    return rows
