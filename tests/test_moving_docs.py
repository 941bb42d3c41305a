"""The pages on moving: both sides of each row are run, and return the same, or what the row says."""

from __future__ import annotations

import asyncio
import platform
import re
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.robotparser import RobotFileParser

import pytest
from tests.test_pace_docs import cells
from tests.test_readme import ROOT

import robotgate
from robotgate import DisallowedError, InvalidURLError, MemoryStore, RobotGate, RobotsTxt, TooSoonError
from robotgate.sites import Answer, Failure
from robotgate.testing import ScriptedFetcher, VirtualClock, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    Check: TypeAlias = "Callable[[Case], Awaitable[None]]"

TABLE: Final = re.compile(r"^\|(?P<head>.*)\|\n\| --- .*\n(?P<rows>(?:\|.*\|\n)+)", re.MULTILINE)
CODE: Final = re.compile(r"`([^`]+)`")
LWP: Final = (ROOT / "docs" / "moving-from-lwp-robotua.md").read_text(encoding="utf-8")
PROTEGO: Final = (ROOT / "docs" / "moving-from-protego.md").read_text(encoding="utf-8")
URL: Final = "https://example.org/tea"
PRIVATE: Final = "https://example.org/private/1"
AGENT: Final = "ExampleBot"


def tables(page: str) -> list[tuple[list[str], list[list[str]]]]:
    """The heads and the rows of each table."""
    return [
        (cells(found["head"]), [cells(row) for row in found["rows"].splitlines()])
        for found in TABLE.finditer(page)
    ]


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


@pytest.mark.parametrize("row", _PROTEGO_TABLE[1], ids=lambda row: row[0])
def test_protego_says_the_same(row: list[str]) -> None:
    """Of an ordinary file, either expression of a row has the same value."""
    protego = pytest.importorskip("protego")
    names = {**names_of(WHOLE_NUMBERS), "rp": protego.Protego.parse(WHOLE_NUMBERS.decode())}
    theirs, ours = (plain(eval(CODE.findall(cell)[0], names)) for cell in row)
    assert theirs == ours
    assert ours is not None


@pytest.mark.parametrize("row", _URLLIB_TABLE[1], ids=lambda row: row[0])
def test_urllib_says_the_same(row: list[str]) -> None:
    """As above."""
    names = names_of(WHOLE_NUMBERS)
    theirs, ours = (plain(eval(CODE.findall(cell)[0], names)) for cell in row)
    assert theirs == ours
    assert ours is not None


def test_urllib_passes_over_fractions() -> None:
    """As the page says."""
    names = names_of(b"User-agent: *\nCrawl-delay: 2.5\n")
    assert eval("parser.crawl_delay(agent), robots.crawl_delay(agent)", names) == (None, 2.5)


@pytest.mark.parametrize("row", _DIFFERENCES[1], ids=lambda row: row[0])
def test_answers_differ_as_the_table_says(row: list[str]) -> None:
    """Each library is asked; a row where all agree would be none."""
    columns = dict(zip(_DIFFERENCES[0], row, strict=True))
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


@dataclass(frozen=True, slots=True)
class Case:
    """A row that is tried."""

    expression: str
    gate: RobotGate
    names: dict[str, object]
    make: Callable[..., RobotGate]
    """Makes further gates, on the same time."""

    @property
    def code(self) -> str:
        """What the row comes to when it is evaluated; where it is awaited, what is to be awaited."""
        return self.expression.removeprefix("await ")


async def _visited(gate: RobotGate) -> None:
    async with gate.turn(URL) as turn:
        turn.report(200)


async def _learnt(case: Case) -> None:
    assert case.gate.allowed_nowait(PRIVATE) is None
    eval(case.code, case.names)
    assert case.gate.allowed_nowait(PRIVATE) is False


async def _not_known_before(case: Case) -> None:
    assert eval(case.code, case.names) is None
    await case.gate.allowed(URL)
    assert eval(case.code, case.names) is True
    assert eval(case.code, {**case.names, "url": PRIVATE}) is False


async def _refused(case: Case) -> None:
    with pytest.raises(DisallowedError) as error:
        await case.gate.fetch(PRIVATE)
    assert (type(error.value).__name__, error.value.status) == (case.expression, 403)
    assert error.value.verdict.rule is not None


async def _too_soon(case: Case) -> None:
    await _visited(case.gate)
    with pytest.raises(TooSoonError) as error:
        await case.gate.fetch(URL, max_wait=0)
    assert (type(error.value).__name__, error.value.status, error.value.retry_after) == (
        case.expression,
        503,
        60,
    )


async def _fetched(case: Case) -> None:
    # The page itself is another test's: what is asked here is that the call is this one, and refuses.
    with pytest.raises(DisallowedError):
        await eval(case.code, {**case.names, "url": PRIVATE})


async def _asked_again(case: Case) -> None:
    await case.gate.allowed(URL)
    before = case.gate.host(URL).checked_at
    await eval(case.code, case.names)
    after = case.gate.host(URL).checked_at
    assert before is not None
    assert after is not None
    assert after > before


async def _a_turn(case: Case) -> None:
    before = case.gate.host(URL).visits
    async with eval(case.code, case.names):
        pass
    assert case.gate.host(URL).visits == before + 2


async def _names_the_crawler(case: Case) -> None:
    async with case.gate.turn(URL) as turn:
        headers: object = eval(case.code, {"turn": turn})
    assert headers == {"User-Agent": "ExampleBot/1.0", "From": "bot@example.org"}


async def _same_store(case: Case) -> None:
    async with eval(case.code, case.names) as other:
        await _visited(case.gate)
        # Virtual seconds: states reach the store within half a second.
        await asyncio.sleep(1)
        assert await other.allowed(URL)
        assert other.host(URL).visits == case.gate.host(URL).visits == 2


