"""`gate.middleware` among the middlewares that aiohttp ships or teaches: retries, digest authentication, SSRF.

They send one `ClientRequest` several times and leave answers unread. Measured at real servers.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.crawlers import GATED, crawler, gate_within, text
from tests.gate.servers import DELAY, LARGE, LOOPBACK, NEXT, PAGE, ROBOTS

from robotgate.events import TurnEnded

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate import RobotGate

SMALL: Final = b"sorry"
REALM: Final = "here"
NONCE: Final = "5f1c7a"


class Attempts:
    """Retries as the cookbook has them: an answer that is not good enough is dropped unread."""

    def __init__(self, most: int = 3) -> None:
        self._most = most

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send until an answer is no failure of the server's, and give the last."""
        response = await handler(request)
        for _ in range(self._most - 1):
            if response.status < 500:
                break
            response = await handler(request)
        return response


class PrivateHostError(aiohttp.ClientError):
    """What the guard raises."""


async def guard(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Keeps requests out of the own network, as the cookbook does: by what stands in the URL."""
    if request.url.host == LOOPBACK:
        raise PrivateHostError(LOOPBACK)
    return await handler(request)


def digest() -> aiohttp.DigestAuthMiddleware:
    """That of aiohttp itself."""
    return aiohttp.DigestAuthMiddleware("user", "secret")


def protected(body: bytes = SMALL, *, failures: int = 0) -> Handler:
    """A page that fails at first, and then asks for a digest; what it says to both is `body`."""
    left = iter(range(failures))

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        if next(left, None) is not None:
            return aioweb.Response(status=500, body=body)
        if request.headers.get("Authorization", "").startswith("Digest "):
            return aioweb.Response(text="a page")
        challenge = f'Digest realm="{REALM}", nonce="{NONCE}", qop="auth", algorithm=MD5'
        return aioweb.Response(status=401, headers={"WWW-Authenticate": challenge}, body=body)

    return answer


KINDS: Final = ("retry", "digest", "guard")


def made(kind: str, gate: RobotGate) -> ClientMiddlewareType:
    """A middleware by name, new for each session."""
    if kind == "gate":
        return gate.middleware
    if kind == "retry":
        return Attempts()
    return digest() if kind == "digest" else guard


@pytest.mark.parametrize(
    ("order", "body", "limit_per_host"),
    [(KINDS, SMALL, 0), *((order, LARGE, 1) for order in itertools.permutations(KINDS))],
    ids=["small", *map("-".join, itertools.permutations(KINDS))],
)
async def test_before_the_gate_every_attempt_is_paced(
    web: Web, open_gate: OpenGate, order: tuple[str, ...], limit_per_host: int, body: bytes
) -> None:
    """In whatever order: a failure, a challenge, a page, each in a turn of its own, after the end of the one before.

    The answers before the last stay unread. Large ones hold their connection, which may be the only one.
    """
    gate = await open_gate(delay=DELAY)
    ended: list[TurnEnded] = []
    gate.subscribe(ended.append, TurnEnded)
    web.handle(PAGE, protected(body, failures=1))
    chain = [made(kind, gate) for kind in (*order, "gate")]
    async with crawler(web, *chain, limit_per_host=limit_per_host) as session, session.get(PAGE) as response:
        assert await response.text() == "a page"
    assert web.counts() == {ROBOTS: 1, PAGE: 3}
    assert min(web.gaps("site.example")) >= DELAY
    assert web.peak() == 1
    view = gate.host(PAGE)
    assert (view.visits, view.open_turns, view.waiting) == (4, 0, 0)
    await asyncio.sleep(0)
    assert [event.status for event in ended] == [500, 401, 200]


@pytest.mark.parametrize(
    "order",
    [
        ("gate", "retry", "digest", "guard"),
        ("retry", "gate", "digest", "guard"),
        ("digest", "guard", "gate", "retry"),
        ("guard", "gate", "digest", "retry"),
    ],
    ids="-".join,
)
async def test_behind_the_gate_attempts_are_its_own_affair(
    web: Web, open_gate: OpenGate, order: tuple[str, ...]
) -> None:
    """What stands behind the gate sends again without its knowing: ours goes last. Nothing is stuck, or gated twice."""
    gate = await open_gate(delay=DELAY)
    web.handle(PAGE, protected(failures=1))
    repeaters = [kind for kind in order if kind != "guard"]
    behind = repeaters[repeaters.index("gate") + 1 :]
    async with crawler(web, *(made(kind, gate) for kind in order)) as session, session.get(PAGE) as response:
        assert await response.text() == "a page"
    assert web.counts() == {ROBOTS: 1, PAGE: 3}
    view = gate.host(PAGE)
    # One turn for robots.txt, one for the call, one for what was sent again before the gate.
    assert view.visits == 1 + 1 + (2 - len(behind))
    assert (view.open_turns, view.waiting) == (0, 0)


@pytest.mark.parametrize("order", [("gate", "guard"), ("guard", "gate")], ids="-".join)
async def test_guard_stops_what_the_gate_lets_pass(
    web: Web, open_gate: OpenGate, order: tuple[str, str]
) -> None:
    """Its error passes unchanged, no turn stays open, and a host that was found by redirect is guarded too."""
    gate = await open_gate(allow_private_addresses=True)
    inside = f"http://127.0.0.1:{web.port}"
    web.redirect(PAGE, f"{inside}/secret")
    async with crawler(web, *(made(kind, gate) for kind in order)) as session:
        for url in (f"{inside}/secret", PAGE):
            with pytest.raises(PrivateHostError):
                await session.get(url)
    assert web.count(f"{inside}/secret") == 0
    assert gate.host(inside).open_turns == 0
    assert gate.host(PAGE).open_turns == 0


async def test_attempts_that_all_fail_give_the_last_answer(web: Web, open_gate: OpenGate) -> None:
    """Which can still be read."""
    gate = await open_gate(delay=DELAY)
    web.serve(PAGE, LARGE, status=500)
    async with crawler(web, Attempts(), gate.middleware, limit_per_host=1) as session:
        async with session.get(PAGE) as response:
            assert response.status == 500
            assert len(await response.read()) == len(LARGE)
        async with session.get(NEXT) as response:
            assert response.status == 200
    assert web.counts() == {ROBOTS: 1, PAGE: 3, NEXT: 1}
    assert min(web.gaps("site.example")) >= DELAY


@pytest.mark.parametrize("door", ["fetch", "stream"])
async def test_chain_within_a_fetch_is_paced(web: Web, door: str) -> None:
    """The session of `gate.fetch` has them all, ours last: every attempt in a turn of its own, of the same call."""
    web.handle(PAGE, protected(LARGE, failures=1))
    chain = (Attempts(), digest(), guard, GATED)
    async with gate_within(web, *chain, limit_per_host=1, delay=DELAY) as gate:
        assert await text(gate, PAGE, door) == "a page"
        view = gate.host(PAGE)
    assert (view.visits, view.open_turns) == (4, 0)
    assert web.counts() == {ROBOTS: 1, PAGE: 3}
    assert min(web.gaps("site.example")) >= DELAY
    assert web.peak() == 1
