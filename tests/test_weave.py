"""What weaving puts on a page: marked regions are what the report says, and a mark that cannot be is an error."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import pytest
from benchmarks._markdown import NOTHING
from benchmarks._report import (
    Column,
    Effort,
    Figure,
    Findings,
    Goal,
    Machine,
    Report,
    Row,
    Table,
)
from benchmarks._weave import WeaveError, regions, stale, woven

TABLE: Final = Table(
    key="200x50",
    title="200 hosts",
    columns=(
        Column(key="rate", title="pages/s"),
        Column(key="cpu", title="CPU s", decimals=3),
        Column(key="peak", title="MB"),
    ),
    rows=(
        Row(
            name="`gate.fetch`",
            is_ours=True,
            figures={"rate": Figure((1_000.0, 3_000.0, 2_000.0)), "cpu": Figure((0.25,))},
        ),
        Row(
            name="bare aiohttp",
            figures={
                "rate": Figure((2_000.0, 4_000.0, 8_000.0)),
                "cpu": Figure((0.2, 0.1)),
                "peak": Figure((50.0,)),
            },
        ),
    ),
    note="Read with care.",
)
REPORT: Final = Report(
    taken_on="2026-11-22",
    effort=Effort.QUICK,
    machine=Machine(
        processor="Z80", cores=2, system="CP/M", python="CPython 3.11.7", packages={"aiohttp": "3.14"}
    ),
    seconds={"crawl": 90.0},
    groups={
        "crawl": Findings(
            tables=(TABLE, replace(TABLE, key="2000x5", title="2,000 hosts")),
            goals=(Goal(text="of bare", figure=Figure((0.5,)), at_least=0.8),),
        ),
        "rules": Findings(tables=(), goals=(Goal(text="parse", figure=Figure((9.0,)), at_least=2),)),
    },
)


def block(mark: str) -> str:
    """What a region of its own lines is filled with."""
    page = woven(f"Before.\n\n<!-- {mark} -->\n<!-- end -->\n\nAfter.\n", REPORT)
    assert page.startswith(f"Before.\n\n<!-- {mark} -->\n\n")
    assert page.endswith("\n\n<!-- end -->\n\nAfter.\n")
    return page.partition("-->")[2].rpartition("<!-- end")[0].strip()


def inline(mark: str) -> str:
    """What stands for a figure in the middle of a line."""
    page = woven(f"It is <!-- figure {mark} -->0<!-- end --> today.\n", REPORT)
    assert page.startswith(f"It is <!-- figure {mark} -->")
    assert page.endswith("<!-- end --> today.\n")
    return page.partition("-->")[2].partition("<!--")[0]


def test_table_has_title_rows_and_note() -> None:
    """The whole table, with a dash where a row has no figure."""
    title, _, head, _, ours, theirs, _, note = block("table crawl.200x50").splitlines()
    assert "200 hosts" in title
    assert [cell.strip() for cell in head.split("|")[2:-1]] == ["pages/s", "CPU s", "MB"]
    assert [cell.strip() for cell in ours.split("|")[1:-1]] == ["**`gate.fetch`**", "2,000", "0.250", NOTHING]
    assert [cell.strip() for cell in theirs.split("|")[1:-1]] == ["bare aiohttp", "4,000", "0.150", "50"]
    assert note == "Read with care."


def test_columns_are_chosen_and_ordered() -> None:
    """As a README has room for few."""
    head = block("table crawl.200x50 peak rate").splitlines()[2]
    assert [cell.strip() for cell in head.split("|")[2:-1]] == ["MB", "pages/s"]


def test_table_is_found_by_its_place() -> None:
    """Keys tell of sizes, which a quick run has others of."""
    assert block("table crawl.#1") == block("table crawl.200x50")
    assert block("table crawl.#2") == block("table crawl.2000x5")


def test_all_tables_of_a_group() -> None:
    """In their order."""
    assert block("tables crawl") == f"{block('table crawl.#1')}\n\n{block('table crawl.#2')}"


def test_goals_of_a_group_and_of_all() -> None:
    """What is missed is told as well as what is reached."""
    (goal,) = block("goals crawl").splitlines()[2:]
    assert "of bare" in goal
    assert "**no**" in goal
    assert len(block("goals").splitlines()) == 4


def test_machine_says_how_much_was_measured() -> None:
    """A quick run is not to be mistaken for a full one."""
    text = block("machine")
    assert all(word in text for word in ("2026-11-22", "Z80", "CPython 3.11.7", "aiohttp 3.14", "too little"))


def test_figure_is_a_median_as_its_column_has_it() -> None:
    """With its decimals, and without its spread."""
    assert inline("crawl.200x50 '`gate.fetch`' rate") == "2,000"
    assert inline('crawl.200x50 "`gate.fetch`" cpu') == "0.250"


def test_ratio_is_the_median_of_rounds_side_by_side() -> None:
    """Not the ratio of medians: 1/2, 3/4, 2/8."""
    assert inline('crawl.200x50 "`gate.fetch`" rate over "bare aiohttp"') == "0.50"


def test_ratio_of_unlike_rounds_is_that_of_medians() -> None:
    """A slow client is measured in fewer rounds."""
    assert inline('crawl.200x50 "`gate.fetch`" cpu over "bare aiohttp"') == "1.67"


def test_woven_page_is_as_woven() -> None:
    """Weaving twice is weaving once, and everything outside of regions stays as it was."""
    page = (
        'Text <!-- figure crawl.#1 "`gate.fetch`" rate -->2,000<!-- end -->.\n\n'
        "<!-- goals -->\n<!-- end -->\n\n<!-- x -->\n"
    )
    once = woven(page, REPORT)
    assert woven(once, REPORT) == once
    assert not stale(once, REPORT)
    assert once.startswith("Text <!-- figure")
    assert once.endswith("<!-- end -->\n\n<!-- x -->\n")


def test_stale_regions_are_named() -> None:
    """By line and mark, and none that is right."""
    page = (
        'A <!-- figure crawl.#1 "`gate.fetch`" rate -->2,001<!-- end -->\n'
        'and <!-- figure crawl.#1 "bare aiohttp" rate -->4,000<!-- end -->.\n'
    )
    (region,) = stale(page, REPORT)
    assert (region.line, region.mark) == (1, 'figure crawl.#1 "`gate.fetch`" rate')


def test_mark_may_go_over_a_line_end() -> None:
    """Editors wrap."""
    (region,) = regions('A <!-- figure crawl.#1\n"bare aiohttp" rate -->4,000<!-- end -->.\n')
    assert region.mark == 'figure crawl.#1 "bare aiohttp" rate'


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("table hosts.1", "no group 'hosts', but 'crawl', 'rules'"),
        ("table crawl.3x3", "no table '3x3' in group 'crawl', but '200x50', '2000x5'"),
        ("table crawl.#3", "no table '#3'"),
        ("table crawl.#1 speed", "no column 'speed' in table '200x50', but 'rate', 'cpu', 'peak'"),
        ("tables hosts", "no group 'hosts'"),
        ("goals hosts", "no group 'hosts'"),
        ("machine room", "no such mark"),
        ("table", "no such mark"),
        (
            'figure crawl.#1 "curl" rate',
            "no row 'curl' in table '200x50', but '`gate.fetch`', 'bare aiohttp'",
        ),
        ('figure crawl.#1 "bare aiohttp" speed', "no column 'speed'"),
        ('figure crawl.#1 "`gate.fetch`" peak', "nothing in table '200x50' where row '`gate.fetch`'"),
        ('figure crawl.#1 "`gate.fetch`" rate over "curl"', "no row 'curl'"),
        ('figure crawl.#1 "bare aiohttp" peak over "`gate.fetch`"', "nothing in table '200x50' where row"),
        ('figure crawl.#1 "bare aiohttp rate', "No closing quotation"),
    ],
)
def test_what_is_not_in_the_report_is_an_error(mark: str, said: str) -> None:
    """It names the line, the mark and what there is instead."""
    begin, end = ("It is ", " today") if mark.startswith("figure") else ("", "")
    with pytest.raises(WeaveError, match=re.escape(said)) as caught:
        woven(f"\n\n{begin}<!-- {mark} -->\n<!-- end -->{end}\n", REPORT)
    assert str(caught.value).startswith(f"line 3: <!-- {mark} -->: ")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<!-- machine -->\n", "line 1: <!-- machine --> has no end"),
        ("<!-- machine -->\n<!-- goals -->\n<!-- end -->\n", "line 1: <!-- machine --> has no end"),
        ("\n<!-- tabel crawl.#1 -->\n<!-- end -->\n", "line 3: an end of nothing"),
        ("A <!-- machine -->\n<!-- end -->\n", "line 1: <!-- machine --> does not stand alone"),
        ("<!-- machine --> a\n<!-- end -->\n", "line 1: <!-- machine --> does not stand alone"),
        ("a\n<!-- figure x y z -->0<!-- end -->\n", "line 2: <!-- figure x y z --> begins a line"),
        ("- <!-- figure x y z -->0<!-- end -->\n", "begins a line"),
        ("  12. <!-- figure x y z -->0<!-- end -->\n", "begins a line"),
    ],
)
def test_marks_that_make_no_sense_are_errors(page: str, said: str) -> None:
    """A misspelt mark is not passed over; one that Markdown would make HTML of, with its line, is not let stand."""
    with pytest.raises(WeaveError, match=re.escape(said)):
        list(regions(page))
