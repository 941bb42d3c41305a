"""``robotgate fetch``: any number of URLs through one gate, in bounded memory; a row of JSON for each."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, Unpack

import aiohttp
import click

from robotgate import (
    DisallowedError,
    HostUnavailableError,
    InvalidURLError,
    Origin,
    RobotGateError,
    TooSoonError,
    UsageError,
    __version__,
)
from robotgate.cli import common, output, signing, status, usage
from robotgate.cli.keep import (
    Done,
    Folder,
    WarcFile,
    WarcMissingError,
    exchanges,
    header_pairs,
    media_type_of,
    record_exchange,
)
from robotgate.cli.lines import (
    CHUNK_BYTES,
    MAX_URL_BYTES,
    STANDARD_INPUT,
    LineSplitter,
    is_too_long,
    open_input,
    read_lines,
    urls_of,
)
from robotgate.cli.output import Outcome, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import IO

    from robotgate import Response, RobotGate, Verdict
    from robotgate.cli.keep import Exchange

Row: TypeAlias = dict[str, object]

MAX_TAKEN: Final = 20_000
"""URLs in memory: enough that a list sorted by host still keeps many hosts busy."""
MAX_WORKERS: Final = 1000
"""Tasks, each with one host. Most of the time a task waits for its host's turn."""
_POSITIVE: Final = click.FloatRange(0, min_open=True)
PLAIN_PERIOD: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""


class OutputError(Exception):
    """A row or a kept page could not be written; the cause is an `OSError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What is written of each page."""

    rows: IO[str]
    has_headers: bool = False
    """Whether rows have the headers of the responses."""
    folder: Folder | None = None
    warc: WarcFile | None = None
    done: Done
    """URLs that have a row already."""

    async def page(
        self, url: str, response: Response, found: Sequence[Exchange], said: Row, ended_at: float
    ) -> Row:
        """Keep a page with what was said about its use, and return the columns that say where."""
        if self.warc is not None:
            await self.warc.save(response, found, said)
        columns: Row = {"media_type": media_type_of(response)}
        if self.has_headers:
            columns["headers"] = header_pairs(response)
        if self.folder is not None:
            columns["file"] = await self.folder.save(url, response, said, ended_at=ended_at)
        return columns | said

    def row(self, row: Row) -> None:
        """Write a row.

        Raises:
            OutputError: it cannot be written.
        """
        try:
            self.rows.write(json.dumps(row) + "\n")
            # At once: what is done stays done, however the run ends.
            self.rows.flush()
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror}") from error


class HostQueues:
    """URLs to fetch, by host. One worker has a host at a time: a second one could only wait for the first."""

    def __init__(self, max_taken: int) -> None:
        self._room = asyncio.Semaphore(max_taken)
        self._urls: dict[str, deque[str]] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()

    async def add(self, host: str, url: str) -> None:
        """Add a URL; wait until there is room for it."""
        await self._room.acquire()
        if host in self._urls:
            self._urls[host].append(url)
        else:
            self._urls[host] = deque([url])
            self._ready.put_nowait(host)

    async def take(self) -> tuple[str, str]:
        """Return a host that no worker has, and its next URL; wait until there is one."""
        host = await self._ready.get()
        return host, self._urls[host].popleft()

    def give_back(self, host: str) -> None:
        """Put a host at the end of the line: the URL that was taken is done."""
        self._room.release()
        if self._urls[host]:
            self._ready.put_nowait(host)
        else:
            del self._urls[host]
        self._ready.task_done()

    async def all_done(self) -> None:
        """Wait until every URL is done."""
        await self._ready.join()


