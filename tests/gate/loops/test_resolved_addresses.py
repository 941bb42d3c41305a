"""A name that resolves to an address that is not public is not connected to, whatever its DNS answers.

Names belong to the attacker, so the resolver is the test's; sockets, servers and proxies are real.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.clocks import LaterClock
from tests.gate.network import PUBLIC, Network, Proxy, Zone

from robotgate import (
    AccessResult,
    DisallowedError,
    HostUnavailableError,
    MemoryStore,
    NonPublicAddressError,
    OptionError,
    PublicConnector,
    Reason,
    RobotGate,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.client.connector import ConnectorOptions

SITE: Final = "http://site.example"
ELSEWHERE: Final = "http://elsewhere.example"
INSIDE: Final = "10.0.0.7"
NON_PUBLIC: Final = [
    *("127.0.0.1", "0.0.0.0", INSIDE, "100.64.0.1", "169.254.169.254", "224.0.0.1"),
    *("::1", "::", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a00:7::", "fe80::1%eth0", "fd00:ec2::254"),
    *("localhost", "127.1", "0x7f000001"),
]
"""Whatever a look-up may come to; the last three by a resolver that does not know better."""


@dataclass(frozen=True)
class Internet:
    """The addresses of each name."""

    zone: Zone
    network: Network

    def connector(self, **options: object) -> PublicConnector:
        """A connector to all of it."""
        chosen: ConnectorOptions = {"resolver": self.zone, "ssl": False, "use_dns_cache": False}
        chosen.update(options)  # type: ignore[typeddict-item]
        return PublicConnector(socket_factory=self.network, **chosen)


@pytest.fixture
def internet(web: Web) -> Internet:
    """Every name has the same public address until it is given others."""
    return Internet(Zone(), Network(web))


@pytest.fixture
async def session(internet: Internet) -> AsyncIterator[aiohttp.ClientSession]:
    """A session as a user would pass it to a gate."""
    async with aiohttp.ClientSession(connector=internet.connector()) as session:
        yield session


@pytest.fixture
async def proxy(web: Web) -> AsyncIterator[Proxy]:
    """A proxy at a private address."""
    proxy = Proxy(web)
    await proxy.open()
    yield proxy
    await proxy.close()


async def test_name_of_a_non_public_address_is_refused(
    web: Web, internet: Internet, gate: RobotGate, subtests: pytest.Subtests
) -> None:
    """At its robots.txt already; the error names the host, the address and the option."""
    for number, address in enumerate(NON_PUBLIC):
        with subtests.test(address=address):
            host = f"site{number}.example"
            internet.zone.give(host, (address,))
            with pytest.raises(NonPublicAddressError) as raised:
                await gate.fetch(f"http://{host}/page")
            assert str(raised.value) == (
                f"{host} resolves to {address}, not to a public address "
                f"(PublicConnector(allow_private_addresses=True) permits it): 'http://{host}/page'"
            )
    assert (web.visits, internet.network.dialled) == ([], [])


async def test_name_of_a_public_address_is_not(internet: Internet, gate: RobotGate) -> None:
    """Nothing is refused that only looks like one."""
    addresses = ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
    for number, address in enumerate(addresses):
        internet.zone.give(f"site{number}.example", (address,))
        assert (await gate.fetch(f"http://site{number}.example/page")).status == 200
    assert list(dict.fromkeys(internet.network.dialled)) == addresses


async def test_page_of_a_name_that_has_become_private_is_refused(
    web: Web, internet: Internet, gate: RobotGate
) -> None:
    """Though its rules are known, from its public days."""
    gate.learn(SITE, b"")
    internet.zone.give("site.example", (INSIDE,))
    for _ in range(3):
        with pytest.raises(NonPublicAddressError, match=rf"site\.example resolves to {INSIDE}.*/page"):
            await gate.fetch(f"{SITE}/page")
    async with gate.fetch(f"{ELSEWHERE}/page") as response:
        assert response.status == 200
    assert gate.host(SITE).unreachable_until_at is None
    assert {visit.host for visit in web.visits} == {"elsewhere.example"}


async def test_redirect_to_a_private_name_is_refused(web: Web, internet: Internet, gate: RobotGate) -> None:
    """A public page leads nowhere that it could not be asked for directly; through the middleware as well."""
    internet.zone.give("inside.example", ("169.254.169.254",))
    web.redirect(f"{SITE}/page", "http://inside.example/latest/meta-data/")
    async with aiohttp.ClientSession(
        connector=internet.connector(), middlewares=[gate.middleware]
    ) as crawler:
        for fetch in (gate.fetch, crawler.get):
            for _ in range(2):
                with pytest.raises(
                    NonPublicAddressError, match=r"inside\.example resolves to 169\.254\.169\.254"
                ):
                    await fetch(f"{SITE}/page")
                # At its robots.txt, and at the page where the rules are known.
                gate.learn("http://inside.example", b"")
    assert web.urls == [f"{SITE}/robots.txt", *[f"{SITE}/page"] * 4]


async def test_verdict_is_closed_and_says_why(internet: Internet, open_gate: OpenGate) -> None:
    """No outage: no circuit opens, and it is asked again soon, as names change."""
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    internet.zone.give("site.example", (INSIDE,), (INSIDE,), (PUBLIC,))
    assert not await gate.allowed(f"{SITE}/page")
    verdict = await gate.check(f"{SITE}/page")
    assert (verdict.allowed, verdict.access) == (False, AccessResult.UNREACHABLE)
    assert verdict.reason is Reason.ROBOTS_TXT_UNREACHABLE
    assert verdict.cause is not None
    assert verdict.cause.startswith(f"site.example resolves to {INSIDE}")
    assert verdict.retry_after is not None
    assert 0 < verdict.retry_after <= 75
    with pytest.raises(NonPublicAddressError):
        await gate.fetch(f"{SITE}/page")
    assert gate.host(SITE).unreachable_until_at is None
    assert internet.zone.asked == ["site.example"]
    clock.offset = 76
    again = await gate.check(f"{SITE}/page")
    assert again.retry_after is not None
    assert again.retry_after > 100
    clock.offset += 151
    assert (await gate.fetch(f"{SITE}/page")).status == 200


async def test_robots_txt_that_redirects_to_a_private_name(
    web: Web, internet: Internet, gate: RobotGate
) -> None:
    """The site is closed as long as its rules cannot be read, and the error says that it is the rules."""
    web.redirect(f"{SITE}/robots.txt", "http://inside.example/robots.txt")
    internet.zone.give("inside.example", (INSIDE,))
    with pytest.raises(
        HostUnavailableError, match=f"robots.txt.*inside.example resolves to {INSIDE}"
    ) as raised:
        await gate.fetch(f"{SITE}/page")
    verdict = raised.value.verdict
    assert verdict is not None
    assert verdict.redirects == (f"{SITE}/robots.txt",)
    assert raised.value.retry_after <= 75
    assert gate.host(SITE).unreachable_until_at is None
    assert web.urls == [f"{SITE}/robots.txt"]


async def test_robots_txt_that_redirects_to_a_private_literal(web: Web, gate: RobotGate) -> None:
    """Will not change so soon: that is the site's answer."""
    web.redirect(f"{SITE}/robots.txt", f"http://{INSIDE}/robots.txt")
    with pytest.raises(DisallowedError, match=f"not a public address.*{INSIDE}"):
        await gate.fetch(f"{SITE}/page")
    assert web.urls == [f"{SITE}/robots.txt"]


