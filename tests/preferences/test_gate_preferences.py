"""What a gate does about the use of pages, at real servers."""

from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, Final

import pytest
from tests.gate.servers import PAGE, ROBOTS, SITE

from robotgate import DisallowedError, NestedTurnError, OptionError, PreferenceError, Reason, RobotGate
from robotgate.preferences import Preference, Source
from robotgate.sites import HostAccess

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.sitemaps import SitemapFault

TDMREP: Final = f"{SITE}/.well-known/tdmrep.json"
RULES: Final = "User-agent: *\nAllow: /\nContent-Usage: /art/ train-ai=n\nContent-Signal: search=yes"
RESERVED: Final = '[{"location": "/", "tdm-reservation": 1}]'
HTML: Final = {"Content-Type": "text/html; charset=utf-8"}


async def test_a_response_tells_what_all_sources_say(web: Web, gate: RobotGate) -> None:
    """robots.txt, headers and meta elements, in one answer; and it can be sent to another process."""
    web.serve(ROBOTS, RULES)
    web.serve(
        f"{SITE}/art/1",
        '<meta name="robots" content="noarchive">',
        headers=HTML | {"X-Robots-Tag": "noindex"},
    )
    response = await gate.fetch(f"{SITE}/art/1")
    for preferences in (response.preferences, pickle.loads(pickle.dumps(response)).preferences):
        assert preferences.search is Preference.ALLOWED
        assert {preferences.ai_train, preferences.index, preferences.archive} == {Preference.DISALLOWED}
        assert [each.source for each in preferences.statements] == [
            Source.ROBOTS_TXT,
            Source.ROBOTS_TXT,
            Source.HEADER,
            Source.META,
        ]
    assert web.urls == [ROBOTS, f"{SITE}/art/1"]


async def test_a_verdict_tells_what_robots_txt_says(web: Web, gate: RobotGate) -> None:
    """Without a request for the page; a preference does not refuse it."""
    web.serve(ROBOTS, RULES)
    verdict = await gate.check(f"{SITE}/art/1")
    assert verdict.allowed
    assert [each.line for each in verdict.preferences.deciding("ai_train")] == [3]
    assert (await gate.check(PAGE)).preferences.ai_train is Preference.UNKNOWN
    assert web.urls == [ROBOTS]


async def test_declared_purposes_refuse_by_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """Before the request, with the line; other pages and other purposes are as before."""
    web.serve(ROBOTS, RULES)
    gate = await open_gate(purposes={"ai_train"})
    with pytest.raises(
        DisallowedError, match=r"line 3 of its robots\.txt: Content-Usage: /art/ train-ai=n"
    ) as caught:
        await gate.fetch(f"{SITE}/art/1")
    verdict = caught.value.verdict
    assert verdict.reason is Reason.DISALLOWED_BY_PREFERENCE
    assert verdict.rule is not None
    assert verdict.rule.line == 3
    assert not await gate.allowed(f"{SITE}/art/1")
    assert not (await gate.check(f"{SITE}/art/1")).allowed
    assert (await gate.fetch(PAGE)).status == 200
    assert web.urls == [ROBOTS, PAGE]

    indifferent = await open_gate(purposes=["search"])
    assert (await indifferent.fetch(f"{SITE}/art/1")).status == 200


async def test_a_declared_purpose_holds_at_the_other_doors(web: Web, open_gate: OpenGate) -> None:
    """A turn is refused like a fetch; robots.txt itself may always be read."""
    web.serve(ROBOTS, "User-agent: *\nContent-Signal: ai-train=no\nDisallow: /x")
    gate = await open_gate(purposes={"ai_train"})
    with pytest.raises(DisallowedError):
        async with gate.turn(PAGE):
            pass
    assert (await gate.check(f"{SITE}/x")).reason is Reason.DISALLOWED_BY_RULE
    assert await gate.allowed(ROBOTS)


@pytest.mark.parametrize(
    ("body", "headers", "purpose"),
    [
        ("page", {"Content-Usage": "train-ai=n"}, "ai_train"),
        ("page", {"X-Robots-Tag": "otherbot: none", "x-robots-tag": "examplebot: noindex"}, "index"),
        ("<meta name=robots content=noai>", HTML, "ai_train"),
        ("<meta name=tdm-reservation content=1>", HTML, "tdm"),
    ],
)
async def test_declared_purposes_refuse_by_the_response(
    web: Web, open_gate: OpenGate, body: str, headers: dict[str, str], purpose: str
) -> None:
    """The body is withheld; the error tells the purpose and the statement."""
    web.serve(ROBOTS, "User-agent: *\nAllow: /")
    web.serve(PAGE, body, headers=headers)
    gate = await open_gate(purposes={purpose, "snippet"})
    with pytest.raises(PreferenceError) as caught:
        await gate.fetch(PAGE)
    assert caught.value.purposes == (purpose,)
    assert caught.value.preferences.deciding(purpose)
    assert pickle.loads(pickle.dumps(caught.value)).purposes == (purpose,)
    assert (await gate.fetch(f"{SITE}/other")).status == 200


async def test_a_stream_is_refused_by_its_headers(web: Web, open_gate: OpenGate) -> None:
    """Before its body; the host's turn is over."""
    web.serve(PAGE, "page", headers={"Content-Usage": "train-ai=n"})
    gate = await open_gate(purposes={"ai_train"})
    with pytest.raises(PreferenceError):
        async with gate.fetch(PAGE):
            pass
    assert gate.host(SITE).open_turns == 0


