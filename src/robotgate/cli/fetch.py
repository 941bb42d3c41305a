"""``robotgate fetch``: any number of URLs through one gate, in bounded memory; a row of JSON for each."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack, ExitStack, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import aiohttp
import click

from robotgate import Origin, __version__
from robotgate.cli import check, common, keep, output, signing
from robotgate.cli.files import MAX_URL_BYTES, check_length, read_urls
from robotgate.cli.progress import Outcome, Progress
from robotgate.errors import DisallowedError, HostUnavailableError, InvalidURLError, TooSoonError, UsageError
from robotgate.status import serve
from robotgate.usage import Purpose
from robotgate.usage.values import structured_fields

if TYPE_CHECKING:
    from collections.abc import AsyncIterable
    from typing import IO

    from robotgate import Response, RobotGate, Verdict

Row: TypeAlias = dict[str, object]

MAX_TAKEN: Final = 20_000
"""URLs in memory: enough that a list sorted by host still keeps many hosts busy."""
MAX_VISITED: Final = 1000
"""URLs that are given to the gate at once. Most of the time each waits for its host's turn."""
_POSITIVE: Final = click.FloatRange(0, min_open=True)
_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_FILE: Final = click.Path(path_type=Path)


@dataclass(slots=True, kw_only=True)
class Crawl:
    """One run of ``robotgate fetch``: what it fetches with, and what it writes of each page."""

    done: set[bytes]
    """URLs that have a row already, as digests."""
    folder: Path | None
    """For bodies."""
    has_headers: bool
    """Whether rows have the headers of the responses."""
    has_usage: bool
    """Whether rows, files and records have what is said about the use of the page."""
    timeout: float
    """Seconds of a request after its wait."""
    per_host: int
    """URLs of a host that are given to the gate at once. More could only wait for each other."""
    rows: IO[str] | None = None
    """None for standard output."""
    warc: keep.WarcFile | None = None
    progress: Progress = field(default_factory=Progress)
    is_read: bool = False
    """Whether the URLs have been read to their end."""
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_TAKEN))
    _visited: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_VISITED))
    _hosts: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    """Lets so many URLs of each host through."""

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
            # The first visitor that failed is the reason.
            raise group.exceptions[0] from group.exceptions[0].__cause__

    async def _add(self, gate: RobotGate, url: str, tasks: asyncio.TaskGroup) -> None:
        if keep.digest(url[:MAX_URL_BYTES]) in self.done:
            self.progress.skipped += 1
            return
        try:
            check_length(url)
            host = Origin.of(url).host
        except InvalidURLError as error:
            self.progress.outcomes[Outcome.INVALID] += 1
            self._write(refused(url[:MAX_URL_BYTES], error))
            return
        await self._room.acquire()
        self.progress.begin(host, url)
        tasks.create_task(self._visit(gate, host, url))

    async def _visit(self, gate: RobotGate, host: str, url: str) -> None:
        """Fetch a URL after those of its host that came before, and write its row."""
        # Those who wait here come in turn, so every host gets on.
        async with self._hosts.setdefault(host, asyncio.Semaphore(self.per_host)), self._visited:
            row = await self._fetch(gate, url)
            self._write(row)
        self.progress.finish(host, Outcome(row["outcome"]))
        if host not in self.progress.waiting:
            del self._hosts[host]
        self._room.release()

    async def _fetch(self, gate: RobotGate, url: str) -> Row:
        """Fetch and keep a page, and return its row."""
        if self.warc is not None:
            self.warc.begin()
        try:
            # A WARC file has bodies as the server sends them, so they are asked for without a Content-Encoding.
            plain = {} if self.warc is None else {"Accept-Encoding": "identity"}
            response = await gate.fetch(url, timeout=aiohttp.ClientTimeout(self.timeout), headers=plain)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return refused(url, error)
        row = fetched(url, response)
        said = check.usage_columns(response.usage) if self.has_usage else {}
        headers = {"headers": list(response.headers.items())}
        with common.doing(f"keep {url}"):
            if self.warc is not None:
                await self.warc.save(response, said)
            if self.folder is not None:
                row["file"] = name = keep.file_name(url, keep.media_type_of(response))
                await keep.save(self.folder, name, response.body, row | headers | said)
        return row | (headers if self.has_headers else {}) | said

    def _write(self, row: Row) -> None:
        with common.doing("write"):
            # Looked up each time: while progress is shown on a terminal, rows go above it.
            rows = self.rows or sys.stdout
            rows.write(output.json_of(row) + "\n")
            # At once: what is done stays done, however the run ends.
            rows.flush()