async def _in_a_file(case: Case) -> None:
    async with eval(case.code, case.names) as other:
        other.learn(URL, ROBOTS)
    async with eval(case.code, case.names) as other:
        assert await other.allowed(PRIVATE) is False


def _says(expected: object, *, attribute: str = "") -> Check:
    async def check(case: Case) -> None:
        await _visited(case.gate)
        value: object = eval(case.code, case.names)
        assert (getattr(value, attribute) if attribute else value) == expected

    return check


async def _has_the_file(case: Case) -> None:
    record: object = await eval(case.code, case.names)
    assert isinstance(record, robotgate.sites.RobotsRecord)
    assert record.body == ROBOTS


async def _is_loaded(case: Case) -> None:
    async with case.make("ExampleBot/1.0", contact="bot@example.org", store="cache.db") as gate:
        gate.learn(URL, ROBOTS)
        await _visited(gate)
    async with case.make("ExampleBot/1.0", contact="bot@example.org", store="cache.db", delay=60) as gate:
        assert (gate.host(URL).visits, gate.wait_time(URL)) == (0, 0)
        view: object = await eval(case.code, {**case.names, "gate": gate})
        assert isinstance(view, robotgate.OriginView)
        assert (view.visits, view.fresh_until_at) == (1, 86_400.0)
        assert gate.wait_time(URL) > 0


async def _not_of_the_web(case: Case) -> None:
    for url in ("mailto:bot@example.org", "ftp://example.org/tea"):
        with pytest.raises(InvalidURLError) as error:
            await case.gate.fetch(url)
        assert type(error.value).__name__ == case.expression


async def _opens(case: Case) -> None:
    for answer in (Answer(status=403), Answer(status=500), Failure("no answer")):
        make = partial(case.make, fetcher=ScriptedFetcher({}, otherwise=answer))
        async with make("ExampleBot/1.0", contact="bot@example.org") as gate:
            assert not await gate.allowed(URL)
        async with eval(case.code, {**case.names, "RobotGate": make}) as gate:
            assert await gate.allowed(URL)


async def _reads_as_of_old(case: Case) -> None:
    async with eval(case.code, case.names) as other:
        other.learn(URL, b"User-agent: bot\nDisallow: /tea\nAllow: /tea/green\n")
        assert other.allowed_nowait(f"{URL}/green") is False


async def _is_made(case: Case) -> None:
    assert isinstance(eval(case.code, case.names), RobotGate | robotgate.Recheck | RobotsTxt)


async def _shows_origins(case: Case) -> None:
    await _visited(case.gate)
    (view,) = eval(case.code, case.names)
    assert view.origin == "https://example.org"
    assert len(str(view).splitlines()) == 1


CHECKS: Final[Mapping[str, Check]] = {
    "RobotGate(agent, contact=contact)": _is_made,
    "RobotGate(agent, contact=contact, delay=60)": _is_made,
    "await gate.fetch(url)": _fetched,
    "DisallowedError": _refused,
    "RobotGate(agent, contact=contact, max_wait=0)": _is_made,
    "TooSoonError": _too_soon,
    "gate.wait_time(url)": _says(60.0),
    "gate.host(url).visits": _says(2),
    "turn.headers()": _names_the_crawler,
    "gate.token": _says("ExampleBot"),
    "RobotGate(agent, contact=contact, store=store)": _same_store,
    "gate.origins()": _shows_origins,
    "RobotsTxt.parse(body)": _is_made,
    "gate.learn(url, body, fresh_until=fresh_until)": _learnt,
    "gate.learn(url, body)": _learnt,
    "await gate.robots(url)": _has_the_file,
    "await gate.known_host(url)": _is_loaded,
    "InvalidURLError": _not_of_the_web,
    "RobotGate(agent, contact=contact, status_policy=StatusPolicy.ARCHIVE)": _opens,
    "RobotGate(agent, contact=contact, dialect=Dialect.CLASSIC)": _reads_as_of_old,
    "gate.allowed_nowait(url)": _not_known_before,
    "RobotsTxt.parse(body).rules(agent).agents": _says(("ExampleBot",)),
    "gate.host(url).fresh_until_at": _says(86_400.0),
    "gate.host(url).last_visit_at": _says(60.0),
    "gate.turn(url)": _a_turn,
    "await gate.refresh(url)": _asked_again,
    'RobotGate(agent, contact=contact, store="cache.db")': _in_a_file,
}
"""What is held of each expression."""
EXPRESSIONS: Final = [
    CODE.findall(dict(zip(heads, row, strict=True))["robotgate"])[0]
    for heads, rows in tables(LWP)
    for row in rows
]


@pytest.mark.parametrize("expression", dict.fromkeys(EXPRESSIONS))
def test_call_does_what_the_old_one_did(
    expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expression of the row itself is run, on virtual time, with a delay of a minute as of old."""
    monkeypatch.chdir(tmp_path)

    async def run() -> None:
        store = MemoryStore()
        make = partial(
            RobotGate,
            fetcher=ScriptedFetcher({}, otherwise=Answer(status=200, body=ROBOTS)),
            clock=VirtualClock(),
        )
        async with make("ExampleBot/1.0", contact="bot@example.org", delay=60, store=store) as gate:
            names: dict[str, object] = {
                **vars(robotgate),
                "RobotGate": make,
                "gate": gate,
                "agent": "ExampleBot/1.0",
                "contact": "bot@example.org",
                "url": URL,
                "body": ROBOTS,
                "store": store,
                "fresh_until": 3600.0,
            }
            await CHECKS[expression](Case(expression, gate, names, make))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


def test_every_check_has_a_row() -> None:
    """What no row says any more needs no check."""
    assert set(CHECKS) == set(EXPRESSIONS)
