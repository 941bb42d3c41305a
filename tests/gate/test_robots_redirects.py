"""robots.txt that redirects: five hops, other hosts included; the result binds the first origin, pace is kept."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from tests.gate.servers import hang_up

from robotgate import AccessResult, HostUnavailableError, Reason

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

RULES = "User-agent: *\nDisallow: /private"
ROBOTS = "http://site.example/robots.txt"
PAGE = "http://site.example/page"
PRIVATE = "http://site.example/private"
DELAY = 0.06


def chain(web: Web, hops: int, *, to: str) -> list[str]:
    """Redirect a robots.txt over so many hosts to a URL; what was asked on the way, that URL included."""
    urls = [ROBOTS, *(f"http://hop{number}.example/robots.txt" for number in range(1, hops)), to]
    for url, target in pairwise(urls):
        web.redirect(url, target)
    return urls


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_is_followed(web: Web, gate: RobotGate, status: int) -> None:
    """Every status that redirects does, and the verdict tells the way."""
    target = "http://elsewhere.example/rules"
    web.redirect(ROBOTS, target, status=status)
    web.serve(target, RULES)
    verdict = await gate.check(PRIVATE)
    assert verdict.reason is Reason.DISALLOWED_BY_RULE
    assert (verdict.robots_url, verdict.redirects) == (target, (ROBOTS,))
    assert web.urls == [ROBOTS, target]


@pytest.mark.parametrize("hops", [1, 2, 3, 4, 5])
async def test_up_to_five_redirects_across_hosts(web: Web, gate: RobotGate, hops: int) -> None:
    """RFC 9309 §2.3.1.2: at least five, whichever hosts they lead over."""
    asked = chain(web, hops, to="http://end.example/robots.txt")
    web.serve("http://end.example/robots.txt", RULES)
    verdict = await gate.check(PRIVATE)
    assert (verdict.allowed, verdict.reason) == (False, Reason.DISALLOWED_BY_RULE)
    assert verdict.redirects == tuple(asked[:-1])
    assert web.urls == asked


async def test_sixth_redirect_is_not_followed(web: Web, gate: RobotGate) -> None:
    """More than five, and the site counts as one without a robots.txt."""
    asked = chain(web, 6, to="http://end.example/robots.txt")
    web.serve("http://end.example/robots.txt", "User-agent: *\nDisallow: /")
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.access) == (True, AccessResult.UNAVAILABLE)
    assert web.urls == asked[:-1]


async def test_circle_ends(web: Web, gate: RobotGate) -> None:
    """A robots.txt that redirects to itself is asked for six times and no more."""
    web.redirect(ROBOTS, ROBOTS)
    assert await gate.allowed(PAGE)
    assert web.counts() == {ROBOTS: 6}


async def test_rules_bind_the_first_origin_alone(web: Web, gate: RobotGate) -> None:
    """The host that served the file is asked for its own when it is its turn."""
    web.redirect(ROBOTS, "http://elsewhere.example/rules.txt")
    web.serve("http://elsewhere.example/rules.txt", RULES)
    assert not await gate.allowed(PRIVATE)
    assert await gate.allowed("http://elsewhere.example/private")
    assert web.count("http://elsewhere.example/robots.txt") == 1


async def test_shared_robots_txt_binds_each_that_points_to_it(web: Web, gate: RobotGate) -> None:
    """The bare name and www: asked for once for each, and for itself."""
    web.redirect(ROBOTS, "http://www.site.example/robots.txt")
    web.serve("http://www.site.example/robots.txt", RULES)
    assert not await gate.allowed(PRIVATE)
    assert not await gate.allowed("http://www.site.example/private")
    assert web.counts() == {ROBOTS: 1, "http://www.site.example/robots.txt": 2}


@pytest.mark.parametrize(
    ("location", "asked"),
    [
        ("/other.txt", "http://site.example/other.txt"),
        ("other.txt?a=b", "http://site.example/other.txt?a=b"),
        ("//elsewhere.example/r", "http://elsewhere.example/r"),
        ("https://site.example/robots.txt", "https://site.example/robots.txt"),
        ("http://SITE.example:8080/r", "http://site.example:8080/r"),
        (" http://elsewhere.example/r ", "http://elsewhere.example/r"),
        ("http://user:secret@elsewhere.example/r#top", "http://elsewhere.example/r"),
        ("http://bücher.example/r", "http://xn--bcher-kva.example/r"),
    ],
)
async def test_location_is_resolved(web: Web, gate: RobotGate, location: str, asked: str) -> None:
    """Relative or absolute, with or without what is not sent."""
    web.redirect(ROBOTS, location)
    web.serve(asked.partition("?")[0], RULES)
    assert not await gate.allowed(PRIVATE)
    assert web.urls == [ROBOTS, asked]
    assert "Authorization" not in web.visits[-1].headers


@pytest.mark.parametrize(
    "location",
    [
        "",
        "ftp://site.example/robots.txt",
        "javascript:alert(1)",
        "mailto:bot@example.org",
        "http://[::1",
        "http://site.example:99999/",
        f"http://{'a' * 300}.example/",
        "http://a b.example/",
        "http://site.example:0/",
        "data:text/plain,User-agent: *",
    ],
)
async def test_redirect_to_nowhere_opens_the_site(web: Web, gate: RobotGate, location: str) -> None:
    """A redirect that leads to no http resource is no robots.txt."""
    web.redirect(ROBOTS, location)
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.access) == (True, AccessResult.UNAVAILABLE)
    assert web.urls == [ROBOTS]


@pytest.mark.parametrize("location", [b"http://caf\xe9.example/", b"\xff\xfe", b"http://site.example/\xff"])
async def test_location_of_any_octets_is_an_answer(open_gate: OpenGate, location: bytes) -> None:
    """What a header holds is the site's choice; an exception is not."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    gate = await open_gate(allow_private_addresses=True)
    async with server:
        verdict = await gate.check(f"http://127.0.0.1:{port}/page")
    assert verdict.access is not None


