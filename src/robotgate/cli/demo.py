"""``robotgate demo``: its options, and the report that it prints."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click
from rich import box
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from robotgate.cli import common, output
from robotgate.demo.crawl import Order, Run, run_demo
from robotgate.demo.judge import SiteReport, judge
from robotgate.demo.servers import LOOPBACK, SiteServer, Visit, listening
from robotgate.demo.sites import EXAMPLES, FLOOR_DELAY, ROBOTS_PATH, Plan, draw_plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from aiohttp import web

DEFAULT_PORT: Final = 8009
WIDTH: Final = 80
"""Columns of the table where there is no terminal to ask."""
MAX_FINDINGS: Final = 50
"""Findings printed; the JSON has all."""
_STORE_HELP: Final = (
    "The store of the workers: a new file, or a Redis server, where their keys are deleted at the end."
)
_JSON_HELP: Final = "Also write the report as JSON, with every request that the server saw."
_PORT_HELP: Final = "The port of --serve on 127.0.0.1; 0 for any free port."


@click.command(cls=common.Command, short_help="Crawl some thirty sites on this machine.")
@common.setting("--seed", default=1, help="Of the random sites and pages.")
@common.setting("--pages", default=500, type=click.IntRange(1, 100_000), help="About how many URLs.")
@common.setting(
    "--workers", default=1, type=click.IntRange(1, 64), help="Crawler processes, which share the pages."
)
@click.option("--store", metavar="PATH|URL", help=_STORE_HELP)
@click.option("--json", "json_file", type=click.File("w", encoding="utf-8", lazy=False), help=_JSON_HELP)
@common.flag("--serve", help="Crawl nothing: serve the sites to your own program.")
@common.flag("--list", "is_list", help="Print the URLs of the sites, one a line.")
@common.setting("--port", default=DEFAULT_PORT, type=click.IntRange(0, 65_535), help=_PORT_HELP)
async def demo(
    *,
    seed: int,
    pages: int,
    workers: int,
    store: str | None,
    json_file: TextIO | None,
    serve: bool,
    is_list: bool,
    port: int,
) -> int:
    """Crawl some thirty sites on this machine, and show what their server saw. No network is needed.

    This process serves the sites, each of which behaves as a kind of site on the web does; another one crawls them. The
    report compares the log of the server with the definitions of the sites. It does not use the counts of the crawler.

    With --workers N, N processes share the pages of every site. Together they must keep every rule and every delay.

    With --serve, a proxy on this machine serves the sites and four small sites with links, and prints each request:
    see docs/tutorial.md. Ctrl-C ends it. --list prints the URLs of the sites, for example for `robotgate fetch -i -
    --proxy http://127.0.0.1:8009`.

    Exit status: 0 when no rule and no delay was broken, else 1.
    """
    if (serve or is_list) and (workers > 1 or store is not None or json_file is not None):
        raise click.UsageError("--serve and --list crawl nothing: only --seed, --pages, --port go with them")
    if store is not None:
        if os.path.lexists(store):  # noqa: ASYNC240 - nothing else runs yet
            # A robots.txt in it would not be requested again, which the report would call a fault.
            raise click.UsageError(f"--store: {store} exists already; the demonstration needs a new file")
        # What is no store is reported before anything starts.
        common.stated_store(store)
    if is_list and not serve:
        urls = [site.url(page.path) for site in EXAMPLES for page in site.pages]
        click.echo("\n".join([*urls, *draw_plan(seed, pages).urls]))
        return 0
    if serve:
        # Ctrl-C is how it ends.
        with suppress(asyncio.CancelledError):
            await _serve(draw_plan(seed, pages), port)
        return 0
    run = await _crawl(Order(seed=seed, page_count=pages, workers=workers, store=store))
    return conclude(run, output.Screen(), json_file)


def conclude(run: Run, screen: output.Screen, json_file: TextIO | None = None) -> int:
    """Judge a run, print the report, and return the exit status."""
    sites = judge(run.plan, run.visits)
    _print_report(screen, run, sites)
    if json_file is not None:
        json_file.write(_report_json(run, sites))
    return 1 if any(site.broken for site in sites) else 0


def greeting(proxy: str, plan: Plan) -> str:
    """What --serve prints first: where the sites are."""
    width = max(len(site.url("/")) for site in EXAMPLES)
    sites = "".join(f"  {site.url('/'):{width}}  {site.story}\n" for site in EXAMPLES)
    page = plan.sites[0].url(plan.sites[0].pages[-1].path)
    return (
        f"{proxy} is a proxy to these sites, until Ctrl-C:\n{sites}and to the {len(plan.sites)} sites of the"
        f" demonstration, such as {page}\nRequests:"
    )


def request_line(request: web.BaseRequest, visit: Visit, began_at: float) -> str:
    """What --serve prints of a request."""
    agent = request.headers.get("User-Agent", "-")
    line = f"{visit.started_at - began_at:7.1f} s  {visit.status}  {request.method} {request.url}  {agent}"
    # Any program may send requests, and none of them may control the terminal.
    return output.printable(line)


async def _serve(plan: Plan, port: int) -> None:
    began_at = time.monotonic()
    lines: asyncio.Queue[str] = asyncio.Queue()
    server = SiteServer(plan, lambda request, visit: lines.put_nowait(request_line(request, visit, began_at)))
    async with listening(server, port) as real_port:
        click.echo(greeting(f"http://{LOOPBACK}:{real_port}", plan))
        while True:
            # Here, where an error that standard output raises ends the program.
            click.echo(await lines.get())


async def _crawl(order: Order) -> Run:
    screen, plan = output.Screen(stderr=True), draw_plan(order.seed, order.page_count)
    total = len(plan.urls)
    output.to_stderr(f"fetching {total:,} URLs of {len(plan.sites)} sites on this machine")
    outcomes = Counter({"fetched": 0, "blocked": 0, "failed": 0})
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def done(outcome: str) -> None:
            outcomes[outcome] += 1
            bar.advance(task)

        run = await run_demo(order, done)
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
    output.to_stderr(f"the crawler's own count: {counts} in {run.elapsed:.1f} s")
    return run


def _print_report(screen: output.Screen, run: Run, sites: Sequence[SiteReport]) -> None:
    """The table, what was broken, and the totals."""
    screen.print(_table(sites), width=None if screen.folds else WIDTH)
    broken = [f"{site.site}: {finding}" for site in sites for finding in site.broken]
    for finding in broken[:MAX_FINDINGS]:
        screen.paragraph((f"BROKEN  {finding}", "bold red"))
    for site, report in zip(run.plan.sites, sites, strict=True):
        if site.limit is not None:
            requests = report.robots_requests + report.pages
            screen.paragraph(
                f"{site.name} takes {site.limit:g} requests a second and does not say so:"
                f" it answered {report.told_off} of {requests} with 429"
            )
    robots = sum(visit.path == ROBOTS_PATH for visit in run.visits)
    blocked = sum(site.blocked for site in sites)
    verdict, style = (f"{len(broken)} BROKEN", "bold red") if broken else ("nothing broken", "bold green")
    totals = (
        f"{len(sites)} sites on {len({site.host for site in run.plan.sites})} hosts, seed {run.plan.seed}:"
        f" {robots} robots.txt requests, {len(run.visits) - robots} pages served, {blocked} blocked; {verdict}"
    )
    screen.paragraph((totals, style))
    shares = Counter(visit.worker for visit in run.visits)
    if len(shares) > 1:
        counts = ", ".join(f"{count} of worker {worker}" for worker, count in sorted(shares.items()))
        screen.paragraph(f"{len(shares)} workers in {run.elapsed:.1f} s: requests {counts}")
    explained = (
        "Gap: the least seconds from the end of an answer to the next request, by the server's clock"
        f" (late by {run.worst_lag * 1000:.0f} ms at most)."
    )
    screen.paragraph((explained, "dim"))


def _table(sites: Sequence[SiteReport]) -> Table:
    """One row for each site."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    table.add_column("site", no_wrap=True)
    table.add_column("kind of site", no_wrap=True, style="dim")
    for heading in ("robots", "pages", "blocked", "delay", "gap"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for site in sites:
        for_others = f"{site.robots_requests_for_others} + " if site.robots_requests_for_others else ""
        table.add_row(
            site.site,
            site.story,
            f"{for_others}{site.robots_requests}",
            str(site.pages),
            str(site.blocked),
            f"{site.delay:.2f}",
            "-" if site.smallest_gap is None else f"{site.smallest_gap:.3f}",
            Text("no", "bold red") if site.broken else Text("ok", "green"),
        )
    return table


def _report_json(run: Run, sites: Sequence[SiteReport]) -> str:
    """The whole report with every request that the server saw, so that it can be judged again."""
    document = {
        "seed": run.plan.seed,
        "clean": not any(site.broken for site in sites),
        "elapsed": round(run.elapsed, 3),
        "floor_delay": FLOOR_DELAY,
        "servers_worst_lag": run.worst_lag,
        "urls": len(run.plan.urls),
        "sites": list(map(asdict, sites)),
        "visits": list(map(asdict, sorted(run.visits, key=lambda visit: visit.started_at))),
    }
    return json.dumps(document, indent=1) + "\n"
