"""What a gate says happened: exact sequences, and who hears of them."""

from __future__ import annotations

import asyncio
import re

from tests.paced import (
    PAGE,
    REFUSED,
    ROBOTS,
    SITE,
    asks,
    gate_that_knows,
    kinds,
    listen,
    make_gate,
    refusal,
    scripted,
    sleep_until,
    visit,
)
from tests.waiting import settle

from robotgate import (
    AccessResult,
    DisallowedError,
    HostUnavailableError,
    NestedTurnError,
    Origin,
    TooSoonError,
)
from robotgate.events import (
    BlockCause,
    Event,
    HostBlocked,
    HostRecovered,
    RobotsFetched,
    TurnBegan,
    TurnEnded,
    TurnRefused,
    VerdictRefused,
)
from robotgate.sites import Failure
from robotgate.sites.status_table import Outcome

ORIGIN = Origin("http", "a.example", 80)


def fetched(
    *, at: float, status: int = 404, outcome: Outcome = Outcome.MISSING, bytes_read: int = 0
) -> RobotsFetched:
    """That robots.txt was missing, or what else came of it."""
    return RobotsFetched(
        at=at,
        origin=ORIGIN,
        robots_url=ROBOTS,
        access=AccessResult.UNAVAILABLE if status == 404 else AccessResult.SUCCESSFUL,
        outcome=outcome,
        status=status,
        cause="HTTP status 404" if status == 404 else None,
        bytes_read=bytes_read,
        elapsed=at,
    )


def ended(*, at: float, elapsed: float, status: int | None = None, bytes_read: int = 0) -> TurnEnded:
    """That a turn of the page is over."""
    return TurnEnded(at=at, url=PAGE, host="a.example", status=status, bytes_read=bytes_read, elapsed=elapsed)


async def test_one_page() -> None:
    """Its robots.txt is no turn of its own."""
    async with make_gate(scripted(latency=0.25)) as gate:
        heard = listen(gate)
        async with gate.turn(PAGE) as turn:
            await asyncio.sleep(0.5)
            turn.report(status=200, bytes=1000)
            turn.report(bytes=24)
        await settle()
    assert heard == [
        fetched(at=0.25),
        TurnBegan(at=1.25, url=PAGE, host="a.example", waited=1.25),
        ended(at=1.75, elapsed=0.5, status=200, bytes_read=1024),
    ]


async def test_refusal() -> None:
    """A disallowed URL has no turn to be refused; it is told of as often as it is asked for."""
    robots = asks("Disallow: /page")
    async with make_gate(scripted({SITE: robots})) as gate:
        heard = listen(gate)
        for _ in range(2):
            await refusal(visit(gate), DisallowedError)
        verdict = await gate.check(PAGE)
        await settle()
    assert heard == [
        fetched(at=0.0, status=200, outcome=Outcome.SUCCESS, bytes_read=len(robots)),
        VerdictRefused(at=0.0, verdict=verdict, host="a.example"),
        VerdictRefused(at=0.0, verdict=verdict, host="a.example"),
    ]


async def test_block_and_recovery() -> None:
    """Blocked at the answer that asks for it; visited again at the first that does not."""
    async with gate_that_knows(SITE) as gate:
        heard = listen(gate)
        async with gate.turn(PAGE) as turn:
            await asyncio.sleep(1.0)
            turn.report(status=503, headers={"Retry-After": "60"})
        assert await visit(gate, takes=2.0, status=200) == 61.0
        await visit(gate, status=200)
        await settle()
    cause = BlockCause.ASKED
    assert heard[:-2] == [
        TurnBegan(at=0.0, url=PAGE, host="a.example", waited=0.0),
        HostBlocked(at=1.0, host="a.example", until_at=61.0, cause=cause, detail="Retry-After"),
        ended(at=1.0, elapsed=1.0, status=503),
        TurnBegan(at=61.0, url=PAGE, host="a.example", waited=60.0),
        HostRecovered(at=63.0, host="a.example", cause=cause),
        ended(at=63.0, elapsed=2.0, status=200),
    ]
    assert kinds(heard[-2:]) == ["TurnBegan", "TurnEnded"]


async def test_block_that_grows_is_told_again() -> None:
    """With its new end."""
    async with gate_that_knows(SITE, delay=0.0, concurrency_per_host=3) as gate:
        heard = listen(gate)
        turns = [gate.turn(PAGE) for _ in range(3)]
        for turn, seconds in zip([await turn.__aenter__() for turn in turns], (30, 20, 90), strict=True):
            turn.report(status=429, headers={"Retry-After": str(seconds)})
            turn.end()
        await settle()
    assert [event.until_at for event in heard if isinstance(event, HostBlocked)] == [30.0, 90.0]