@pytest.mark.parametrize("status", [401, 403])
async def test_end_of_the_chain_decides(web: Web, gate: RobotGate, status: int) -> None:
    """What the last hop answers stands for the first origin."""
    chain(web, 2, to="http://end.example/robots.txt")
    web.serve("http://end.example/robots.txt", status=status)
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.status) == (False, status)


async def test_failure_on_the_way_closes_the_site(web: Web, gate: RobotGate) -> None:
    """A hop that fails is a robots.txt that could not be read."""
    chain(web, 2, to="http://end.example/robots.txt")
    web.serve("http://end.example/robots.txt", status=503)
    with pytest.raises(HostUnavailableError):
        await gate.fetch(PAGE)


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/robots.txt",
        "http://localhost/robots.txt",
        "http://10.0.0.1/robots.txt",
        "http://192.168.1.1:8080/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/robots.txt",
        "http://[::ffff:127.0.0.1]/robots.txt",
        "http://[fd00::1]/robots.txt",
    ],
)
async def test_redirect_into_a_private_network_closes_the_site(
    web: Web, gate: RobotGate, target: str
) -> None:
    """A public site's redirect to such an address closes the site, and nothing is requested there."""
    web.redirect(ROBOTS, target)
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.access) == (False, AccessResult.UNREACHABLE)
    assert web.urls == [ROBOTS]


async def test_redirect_to_a_private_address_is_followed_if_permitted(web: Web, open_gate: OpenGate) -> None:
    """The operator of an intranet knows what is there."""
    gate = await open_gate(allow_private_addresses=True)
    target = f"http://127.0.0.1:{web.port}/robots.txt"
    web.redirect(ROBOTS, target)
    web.serve(target, RULES)
    assert not await gate.allowed(PRIVATE)
    assert web.urls == [ROBOTS, target]


async def test_each_hop_counts_as_a_visit(web: Web, gate: RobotGate) -> None:
    """Hosts remember being asked for someone else's robots.txt."""
    chain(web, 2, to="http://end.example/robots.txt")
    assert await gate.allowed(PAGE)
    visits = [gate.host(f"http://{name}.example/").visits for name in ("site", "hop1", "end", "other")]
    assert visits == [1, 1, 1, 0]


