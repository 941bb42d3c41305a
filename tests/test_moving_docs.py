"""The pages on moving: both sides of each row are run where there are two in Python, and return the same."""

from __future__ import annotations

import asyncio
import platform
import re
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final
from urllib.robotparser import RobotFileParser

import pytest
from tests.documents import tables
from tests.test_readme import ROOT

import robotgate
from robotgate import DisallowedError, MemoryStore, RobotGate, RobotsTxt
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher, VirtualClock, VirtualTimeLoop

if TYPE_CHECKING:
    from pathlib import Path

CODE: Final = re.compile(r"`([^`]+)`")
LWP: Final = (ROOT / "docs" / "moving-from-lwp-robotua.md").read_text(encoding="utf-8")
PROTEGO: Final = (ROOT / "docs" / "moving-from-protego.md").read_text(encoding="utf-8")
URL: Final = "https://example.org/tea"
PRIVATE: Final = "https://example.org/private/1"
AGENT: Final = "ExampleBot"


# ── Protego and urllib ──


def plain(value: object) -> object:
    """What libraries tell in types of their own, without these."""
    if hasattr(value, "seconds"):
        count: object = getattr(value, "documents", None) or getattr(value, "requests", None)
        return count, value.seconds
    return list(value) if not isinstance(value, str) and hasattr(value, "__iter__") else value


def names_of(body: bytes) -> dict[str, object]:
    """What the expressions of the page speak of."""
    parser = RobotFileParser()
    parser.modified()
    parser.parse(body.decode().splitlines())
    return {"robots": RobotsTxt.parse(body), "parser": parser, "url": PRIVATE, "agent": AGENT}


WHOLE_NUMBERS: Final = b"""\
User-agent: *
Disallow: /private
Crawl-delay: 2
Request-rate: 1/5
Host: example.org
Sitemap: https://example.org/sitemap.xml
"""
_OF: Final = re.search(r"with Protego (?P<protego>[\d.]+\d) and Python (?P<python>[\d.]+\d)", PROTEGO)
assert _OF is not None
OF: Final = _OF.groupdict()
_PROTEGO_TABLE, _URLLIB_TABLE, _DIFFERENCES = tables(PROTEGO)


@pytest.mark.parametrize("row", [*_PROTEGO_TABLE, *_URLLIB_TABLE], ids=lambda row: next(iter(row.values())))
def test_the_other_library_says_the_same(row: dict[str, str]) -> None:
    """Of an ordinary file, either expression of a row has the same value."""
    protego = pytest.importorskip("protego")
    names = {**names_of(WHOLE_NUMBERS), "rp": protego.Protego.parse(WHOLE_NUMBERS.decode())}
    theirs, ours = (plain(eval(CODE.findall(cell)[0], names)) for cell in row.values())
    assert theirs == ours
    assert ours is not None


def test_urllib_passes_over_fractions() -> None:
    """As the page says."""
    names = names_of(b"User-agent: *\nCrawl-delay: 2.5\n")
    assert eval("parser.crawl_delay(agent), robots.crawl_delay(agent)", names) == (None, 2.5)


@pytest.mark.parametrize("columns", _DIFFERENCES, ids=lambda columns: columns["robots.txt"])
def test_answers_differ_as_the_table_says(columns: dict[str, str]) -> None:
    """Each library is asked; a row where all agree would be none."""
    lines = [line.strip("`") for line in columns["robots.txt"].split("<br>")]
    text = "\n".join(lines).encode().decode("unicode_escape")
    url = f"https://example.org{CODE.findall(columns['path'])[0]}"
    parser = RobotFileParser()
    parser.modified()
    parser.parse(text.split("\n"))
    said = {"robotgate": RobotsTxt.parse(text.encode()).allowed(url, AGENT)}
    # What others say in releases that the page does not speak of is theirs to change.
    if platform.python_version().startswith(f"{OF['python']}."):
        said["urllib"] = parser.can_fetch(AGENT, url)
    protego = pytest.importorskip("protego")
    if version("protego").startswith(f"{OF['protego']}."):
        said["Protego"] = protego.Protego.parse(text).can_fetch(url, AGENT)
    told = {name: columns[name] for name in said}
    assert told == {name: "allowed" if answer else "refused" for name, answer in said.items()}
    assert len({columns["robotgate"], columns["Protego"], columns["urllib"]}) == 2


# ── LWP ──

ROBOTS: Final = b"User-agent: ExampleBot\nDisallow: /private\n"


EXPRESSIONS: Final = [CODE.findall(row["robotgate"])[0] for table in tables(LWP) for row in table]


@pytest.mark.parametrize("expression", dict.fromkeys(EXPRESSIONS))
def test_call_in_place_of_the_old_one_can_be_made(
    expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expression of the row itself is run, on virtual time; what it comes to is held by the tests of each call."""
    monkeypatch.chdir(tmp_path)

    async def run() -> None:
        fetcher = ScriptedFetcher({}, otherwise=Answer(status=200, body=ROBOTS))
        make = partial(RobotGate, fetcher=fetcher, clock=VirtualClock())
        gate = make("ExampleBot/1.0", contact="bot@example.org", delay=60)
        names = vars(robotgate) | {
            "RobotGate": make,
            "gate": gate,
            "agent": "ExampleBot/1.0",
            "contact": "bot@example.org",
            "url": PRIVATE,
            "body": ROBOTS,
            "store": MemoryStore(),
            "fresh_until": 3600.0,
        }
        refusing = pytest.raises(DisallowedError) if "fetch" in expression else nullcontext()
        async with gate:
            if expression.startswith("turn."):
                async with gate.turn(URL) as turn:
                    assert eval(expression, {"turn": turn})
                return
            value = eval(expression.removeprefix("await "), names)
            if expression.startswith("await "):
                with refusing:
                    await value
            elif isinstance(value, RobotGate):
                await value.aclose()
            elif isinstance(value, type):
                assert issubclass(value, robotgate.RobotGateError)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())
