"""The operator's triggers: robots.txt is requested again after so many visits, seconds or bytes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from tests.paced import DAY, HOUR, MINUTE, PAGE, ROBOTS, SECURE, SITE, make_gate, now, sleep_until, visit
from tests.waiting import settle

from robotgate import HostOverride, MemoryStore, OptionError, Recheck, RobotGate
from robotgate.sites import Answer, Failure
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from robotgate.stores import Store

OPEN: Final = Answer(status=200, body=b"User-agent: *\nDisallow:\n")
CLOSED: Final = Answer(status=200, body=b"User-agent: *\nDisallow: /\n")
DEAD: Final = Failure("no answer")


class Site:
    """A site whose robots.txt the test can change, and a gate before it."""

    def __init__(
        self, recheck: Recheck | None, *, body: bytes = OPEN.body, store: Store | None = None
    ) -> None:
        self.answers: dict[str, Answer | Failure] = {ROBOTS: Answer(status=200, body=body)}
        self.fetcher = ScriptedFetcher(self.answers, otherwise=Answer(status=404))
        self.gate = make_gate(self.fetcher, recheck=recheck, store=store or MemoryStore())

    @property
    def asked_at(self) -> list[float]:
        """When its robots.txt was asked for."""
        return [at for at, url in self.fetcher.requests if url == ROBOTS]


async def read(gate: RobotGate, octets: int) -> float:
    """A visit that reads so much; its start."""
    async with gate.turn(PAGE) as turn:
        turn.report(200, bytes=octets)
        return now()


async def test_after_so_many_visits() -> None:
    """After the fifth page it goes before the sixth, and so on; it does not count itself."""
    site = Site(Recheck(visits=5))
    async with site.gate as gate:
        pages = await asyncio.gather(*(visit(gate) for _ in range(12)))
    assert site.asked_at == [0.0, 6.0, 12.0]
    assert pages == [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0, 9.0, 10.0, 11.0, 13.0, 14.0]


async def test_after_every_visit() -> None:
    """Its own visit calls for no other: there are as many as pages, and none when there are none."""
    site = Site(Recheck(visits=1))
    async with site.gate as gate:
        for _ in range(3):
            await visit(gate)
        await asyncio.sleep(100.0)
        assert gate.allowed_nowait(PAGE) is True
        await asyncio.sleep(100.0)
    assert site.asked_at == [0.0, 2.0, 4.0, 6.0]


async def test_new_rules_hold_once_they_are_there() -> None:
    """The old ones answer until then."""
    site = Site(Recheck(visits=2))
    async with site.gate as gate:
        await visit(gate)
        site.answers[ROBOTS] = CLOSED
        await visit(gate)
        assert gate.allowed_nowait(PAGE) is True
        await sleep_until(3.5)
        assert gate.allowed_nowait(PAGE) is False
    assert site.asked_at == [0.0, 3.0]


async def test_visits_are_those_of_the_host() -> None:
    """What is paced together is counted together: the other scheme's visits are visits to the host, too."""
    site = Site(Recheck(visits=4))
    async with site.gate as gate:
        await visit(gate)
        for _ in range(2):
            await visit(gate, SECURE)
        assert site.asked_at == [0.0]
        assert gate.host(PAGE).visits == 5
        await visit(gate)
        await asyncio.sleep(5.0)
    assert len(site.asked_at) == 2


