"""The status table as real servers bring it about: what each answer for robots.txt does to a site."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.clocks import LaterClock
from tests.gate.servers import cut_off, hang_up, silent

from robotgate import (
    AccessResult,
    DisallowedError,
    HostUnavailableError,
    Origin,
    Reason,
    StatusPolicy,
    SystemClock,
)
from robotgate.sites import HostAccess, Outcome, RobotsRecord
from robotgate.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate import RobotGate

ROBOTS = "http://site.example/robots.txt"
PAGE = "http://site.example/page"
RULES = "User-agent: *\nDisallow: /private"

OPEN_STATUSES = (404, 410, 400, 402, 405, 406, 409, 418, 431, 451, 499, 300, 304, 305, 306)
FORBIDDEN_STATUSES = (401, 403)
UNREACHABLE_STATUSES = (408, 421, 425, 429, 500, 501, 502, 503, 504, 520, 599)


@pytest.mark.parametrize("status", [200, 201, 203, 206, 299])
async def test_success_is_parsed(web: Web, gate: RobotGate, status: int) -> None:
    """Any 2xx with a body is a robots.txt."""
    web.serve(ROBOTS, RULES, status=status)
    verdict = await gate.check("http://site.example/private")
    assert not verdict.allowed
    assert verdict.reason is Reason.DISALLOWED_BY_RULE
    assert (verdict.access, verdict.status) == (AccessResult.SUCCESSFUL, status)
    assert verdict.rule is not None
    assert verdict.rule.line == 2
    assert gate.host(PAGE).access is HostAccess.CONTROLLED


@pytest.mark.parametrize("status", [200, 204])
async def test_empty_robots_txt_opens_the_site(web: Web, gate: RobotGate, status: int) -> None:
    """No lines, no rules."""
    web.serve(ROBOTS, b"", status=status)
    verdict = await gate.check(PAGE)
    assert verdict.allowed
    assert (verdict.reason, verdict.access) == (Reason.NO_GROUP, AccessResult.SUCCESSFUL)
    assert gate.host(PAGE).access is HostAccess.OPEN


@pytest.mark.parametrize("status", OPEN_STATUSES)
async def test_unavailable_opens_the_site(web: Web, gate: RobotGate, status: int) -> None:
    """RFC 9309 §2.3.1.3: the site has no rules for us, whatever stands in the body."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /" if status != 304 else "", status=status)
    verdict = await gate.check(PAGE)
    assert verdict.allowed
    assert verdict.reason is Reason.ROBOTS_TXT_UNAVAILABLE
    assert (verdict.access, verdict.status) == (AccessResult.UNAVAILABLE, status)
    assert (await gate.fetch(PAGE)).text == "a page"


@pytest.mark.parametrize("status", FORBIDDEN_STATUSES)
async def test_forbidden_closes_the_site(web: Web, gate: RobotGate, status: int) -> None:
    """Who may not read the rules may not read the pages: the convention of the 1990s."""
    web.serve(ROBOTS, status=status)
    with pytest.raises(DisallowedError) as caught:
        await gate.fetch(PAGE)
    assert caught.value.verdict.reason is Reason.ROBOTS_TXT_FORBIDDEN
    assert caught.value.verdict.access is AccessResult.UNAVAILABLE
    assert gate.host(PAGE).access is HostAccess.EXCLUDED
    assert web.counts() == {ROBOTS: 1}


@pytest.mark.parametrize("status", UNREACHABLE_STATUSES)
async def test_unreachable_closes_the_site(web: Web, gate: RobotGate, status: int) -> None:
    """RFC 9309 §2.3.1.4: nothing is allowed, and the error says that it is the host's state, not its will."""
    web.serve(ROBOTS, RULES, status=status)
    with pytest.raises(HostUnavailableError) as caught:
        await gate.fetch(PAGE)
    verdict = caught.value.verdict
    assert verdict is not None
    assert (verdict.access, verdict.status) == (AccessResult.UNREACHABLE, status)
    assert verdict.reason is Reason.ROBOTS_TXT_UNREACHABLE
    assert not await gate.allowed(PAGE)
    assert 0 < caught.value.retry_after <= 75
    assert web.counts() == {ROBOTS: 1}


