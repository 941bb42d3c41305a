"""`gate.fetch(url, retries=…)` over minutes: when each attempt is made, and when no more is."""

from __future__ import annotations

import asyncio
from itertools import pairwise, product
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import ClientConnectorError, ServerDisconnectedError
from aiohttp.client_reqrep import ConnectionKey
from aioresponses import CallbackResult, aioresponses
from tests.paced import JITTER, PAGE, REFUSED, ROBOTS, make_gate, now
from tests.waiting import settle

from robotgate import GateClosedError, HostUnavailableError
from robotgate.sites import Answer, Failure
from robotgate.testing import MockedResponse, ScriptedFetcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarl import URL

UNREACHABLE: Final = ClientConnectorError(
    ConnectionKey("a.example", 80, False, True, None, None, None), REFUSED
)
BROKEN: Final = ServerDisconnectedError()


class Host:
    """A site whose answers are listed, one for each request; the last one stays."""

    def __init__(self, mocked: aioresponses) -> None:
        self.answers: list[int | Exception] = [200]
        self.headers: dict[str, str] = {}
        self.asked_at: list[float] = []
        for method in ("GET", "POST"):
            mocked.add(PAGE, method, callback=self._answer, repeat=True)

    def _answer(self, _: URL, **__: object) -> CallbackResult:
        self.asked_at.append(now())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return CallbackResult(
            status=answer, body=str(answer), headers=self.headers, response_class=MockedResponse
        )


@pytest.fixture
def host() -> Iterator[Host]:
    """The only site there is."""
    with aioresponses() as mocked:
        yield Host(mocked)


@pytest.mark.parametrize("told", [502, 504, BROKEN])
async def test_failing_gateway_is_asked_again_after_growing_pauses(host: Host, told: int | Exception) -> None:
    """One to two seconds, then two to four: so many tasks do not come back together."""
    host.answers = [told, told, 200]
    async with make_gate(delay=0.0) as gate:
        response = await gate.fetch(PAGE, retries=2)
    assert (response.status, len(host.asked_at)) == (200, 3)
    first, second, third = host.asked_at
    assert 1.0 <= second - first <= 2.0 + 0.1
    assert 2.0 <= third - second <= 4.0 + 0.1
    assert response.waited == pytest.approx(third, abs=0.1)


async def test_retry_after_is_kept(host: Host) -> None:
    """The next attempt comes when the host says, and other tasks' turns no sooner."""
    host.answers, host.headers = [429, 503, 200], {"Retry-After": "30"}
    async with make_gate(delay=0.0) as gate:
        assert (await gate.fetch(PAGE, retries=3)).status == 200
        assert host.asked_at == pytest.approx([0.0, 30.0, 60.0], abs=0.1)


async def test_attempts_come_to_an_end(host: Host) -> None:
    """The last answer is returned, the last error raised."""
    host.answers = [503]
    async with make_gate(delay=0.0) as gate:
        assert (await gate.fetch(PAGE, retries=2)).status == 503
        assert len(host.asked_at) == 3
    host.answers, host.asked_at = [BROKEN], []
    async with make_gate(delay=0.0) as gate:
        with pytest.raises(ServerDisconnectedError):
            await gate.fetch(PAGE, retries=2)
        assert len(host.asked_at) == 3


async def test_without_retries_one_request_is_sent(host: Host) -> None:
    """By default nothing is repeated, nor is a method that changes something, nor a stream."""
    answers: list[int | Exception] = [503, 504, BROKEN, UNREACHABLE, TimeoutError()]
    ways = ((0, "GET", None), (2, "POST", b"order"), (2, "GET", iter([b"x"])))
    for told, (retries, method, data) in product(answers, ways):
        host.answers, host.asked_at = [told, 200], []
        async with make_gate(delay=0.0) as gate:
            try:
                response = await gate.fetch(PAGE, method, retries=retries, data=data)
            except (ServerDisconnectedError, ClientConnectorError, TimeoutError):
                assert isinstance(told, Exception)
            else:
                assert response.status == told
        assert len(host.asked_at) == 1


async def test_other_answers_are_final(host: Host) -> None:
    """The server has said what it has to say."""
    host.answers = [200, 301, 403, 404, 410, 500, 501]
    async with make_gate(delay=0.0) as gate:
        for told in list(host.answers):
            assert (await gate.fetch(PAGE, retries=5, allow_redirects=False)).status == told


async def test_host_that_was_given_up_is_tried_when_it_may_be(host: Host) -> None:
    """Its turns are refused until then: the attempt waits for that instead of being one of the refused."""
    host.answers = [*[UNREACHABLE] * 6, 200]
    async with make_gate(delay=0.0, give_up_after=0.0) as gate:
        assert (await gate.fetch(PAGE, retries=6)).status == 200
    pauses = [later - earlier for earlier, later in pairwise(host.asked_at)]
    assert 32.0 <= pauses[-1] <= 64.0 * JITTER + 0.1


async def test_unreachable_robots_txt_is_waited_for(host: Host) -> None:
    """A host whose robots.txt cannot be read for a moment is asked again when it may be."""
    sites: dict[str, Answer | Failure] = {ROBOTS: Failure("no connection")}
    fetcher = ScriptedFetcher(sites, otherwise=Answer(status=404))
    async with make_gate(fetcher, delay=0.0) as gate:
        with pytest.raises(HostUnavailableError) as refused:
            await gate.fetch(PAGE)
        assert refused.value.retry_after < 300
        asking = asyncio.create_task(gate.fetch(PAGE, retries=1))
        await settle()
        sites.clear()
        assert (await asking).status == 200
        assert now() >= refused.value.retry_after
    assert len(host.asked_at) == 1
    assert len(fetcher.requests) == 2


async def test_max_wait_bounds_all_attempts(host: Host) -> None:
    """What would come later is not waited for: the answer that was given is returned, the error raised."""
    host.answers, host.headers = [429], {"Retry-After": "30"}
    async with make_gate(delay=0.0) as gate:
        assert (await gate.fetch(PAGE, retries=9, max_wait=100)).status == 429
        assert host.asked_at == pytest.approx([0.0, 30.0, 60.0, 90.0], abs=0.1)
        assert now() == pytest.approx(90.0, abs=0.1)
    host.answers, host.asked_at, begins_at = [UNREACHABLE], [], now()
    async with make_gate(delay=0.0) as gate:
        with pytest.raises(ClientConnectorError):
            await gate.fetch(PAGE, retries=9, max_wait=15)
        assert len(host.asked_at) in {3, 4}
        assert now() - begins_at < 15


async def test_long_pause_is_not_waited_for(host: Host) -> None:
    """A host that wants more than `max_block` is left alone, and the caller hears what it said at once."""
    host.answers, host.headers = [503], {"Retry-After": "600"}
    async with make_gate(delay=0.0) as gate:
        assert (await gate.fetch(PAGE, retries=2)).status == 503
        assert now() == 0.0
        with pytest.raises(HostUnavailableError):
            await gate.fetch(PAGE, retries=2)


async def test_closed_gate_ends_a_pause(host: Host) -> None:
    """At once, with `GateClosedError`."""
    host.answers = [UNREACHABLE]
    async with make_gate(delay=0.0) as gate:
        asking = asyncio.create_task(gate.fetch(PAGE, retries=2))
        await settle()
        assert len(host.asked_at) == 1
    with pytest.raises(GateClosedError):
        await asking
    assert now() < 1
