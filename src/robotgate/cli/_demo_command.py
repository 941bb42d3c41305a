"""``robotgate demo``: its options."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from robotgate.cli._common import INTERRUPTED, console, say
from robotgate.cli._demo import Run, ServersError, run_demo
from robotgate.cli._demo_judge import judge
from robotgate.cli._demo_report import print_report, report_json
from robotgate.cli._progress import summary

if TYPE_CHECKING:
    from typing import TextIO

    from rich.console import Console


@click.command()
@click.option("--seed", default=1, show_default=True, help="Draws the sites, their rules and their pages.")
@click.option("--pages", default=500, show_default=True, type=click.IntRange(1, 100_000), help="URLs, about.")
@click.option(
    "--json",
    "json_file",
    help="Also write the report as JSON, with every request the servers saw.",
    type=click.File("w", encoding="utf-8", lazy=False),
)
def demo(seed: int, pages: int, json_file: TextIO | None) -> None:
    """Crawl some thirty sites on this machine, and show what their servers saw. Needs no network.

    The sites behave as the web does, and a process of their own serves them. The report is made of that process's
    log and of the sites' own definitions: nothing that the crawler says of itself goes into it.

    Exit status: 0 when no rule and no delay was broken, else 1.
    """
    run = _run(seed, pages)
    say(f"the crawler's own count: {summary(run.tally)}")
    raise SystemExit(conclude(run, console(), json_file))


def conclude(run: Run, stdout: Console, json_file: TextIO | None = None) -> int:
    """Judge a run, print the report, and say how to exit."""
    report = judge(run.plan, run.visits)
    print_report(stdout, run.plan, report, worst_lag=run.worst_lag)
    if json_file is not None:
        json_file.write(report_json(run.plan, report, worst_lag=run.worst_lag, elapsed=run.elapsed))
    return 0 if report.is_clean else 1


def _run(seed: int, pages: int) -> Run:
    try:
        return asyncio.run(run_demo(seed, pages, console(stderr=True)))
    except KeyboardInterrupt:
        say("interrupted: there is nothing to report")
        raise SystemExit(INTERRUPTED) from None
    except ServersError as error:
        raise click.ClickException(str(error)) from error