async def test_redirect_within_a_host_keeps_its_delay(web: Web, open_gate: OpenGate) -> None:
    """Six requests for the robots.txt of one host, each a delay after the end of the one before."""
    gate = await open_gate(delay=DELAY)
    web.redirect(ROBOTS, "/robots.txt")
    assert await gate.allowed(PAGE)
    gaps = web.gaps("site.example")
    assert len(gaps) == 5
    assert min(gaps) >= DELAY


async def test_parking_host_is_never_hit_without_a_gap(web: Web, open_gate: OpenGate) -> None:
    """Many origins redirect to one host: it is asked one delay apart, and all get their answer."""
    gate = await open_gate(delay=DELAY)
    parking = "http://parking.example/robots.txt"
    sites = [f"http://parked{number}.example" for number in range(12)]
    for site in sites:
        web.redirect(f"{site}/robots.txt", parking)
    web.serve(parking, RULES)
    answers = await asyncio.gather(*(gate.allowed(f"{site}/private") for site in sites))
    assert answers == [False] * 12
    gaps = web.gaps("parking.example")
    assert len(gaps) == 11
    assert min(gaps) >= DELAY
    assert web.counts() == {f"{site}/robots.txt": 1 for site in sites} | {parking: 12}


async def test_origins_of_one_host_share_its_pace(web: Web, open_gate: OpenGate) -> None:
    """http, https and another port of one host never hit it without a gap, pages and robots.txt alike."""
    gate = await open_gate(delay=DELAY)
    origins = ["http://site.example", "https://site.example", "http://site.example:8080"]
    for origin in origins:
        web.serve(f"{origin}/robots.txt", RULES)
    pages = await asyncio.gather(*(gate.fetch(f"{origin}/{page}") for origin in origins for page in "ab"))
    assert {page.status for page in pages} == {200}
    gaps = web.gaps("site.example")
    assert len(gaps) == 8
    assert min(gaps) >= DELAY
    assert web.peak() == 1


async def test_robots_txt_goes_ahead_of_waiting_pages(web: Web, open_gate: OpenGate) -> None:
    """Pages of one origin wait in line when the robots.txt of the host's other origin comes, and let it pass."""
    gate = await open_gate(delay=DELAY)
    assert await gate.allowed(PAGE)
    pages = [asyncio.create_task(gate.fetch(f"{PAGE}/{number}", priority=9)) for number in range(4)]
    await web.arrivals(2)
    assert await gate.allowed("http://site.example:8080/page")
    await asyncio.gather(*pages)
    assert web.urls.index("http://site.example:8080/robots.txt") == 2
    assert min(web.gaps("site.example")) >= DELAY


async def test_redirect_onto_a_busy_host_goes_ahead_of_its_pages(web: Web, open_gate: OpenGate) -> None:
    """At each hop, not only at the first."""
    gate = await open_gate(delay=DELAY)
    busy = "http://busy.example"
    web.redirect(ROBOTS, f"{busy}/shared.txt")
    assert await gate.allowed(f"{busy}/")
    pages = [asyncio.create_task(gate.fetch(f"{busy}/{number}")) for number in range(4)]
    await web.arrivals(2)
    assert await gate.allowed(PAGE)
    await asyncio.gather(*pages)
    order = [visit.url for visit in web.visits if visit.host == "busy.example"]
    assert order.index(f"{busy}/shared.txt") == 2
    assert min(web.gaps("busy.example")) >= DELAY


async def test_robots_txt_that_aiohttp_asks_for_again_is_paced(web: Web, open_gate: OpenGate) -> None:
    """The first origin leaves a connection open, the redirect back over it is not answered: no second try at once."""
    gate = await open_gate(delay=DELAY)
    web.redirect(ROBOTS, "/moved.txt")
    web.handle("http://site.example/moved.txt", hang_up())
    assert not await gate.allowed(PAGE)
    assert min(web.gaps("site.example")) >= DELAY
    assert gate.host(PAGE).visits == len(web.visits)