def refused(url: str, error: aiohttp.ClientError | TimeoutError | OSError) -> Row:
    """Return the row of a page that was not fetched."""
    match error:
        case DisallowedError():
            return _row(url, Outcome.BLOCKED) | _judged(error.verdict)
        case UsageError():
            return _row(url, Outcome.BLOCKED, final_url=error.url, reason=str(error))
        case InvalidURLError():
            return _row(url, Outcome.INVALID, error=type(error).__name__, message=output.problem_of(error))
        case TooSoonError():
            return _row(url, Outcome.TOO_SOON, retry_after=round(error.retry_after, 3))
        case HostUnavailableError():
            judged = {} if error.verdict is None else _judged(error.verdict)
            more = {"retry_after": round(error.retry_after, 3), "message": output.in_plain_words(error.cause)}
            return _row(url, Outcome.UNAVAILABLE) | judged | more
        case _:
            message = output.in_plain_words(str(error)) or "no answer in time"
            return _row(url, Outcome.FAILED, error=type(error).__name__, message=message)


def _judged(verdict: Verdict) -> Row:
    return {"final_url": verdict.url, **check.judged(verdict)}


def fetched(url: str, response: Response) -> Row:
    """Return the row of a page that has been fetched just now."""
    ended_at = time.time()
    return _row(
        url,
        Outcome.FETCHED,
        status=response.status,
        final_url=response.url,
        bytes=len(response.body),
        waited=round(response.waited, 3),
        elapsed=round(response.elapsed, 3),
        sent_at=round(ended_at - response.elapsed, 3),
        ended_at=round(ended_at, 3),
        media_type=keep.media_type_of(response),
    )


def _row(url: str, outcome: Outcome, **columns: str | float | None) -> Row:
    empty = dict.fromkeys(("status", "final_url", "bytes", "waited", "elapsed", "sent_at"))
    return {"url": url, "outcome": outcome.value, **empty, "ended_at": round(time.time(), 3), **columns}