async def test_answer_that_changes_between_requests(
    web: Web, internet: Internet, open_gate: OpenGate
) -> None:
    """DNS rebinding: robots.txt is public, and so is the first page; the next would not be."""
    internet.zone.give("site.example", (PUBLIC,), (PUBLIC,), ("127.0.0.1",), (PUBLIC,))
    async with aiohttp.ClientSession(connector=internet.connector(force_close=True)) as forgetful:
        gate = await open_gate(session=forgetful)
        assert (await gate.fetch(f"{SITE}/1")).status == 200
        with pytest.raises(NonPublicAddressError, match=r"127\.0\.0\.1"):
            await gate.fetch(f"{SITE}/2")
        assert (await gate.fetch(f"{SITE}/3")).status == 200
    assert internet.network.dialled == [PUBLIC] * 3
    assert web.urls == [f"{SITE}/robots.txt", f"{SITE}/1", f"{SITE}/3"]


async def test_answer_that_is_remembered_is_looked_at_each_time(
    internet: Internet, open_gate: OpenGate
) -> None:
    """A cache of addresses is no cache of what is allowed."""
    internet.zone.give("site.example", (INSIDE,), (PUBLIC,))
    async with aiohttp.ClientSession(connector=internet.connector(use_dns_cache=True)) as caching:
        gate = await open_gate(session=caching)
        gate.learn(SITE, b"")
        for _ in range(3):
            with pytest.raises(NonPublicAddressError):
                await gate.fetch(f"{SITE}/page")
    assert internet.zone.asked == ["site.example"]
    assert internet.network.dialled == []


