"""Puts figures where a page of Markdown has marked the place: comments, which no renderer shows.

``<!-- table crawl.200x50 -->`` … ``<!-- end -->``
    A table with its title and note; keys of columns after its name choose among these, and put them in order.
``<!-- tables crawl -->`` … ``<!-- end -->``
    All tables of a group, one after the other.
``<!-- goals crawl -->`` … ``<!-- end -->``
    The goals of a group and whether they are reached; without a name, of all groups.
``<!-- missed -->`` … ``<!-- end -->``
    The goals of all groups that are not reached.
``<!-- machine -->`` … ``<!-- end -->``
    When and where the figures were taken, and with which versions.
``<!-- figure gate.warm "robotgate" mean -->3.6<!-- end -->``
    One median, in the middle of a line; ``over "Protego"`` after it makes it the ratio to another row's.

Whatever a mark names has to exist in the report.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from benchmarks._look_up import column_of, figure_of, group_of, table_of
from benchmarks._markdown import as_markdown, goals_as_markdown, machine_as_markdown, shown
from benchmarks._report import Effort

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks._report import Report, Table

COMMENT: Final = re.compile(r"<!--(?P<says>.*?)-->", re.DOTALL)
KINDS: Final = frozenset({"table", "tables", "goals", "missed", "machine", "figure"})
END: Final = "end"
RATIO_DECIMALS: Final = 2
EFFORTS: Final = {
    Effort.FULL: "Figures are medians of several rounds, measured in turns.",
    Effort.QUICK: "**Everything was measured once or twice: too little to compare by.**",
}
BEGINS_LINE: Final = re.compile(r"[\s>*+-]*(\d+[.)]\s*)?")
"""What can stand before the text of a line: a comment that comes next makes HTML of all of the line."""


class WeaveError(ValueError):
    """A mark that cannot be filled, or a page whose marks make no pairs."""


@dataclass(frozen=True, slots=True)
class Region:
    """What lies between a mark and its end."""

    mark: str
    line: int
    start: int
    stop: int
    is_inline: bool


def woven(page: str, report: Report) -> str:
    """The page, with all its regions filled.

    Raises:
        WeaveError: a mark names what the report does not have, or has no end.
    """
    pieces, done = [], 0
    for region in regions(page):
        pieces += [page[done : region.start], _filling(region, report)]
        done = region.stop
    return "".join([*pieces, page[done:]])


def stale(page: str, report: Report) -> list[Region]:
    """The regions that say something else than the report.

    Raises:
        WeaveError: as `woven`.
    """
    return [
        region for region in regions(page) if page[region.start : region.stop] != _filling(region, report)
    ]


def regions(page: str) -> Iterator[Region]:
    """All of a page, in order.

    Raises:
        WeaveError: a mark without an end, an end without a mark, or a mark where Markdown would not have it.
    """
    opened: tuple[str, re.Match[str]] | None = None
    for comment in COMMENT.finditer(page):
        mark = " ".join(comment["says"].split())
        kind = mark.partition(" ")[0]
        if kind in KINDS:
            if opened:
                raise WeaveError(f"line {_line(page, opened[1].start())}: <!-- {opened[0]} --> has no end")
            opened = mark, comment
        elif kind == END:
            if not opened:
                raise WeaveError(
                    f"line {_line(page, comment.start())}: an end of nothing; is its mark misspelt?"
                )
            yield _region(page, *opened, comment)
            opened = None
    if opened:
        raise WeaveError(f"line {_line(page, opened[1].start())}: <!-- {opened[0]} --> has no end")


def _region(page: str, mark: str, begin: re.Match[str], end: re.Match[str]) -> Region:
    line, is_inline = _line(page, begin.start()), mark.startswith("figure ")
    before = page[page.rfind("\n", 0, begin.start()) + 1 : begin.start()]
    if is_inline and BEGINS_LINE.fullmatch(before):
        raise WeaveError(
            f"line {line}: <!-- {mark} --> begins a line, which makes HTML of it; put a word first"
        )
    if not is_inline and (before or not page.startswith("\n", begin.end())):
        raise WeaveError(f"line {line}: <!-- {mark} --> does not stand alone on its line")
    return Region(mark, line, begin.end(), end.start(), is_inline)


def _filling(region: Region, report: Report) -> str:
    try:
        content = _content(shlex.split(region.mark), report)
    except (LookupError, ValueError) as error:
        raise WeaveError(f"line {region.line}: <!-- {region.mark} -->: {error.args[0]}") from error
    return content if region.is_inline else f"\n\n{content.strip()}\n\n"


def _content(words: Sequence[str], report: Report) -> str:
    match words:
        case ["table", name, *columns]:
            return _table(table_of(report, name), columns)
        case ["tables", name]:
            return "\n\n".join(_table(table) for table in group_of(report, name).tables)
        case ["goals", *names]:
            groups = [group_of(report, name) for name in names or report.groups]
            return goals_as_markdown(goal for group in groups for goal in group.goals)
        case ["missed"]:
            goals = [goal for name in report.groups for goal in group_of(report, name).goals]
            return goals_as_markdown(goal for goal in goals if not goal.is_reached)
        case ["machine"]:
            return f"{machine_as_markdown(report)} {EFFORTS[report.effort]}"
        case ["figure", name, row, column]:
            return _figure(table_of(report, name), row, column)
        case ["figure", name, row, column, "over", other]:
            return _ratio(table_of(report, name), row, column, other)
        case _:
            raise ValueError("no such mark")


def _table(table: Table, columns: Sequence[str] = ()) -> str:
    narrowed = replace(table, columns=tuple(column_of(table, key) for key in columns) or table.columns)
    note = f"\n\n{table.note}" if table.note else ""
    return f"**{table.title}**\n\n{as_markdown(narrowed)}{note}"


def _figure(table: Table, name: str, key: str) -> str:
    return shown(figure_of(table, name, key).median, column_of(table, key).decimals)


def _ratio(table: Table, name: str, key: str, other: str) -> str:
    ours, theirs = figure_of(table, name, key), figure_of(table, other, key)
    is_paired = len(ours.rounds) == len(theirs.rounds)
    ratio = ours.over(theirs).median if is_paired else ours.median / theirs.median
    return shown(ratio, RATIO_DECIMALS)


def _line(page: str, position: int) -> int:
    return page.count("\n", 0, position) + 1
