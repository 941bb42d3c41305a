"""``robotgate demo``, whole: real servers in a process of their own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import Result
from tests.test_readme import README, ROOT, blocks

from robotgate.cli._demo_plan import draw_plan

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Program

PAGES_OF: Final = {"2": "150", "11": "150", "5": "40", "23": "40"}
"""How many pages, by seed."""
ROW: Final = re.compile(r"(\S+) +(\S+(?: \S+)*) {2,}(\d+) +(\d+) +(\d+) +([\d.]+) +([\d.]+|-)  ok")
"""Of the table."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Result, Path]]:
    """Some demonstrations, which ran at once, and their reports as JSON."""
    files = [tmp_path_factory.mktemp("demo") / f"{seed}.json" for seed in PAGES_OF]
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "robotgate.cli",
                        "demo",
                        "--pages",
                        pages,
                        "--seed",
                        seed,
                        "--json",
                        file,
                    ],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                )
            )
            for (seed, pages), file in zip(PAGES_OF.items(), files, strict=True)
        ]
        outputs = [program.communicate() for program in programs]
    results = [Result(program.returncode, *output) for program, output in zip(programs, outputs, strict=True)]
    return list(zip(results, files, strict=True))


def test_nothing_is_broken_whatever_the_seed(runs: list[tuple[Result, Path]]) -> None:
    """Exit status 0, and a report that bears it out."""
    assert [run.status for run, _ in runs] == [0] * len(PAGES_OF), "\n".join(run.out for run, _ in runs)
    for run, file in runs:
        report = json.loads(file.read_text(encoding="utf-8"))
        assert "nothing broken" in run.out
        assert report["clean"]
        assert len(report["sites"]) == 35
        assert all(site["robots_requests"] == 1 for site in report["sites"])
        assert {visit["site"] for visit in report["visits"]} == {site["site"] for site in report["sites"]}


def test_the_table_can_be_read_in_a_file(runs: list[tuple[Result, Path]]) -> None:
    """Where there is no terminal: plain lines of progress, no colours, at most 100 columns, nothing cut."""
    for run, _ in runs:
        table = run.out.splitlines()[:37]
        assert "\x1b" not in run.out + run.err
        assert "…" not in run.out
        assert max(map(len, table)) <= 100
        assert " of " in run.err.splitlines()[0]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")
async def test_ctrl_c_ends_it_at_once(program: Program) -> None:
    """With status 130, and without a report."""
    process = await program.start("demo", "--pages", "2000")
    assert process.stderr is not None
    await process.stderr.readline()

    process.send_signal(signal.SIGINT)
    out, err = await process.communicate(b"")

    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


def test_the_readme_shows_its_table() -> None:
    """README.md has what is drawn from the seed: stories, delays and pages. Gaps differ from run to run."""
    (shown,) = blocks(README, "text")
    head, _, *rows, _, totals, _ = shown.splitlines()
    plan = draw_plan(1, 500)
    sites = {site.name: site for site in plan.sites}
    pages = [page.is_open for site in plan.sites for page in site.pages]

    assert head.split("  ")[0] == "site"
    for row in rows:
        found = ROW.fullmatch(row)
        assert found, row
        name, story, robots, opened, blocked, delay, gap = found.groups()
        open_pages = sum(page.is_open for page in sites[name].pages)
        assert (story, robots, delay) == (sites[name].story, "1", f"{sites[name].delay:.2f}")
        assert (int(opened), int(blocked)) == (open_pages, len(sites[name].pages) - open_pages)
        assert gap == "-" or float(gap) >= float(delay)
    hosts = len({site.host for site in plan.sites})
    assert totals.startswith(f"{len(sites)} sites on {hosts} hosts, seed {plan.seed}: ")
    assert f" {sum(pages)} pages served, {len(pages) - sum(pages)} blocked; nothing broken" in totals


def test_figures_of_that_table_are_those_of_a_report() -> None:
    """The run whose lines README.md shows is kept, as the demonstration itself has written it."""
    kept = json.loads((ROOT / "docs" / "demo.json").read_text(encoding="utf-8"))
    sites = {site["site"]: site for site in kept["sites"]}
    (shown,) = blocks(README, "text")
    *lines, _, totals, lateness = shown.splitlines()
    rows = [found for line in lines if (found := ROW.fullmatch(line))]
    assert rows
    for row in rows:
        name, story, robots, opened, blocked, delay, gap = row.groups()
        site = sites[name]
        assert (story, int(robots), int(opened), int(blocked)) == tuple(
            site[key] for key in ("story", "robots_requests", "pages", "blocked")
        )
        assert float(delay) == site["delay"]
        smallest = site["smallest_gap"]
        assert gap == ("-" if smallest is None else f"{smallest:.3f}")
    sums = [sum(site[key] for site in kept["sites"]) for key in ("robots_requests", "pages", "blocked")]
    sums[0] += sum(site["robots_requests_for_others"] for site in kept["sites"])
    assert "{} robots.txt requests, {} pages served, {} blocked; nothing broken".format(*sums) in totals
    assert f"late by {kept['servers_worst_lag'] * 1000:.0f} ms" in lateness
