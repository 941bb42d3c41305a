"""Prints what the servers of a demonstration measured, and writes it as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table
from rich.text import Text

from robotgate.cli._demo_sites import FLOOR_DELAY, ROBOTS_PATH

if TYPE_CHECKING:
    from rich.console import Console

    from robotgate.cli._demo import Run
    from robotgate.cli._demo_judge import Report, SiteReport
    from robotgate.cli._demo_sites import Plan

MAX_FINDINGS: Final = 5
"""Findings shown of each site; the JSON has them all."""


def print_report(console: Console, run: Run, report: Report) -> None:
    """The table, what was broken, and a line of totals."""
    console.print(_table(report))
    for site in report.sites:
        for finding in site.findings[:MAX_FINDINGS]:
            console.print(Text(f"BROKEN  {site.site.name}: {finding}", style="bold red"), soft_wrap=True)
        if len(site.findings) > MAX_FINDINGS:
            console.print(Text(f"BROKEN  {site.site.name}: and {len(site.findings) - MAX_FINDINGS} more"))
    console.print(
        Text(_totals(run.plan, report), style="bold green" if report.is_clean else "bold red"), soft_wrap=True
    )
    if run.workers > 1:
        console.print(_shares(run, report), soft_wrap=True, highlight=False)
    console.print(
        "Gaps: from an answer's last octets to the next request, by the servers' clock"
        f" (late by {run.worst_lag * 1000:.0f} ms at most).",
        soft_wrap=True,
        style="dim",
        highlight=False,
    )


def report_json(run: Run, report: Report) -> str:
    """The whole report with every request the servers saw, so that anybody can judge again."""
    document = {
        "seed": run.plan.seed,
        "clean": report.is_clean,
        "elapsed": round(run.elapsed, 3),
        "floor_delay": FLOOR_DELAY,
        "servers_worst_lag": run.worst_lag,
        "urls": len(run.plan.urls),
        "workers": [asdict(share) for share in report.shares(run.workers)],
        "sites": [_site_json(site) for site in report.sites],
        "visits": [asdict(visit) for visit in report.visits],
    }
    return json.dumps(document, indent=1) + "\n"


def _site_json(report: SiteReport) -> dict[str, object]:
    return {
        "site": report.site.name,
        "story": report.site.story,
        "robots_requests": report.own_robots,
        "robots_requests_for_others": report.lent_robots,
        "pages": report.pages,
        "blocked": report.blocked,
        "delay": report.site.delay,
        "smallest_gap": report.smallest_gap,
        "broken": report.findings,
    }


def _table(report: Report) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False
    )
    table.add_column("site", no_wrap=True)
    table.add_column("what is peculiar", no_wrap=True, style="dim")
    for heading in ("robots.txt", "pages", "blocked", "delay", "min gap"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for site in report.sites:
        table.add_row(*_row(site), Text("BROKEN", "bold red") if site.findings else Text("ok", "green"))
    return table


def _row(report: SiteReport) -> list[str]:
    lent = f"{report.lent_robots} + " if report.lent_robots else ""
    gap = "-" if report.smallest_gap is None else f"{report.smallest_gap:.3f}"
    return [
        report.site.name,
        report.site.story,
        f"{lent}{report.own_robots}",
        str(report.pages),
        str(report.blocked),
        f"{report.site.delay:.2f}",
        gap,
    ]


def _totals(plan: Plan, report: Report) -> str:
    robots = sum(visit.path == ROBOTS_PATH for visit in report.visits)
    pages = len(report.visits) - robots
    blocked = sum(site.blocked for site in report.sites)
    broken = sum(len(site.findings) for site in report.sites)
    hosts = len({site.host for site in plan.sites})
    verdict = "nothing broken" if report.is_clean else f"{broken} BROKEN"
    return (
        f"{len(plan.sites)} sites on {hosts} hosts, seed {plan.seed}: {robots} robots.txt requests, {pages} pages"
        f" served, {blocked} blocked; {verdict}"
    )


def _shares(run: Run, report: Report) -> str:
    shares = report.shares(run.workers)
    most = sum(share.hosts for share in shares) / len(shares)
    pages = ", ".join(str(share.pages) for share in shares)
    robots = ", ".join(str(share.robots) for share in shares)
    return (
        f"{run.workers} workers, each at {most:.0f} hosts in the mean: {pages} pages, {robots} robots.txt requests,"
        f" in {run.elapsed:.1f} s"
    )
