"""``robotgate fetch``: any number of URLs through one gate, in bounded memory; a row of JSON for each."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import deque
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, Unpack

import aiohttp
import click

from robotgate import DisallowedError, HostUnavailableError, InvalidURLError, Origin, TooSoonError, UsageError
from robotgate.cli import common, output, usage
from robotgate.cli.lines import CHUNK_BYTES, STANDARD_INPUT, LineSplitter, open_input, read_lines
from robotgate.cli.output import Outcome, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO

    from robotgate import Response, RobotGate, Verdict

Row: TypeAlias = dict[str, str | int | float | None]

BROKEN_PIPE: Final = 141
"""The exit status that a shell shows for a program that writes to a closed pipe."""
MAX_URL_BYTES: Final = 8192
"""A longer line is refused: servers take no such URL."""
MAX_TAKEN: Final = 20_000
"""URLs in memory: enough that a list sorted by host still keeps many hosts busy."""
MAX_WORKERS: Final = 1000
"""Tasks, each with one host. Most of the time a task waits for its host's turn."""
_POSITIVE: Final = click.FloatRange(0, min_open=True)
PLAIN_PERIOD: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""


class OutputError(Exception):
    """A row could not be written; the cause is an `OSError`."""


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
        self, gate: RobotGate, rows: IO[str], tally: Tally, *, timeout: float, with_usage: bool = False
    ) -> None:
        self._with_usage = with_usage
        self._tally = tally
        self._gate = gate
        self._rows = rows
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._queues = HostQueues(MAX_TAKEN)
        self._workers: set[asyncio.Task[None]] = set()

    async def run(self, urls: Iterable[str], source: str | None, *, quiet: bool) -> None:
        """Fetch the URLs, and those of a source (a file, or ``-`` for standard input).

        Raises:
            OutputError: a row could not be written.
            OSError: the source could not be read.
        """
        descriptor = None if source is None else open_input(source)
        screen = output.console(stderr=True)
        shown = nullcontext() if quiet else output.progress(screen, self._tally, plain_period=PLAIN_PERIOD)
        try:
            async with shown, asyncio.TaskGroup() as tasks:
                await self._add(urls, tasks)
                if descriptor is not None:
                    async for lines in read_lines(descriptor, max_bytes=MAX_URL_BYTES):
                        await self._add(urls_of(lines), tasks)
                await self._queues.all_done()
                for worker in self._workers:
                    worker.cancel()
        except BaseExceptionGroup as group:
            # The error of the first worker that failed tells it all.
            error = _first(group)
            raise error from error.__cause__

    async def _add(self, urls: Iterable[str], tasks: asyncio.TaskGroup) -> None:
        for url in urls:
            try:
                host = _host(url)
            except InvalidURLError as error:
                self._tally.outcomes[Outcome.INVALID] += 1
                self._write(refused(url[:MAX_URL_BYTES], error))
                continue
            await self._queues.add(host, url)
            self._tally.take(host)
            if len(self._workers) < MAX_WORKERS:
                self._workers.add(tasks.create_task(self._work()))

    async def _work(self) -> None:
        while True:
            host, url = await self._queues.take()
            try:
                response = await self._gate.fetch(url, timeout=self._timeout)
                row = _fetched(url, response)
                if self._with_usage:
                    row |= usage.columns(response.usage)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                row = refused(url, error)
            self._write(row)
            self._tally.finish(host, Outcome(row["outcome"]))
            self._queues.give_back(host)

    def _write(self, row: Row) -> None:
        try:
            self._rows.write(json.dumps(row) + "\n")
            # At once: what is done stays done, however the run ends.
            self._rows.flush()
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror}") from error


def _host(url: str) -> str:
    if len(url) > MAX_URL_BYTES:
        raise InvalidURLError(url, f"the URL is longer than {MAX_URL_BYTES} bytes")
    return Origin.of(url).host


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def urls_of(lines: Iterable[bytes]) -> list[str]:
    """Return the URLs of lines, without blank lines, ``#`` comments and byte order marks."""
    texts = (line.decode(errors="replace").removeprefix("\ufeff").strip() for line in lines)
    return [text for text in texts if text and not text.startswith("#")]


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
            message = output.with_cli_options(error.cause)
            return row | {"retry_after": round(error.retry_after, 3), "message": message}
        case _:
            message = str(error) or "no answer in time"
            return _row(url, Outcome.FAILED, error=type(error).__name__, message=message)


def _fetched(url: str, response: Response) -> Row:
    return _row(
        url,
        Outcome.FETCHED,
        status=response.status,
        final_url=response.url,
        bytes=len(response.body),
        waited=round(response.waited, 3),
        elapsed=round(response.elapsed, 3),
    )