@pytest.mark.parametrize("happy_eyeballs_delay", [None, 0.25])
async def test_of_mixed_answers_only_what_is_public_is_connected_to(
    internet: Internet, open_gate: OpenGate, happy_eyeballs_delay: float | None
) -> None:
    """In whatever order, one after another or side by side."""
    internet.zone.give("site.example", (PUBLIC, INSIDE), (INSIDE, "127.0.0.1", "::1", "fe80::1", PUBLIC))
    connector = internet.connector(happy_eyeballs_delay=happy_eyeballs_delay, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as forgetful:
        gate = await open_gate(session=forgetful)
        assert (await gate.fetch(f"{SITE}/page")).status == 200
    assert internet.network.dialled == [PUBLIC] * 2


async def test_site_whose_public_addresses_are_down_is_down(
    web: Web, internet: Internet, gate: RobotGate
) -> None:
    """That its name has a private address too changes nothing: it is never tried in their place."""
    internet.zone.give("site.example", (PUBLIC, INSIDE, "8.8.8.8"))
    internet.network.down |= {PUBLIC, "8.8.8.8"}
    with pytest.raises(HostUnavailableError):
        await gate.fetch(f"{SITE}/page")
    assert gate.host(SITE).unreachable_until_at is not None
    assert INSIDE not in internet.network.dialled
    assert web.visits == []


async def test_name_of_many_private_addresses_has_a_short_error(internet: Internet, gate: RobotGate) -> None:
    """Whose name it is may give hundreds."""
    internet.zone.give("site.example", tuple(f"10.0.0.{number}" for number in range(40)))
    with pytest.raises(NonPublicAddressError) as raised:
        await gate.fetch(f"{SITE}/page")
    assert "resolves to 10.0.0.0, 10.0.0.1, 10.0.0.2, ..., not" in str(raised.value)
    assert internet.network.dialled == []


async def test_kept_connection_serves_on(internet: Internet, gate: RobotGate) -> None:
    """It was made to a public address, and leads there still."""
    internet.zone.give("site.example", (PUBLIC,), (INSIDE,))
    for number in range(3):
        assert (await gate.fetch(f"{SITE}/{number}")).status == 200
    assert internet.network.dialled == [PUBLIC]


async def test_requests_under_way_at_once_do_not_answer_for_each_other(
    internet: Internet, session: aiohttp.ClientSession
) -> None:
    """Each is refused, or not, for addresses of its own."""
    sites = [f"{number}.example" for number in range(40)]
    for site in sites[::2]:
        internet.zone.give(site, (INSIDE, f"10.1.0.{site.partition('.')[0]}"))

    async def ask(site: str) -> str:
        try:
            async with session.get(f"http://{site}/") as response:
                return await response.text()
        except NonPublicAddressError as error:
            return error.problem.partition(",")[0]

    answers = await asyncio.gather(*map(ask, sites))
    assert answers[::2] == [f"{site} resolves to {INSIDE}" for site in sites[::2]]
    assert answers[1::2] == ["a page"] * 20


async def test_literal_is_refused_by_the_connector_alone(web: Web, session: aiohttp.ClientSession) -> None:
    """`PublicConnector` works in a session without a gate."""
    for literal in ("127.0.0.1", "[::1]", INSIDE, "[::ffff:10.0.0.1]"):
        with pytest.raises(NonPublicAddressError, match=r"^not a public address"):
            await session.get(f"http://{literal}/")
    assert web.visits == []


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_proxy_may_be_private(  # noqa: PLR0917  # Fixtures.
    web: Web,
    internet: Internet,
    proxy: Proxy,
    open_gate: OpenGate,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
) -> None:
    """Its address is the operator's choice; what the names behind it mean is for the proxy to find out."""
    monkeypatch.setenv(f"{scheme}_proxy", proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    internet.zone.give("site.example", (INSIDE,))
    async with aiohttp.ClientSession(connector=internet.connector(), trust_env=True) as proxied:
        gate = await open_gate(session=proxied)
        assert (await gate.fetch(f"{scheme}://site.example/page")).text == "a page"
        with pytest.raises(NonPublicAddressError):
            await gate.fetch(f"{scheme}://{INSIDE}/page")
    if scheme == "http":
        assert proxy.served == [f"GET {SITE}/robots.txt", f"GET {SITE}/page"]
    else:
        assert set(proxy.served) == {"CONNECT site.example:443"}
    assert len(web.visits) == 2
    assert internet.zone.asked == []


async def test_proxy_of_one_request_is_nobody_elses(
    web: Web, internet: Internet, proxy: Proxy, gate: RobotGate
) -> None:
    """Pages of one private name at once: those by way of the proxy come, the others are refused."""
    internet.zone.give("site.example", (INSIDE,))
    internet.zone.give("proxy.example", ("127.0.0.1",))
    gate.learn(SITE, b"")
    port = proxy.url.rpartition(":")[2]
    by_proxy = [gate.fetch(f"{SITE}/{n}", proxy=f"http://proxy.example:{port}") for n in range(4)]
    direct = [gate.fetch(f"{SITE}/direct/{n}") for n in range(4)]
    answers = await asyncio.gather(*by_proxy, *direct, return_exceptions=True)
    assert [getattr(answer, "status", None) for answer in answers[:4]] == [200] * 4
    assert {type(answer) for answer in answers[4:]} == {NonPublicAddressError}
    assert sorted(web.urls) == [f"{SITE}/{n}" for n in range(4)]
    assert set(internet.network.dialled) == {"127.0.0.1"}


async def test_names_of_a_proxy_and_of_a_site_are_not_confused(
    internet: Internet, proxy: Proxy, gate: RobotGate
) -> None:
    """A host that serves as a proxy may not be visited as a site for that reason."""
    internet.zone.give("proxy.example", ("127.0.0.1",))
    gate.learn(SITE, b"")
    url = f"http://proxy.example:{proxy.url.rpartition(':')[2]}/"
    assert (await gate.fetch(f"{SITE}/page", proxy=url)).status == 200
    with pytest.raises(NonPublicAddressError):
        await gate.fetch(url)
    assert proxy.served == [f"GET {SITE}/page"]


async def test_operator_may_permit_all_of_it(web: Web, internet: Internet, open_gate: OpenGate) -> None:
    """By the option of the same name."""
    internet.zone.give("site.example", (INSIDE,))
    connector = PublicConnector(
        allow_private_addresses=True, resolver=internet.zone, socket_factory=internet.network
    )
    async with aiohttp.ClientSession(connector=connector) as free:
        gate = await open_gate(session=free)
        assert (await gate.fetch(f"{SITE}/page")).status == 200
    assert internet.network.dialled == [INSIDE]
    assert len(web.visits) == 2


async def test_permission_is_a_flag() -> None:
    """A word that means no must not mean yes."""
    for flag in ("no", 0, None):
        with pytest.raises(OptionError, match="allow_private_addresses="):
            PublicConnector(allow_private_addresses=flag)  # type: ignore[arg-type]


async def test_permission_of_the_gate_is_not_that_of_its_connector(
    internet: Internet, open_gate: OpenGate
) -> None:
    """If the gate permits private addresses and the connector refuses one, the error names the missing option."""
    internet.zone.give("site.example", (INSIDE,))
    gate = await open_gate(allow_private_addresses=True)
    for url in (f"http://{INSIDE}/", SITE):
        with pytest.raises(
            NonPublicAddressError, match=r"PublicConnector\(allow_private_addresses=True\) permits"
        ):
            await gate.fetch(url)


@pytest.fixture
def system_names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the system's resolver says of some names, for the gate's own session."""
    names: dict[str, str] = {}
    ask_the_system = socket.getaddrinfo

    def look_up(host: str, port: int, **hints: int) -> object:
        if host not in names:
            return ask_the_system(host, port, **hints)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (names[host], port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return names


async def test_own_session_refuses_private_names(
    web: Web, system_names: dict[str, str], open_gate: OpenGate
) -> None:
    """The gate's own connector is one of ours."""
    system_names["site.example"] = "127.0.0.1"
    gate = await open_gate(session=None)
    url = f"{SITE}:{web.port}"
    message = r"site\.example resolves to 127\.0\.0\.1, .* \(allow_private_addresses=True permits it\)"
    with pytest.raises(NonPublicAddressError, match=message):
        await gate.fetch(f"{url}/page")
    with pytest.raises(NonPublicAddressError):
        async with gate.turn(f"{url}/page"):
            raise AssertionError
    gate.learn(url, b"")
    with pytest.raises(NonPublicAddressError, match=r"site\.example resolves to 127\.0\.0\.1"):
        await gate.fetch(f"{url}/page")
    assert web.visits == []


async def test_gate_that_is_allowed_private_addresses_takes_no_others_refusal(
    web: Web, system_names: dict[str, str], open_gate: OpenGate
) -> None:
    """A store may be shared by gates that are allowed different things, or be opened again with other options."""
    system_names["site.example"] = "127.0.0.1"
    store = MemoryStore()
    strict = await open_gate(session=None, store=store)
    free = await open_gate(session=None, store=store, allow_private_addresses=True)
    assert not await strict.allowed(f"{SITE}:{web.port}/page")
    assert (await free.fetch(f"{SITE}:{web.port}/page")).status == 200
