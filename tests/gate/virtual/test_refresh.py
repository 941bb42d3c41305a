"""How long rules are known, and what happens when they have to be asked for again."""

from __future__ import annotations

import asyncio

import pytest
from tests.paced import DAY, HOUR, ROBOTS, make_gate, now

from robotgate import DisallowedError, HostUnavailableError, MemoryStore, StatusPolicy
from robotgate.sites import Answer, Failure
from robotgate.testing import ScriptedFetcher

URL = "http://a.example/private/page"
CLOSED = Answer(status=200, body=b"User-agent: *\nDisallow: /private/\n")
OPEN = Answer(status=200, body=b"User-agent: *\nDisallow:\n")
DEAD = Failure("no answer")


class Site:
    """A site whose robots.txt the test can change, and a gate before it."""

    def __init__(
        self,
        answer: Answer | Failure,
        *,
        policy: StatusPolicy = StatusPolicy.DEFAULT,
        max_delay: float = 60.0,
        store: MemoryStore | None = None,
    ) -> None:
        self.answers: dict[str, Answer | Failure] = {ROBOTS: answer}
        self.fetcher = ScriptedFetcher(self.answers, otherwise=Answer(status=404))
        self.gate = make_gate(
            self.fetcher, status_policy=policy, max_delay=max_delay, store=store or MemoryStore()
        )

    def becomes(self, answer: Answer | Failure) -> None:
        """From now on it answers so."""
        self.answers[ROBOTS] = answer

    @property
    def asked_at(self) -> list[float]:
        """When its robots.txt was asked for."""
        return [at for at, url in self.fetcher.requests if url == ROBOTS]


async def test_rules_hold_for_a_day_and_are_asked_for_once_again() -> None:
    """Without a use in between, the next use after 24 h requests robots.txt once, however many tasks wait."""
    site = Site(CLOSED)
    async with site.gate as gate:
        assert not await gate.allowed(URL)
        site.becomes(OPEN)
        await asyncio.sleep(DAY)
        assert gate.allowed_nowait(URL) is None
        assert await asyncio.gather(*(gate.allowed(URL) for _ in range(1000))) == [True] * 1000
    assert site.asked_at == [0.0, DAY]


async def test_cache_control_shortens_the_day() -> None:
    """What a site grants is obeyed, at least five minutes."""
    site = Site(Answer(status=200, body=CLOSED.body, cache_control="max-age=0"))
    async with site.gate as gate:
        for instant in (0.0, 224.0, 300.0, 301.0):
            await asyncio.sleep(instant - now())
            assert not await gate.allowed(URL)
    assert site.asked_at == [0.0, 300.0]


async def test_stale_rules_beat_guesses() -> None:
    """When the refresh fails the last good copy serves on, and the verdict says so."""
    site = Site(CLOSED)
    async with site.gate as gate:
        await gate.allowed(URL)
        await asyncio.sleep(DAY)
        site.becomes(DEAD)
        verdict = await gate.check(URL)
        assert (verdict.allowed, verdict.stale, verdict.fetched_at, verdict.cause) == (
            False,
            True,
            0.0,
            "no answer",
        )
        assert verdict.rule is not None
        assert verdict.rule.line == 2
        assert (await gate.check("http://a.example/public")).allowed
        with pytest.raises(DisallowedError):
            async with gate.turn(URL):
                pass
        site.becomes(OPEN)
        await asyncio.sleep(2 * HOUR)
        verdict = await gate.check(URL)
        assert (verdict.allowed, verdict.stale, verdict.cause) == (True, False, None)


async def test_retries_of_a_dead_site_grow() -> None:
    """Asked all the time, a dead site is tried at growing, jittered intervals: a minute to an hour."""
    site = Site(DEAD)
    async with site.gate as gate:
        while now() < 8 * HOUR:
            assert await gate.allowed(URL) is False
            await asyncio.sleep(1.0)
    gaps = [later - sooner for sooner, later in zip(site.asked_at, site.asked_at[1:], strict=False)]
    for gap, least in zip(gaps, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600], strict=False):
        assert least <= gap <= 1.25 * least + 1
    assert len(gaps) >= 8


async def test_dead_site_tells_when_it_is_asked_again() -> None:
    """No failure opens the site: a turn is refused with the seconds until the next try."""
    site = Site(DEAD)
    async with site.gate as gate:
        with pytest.raises(HostUnavailableError) as refusal:
            async with gate.turn(URL):
                pass
        assert 60.0 <= refusal.value.retry_after <= 75.0
        assert refusal.value.verdict is not None
        assert refusal.value.verdict.reason.name == "ROBOTS_TXT_UNREACHABLE"
        site.becomes(OPEN)
        await asyncio.sleep(refusal.value.retry_after + 0.001)
        assert await gate.allowed(URL)
    assert len(site.asked_at) == 2


