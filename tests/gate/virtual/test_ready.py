"""`gate.ready`: many hosts, each turn when its host is due, none taken in vain."""

from __future__ import annotations

import asyncio
import random
from itertools import islice, permutations
from typing import TYPE_CHECKING, Unpack

import pytest
from tests.paced import everywhere, make_gate, now, seeds
from tests.waiting import settle

from robotgate import (
    DisallowedError,
    GateClosedError,
    GateOptions,
    InvalidURLError,
    NestedTurnError,
    OptionError,
    RobotGateError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from robotgate import ReadyTurns, RobotGate, Turn

PRIVATE = b"User-agent: *\nDisallow: /private\n"


def open_gate(**options: Unpack[GateOptions]) -> RobotGate:
    """A gate whose sites all have a robots.txt, which takes no time."""
    return make_gate(everywhere(PRIVATE), **options)


def urls(hosts: str, pages: int) -> list[str]:
    """So many pages of each host, one host after the other."""
    return [f"http://{host}.example/{page}" for host in hosts for page in range(pages)]


async def drain(turns: ReadyTurns) -> None:
    """Take every turn there is, and use none."""
    async for turn in turns:
        turn.end()


async def test_many_hosts_do_not_stand_behind_one() -> None:
    """All pages of one host come first in the list, and yet every host has its first turn at the same instant."""
    starts: list[tuple[float, str]] = []

    async def visit(turn: Turn) -> None:
        async with turn:
            starts.append((now(), turn.url))

    async with open_gate() as gate, asyncio.TaskGroup() as tasks:
        async for turn in gate.ready(urls("abc", 3)):
            tasks.create_task(visit(turn))
    assert sorted(starts) == sorted(
        (1.0 + page, f"http://{host}.example/{page}") for host in "abc" for page in range(3)
    )


async def test_slow_consumer_takes_no_turn_in_vain() -> None:
    """One page at a time, each five seconds: hosts that are due wait, and hold up no other host."""
    async with open_gate() as gate:
        starts = []
        async for turn in gate.ready(urls("abc", 2)):
            async with turn:
                starts.append(now())
                # A stranger's turn of the hosts that are due is had at once.
                idle = {"a", "b", "c"} - {turn.url[7]}
                for host in idle:
                    if gate.host(f"http://{host}.example/").next_allowed_at <= now():
                        async with gate.turn(f"http://{host}.example/other", max_wait=0):
                            pass
                await asyncio.sleep(5)
    assert starts == [1.0, 6.0, 11.0, 16.0, 21.0, 26.0]


async def test_refused_url_holds_nobody_up(subtests: pytest.Subtests) -> None:
    """A host that stood aside is asked for a turn, but its URL is refused: another host has the turn instead."""
    # Every fourth of the orders: any two pages come first in one of them.
    for given in islice(permutations(["a/0", "a/private", "b/0", "b/1", "c/0"]), 0, None, 4):
        with subtests.test(given=given):
            async with open_gate() as gate, asyncio.timeout(100.0):
                seen = []
                async for turn in gate.ready(f"http://{page[0]}.example{page[1:]}" for page in given):
                    async with turn:
                        seen.append(f"{turn.url[7]}{turn.url[-2:]}")
                        await asyncio.sleep(10.0)
            assert sorted(seen) == ["a/0", "b/0", "b/1", "c/0"]


async def test_refused_urls_are_told_of_and_passed_over() -> None:
    """With the error that `gate.turn` would have raised."""
    refused: list[tuple[str, RobotGateError]] = []
    async with open_gate() as gate:
        given = ["http://a.example/private", "ftp://a.example/", "http://a.example/open"]
        turns = gate.ready(given, on_refusal=lambda url, error: refused.append((url, error)))
        seen = []
        async for turn in turns:
            async with turn:
                seen.append(turn.url)
    assert seen == ["http://a.example/open"]
    assert {url: type(error) for url, error in refused} == {
        "http://a.example/private": DisallowedError,
        "ftp://a.example/": InvalidURLError,
    }


async def test_loop_that_is_left_early_leaves_nothing_open() -> None:
    """Neither a turn nor, once the gate is closed, a task."""
    async with open_gate() as gate:
        async for turn in gate.ready(urls("abcdef", 3)):
            async with turn:
                pass
            break
        await asyncio.sleep(100.0)
        assert [gate.host(f"http://{host}.example/").open_turns for host in "abcdef"] == [0] * 6
        visits = sum(gate.host(f"http://{host}.example/").visits for host in "abcdef")
        assert visits == 7, "six robots.txt and one page"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_loop_that_never_runs_asks_nobody() -> None:
    """Neither a site for its robots.txt nor the source for a URL; nor when it is closed without having run."""
    read: list[str] = []

    def source() -> Iterator[str]:
        for url in urls("abc", 2):
            read.append(url)
            yield url

    fetcher = everywhere(PRIVATE)
    async with make_gate(fetcher) as gate:
        turns = gate.ready(source())
        async with gate.ready(source()):
            await asyncio.sleep(10.0)
        assert aiter(turns) is turns
        await asyncio.sleep(100.0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert (fetcher.requests, read) == ([], [])


async def test_nobody_is_asked_after_the_loop_was_left() -> None:
    """URLs that come then are held, and no robots.txt is fetched for them, until the loop goes on."""
    more = asyncio.Event()

    async def source() -> AsyncIterator[str]:
        yield "http://a.example/0"
        await more.wait()
        for url in urls("bcd", 2):
            yield url

    fetcher = everywhere(PRIVATE)
    async with make_gate(fetcher) as gate:
        turns = gate.ready(source())
        async for turn in turns:
            async with turn:
                break
        more.set()
        await asyncio.sleep(100.0)
        assert [url for _, url in fetcher.requests] == ["http://a.example/robots.txt"]
        async with await anext(turns) as turn:
            assert (now(), turn.url) == (102.0, "http://b.example/0")


async def test_turn_again() -> None:
    """It is the loop's own turn once more, a delay later; other workers' turns are theirs."""
    seen: list[tuple[float, str]] = []
    async with open_gate() as gate:
        turns = gate.ready(urls("ab", 3))

        async def work() -> None:
            async for turn in turns:
                async with turn:
                    seen.append((now(), turn.url))
                    if turn.url.endswith("/0"):
                        await turn.again()
                        seen.append((now(), turn.url))

        await asyncio.gather(work(), work())
        assert all(gate.host(f"http://{host}.example/").open_turns == 0 for host in "ab")
    pages = ["0", "0", "1", "2"]
    for host in "ab":
        assert [entry for entry in seen if host in entry[1][7]] == [
            (1.0 + number, f"http://{host}.example/{page}") for number, page in enumerate(pages)
        ]


async def test_turn_again_takes_no_demand_of_another_worker() -> None:
    """Another worker waits for a turn meanwhile: he gets the next URL, and the loop comes to its end."""
    async with open_gate() as gate:
        turns = gate.ready(urls("a", 2))
        first = await anext(turns)
        other = asyncio.create_task(anext(turns))
        await settle()
        await first.again()
        assert (now(), other.done()) == (2.0, False)
        first.end()
        second = await other
        assert (now(), second.url) == (3.0, "http://a.example/1")
        second.end()
        with pytest.raises(StopAsyncIteration):
            await anext(turns)


async def refuse(url: str, error: RobotGateError) -> None:
    """A coroutine function, which nothing would await."""


async def test_refusal_callback_that_is_a_coroutine_function_is_refused() -> None:
    """At once, with a remedy; what cannot be called as well."""
    async with open_gate() as gate:
        with pytest.raises(OptionError, match=r"on_refusal=.*task"):
            gate.ready(urls("a", 1), on_refusal=refuse)
        with pytest.raises(OptionError, match=r"on_refusal=.*give a plain function"):
            gate.ready(urls("a", 1), on_refusal="print")  # type: ignore[arg-type]


async def test_closing_lets_go_of_the_rest() -> None:
    """``async with`` around the loop, left early: no task is left, and further iteration yields nothing."""
    async with open_gate() as gate:
        async with gate.ready(urls("abc", 3)) as turns, await anext(turns):
            pass
        with pytest.raises(StopAsyncIteration):
            await anext(turns)
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_the_gate_ends_the_loop() -> None:
    """With GateClosedError, for there were URLs left."""
    gate = open_gate(delay=50.0)
    async with gate:
        turns = gate.ready(urls("a", 3))
        async with await anext(turns):
            pass
        waiting = asyncio.create_task(anext(turns))
        await settle()
    with pytest.raises(GateClosedError):
        await waiting


@pytest.mark.parametrize("seed", seeds(5, 40))
async def test_every_url_comes_once_however_workers_come_and_go(seed: int) -> None:
    """Up to six workers are cancelled at any moment, and the last one goes on: each URL is had or refused once."""
    rng = random.Random(seed)
    given = [
        f"http://{host}.example/{rng.choice(['', '', '', 'private'])}{page}"
        for page in range(6)
        for host in "abcdefgh"[: rng.randint(1, 8)]
    ]
    rng.shuffle(given)
    came: list[str] = []
    async with open_gate(concurrency=rng.choice([1, 2, 100])) as gate, asyncio.timeout(5_000):
        turns = gate.ready(given, ahead=rng.choice([1, 3, 1000]), on_refusal=lambda url, _: came.append(url))

        async def work() -> None:
            async for turn in turns:
                came.append(turn.url)
                async with turn:
                    await asyncio.sleep(rng.choice([0, 0.3, 3.0]))

        last, *workers = (asyncio.create_task(work()) for _ in range(rng.randint(2, 7)))
        for worker in workers:
            await asyncio.sleep(rng.choice([0, 0.5, 1.0]))
            worker.cancel()
        await last
    assert sorted(came) == sorted(given)


async def test_endless_source_is_read_as_it_is_needed() -> None:
    """So many ahead as was asked for, and no more."""
    read: list[int] = []

    async def source() -> AsyncIterator[str]:
        page = 0
        while True:
            read.append(page)
            yield f"http://a.example/{page}"
            page += 1

    async with open_gate() as gate:
        count = 0
        async with gate.ready(source(), ahead=5) as turns:
            async for turn in turns:
                turn.end()
                count += 1
                if count == 20:
                    break
    assert 20 <= len(read) <= 27


async def test_what_the_source_raises_reaches_the_loop() -> None:
    """It is no refusal."""

    def source() -> Iterator[str]:
        yield "http://a.example/"
        raise LookupError("the database went away")

    async with open_gate() as gate:
        turns = gate.ready(source())
        with pytest.raises(LookupError, match="database"):
            await drain(turns)


async def test_what_the_refusal_callback_raises_reaches_the_loop() -> None:
    """It is not lost in a task."""

    def complain(url: str, error: RobotGateError) -> None:
        raise LookupError(url) from error

    async with open_gate() as gate:
        turns = gate.ready(["http://a.example/private"], on_refusal=complain)
        with pytest.raises(LookupError, match="private"):
            await drain(turns)


async def test_turn_of_the_loop_knows_its_holder() -> None:
    """Within its block, asking for the same host again is an error and no deadlock."""
    async with open_gate() as gate:
        async for turn in gate.ready(["http://a.example/"]):
            async with turn:
                with pytest.raises(NestedTurnError):
                    await gate.turn("http://a.example/again").__aenter__()


@pytest.mark.parametrize("given", ["http://a.example/", 7, None])
async def test_what_is_no_source_is_refused(given: object) -> None:
    """A single URL as well: its letters are no URLs."""
    async with open_gate() as gate:
        with pytest.raises(OptionError, match="urls="):
            gate.ready(given)  # type: ignore[arg-type]