async def test_outage_and_recovery() -> None:
    """The origin is named; who waited is told of as refused once it is given up."""
    async with gate_that_knows(SITE, give_up_after=0.0) as gate:
        heard = listen(gate)
        failing = asyncio.create_task(visit(gate, takes=0.5, error=REFUSED))
        await settle()
        error, _ = await refusal(visit(gate), HostUnavailableError)
        await failing
        until_at = gate.host(PAGE).unreachable_until_at
        assert until_at is not None
        await sleep_until(until_at)
        back_at = await visit(gate, takes=0.25, status=404)
        await settle()
    assert heard == [
        TurnBegan(at=0.0, url=PAGE, host="a.example", waited=0.0),
        HostBlocked(
            at=0.5,
            host=SITE,
            until_at=until_at,
            cause=BlockCause.UNREACHABLE,
            detail="it refuses connections",
        ),
        ended(at=0.5, elapsed=0.5),
        TurnRefused(at=0.5, url=PAGE, host="a.example", error=error),
        TurnBegan(at=back_at, url=PAGE, host="a.example", waited=0.0),
        HostRecovered(at=back_at + 0.25, host=SITE, cause=BlockCause.UNREACHABLE),
        ended(at=back_at + 0.25, elapsed=0.25, status=404),
    ]


async def test_turns_that_do_not_come() -> None:
    """For a nested turn, and for one that is too late."""
    async with gate_that_knows(SITE) as gate:
        heard = listen(gate)
        async with gate.turn(PAGE):
            nested, _ = await refusal(visit(gate), NestedTurnError)
        late, _ = await refusal(visit(gate, max_wait=0.5), TooSoonError)
        await settle()
    assert heard[1] == TurnRefused(at=0.0, url=PAGE, host="a.example", error=nested)
    assert heard[3] == TurnRefused(at=0.0, url=PAGE, host="a.example", error=late)
    assert kinds(heard) == ["TurnBegan", "TurnRefused", "TurnEnded", "TurnRefused"]


async def test_robots_txt_that_cannot_be_reached() -> None:
    """First the outage, then what it means for the site, then the page without a turn. The line of the outage and that
    of the refusal have numbers of their own, and say what these are.
    """
    fetcher = scripted({SITE: Failure("it refuses connections", is_outage=True)})
    async with make_gate(fetcher) as gate:
        heard = listen(gate)
        await refusal(visit(gate), HostUnavailableError)
        await settle()
    assert kinds(heard) == ["HostBlocked", "RobotsFetched", "TurnRefused"]
    outage, told, refused = heard
    assert re.search(
        r"cannot be reached \(it refuses connections\): nothing is sent to it for 1\S* s$", str(outage)
    )
    assert re.search(r"; robots\.txt is requested again in \d\d s$", str(refused))
    assert isinstance(told, RobotsFetched)
    assert (told.access, told.status, told.cause) == (
        AccessResult.UNREACHABLE,
        None,
        "it refuses connections",
    )


async def test_rules_that_expire_leave_no_turn_half_told() -> None:
    """Every turn that began has ended, and none that never was is told of."""
    async with make_gate() as gate:
        gate.learn(SITE, b"", fresh_until=1.5)
        heard = listen(gate)
        await asyncio.gather(*(visit(gate) for _ in range(4)))
        await settle()
    assert kinds(heard) == ["TurnBegan", "TurnEnded"] * 2 + ["RobotsFetched"] + ["TurnBegan", "TurnEnded"] * 2


async def test_subscribing_before_the_gate_is_open() -> None:
    """As good as later; the end of the last turn is heard though the gate closes at once."""
    gate = make_gate()
    heard = listen(gate)
    async with gate:
        gate.learn(SITE, b"")
        await visit(gate)
    assert kinds(heard) == ["TurnBegan", "TurnEnded"]


async def test_subscriber_may_use_the_gate() -> None:
    """What it starts is no part of the turn it heard of."""
    started: list[asyncio.Task[float]] = []
    async with gate_that_knows(SITE) as gate:

        def follow(event: Event) -> None:
            if isinstance(event, TurnBegan) and len(started) < 3:
                started.append(asyncio.get_running_loop().create_task(visit(gate)))

        gate.subscribe(follow)
        assert await visit(gate, takes=0.5) == 0.0
        await asyncio.sleep(10.0)
        assert [task.result() for task in started] == [1.5, 2.5, 3.5]