async def test_retry_after_of_robots_txt_is_obeyed() -> None:
    """A 503 with Retry-After is not asked again before."""
    site = Site(Answer(status=503, retry_after=2 * HOUR))
    async with site.gate as gate:
        while now() < 5 * HOUR:
            assert await gate.allowed(URL) is False
            await asyncio.sleep(60.0)
    assert site.asked_at[0] == 0.0
    assert 2 * HOUR <= site.asked_at[1] <= 2.5 * HOUR + 60


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (StatusPolicy.DEFAULT, False),
        (StatusPolicy.RFC9309, False),
        (StatusPolicy.CLASSIC, False),
        (StatusPolicy.GOOGLE, True),
        (StatusPolicy.ARCHIVE, True),
    ],
)
async def test_stale_copy_ends_after_thirty_days(policy: StatusPolicy, allowed: bool) -> None:  # noqa: FBT001
    """A copy older than thirty days is a guess too: closed, or what the policy says."""
    site = Site(CLOSED, policy=policy)
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(DEAD)
        while now() < 30 * DAY:
            assert await gate.allowed(URL) is False
            assert await gate.allowed("http://a.example/public") is True
            await asyncio.sleep(6 * HOUR)
        await asyncio.sleep(2 * HOUR)
        assert await gate.allowed(URL) is allowed
        assert await gate.allowed("http://a.example/public") is allowed


async def test_google_opens_after_twelve_hours() -> None:
    """Without a copy, Google's crawlers fetch after half a day of failures."""
    site = Site(DEAD, policy=StatusPolicy.GOOGLE)
    async with site.gate as gate:
        while now() < 12 * HOUR:
            assert await gate.allowed(URL) is False
            await asyncio.sleep(600.0)
        await asyncio.sleep(1.25 * HOUR)
        assert await gate.allowed(URL) is True


async def test_google_opens_after_twelve_hours_whatever_retry_after_says() -> None:
    """The half-day does not wait for the next try."""
    site = Site(Answer(status=503, retry_after=DAY), policy=StatusPolicy.GOOGLE)
    async with site.gate as gate:
        assert await gate.allowed(URL) is False
        await asyncio.sleep(13 * HOUR)
        assert await gate.allowed(URL) is True
    assert site.asked_at == [0.0]


async def test_new_crawl_delay_holds_after_the_refresh() -> None:
    """The delay of the new rules holds, and one over `max_delay` closes the site with its reason."""
    site = Site(OPEN)
    async with site.gate as gate:
        await gate.allowed(URL)
        await asyncio.sleep(DAY)
        site.becomes(Answer(status=200, body=b"User-agent: *\nCrawl-delay: 20\n"))
        async with gate.turn(URL):
            assert now() == DAY + 20.0
        await asyncio.sleep(DAY)
        site.becomes(Answer(status=200, body=b"User-agent: *\nCrawl-delay: 2000\n"))
        verdict = await gate.check(URL)
        assert (verdict.allowed, verdict.reason.name, verdict.crawl_delay) == (
            False,
            "DELAY_TOO_LONG",
            2000.0,
        )


async def test_dropped_crawl_delay_is_forgotten_after_the_refresh() -> None:
    """A site that no longer asks for a delay is paced by our own again, even while its lane is busy."""
    site = Site(Answer(status=200, body=b"User-agent: *\nCrawl-delay: 30\n", cache_control="max-age=300"))
    async with site.gate as gate:
        async with gate.turn(URL):
            assert now() == 30.0
        site.becomes(OPEN)
        last = 0.0
        while now() < 400.0:
            async with gate.turn(URL):
                last = now()
        async with gate.turn(URL):
            assert now() == last + 1.0


async def test_record_of_another_gate_is_used_while_fresh() -> None:
    """A gate on the same store asks nothing that the other knows, and asks itself when it has run out."""
    store = MemoryStore()
    site = Site(CLOSED, store=store)
    other = Site(OPEN, store=store)
    async with site.gate as gate, other.gate as neighbour:
        assert await gate.allowed(URL) is False
        await asyncio.sleep(HOUR)
        assert await neighbour.allowed(URL) is False
        await asyncio.sleep(DAY)
        assert await neighbour.allowed(URL) is True
        assert await gate.allowed(URL) is True
    assert (site.asked_at, other.asked_at) == ([0.0], [DAY + HOUR])


async def test_learnt_rules_hold_until_they_run_out() -> None:
    """Rules that the caller brought are asked for anew after the instant given."""
    site = Site(OPEN)
    async with site.gate as gate:
        gate.learn(URL, CLOSED.body, fresh_until=100.0)
        assert gate.allowed_nowait(URL) is False
        await asyncio.sleep(100.0)
        assert gate.allowed_nowait(URL) is None
        assert await gate.allowed(URL) is True
    assert site.asked_at == [100.0]


@pytest.mark.parametrize("known", ["http://shop.co/", "http://shop.com/"])
async def test_url_without_a_path_is_judged_by_its_own_host(known: str) -> None:
    """``http://shop.com`` is not asked of ``http://shop.co``, whose name is one letter shorter."""
    site = Site(OPEN)
    async with site.gate as gate:
        gate.learn(known, b"User-agent: *\nDisallow: /\n")
        expected = False if known == "http://shop.com/" else None
        assert gate.allowed_nowait("http://shop.com") is expected


async def test_url_without_a_path_is_not_opened_by_another_host() -> None:
    """A closed site stays closed though another site's name is the beginning of its own."""
    site = Site(OPEN)
    async with site.gate as gate:
        gate.learn("http://shop.co/", b"")
        gate.learn("http://shop.com/", b"User-agent: *\nDisallow: /\n")
        assert await gate.allowed("http://shop.com") is False