@pytest.mark.parametrize(
    ("policy", "open_statuses"),
    [
        (StatusPolicy.DEFAULT, {404, 410, 418}),
        (StatusPolicy.RFC9309, {401, 403, 404, 410, 418}),
        (StatusPolicy.GOOGLE, {401, 403, 404, 410, 418}),
        (StatusPolicy.CLASSIC, {404, 410}),
        (StatusPolicy.ARCHIVE, {401, 403, 404, 410, 418, 429, 500}),
    ],
)
async def test_named_policies(
    web: Web, open_gate: OpenGate, policy: StatusPolicy, open_statuses: set[int]
) -> None:
    """Which statuses open a site is the policy's decision alone."""
    gate = await open_gate(status_policy=policy)
    statuses = (401, 403, 404, 410, 418, 429, 500)
    for status in statuses:
        web.serve(f"http://s{status}.example/robots.txt", status=status)
    opened = {status for status in statuses if await gate.allowed(f"http://s{status}.example/page")}
    assert opened == open_statuses


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(hang_up, id="closed without an answer"),
        pytest.param(lambda: cut_off(RULES.encode(), length=500), id="shorter than Content-Length"),
        pytest.param(
            lambda: cut_off(b"not gzip", length=8, headers={"Content-Encoding": "gzip"}), id="broken gzip"
        ),
    ],
)
async def test_broken_answer_closes_the_site(
    web: Web, gate: RobotGate, broken: Callable[[], Handler]
) -> None:
    """Rules that came half are no rules."""
    web.handle(ROBOTS, broken())
    verdict = await gate.check(PAGE)
    assert not verdict.allowed
    assert (verdict.access, verdict.status) == (AccessResult.UNREACHABLE, None)
    assert verdict.cause
    assert gate.allowed_nowait(PAGE) is False


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", id="length that is no number"),
        pytest.param(b"220 mail.example ESMTP\r\n", id="no HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", id="endless header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", id="no chunk"),
        pytest.param(b"\x00" * 1000, id="zeros"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_what_is_no_http_closes_the_site(open_gate: OpenGate, octets: bytes) -> None:
    """Whatever answers on the port, it is an answer and no exception."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(octets)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    gate = await open_gate(allow_private_addresses=True)
    async with server:
        verdict = await gate.check(f"http://127.0.0.1:{port}/page")
    assert (verdict.allowed, verdict.access) == (False, AccessResult.UNREACHABLE)


async def test_refused_connection_closes_the_site(web: Web, open_gate: OpenGate) -> None:
    """A port without a listener."""
    gate = await open_gate(allow_private_addresses=True)
    port = web.port
    await web.close()
    verdict = await gate.check(f"http://127.0.0.1:{port}/page")
    assert (verdict.allowed, verdict.access, verdict.status) == (False, AccessResult.UNREACHABLE, None)
    assert verdict.cause is not None
    assert "Connect" in verdict.cause


async def test_failed_tls_closes_the_site(web: Web, gate: RobotGate) -> None:
    """An untrusted certificate, or no TLS at all, makes a host unreachable."""
    verdict = await gate.check("https://site.example:8443/page")
    assert (verdict.allowed, verdict.access) == (False, AccessResult.UNREACHABLE)
    assert all(not visit.url.startswith("https") for visit in web.visits)


async def test_failure_is_no_verdict_on_other_origins(web: Web, gate: RobotGate) -> None:
    """The other port of a host whose robots.txt fails is asked for its own."""
    web.serve(ROBOTS, status=500)
    assert not await gate.allowed(PAGE)
    assert await gate.allowed("http://site.example:8080/page")


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_last_good_copy_outlives_a_failure(web: Web, open_gate: OpenGate, status: int) -> None:
    """Stale rules beat guesses: the old file goes on to bind, and the verdict says so."""
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    web.serve(ROBOTS, RULES)
    assert await gate.allowed(PAGE)
    web.serve(ROBOTS, status=status)
    clock.offset = 25 * 3600
    verdict = await gate.check("http://site.example/private")
    assert (verdict.allowed, verdict.reason) == (False, Reason.DISALLOWED_BY_RULE)
    assert verdict.stale
    assert (await gate.check(PAGE)).allowed
    assert web.counts() == {ROBOTS: 2}


async def test_failed_site_opens_once_it_answers(web: Web, open_gate: OpenGate) -> None:
    """A closed site is asked again, but no sooner than it was told."""
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    web.serve(ROBOTS, status=500)
    assert not await gate.allowed(PAGE)
    web.serve(ROBOTS, RULES)
    clock.offset = 59
    assert not await gate.allowed(PAGE)
    clock.offset = 76
    assert await gate.allowed(PAGE)
    assert web.counts() == {ROBOTS: 2}


@pytest.mark.parametrize(
    ("cache_control", "fresh_for"),
    [
        (None, 86_400),
        ("max-age=3600", 3600),
        ("public, MAX-AGE=7200", 7200),
        ("max-age=1", 300),
        ("no-store", 300),
        ("max-age=99999999", 86_400),
        ("max-age=soon", 300),
    ],
)
async def test_rules_are_fresh_as_long_as_the_server_says(
    web: Web, gate: RobotGate, cache_control: str | None, fresh_for: float
) -> None:
    """Cache-Control counts within five minutes and a day (RFC 9309 §2.4)."""
    web.serve(ROBOTS, RULES, headers=None if cache_control is None else {"Cache-Control": cache_control})
    verdict = await gate.check(PAGE)
    assert verdict.fetched_at is not None
    assert verdict.fresh_until_at is not None
    assert verdict.fresh_until_at - verdict.fetched_at == pytest.approx(fresh_for)


@pytest.mark.parametrize(("age", "requests"), [(299.0, 1), (301.0, 2)])
async def test_rules_are_asked_for_again_when_they_are_old(
    web: Web, open_gate: OpenGate, age: float, requests: int
) -> None:
    """Not before their time, and not after."""
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    web.serve(ROBOTS, RULES, headers={"Cache-Control": "max-age=300"})
    assert await gate.allowed(PAGE)
    clock.offset = age
    assert gate.allowed_nowait(PAGE) is (True if requests == 1 else None)
    assert await gate.allowed(PAGE)
    assert web.count(ROBOTS) == requests


async def test_retry_after_of_robots_txt_is_obeyed(web: Web, open_gate: OpenGate) -> None:
    """A 429 for robots.txt blocks the host for as long as it says, its other port included."""
    gate = await open_gate(max_block=100)
    web.serve(ROBOTS, status=429, headers={"Retry-After": "20000"})
    assert not await gate.allowed(PAGE)
    view = gate.host(PAGE)
    assert view.blocked_until_at is not None
    assert 19_000 < gate.wait_time(PAGE) <= 20_000
    verdict = await gate.check("http://site.example:8080/page")
    assert (verdict.allowed, verdict.access) == (False, AccessResult.UNREACHABLE)
    assert web.counts() == {ROBOTS: 1}


async def test_answer_that_never_comes_times_out(web: Web, open_gate: OpenGate) -> None:
    """An unreachable record is what a silent server leaves, kept for a minute like any failure."""
    store = MemoryStore()
    gate = await open_gate(store=store)
    web.handle(ROBOTS, silent())
    waiting = asyncio.create_task(gate.allowed(PAGE))
    await web.arrivals(1)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await gate.aclose()
    assert await store.load_record(Origin.of(PAGE)) is None


async def test_stored_failure_is_believed_until_its_time(web: Web, open_gate: OpenGate) -> None:
    """What another run found out an instant ago is not found out again."""
    now = SystemClock().now()
    store = MemoryStore()
    await store.save_record(
        RobotsRecord(
            origin=Origin.of(PAGE),
            outcome=Outcome.FAILURE,
            cause="no answer",
            checked_at=now,
            fresh_until_at=now + 60,
            failures=1,
            failing_since_at=now,
        )
    )
    gate = await open_gate(store=store)
    with pytest.raises(HostUnavailableError, match="no answer"):
        await gate.fetch(PAGE)
    assert web.visits == []