class Crawl:
    """One run of ``robotgate fetch``."""

    def __init__(
        self, gate: RobotGate, keep: Keep, tally: Tally, *, timeout: float, with_usage: bool = False
    ) -> None:
        self._with_usage = with_usage
        self._tally = tally
        self._gate = gate
        self._keep = keep
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        # A WARC file has bodies as the server sends them, so they are asked for without a Content-Encoding.
        self._headers = None if keep.warc is None else {"Accept-Encoding": "identity"}
        self._queues = HostQueues(MAX_TAKEN)
        self._workers: set[asyncio.Task[None]] = set()
        self._current: dict[str, str] = {}
        """The URL that a worker has of each host."""

    async def run(self, urls: Iterable[str], source: str | None, *, quiet: bool) -> None:
        """Fetch the URLs, and those of a source (a file, or ``-`` for standard input).

        Raises:
            OutputError: a row or a page could not be written.
            OSError: the source could not be read.
        """
        descriptor = None if source is None else open_input(source)
        progress = output.Progress(
            output.console(stderr=True), self._tally, due_in=self._due_in, plain_period=PLAIN_PERIOD
        )
        try:
            async with nullcontext() if quiet else progress.shown(), asyncio.TaskGroup() as tasks:
                await self._add(urls, tasks)
                if descriptor is not None:
                    async for lines in read_lines(descriptor, max_bytes=MAX_URL_BYTES):
                        await self._add(urls_of(lines), tasks)
                await self._queues.all_done()
                for worker in self._workers:
                    worker.cancel()
        except BaseExceptionGroup as group:
            # One error is raised: that of the first worker that failed.
            error = _first(group)
            raise error from error.__cause__

    async def _add(self, urls: Iterable[str], tasks: asyncio.TaskGroup) -> None:
        for url in urls:
            if url[:MAX_URL_BYTES] in self._keep.done:
                self._tally.skipped += 1
                continue
            try:
                host = _host(url)
            except InvalidURLError as error:
                self._tally.outcomes[Outcome.INVALID] += 1
                self._keep.row(refused(url[:MAX_URL_BYTES], error))
                continue
            await self._queues.add(host, url)
            self._tally.take(host)
            if len(self._workers) < MAX_WORKERS:
                self._workers.add(tasks.create_task(self._work()))

    async def _work(self) -> None:
        while True:
            host, url = await self._queues.take()
            self._current[host] = url
            row = await self._fetch(url)
            self._keep.row(row)
            self._tally.finish(host, Outcome(row["outcome"]))
            del self._current[host]
            self._queues.give_back(host)

    async def _fetch(self, url: str) -> Row:
        with exchanges() as found:
            try:
                if self._headers is None:
                    response = await self._gate.fetch(url, timeout=self._timeout)
                else:
                    response = await self._gate.fetch(url, timeout=self._timeout, headers=self._headers)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                return refused(url, error)
        ended_at = time.time()
        said = usage.columns(response.usage) if self._with_usage else {}
        try:
            kept = await self._keep.page(url, response, found, said, ended_at)
            return _fetched(url, response, ended_at) | kept
        except OSError as error:
            raise OutputError(f"cannot keep {url}: {error.strerror}") from error

    def _due_in(self, host: str) -> float:
        try:
            return self._gate.wait_time(self._current[host])
        except (KeyError, RobotGateError):
            return 0.0


def _host(url: str) -> str:
    if is_too_long(url):
        raise InvalidURLError(url, f"the URL is longer than {MAX_URL_BYTES} bytes")
    return Origin.of(url).host


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def count_urls(path: str) -> int:
    """Return how many URLs a file has.

    Raises:
        OSError: it cannot be read.
    """
    splitter = LineSplitter(MAX_URL_BYTES)
    count = 0
    with Path(path).open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            count += len(urls_of(splitter.feed(chunk)))
    return count + len(urls_of(splitter.feed(b"\n")))


