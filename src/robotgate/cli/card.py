"""The score card of a crawl that was judged: for a terminal, and as JSON, HTML and JUnit's XML."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from rich import box
from rich.table import Table
from rich.text import Text

from robotgate.cli.output import printable, shortened
from robotgate.judge.judge import Result, Row
from robotgate.judge.sites import ROBOTS_PATH, SEVERITIES

if TYPE_CHECKING:
    from robotgate.cli.output import Screen
    from robotgate.judge.judge import Card

WIDTH: Final = 80
"""Columns of the table where there is no terminal to ask."""
MAX_PROOFS: Final = 3
"""Breaches of a claim that are printed; JSON and HTML have all."""
_STYLES: Final = {
    Result.HELD: "green",
    Result.BROKEN: "bold red",
    Result.UNSEEN: "yellow",
    Result.COUNTED: "dim",
}


def print_card(screen: Screen, card: Card) -> None:
    """The table, what was broken, and the totals."""
    screen.print(_table(card), width=None if screen.folds else WIDTH)
    for row in card.rows:
        if row.result is Result.BROKEN:
            screen.paragraph(
                (f"BROKEN  {row.name} ", "bold red"), f"({row.severity}, {row.source})", indent=8
            )
            screen.paragraph(f"        {row.claim}", indent=8)
            for proof in row.broken[:MAX_PROOFS]:
                screen.paragraph((f"        {shortened(printable(proof), 300)}", "red"), indent=10)
            if len(row.broken) > MAX_PROOFS:
                screen.paragraph(f"        and {len(row.broken) - MAX_PROOFS:,} more")
    for name, value in facts(card).items():
        screen.paragraph((f"{name:12}", "dim"), value, indent=12)
    screen.paragraph((note(card), "dim"))


def facts(card: Card) -> dict[str, str]:
    """What there is to say of the whole."""
    robots = sum(visit.path == ROBOTS_PATH for visit in card.visits)
    blocked, missed = (
        sum(getattr(row, name) for row in card.rows if row.sites) for name in ("blocked", "missed")
    )
    unseen = sum(row.result is Result.UNSEEN for row in card.rows)
    ended = {ending(status) for status in card.statuses if status not in {0, 1}}
    said = {
        "crawler": card.terms.agent,
        "ended": ", ".join(sorted(ended)),
        "requests": f"{len(card.visits):,} in {card.elapsed:.1f} s, {robots:,} of them for robots.txt",
        "pages": f"{blocked:,} closed ones left alone, {missed:,} open ones missed",
        "outside": ", ".join(sorted(card.outside)[:5]),
        "not seen": f"{unseen} claims" if unseen else "",
        **{str(name): f"{held} of {judged} held" for name, (held, judged) in card.score.items()},
    }
    return {name: value for name, value in said.items() if value}


def ending(status: int | None) -> str:
    """How a command has ended."""
    return "by --time, before it had finished" if status is None else f"with exit status {status}"


def note(card: Card) -> str:
    """How the figures are to be read."""
    return (
        "Gap: the least seconds from the end of an answer to the next request for a page of the site, by the server's"
        f" clock (late by {card.terms.lag * 1000:.0f} ms at most)."
    )


def _figures(row: Row) -> list[str]:
    gap = "-" if row.gap is None else f"{row.gap:.3f}"
    return [*map(str, (row.robots, row.pages, row.missed, row.told_off)), gap]


def _table(card: Card) -> Table:
    """One row for each claim, by severity."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    table.add_column("kind of site", no_wrap=True)
    for heading in ("severity", "robots", "pages", "missed", "429", "gap", ""):
        table.add_column(heading, justify="left" if heading in {"severity", ""} else "right", no_wrap=True)
    for row in sorted(card.rows, key=lambda row: SEVERITIES.index(row.severity)):
        table.add_row(
            row.name, Text(row.severity, "dim"), *_figures(row), Text(row.result, _STYLES[row.result])
        )
    return table


def as_json(card: Card) -> str:
    """The whole card with every request that the server saw, so that it can be judged again."""
    document = {
        "agent": card.terms.agent,
        "seed": card.seed,
        "whole": card.is_whole,
        "score": {name: {"held": held, "judged": judged} for name, (held, judged) in card.score.items()},
        "elapsed": round(card.elapsed, 3),
        "statuses": card.statuses,
        "servers_worst_lag": card.terms.lag,
        "outside": card.outside,
        "claims": list(map(asdict, card.rows)),
        "visits": list(map(asdict, card.visits)),
    }
    return json.dumps(document, indent=1) + "\n"


def as_html(card: Card) -> str:
    """A page that needs nothing else."""
    rows = []
    for row in sorted(card.rows, key=lambda row: row.result is not Result.BROKEN):
        proofs = "".join(f"<pre>{escape(printable(proof))}</pre>" for proof in row.broken)
        figures = "".join(f'<td class="n">{figure}' for figure in _figures(row))
        rows.append(
            f"<tr><td>{escape(row.name)}<small>{escape(row.claim)} ({escape(row.source)})</small>{proofs}"
            f'<td class="{row.result}">{row.result}<td>{row.severity}{figures}'
        )
    score = ", ".join(f"{name} {held} of {judged}" for name, (held, judged) in card.score.items())
    listed = "".join(
        f"<div><dt>{name}<dd>{escape(printable(value))}</div>" for name, value in facts(card).items()
    )
    template = Template(resources.files("robotgate.cli").joinpath("card.html").read_text(encoding="utf-8"))
    agent = escape(printable(card.terms.agent))
    return template.substitute(agent=agent, score=score, facts=listed, rows="\n".join(rows), note=note(card))


def as_junit(card: Card) -> str:
    """A test suite with a case for each claim. A convention that was broken is no failure."""
    name = f"robotgate judge: {printable(card.terms.agent)}"
    suite = ET.Element("testsuite", name=name, tests=str(len(card.rows)), time=f"{card.elapsed:.1f}")
    for row in card.rows:
        case = ET.SubElement(suite, "testcase", classname=f"robotgate.judge.{row.severity}", name=row.name)
        if row.result is not Result.HELD:
            tag = "failure" if card.fails(row) else "skipped"
            found = ET.SubElement(case, tag, message=f"{row.result}: {row.claim} ({row.source})")
            found.text = printable("\n".join(row.broken)).replace("\\n", "\n")
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