@pytest.mark.parametrize(("size", "octets"), [(100, 2048), (2000, 4000)])
async def test_after_so_many_octets(size: int, octets: int) -> None:
    """More than twice the file's size, which counts as 1 KiB at least; its own bytes do not count."""
    site = Site(Recheck(bytes_ratio=2.0), body=b"#" * size)
    async with site.gate as gate:
        for _ in range(2):
            await read(gate, octets // 2)
        await asyncio.sleep(5.0)
        assert len(site.asked_at) == 1
        await read(gate, 1)
        await asyncio.sleep(5.0)
        assert len(site.asked_at) == 2
        await read(gate, octets)
        await asyncio.sleep(5.0)
        assert len(site.asked_at) == 2
        await read(gate, 1)
        await asyncio.sleep(5.0)
        assert len(site.asked_at) == 3


async def test_after_so_much_time() -> None:
    """At the first question from then on, to the instant."""
    site = Site(Recheck(age=100.0))
    async with site.gate as gate:
        await gate.allowed(PAGE)
        for instant in (99.9, 100.0, 199.9, 250.0, 349.9, 350.0):
            await sleep_until(instant)
            assert gate.allowed_nowait(PAGE) is True
            await settle()
    assert site.asked_at == [0.0, 100.0, 250.0, 350.0]


@pytest.mark.parametrize(
    "recheck", [Recheck(visits=10**9), Recheck(age=100 * DAY), Recheck(bytes_ratio=1e9), None]
)
async def test_it_is_never_less_often(recheck: Recheck | None) -> None:
    """What a trigger does not call for, three quarters of the file's life do."""
    site = Site(recheck)
    async with site.gate as gate:
        while now() < DAY:
            await visit(gate)
            await asyncio.sleep(HOUR)
    assert len(site.asked_at) == 2
    assert 0.75 * DAY <= site.asked_at[1] <= 0.85 * DAY + HOUR


async def test_site_in_trouble_is_not_asked_more_often() -> None:
    """After a failure it is tried as any other: a minute, doubling to an hour."""
    site = Site(Recheck(visits=1, age=1.0, bytes_ratio=0.001))
    async with site.gate as gate:
        await visit(gate)
        site.answers[ROBOTS] = DEAD
        while now() < 3 * HOUR:
            await read(gate, 1000)
            await asyncio.sleep(5.0)
    gaps = [later - sooner for sooner, later in zip(site.asked_at[1:], site.asked_at[2:], strict=False)]
    for gap, least in zip(gaps, [60, 120, 240, 480, 960, 1920], strict=False):
        assert least <= gap <= 1.25 * least + 10
    assert len(gaps) >= 6


async def test_blocked_host_is_not_asked() -> None:
    """The visit that would call for it is the one that was refused: it is asked once the block has passed."""
    site = Site(Recheck(visits=2))
    async with site.gate as gate:
        await visit(gate)
        async with gate.turn(PAGE) as turn:
            turn.report(503, {"Retry-After": "120"})
        await sleep_until(100.0)
        assert await gate.allowed(PAGE) is True
        assert site.asked_at == [0.0]
        await sleep_until(2 + 120 + 80)
        assert await gate.allowed(PAGE) is True
        await settle()
    assert len(site.asked_at) == 2


async def test_next_run_counts_from_what_the_store_knows() -> None:
    """A million visits of the past are no reason to ask; the first of this run is the first that counts."""
    store = MemoryStore()
    before = Site(None, store=store)
    async with before.gate as gate:
        for _ in range(10):
            await read(gate, 10_000)
    site = Site(Recheck(visits=3, bytes_ratio=1.0), store=store)
    async with site.gate as gate:
        for _ in range(3):
            assert site.asked_at == []
            await read(gate, 10)
        await settle()
        await asyncio.sleep(5.0)
    assert len(site.asked_at) == 1


async def test_override_forgets_no_count() -> None:
    """The options of the host change; what it has seen does not."""
    site = Site(Recheck(visits=3))
    async with site.gate as gate:
        for _ in range(2):
            await visit(gate)
        gate.override("a.example", HostOverride(delay=0.5))
        await visit(gate)
        await asyncio.sleep(5.0)
    assert len(site.asked_at) == 2


async def test_own_hosts_are_not_asked() -> None:
    """Nothing is known of them, so nothing is rechecked."""
    fetcher = ScriptedFetcher({}, otherwise=OPEN)
    own = {"a.example": HostOverride(ignore_robots=True)}
    async with make_gate(fetcher, recheck=Recheck(visits=1, age=1.0), overrides=own) as gate:
        for _ in range(3):
            await visit(gate)
            await asyncio.sleep(MINUTE)
    assert fetcher.requests == []


async def test_rules_that_ended_are_waited_for_as_ever() -> None:
    """A visit that began before their end calls for nothing after it."""
    site = Site(Recheck(visits=1))
    async with site.gate as gate:
        gate.learn(SITE, OPEN.body, fresh_until=10.0)
        assert await visit(gate, takes=20.0) == 0.0
        assert (gate.allowed_nowait(PAGE), site.asked_at) == (None, [])
        assert await gate.allowed(PAGE)
    assert site.asked_at == [21.0]


def test_what_is_no_recheck_is_refused_by_name() -> None:
    """Before anything is asked."""
    with pytest.raises(OptionError, match="recheck"):
        make_gate(recheck=10)  # type: ignore[arg-type]


async def test_robots_txt_that_is_not_obeyed_is_not_requested_again() -> None:
    """It was requested once because the operator asked for it, not for the gate's own use."""
    site = Site(Recheck(visits=1))
    async with site.gate as gate:
        gate.override("a.example", HostOverride(ignore_robots=True))
        assert (await gate.robots(PAGE)).body == OPEN.body
        for _ in range(3):
            await visit(gate)
        await asyncio.sleep(100.0)
    assert len(site.asked_at) == 1