def refused(url: str, error: aiohttp.ClientError | TimeoutError | OSError) -> Row:
    """Return the row of a page that was not fetched."""
    match error:
        case DisallowedError():
            return _row(url, Outcome.BLOCKED) | _verdict_columns(error.verdict)
        case UsageError():
            return _row(url, Outcome.BLOCKED, final_url=error.url, reason=str(error))
        case InvalidURLError():
            return _row(url, Outcome.INVALID, error=type(error).__name__, message=output.problem_of(error))
        case TooSoonError():
            return _row(url, Outcome.TOO_SOON, retry_after=round(error.retry_after, 3))
        case HostUnavailableError():
            row = _row(url, Outcome.UNAVAILABLE)
            if error.verdict is not None:
                row |= _verdict_columns(error.verdict)
            message = output.in_plain_words(error.cause)
            return row | {"retry_after": round(error.retry_after, 3), "message": message}
        case _:
            message = output.in_plain_words(str(error)) or "no answer in time"
            return _row(url, Outcome.FAILED, error=type(error).__name__, message=message)


def _fetched(url: str, response: Response, ended_at: float) -> Row:
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
    )


def _row(url: str, outcome: Outcome, **columns: str | float | None) -> Row:
    empty = dict.fromkeys(("status", "final_url", "bytes", "waited", "elapsed"))
    at: Row = {"sent_at": None, "ended_at": round(time.time(), 3)}
    return {"url": url, "outcome": outcome.value, **empty, **at, **columns}


def _verdict_columns(verdict: Verdict) -> Row:
    rule = verdict.rule
    return {
        "final_url": verdict.url,
        "reason": verdict.reason.value,
        "rule": None if rule is None else str(rule),
        "line": None if rule is None else rule.line,
        "robots_url": verdict.robots_url,
    }