@click.command(cls=common.Command, short_help="Fetch URLs politely: one row of JSON for each.")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@common.input_option
@common.option(
    "-o", "--output", "target", type=common.OUTPUT_FILE, default="-", help="Write the rows to a file."
)
@common.flag("--resume", help="Append to the file of -o, and skip the URLs that it has.")
@common.flag("--headers", "has_headers", help="Put the responses' headers into the rows.")
@common.option(
    "--save-dir", metavar="DIR", type=_FOLDER, help="Save each body in a file, its headers beside it."
)
@common.option(
    *("--warc", "warc_path"),
    metavar="FILE",
    type=_FILE,
    help="Write all requests and responses to a new WARC file; needs robotgate[warc].",
)
@common.gate_options()
@common.shown("--delay", default=1.0, help="Seconds between requests to a host, at least.")
@common.option(
    "--rate",
    metavar="N/SECONDS",
    type=common.rate,
    help="At most N requests to a host in so many seconds, such as 600/3600.",
)
@common.shown("--concurrency-per-host", default=1, help="Requests to one host at once, at most.")
@common.shown("--concurrency", default=256, help="Requests at once, over all hosts.")
@common.option("--max-wait", type=float, help="Seconds a URL may wait for its turn; unlimited by default.")
@common.shown("--max-delay", default=60.0, help="Refuse sites that ask for more seconds.")
@common.shown("--max-block", default=300.0, help="The longest Retry-After to wait out, in seconds.")
@common.shown("--max-bytes", default=10 * 1024 * 1024, help="The longest body to read.")
@common.shown("--timeout", default=60.0, type=_POSITIVE, help="Seconds of a request after its wait.")
@signing.sign_options
@common.flag(
    "--usage", "has_usage", help="Add what the site says about the use of each page to what is kept of it."
)
@common.option(
    "--purpose",
    "purposes",
    type=click.Choice(list(map(str, Purpose))),
    multiple=True,
    help="What you do with pages: those for which the site disallows it are blocked. May be repeated.",
)
@common.flag("--tdmrep", help="Request the tdmrep.json of each site, for tdm.")
@common.option(
    "--status",
    "status_address",
    metavar="HOST:PORT",
    type=common.address,
    help="Serve a status page, such as at 127.0.0.1:8099, while the command runs.",
)
@common.option(
    "--status-token",
    envvar="ROBOTGATE_STATUS_TOKEN",
    show_envvar=True,
    help="What readers of the status page have to give; other machines can read it only with one.",
)
@common.flag(
    "--status-controls", help="The status page has buttons that block hosts and request robots.txt again."
)
@common.store_options
def fetch(
    *,
    urls: tuple[str, ...],
    source: str | None,
    target: str,
    resume: bool,
    has_headers: bool,
    save_dir: Path | None,
    warc_path: Path | None,
    concurrency_per_host: int,
    timeout: float,
    has_usage: bool,
    store_path: str | None,
    key_file: str | None,
    agent_url: str | None,
    agent_form: str,
    status_address: tuple[str, int] | None,
    status_token: str | None,
    status_controls: bool,
    **options: object,
) -> None:
    """Fetch URLs politely and write one row of JSON for each.

    A row's outcome is fetched (whatever the status), blocked (by robots.txt or --purpose), unavailable (the host is
    down, or asked us to stay away), too_soon (see --max-wait), invalid or failed. Rows come in the order in which the
    URLs are done, each written at once. In a file, blank lines and lines that begin with # are skipped. What is learnt
    of hosts is stored for the next run: see `robotgate cache`.

    --status shows the run as a web page, read-only unless --status-controls is given: see docs/status.md.

    Bodies are kept only with --save-dir or --warc. After Ctrl-C, --resume continues a run that has -o.

    Exit status: 0 when every URL was fetched or blocked, 1 when any was not, 2 for wrong usage or when a file cannot
    be read or written, 130 after Ctrl-C.
    """
    if has_usage or options["purposes"] or options["tdmrep"]:
        # Needs an extra.
        structured_fields()
    if not urls and source is None:
        raise click.UsageError("Give URLs, or a file of them with -i.")
    if resume and target == "-":
        raise click.UsageError("--resume needs the file of -o.")
    if source and Path(source).is_file() and Path(target).exists() and Path(target).samefile(source):
        raise click.UsageError("-o would overwrite the URLs of -i.")
    store = common.store_of(store_path)
    options |= {
        "concurrency_per_host": concurrency_per_host,
        "signer": signing.signer_of(key_file, agent_url, agent_form),
    }
    is_quiet = common.verbosity() < 0
    with common.doing(f"read {target}"):
        done = keep.done_urls(Path(target)) if resume else set()
    with ExitStack() as stack:
        crawl = Crawl(
            done=done,
            folder=save_dir,
            has_headers=has_headers,
            has_usage=has_usage,
            timeout=timeout,
            per_host=concurrency_per_host,
        )

        async def run(gate: RobotGate) -> None:
            # Only now: a wrong option of the gate empties no file.
            crawl.rows, crawl.warc = _opened(stack, target, save_dir, warc_path, has_rows=resume)
            async with AsyncExitStack() as serving:
                if status_address is not None:
                    page = serve(gate, *status_address, token=status_token, controls=status_controls)
                    with common.doing("serve --status at {}:{}".format(*status_address)):
                        output.say(f"status page: {await serving.enter_async_context(page)}")
                await crawl.run(gate, read_urls(urls, source), quiet=is_quiet)

        try:
            common.run_with_gate(store, run, options, () if warc_path is None else (keep.record,))
        except KeyboardInterrupt:
            left = output.counted(crawl.progress.waiting.total(), "URL")
            rest = "" if crawl.is_read else " and what was left to read"
            output.say(f"interrupted: {crawl.progress.summary()}; {left}{rest} not done")
            raise SystemExit(common.INTERRUPTED) from None
    if not is_quiet:
        output.say(crawl.progress.summary())
    raise SystemExit(1 if crawl.progress.failed else 0)


def _opened(
    stack: ExitStack, target: str, save_dir: Path | None, warc_path: Path | None, *, has_rows: bool
) -> tuple[IO[str] | None, keep.WarcFile | None]:
    """Open the file of rows and the WARC file, which the stack closes, and make the folder of bodies."""
    rows = warc = None
    if target != "-":
        with common.doing(f"write {target}"):
            rows = stack.enter_context(click.open_file(target, "a" if has_rows else "w", encoding="utf-8"))
    if save_dir is not None:
        with common.doing(f"make {save_dir}"):
            save_dir.mkdir(parents=True, exist_ok=True)
    if warc_path is not None:
        with common.doing(f"write {warc_path}"):
            warc = stack.enter_context(closing(keep.WarcFile(warc_path, f"robotgate/{__version__}")))
    return rows, warc