async def test_a_tdmrep_file_is_requested_once(web: Web, open_gate: OpenGate) -> None:
    """However many pages are fetched at once; before the pages, and paced with them."""
    web.serve(TDMREP, RESERVED)
    gate = await open_gate(tdmrep=True, delay=0.05)
    responses = await asyncio.gather(*(gate.fetch(f"{PAGE}/{number}") for number in range(4)))
    assert {response.preferences.tdm for response in responses} == {Preference.DISALLOWED}
    assert web.urls[:2] == [ROBOTS, TDMREP]
    assert web.count(TDMREP) == 1
    assert min(web.gaps("site.example")) >= 0.05


async def test_a_header_replaces_the_file(web: Web, open_gate: OpenGate) -> None:
    """As the protocol has it, with a declared purpose too."""
    web.serve(TDMREP, RESERVED)
    web.serve(PAGE, "page", headers={"tdm-reservation": "0"})
    gate = await open_gate(tdmrep=True, purposes={"tdm"})
    assert (await gate.fetch(PAGE)).preferences.tdm is Preference.ALLOWED
    with pytest.raises(PreferenceError):
        await gate.fetch(f"{SITE}/other")


async def test_a_disallowed_tdmrep_file_is_not_requested(web: Web, open_gate: OpenGate) -> None:
    """robots.txt holds for it as for any URL."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /.well-known/")
    gate = await open_gate(tdmrep=True)
    assert (await gate.fetch(PAGE)).preferences.problems
    assert web.urls == [ROBOTS, PAGE]


async def test_a_task_that_holds_the_turn_is_told_so(web: Web, open_gate: OpenGate) -> None:
    """It would wait for itself."""
    gate = await open_gate(tdmrep=True)
    async with gate.turn(PAGE):
        with pytest.raises(NestedTurnError):
            await gate.fetch(PAGE)
    assert web.count(TDMREP) == 0


async def test_how_much_of_a_site_is_open_counts_purposes(web: Web, open_gate: OpenGate) -> None:
    """A line for all paths closes the site to a crawler that declares what it disallows."""
    web.serve(ROBOTS, "User-agent: *\nContent-Signal: ai-train=no")
    trains, searches = await open_gate(purposes={"ai_train"}), await open_gate(purposes={"search"})
    for gate, access in ((trains, HostAccess.EXCLUDED), (searches, HostAccess.OPEN)):
        await gate.check(PAGE)
        assert gate.host(PAGE).access is access


@pytest.mark.parametrize("purposes", [{"training"}, "ai_train", 7])
def test_purposes_are_checked(purposes: set[str]) -> None:
    """By name, when the gate is made."""
    with pytest.raises(OptionError, match="purposes"):
        RobotGate("ExampleBot/1.0", contact="bot@example.org", purposes=purposes)


BY_PATH: Final = "User-agent: *\nAllow: /\nContent-Usage: train-ai=n\nContent-Usage: /open/ train-ai=y\n"
BOOK: Final = f"{SITE}/open/book"


async def test_a_reservation_is_read_where_training_is_disallowed(web: Web, open_gate: OpenGate) -> None:
    """A declared purpose binds pages, not the file that states the reservation, nor where that is redirected to. These
    wait for their turns like any request.
    """
    moved, book_only = f"{SITE}/tdm/policy.json", '[{"location": "/open/book", "tdm-reservation": 1}]'
    web.serve(ROBOTS, BY_PATH)
    web.redirect(TDMREP, moved)
    web.serve(moved, book_only, headers={"Content-Usage": "train-ai=n"})
    gate = await open_gate(purposes={"ai_train", "tdm"}, tdmrep=True, delay=0.05)
    with pytest.raises(PreferenceError) as caught:
        await gate.fetch(BOOK)
    assert caught.value.purposes == ("tdm",)
    assert (await gate.fetch(f"{SITE}/open/letter")).preferences.tdm is Preference.UNKNOWN
    with pytest.raises(DisallowedError):
        await gate.fetch(moved)
    assert web.urls == [ROBOTS, TDMREP, moved, BOOK, f"{SITE}/open/letter"]
    assert min(web.gaps("site.example")) >= 0.05


async def test_sitemaps_are_read_for_no_purpose(web: Web, open_gate: OpenGate) -> None:
    """Neither robots.txt nor their own headers refuse files that only list URLs; a rule of robots.txt does."""
    index, pages, closed = (f"{SITE}/{name}" for name in ("index.xml", "moved.txt", "closed.txt"))
    web.serve(ROBOTS, f"Sitemap: {index}\nSitemap: {closed}\n{BY_PATH}Disallow: /closed")
    web.serve(index, f"<sitemapindex><sitemap><loc>{SITE}/pages.txt</loc></sitemap></sitemapindex>")
    web.redirect(f"{SITE}/pages.txt", pages)
    web.serve(pages, f"{BOOK}\n{PAGE}\n", headers={"Content-Usage": "train-ai=n", "tdm-reservation": "1"})
    gate = await open_gate(purposes={"ai_train", "tdm"}, delay=0.02)
    faults: list[SitemapFault] = []
    assert [entry.loc async for entry in gate.sitemap_urls(SITE, on_fault=faults.append)] == [BOOK, PAGE]
    assert [fault.url for fault in faults] == [closed]
    assert await gate.allowed(BOOK)
    assert not await gate.allowed(pages)