@click.command(cls=common.Command, short_help="Fetch URLs politely: one row of JSON for each.")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@common.input_option
@click.option(
    "-o", "--output", "target", type=common.OUTPUT_FILE, default="-", help="Write the rows to a file."
)
@click.option("--resume", is_flag=True, help="Append to the file of -o, and skip the URLs that it has.")
@click.option("--headers", "has_headers", is_flag=True, help="Put the responses' headers into the rows.")
@click.option(
    "--save-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Save each body in a file of its own, with its headers beside it.",
)
@click.option(
    "--warc",
    "warc_path",
    metavar="FILE",
    type=click.Path(),
    help="Write all requests and responses to a new WARC file; needs robotgate[warc].",
)
@common.gate_options()
@click.option("--delay", default=1.0, show_default=True, help="Seconds between requests to a host, at least.")
@click.option(
    "--rate",
    metavar="N/SECONDS",
    callback=common.rate,
    help="At most N requests to a host in so many seconds, such as 600/3600.",
)
@click.option(
    "--concurrency-per-host", default=1, show_default=True, help="Requests to one host at once, at most."
)
@click.option("--concurrency", default=256, show_default=True, help="Requests at once, over all hosts.")
@click.option("--max-wait", type=float, help="Seconds a URL may wait for its turn; unlimited by default.")
@click.option("--max-delay", default=60.0, show_default=True, help="Refuse sites that ask for more seconds.")
@click.option("--max-block", default=300.0, show_default=True, help="The longest Retry-After to wait out.")
@click.option("--max-bytes", default=10 * 1024 * 1024, show_default=True, help="The longest body to read.")
@click.option(
    "--timeout", default=60.0, show_default=True, type=_POSITIVE, help="Seconds of a request after its wait."
)
@signing.sign_options
@usage.usage_option("Add what the site says about the use of each page: to rows, --save-dir and --warc.")
@click.option(
    "--purpose",
    "purposes",
    type=click.Choice(usage.PURPOSES),
    multiple=True,
    help="What you do with pages: those for which the site disallows it are blocked. May be repeated.",
)
@click.option("--tdmrep", is_flag=True, help="Request each site's /.well-known/tdmrep.json, for tdm.")
@status.status_options
@common.store_options
def fetch(
    *,
    urls: tuple[str, ...],
    source: str | None,
    target: str,
    resume: bool,
    has_headers: bool,
    save_dir: str | None,
    warc_path: str | None,
    timeout: float,
    with_usage: bool,
    store_path: str | None,
    no_store: bool,
    key_file: str | None,
    agent_url: str | None,
    agent_form: str,
    status_address: tuple[str, int] | None,
    status_token: str | None,
    status_controls: bool,
    **options: Unpack[common.GateOptions],
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
    if options.get("purposes") or options.get("tdmrep"):
        usage.check_extra()
    if not urls and source is None:
        raise click.UsageError("Give URLs, or a file of them with -i.")
    _check_target(target, source, resume=resume)
    store = common.store_of(store_path, no_store=no_store)
    options["signer"] = signing.signer_of(key_file, agent_url, agent_form)
    tally, is_quiet = Tally(), common.verbosity() < 0
    with ExitStack() as stack:
        folder, warc, done = _opened(stack, save_dir, warc_path, Path(target) if resume else None)
        file = click.File("a" if resume else "w", encoding="utf-8", lazy=False)
        rows = file.convert(target, None, click.get_current_context())
        keep = Keep(rows=rows, has_headers=has_headers, folder=folder, warc=warc, done=done)

        async def crawl(gate: RobotGate) -> None:
            async with status.shown(gate, status_address, status_token, controls=status_controls):
                await Crawl(gate, keep, tally, timeout=timeout, with_usage=with_usage).run(
                    urls, source, quiet=is_quiet
                )

        try:
            common.run_with_gate(store, crawl, options, () if warc is None else (record_exchange,))
        except KeyboardInterrupt:
            output.say(f"interrupted: {output.summary(tally)}; {_undone(tally, urls, source)} not done")
            raise SystemExit(common.INTERRUPTED) from None
        except OutputError as error:
            if target == "-":
                output.discard_output()
            raise common.CommandError(str(error)) from error
        except OSError as error:
            raise common.CommandError(f"cannot read {source}: {error.strerror}") from error
    if not is_quiet:
        output.say(output.summary(tally))
    raise SystemExit(1 if tally.failed else 0)


def _opened(
    stack: ExitStack, save_dir: str | None, warc_path: str | None, rows: Path | None
) -> tuple[Folder | None, WarcFile | None, Done]:
    """Make what pages are kept in, and read the rows to resume from."""
    try:
        done = Done(rows)
    except OSError as error:
        raise common.CommandError(f"cannot read {rows}: {error.strerror}") from error
    folder = None
    if save_dir is not None:
        folder = Folder(Path(save_dir))
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise common.CommandError(f"cannot make {save_dir}: {error.strerror}") from error
    if warc_path is None:
        return folder, None, done
    try:
        warc = WarcFile(Path(warc_path), f"robotgate/{__version__}")
    except WarcMissingError as error:
        raise common.CommandError(str(error)) from error
    except FileExistsError as error:
        raise common.CommandError(f"cannot write {warc_path}: it exists already") from error
    except OSError as error:
        raise common.CommandError(f"cannot write {warc_path}: {error.strerror}") from error
    stack.callback(warc.close)
    return folder, warc, done


def _check_target(target: str, source: str | None, *, resume: bool) -> None:
    if resume and target == "-":
        raise click.UsageError("--resume needs the file of -o.")
    if source is None or not (Path(source).is_file() and Path(target).is_file()):
        return
    if Path(target).samefile(source):
        raise click.UsageError("-o would overwrite the URLs of -i.")


def _undone(tally: Tally, urls: tuple[str, ...], source: str | None) -> str:
    done = tally.done + tally.skipped
    if source is None or source == STANDARD_INPUT or not Path(source).is_file():
        left = max(len(urls) - done, tally.waiting)
        return f"{left:,} URLs" + (" and what was left to read" if source is not None else "")
    return f"{len(urls) + count_urls(source) - done:,} URLs"