def _row(url: str, outcome: Outcome, **columns: str | float | None) -> Row:
    empty = dict.fromkeys(("status", "final_url", "bytes", "waited", "elapsed"))
    return {"url": url, "outcome": outcome.value, **empty, **columns}


def _verdict_columns(verdict: Verdict) -> Row:
    rule = verdict.rule
    return {
        "final_url": verdict.url,
        "reason": verdict.reason.value,
        "rule": None if rule is None else str(rule),
        "line": None if rule is None else rule.line,
        "robots_url": verdict.robots_url,
    }


@click.command(cls=common.Command)
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option(
    "-i", "--input", "source", type=common.INPUT_FILE, help="Read URLs from a file, one a line; - is stdin."
)
@click.option(
    "-o", "--output", "target", type=common.OUTPUT_FILE, default="-", help="Write the rows to a file."
)
@common.gate_options()
@click.option("--delay", default=1.0, show_default=True, help="Seconds between requests to a host, at least.")
@click.option("--concurrency", default=256, show_default=True, help="Requests at once, over all hosts.")
@click.option("--max-wait", type=float, help="Seconds a URL may wait for its turn; unlimited by default.")
@click.option("--max-delay", default=60.0, show_default=True, help="Refuse sites that ask for more seconds.")
@click.option("--max-block", default=300.0, show_default=True, help="The longest Retry-After to wait out.")
@click.option("--max-bytes", default=10 * 1024 * 1024, show_default=True, help="The longest body to read.")
@click.option(
    "--timeout", default=60.0, show_default=True, type=_POSITIVE, help="Seconds of a request after its wait."
)
@usage.usage_option("Add columns with what the site says about the use of each page.")
@click.option(
    "--purpose",
    "purposes",
    type=click.Choice(usage.PURPOSES),
    multiple=True,
    help="What you do with pages: those for which the site disallows it are blocked. May be repeated.",
)
@click.option("--tdmrep", is_flag=True, help="Request each site's /.well-known/tdmrep.json, for tdm.")
@common.store_options
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def fetch(
    *,
    urls: tuple[str, ...],
    source: str | None,
    target: str,
    timeout: float,
    quiet: bool,
    with_usage: bool,
    store_path: str | None,
    no_store: bool,
    **options: Unpack[common.GateOptions],
) -> None:
    """Fetch URLs politely and write one row of JSON for each.

    A row's outcome is fetched (whatever the status), blocked (by robots.txt or --purpose), unavailable (the host is
    down, or asked us to stay away), too_soon (see --max-wait), invalid or failed. Rows come in the order in which the
    URLs are done, each written at once. In a file, blank lines and lines that begin with # are skipped. What is learnt
    of hosts is stored for the next run: see `robotgate cache`.

    Exit status: 0 when every URL was fetched or blocked, 1 when any was not, 2 for wrong usage, 130 after Ctrl-C,
    141 when the reader of the rows closes the pipe.
    """
    if options.get("purposes") or options.get("tdmrep"):
        usage.check_extra()
    if not urls and source is None:
        raise click.UsageError("Give URLs, or a file of them with -i.")
    if (
        source is not None
        and Path(source).is_file()
        and Path(target).is_file()
        and Path(target).samefile(source)
    ):
        raise click.UsageError("-o would overwrite the URLs of -i.")
    rows = click.File("w", encoding="utf-8", lazy=False).convert(target, None, click.get_current_context())
    store = common.store_of(store_path, no_store=no_store)
    tally = Tally()

    async def crawl(gate: RobotGate) -> None:
        await Crawl(gate, rows, tally, timeout=timeout, with_usage=with_usage).run(urls, source, quiet=quiet)

    try:
        common.run_with_gate(store, crawl, options)
    except KeyboardInterrupt:
        output.say(f"interrupted: {output.summary(tally)}; {_undone(tally, urls, source)} not done")
        raise SystemExit(common.INTERRUPTED) from None
    except OutputError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            _discard_stdout()
            raise SystemExit(BROKEN_PIPE) from None
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot read {source}: {error.strerror}") from error
    if not quiet:
        output.say(output.summary(tally))
    raise SystemExit(1 if tally.failed else 0)


def _undone(tally: Tally, urls: tuple[str, ...], source: str | None) -> str:
    if source is None or source == STANDARD_INPUT or not Path(source).is_file():
        left = max(len(urls) - tally.done, tally.waiting)
        return f"{left:,} URLs" + (" and what was left to read" if source is not None else "")
    return f"{len(urls) + count_urls(source) - tally.done:,} URLs"


def _discard_stdout() -> None:
    """Send what is still buffered nowhere. Otherwise Python complains of the closed pipe again as it exits."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
