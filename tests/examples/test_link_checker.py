"""examples/link_checker.py, run as a user runs it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web
from tests.examples.conftest import DELAY, HTML, links, usage
from tests.gate.servers import endless

if TYPE_CHECKING:
    from tests.examples.conftest import Program
    from tests.gate.servers import Web

HOME: Final = "https://example.org/"
OTHERS: Final = "https://{}.example.com/page"


@pytest.mark.slow
async def test_link_checker_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Its own pages are read, others' are asked for the link alone; what is amiss is told with the page it is on."""
    get_only, gone, moved, shut, circle = map(OTHERS.format, ("get-only", "gone", "moved", "shut", "circle"))
    there = "https://there.example.com/"
    internet.serve(f"{HOME}robots.txt", "User-agent: *\nDisallow: /private")
    foreign = [get_only, gone, moved, shut, circle, "https://nobody.invalid/", "http://[/"]
    internet.serve(
        HOME, links("/endless", "/gone", "/private", *foreign, "mailto:a@example.org"), headers=HTML
    )
    internet.handle(f"{HOME}endless", endless((links(gone) + " " * 60_000).encode(), headers=HTML))
    internet.serve(f"{HOME}gone", links("/never"), status=500, headers=HTML)
    internet.serve("https://shut.example.com/robots.txt", "User-agent: *\nDisallow: /")

    async def by_get(request: web.Request) -> web.Response:
        body = links("https://get-only.example.com/never")
        return web.Response(
            status=200 if request.method == "GET" else 405, text=body, content_type="text/html"
        )

    internet.handle(get_only, by_get)
    internet.serve(gone, status=404)
    internet.redirect(moved, there, status=301)
    internet.redirect(circle, circle)
    in_order = run(usage("link_checker.py").replace(HOME, "https://example.net/"))
    ran, nothing_amiss = await asyncio.gather(run(usage("link_checker.py")), in_order)
    assert (nothing_amiss.status, nothing_amiss.lines, nothing_amiss.err) == (0, [], "")
    assert ran.status == 1
    assert "Traceback" not in ran.err
    assert ran.line("not a URL").endswith(f"; on {HOME}")
    assert {line for line in ran.lines if "not a URL" not in line} == {
        f"{HOME}gone: broken, 500; on {HOME}",
        f"{HOME}private: disallowed; on {HOME}",
        f"{gone}: broken, 404; on {HOME}, {HOME}endless",
        f"{moved}: moved to {there}; on {HOME}",
        f"{shut}: disallowed; on {HOME}",
        f"{circle}: unreachable, TooManyRedirects; on {HOME}",
        f"https://nobody.invalid/: unreachable, HostUnavailableError; on {HOME}",
    }
    asked = {f"{visit.method} {visit.url}": internet.count(visit.url) for visit in internet.visits}
    robots = [visit.url for visit in internet.visits if visit.url.endswith("/robots.txt")]
    assert len(robots) == len(set(robots)) == 8
    assert {key: count for key, count in asked.items() if not key.endswith("/robots.txt")} == {
        f"GET {HOME}": 1,
        f"GET {HOME}endless": 1,
        f"GET {HOME}gone": 1,
        f"HEAD {get_only}": 2,
        f"GET {get_only}": 2,
        f"HEAD {gone}": 1,
        f"HEAD {moved}": 1,
        f"HEAD {there}": 1,
        f"HEAD {circle}": 4,
        "GET https://example.net/": 1,
    }
    hosts = {visit.host for visit in internet.visits}
    assert min(gap for host in hosts for gap in internet.gaps(host)) >= DELAY
