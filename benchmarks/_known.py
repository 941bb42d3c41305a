"""Gates that know hosts, and tasks that wait for turns at them; none can reach the network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from robotgate import RobotGate
from robotgate.sites import Answer, Failure
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AsyncExitStack

    from robotgate import Clock

AGENT: Final = "ExampleBot/1.0"
CONTACT: Final = "bot@example.org"
UNBOUNDED: Final = 10_000_000
RULES: Final = b"User-agent: *\nDisallow: /private\n"
MEDIAN_BYTES: Final = 551
"""Of the robots.txt files of 698 real sites."""


def host_of(number: int, process: int | None = None) -> str:
    """A host by its number; it may be a process's own."""
    return f"{number}.site.example" if process is None else f"{number}.{process}.site.example"


def url_of(number: int) -> str:
    """A page of a host."""
    return f"https://{host_of(number)}/page"


def file_of(number: int) -> bytes:
    """A robots.txt of the median size, whose rules are unlike all others: files with the same rules share tables."""
    lines = ["User-agent: *", *(f"Disallow: /{rule}/page-{number}" for rule in range(40))]
    return "\n".join(lines).encode()[:MEDIAN_BYTES]


def chunks(numbers: range, size: int) -> Iterator[range]:
    """A range in parts."""
    for first in range(0, len(numbers), size):
        yield numbers[first : first + size]


class EverySite:
    """A `Fetcher` for which every host has a robots.txt, no two the same."""

    async def fetch(self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float) -> Answer:
        """The file."""
        del headers, max_bytes, timeout
        number = int(url.partition("//")[2].partition(".")[0])
        return Answer(status=200, body=file_of(number), etag=f'"{number:x}"')


async def known_gate(hosts: int, opened: AsyncExitStack, robots: bytes) -> RobotGate:
    """A gate that has learnt the rules of so many hosts."""
    gate = await opened.enter_async_context(RobotGate(AGENT, contact=CONTACT))
    for number in range(hosts):
        gate.learn(url_of(number), robots)
    return gate


def waiting_gate(delay: float, *, clock: Clock | None = None) -> RobotGate:
    """A gate that bounds each host, and no more."""
    return RobotGate(
        AGENT,
        contact=CONTACT,
        delay=delay,
        concurrency=UNBOUNDED,
        clock=clock,
        fetcher=ScriptedFetcher({}, otherwise=Failure("nothing is asked here")),
    )


async def learn(gate: RobotGate, hosts: int) -> list[str]:
    """A URL at each host, whose rules are then known."""
    urls = [url_of(number) for number in range(hosts)]
    for url in urls:
        gate.learn(url, RULES)
    await settle()
    return urls


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


class Queue:
    """Tasks that wait for a turn each, and the order in which they had it."""

    def __init__(self, gate: RobotGate, urls: Iterable[str]) -> None:
        self.tasks = [asyncio.create_task(self._take(gate, url, number)) for number, url in enumerate(urls)]
        self._served: list[int] = []

    async def _take(self, gate: RobotGate, url: str, number: int) -> None:
        async with gate.turn(url):
            self._served.append(number)

    async def form(self) -> None:
        """Let every task join its queue.

        Raises:
            RuntimeError: a task did not have to wait.
        """
        await settle()
        if self._served or any(task.done() for task in self.tasks):
            raise RuntimeError("a task did not wait")

    async def empty(self, *, is_one: bool) -> None:
        """Wait until every task has had a turn.

        Args:
            is_one: all wait at one host, which owes them the order they came in.

        Raises:
            RuntimeError: a task had none, or two, or had it before an earlier one.
        """
        await asyncio.wait(self.tasks)
        served = self._served if is_one else sorted(self._served)
        if served != list(range(len(self.tasks))):
            raise RuntimeError(f"{len(served)} turns, not one each in order of arrival")
