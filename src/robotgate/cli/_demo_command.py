"""``robotgate demo``: its options."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from robotgate.cli._common import INTERRUPTED, console, say, usage_errors
from robotgate.cli._demo import Cast, Run, run_demo
from robotgate.cli._demo_judge import judge
from robotgate.cli._demo_plan import draw_plan
from robotgate.cli._demo_process import DemoError
from robotgate.cli._demo_report import print_report, report_json
from robotgate.cli._demo_serve import DEFAULT_PORT, serve_plan
from robotgate.cli._progress import summary
from robotgate.cli._store import store_problems

if TYPE_CHECKING:
    from typing import TextIO

    from rich.console import Console

MAX_WORKERS: Final = 64


@click.command()
@click.option("--seed", default=1, show_default=True, help="Draws the sites, their rules and their pages.")
@click.option("--pages", default=500, show_default=True, type=click.IntRange(1, 100_000), help="URLs, about.")
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1, MAX_WORKERS),
    help="Processes that share the pages, with a gate each.",
)
@click.option(
    "--store",
    metavar="PATH|URL",
    help="Where the workers share what they know: a new file, which stays, or a Redis server"
    " (redis://localhost), in which no key stays. Else a file that goes.",
)
@click.option(
    "--json",
    "json_file",
    help="Also write the report as JSON, with every request the servers saw.",
    type=click.File("w", encoding="utf-8", lazy=False),
)
@click.option(
    "--serve", is_flag=True, help="Crawl nothing: play the sites for a program of yours, until Ctrl-C."
)
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="Of 127.0.0.1, for --serve; 0 for any that is free.",
)
def demo(
    seed: int,
    pages: int,
    workers: int,
    store: str | None,
    json_file: TextIO | None,
    serve: bool,
    port: int,
) -> None:
    """Crawl some thirty sites on this machine, and show what their servers saw. Needs no network.

    The sites behave as the web does, and a process of their own serves them. The report is made of that process's
    log and of the sites' own definitions: nothing that the crawler says of itself goes into it.

    With --workers, so many processes have an equal share of the pages each, and none a host of its own: they contend
    for every one of them, and the servers see one crawler.

    With --serve, nothing is crawled: the sites, and four small ones with links, answer whoever asks through a proxy on
    this machine, and each request is told of. docs/tutorial.md goes on from there.

    Exit status: 0 when no rule and no delay was broken, else 1.
    """
    if serve:
        if workers > 1 or store is not None or json_file is not None:
            raise click.UsageError("--serve crawls nothing: it goes with --seed, --pages and --port alone")
        _serve(seed, pages, port)
        return
    run = _run(seed, pages, Cast(workers=workers, store=store))
    say(f"the crawler's own count: {summary(run.tally)}")
    raise SystemExit(conclude(run, console(), json_file))


def conclude(run: Run, stdout: Console, json_file: TextIO | None = None) -> int:
    """Judge a run, print the report, and say how to exit."""
    report = judge(run.plan, run.visits)
    print_report(stdout, run, report)
    if json_file is not None:
        json_file.write(report_json(run, report))
    return 0 if report.is_clean else 1


def _run(seed: int, pages: int, cast: Cast) -> Run:
    try:
        with usage_errors(), store_problems():
            return asyncio.run(run_demo(seed, pages, console(stderr=True), cast))
    except KeyboardInterrupt:
        say("interrupted: there is nothing to report")
        raise SystemExit(INTERRUPTED) from None
    except DemoError as error:
        raise click.ClickException(str(error)) from error


def _serve(seed: int, pages: int, port: int) -> None:
    try:
        # Whoever reads along in a pipe is to hear of each request as it comes.
        asyncio.run(serve_plan(draw_plan(seed, pages), port, partial(print, flush=True)))
    except KeyboardInterrupt:
        # That is how it ends.
        return
    except DemoError as error:
        raise click.ClickException(str(error)) from error
