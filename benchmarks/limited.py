"""Hosts that limit requests and do not say how: what share of what they allow is fetched, and how much is refused.

Every client crawls every host for three minutes, all hosts at the same time: the two gates first, and then the others,
which take whole processors. Each client has hosts of its own, which are addresses of the loopback network, and eight
tasks for each host. All are given a delay of 0.02 s. What is counted is what the servers saw, from 15 s after a host's
first page on: *allowed* is what a client would have got that knew the limit. Crawlee has no delay for hosts and is
given as many tasks a minute. The gate obeys robots.txt, as Crawlee does.

Beside the gate: the gate with `adaptive=False`; Scrapy with AutoThrottle; Crawlee; and what is written by hand, aiohttp
with aiohttp-retry and an `AsyncLimiter` for each host.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import math
import multiprocessing
import statistics
import time
from bisect import bisect
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp_retry import ExponentialRetry, RetryClient
from tests.daemons import program
from tests.limiting_servers import limiting_haproxy, limiting_nginx

from benchmarks import _clients as ours
from benchmarks._bench import found, in_loop, say
from benchmarks._report import Column, Effort, Findings, ratio
from benchmarks._site import ROBOTS_PATH, Hidden, Visit, serving
from benchmarks.limits_model import AtOnce, Bucket, Halved, Sliding, Window
from robotgate import HostOverride, RobotGate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tests.daemons import Daemon

    from benchmarks._report import Figure

    Client = Callable[[Mapping[str, str]], Coroutine[object, None, None]]
    Rows = dict[str, dict[str, Figure]]

PACKAGES: Final = ("robotgate", "aiohttp", "aiohttp-retry", "aiolimiter", "scrapy", "crawlee")
DELAY: Final = 0.02
SAID: Final = 30
"""Seconds, between two lines of progress."""
PLACES: Final = 8
"""Requests of one host that may be under way, where the host's limit is of those."""
AT_ONCE: Final = "at-once"
STEP: Final = 3
"""Seconds, between two points of the plot."""
GATE: Final = "gate"
FIXED: Final = "fixed"


@dataclass(frozen=True, slots=True)
class Host:
    """A limit, and what the gate's crawl is held to."""

    title: str
    hidden: Hidden
    at_least: float
    """Of what is allowed."""
    at_most: float
    """Percent that are refused."""
    since: float = 15.0
    until: float = math.inf
    """Seconds, from the first page on."""
    real: tuple[str, Callable[[Path, str], AbstractContextManager[Daemon]]] | None = None
    """The program that limits, and what runs it."""


def telling(title: str, fields: bytes) -> Host:
    """A window that says what is left of it, with each answer."""
    return Host(f"window, 10 in 2 s, {title}", Hidden(Window(10, 2), fields=b"\r\n" + fields), 0.9, 0.5)


HOSTS: Final = {
    "bucket": Host("5 a second, 429 alone", Hidden(Bucket(5, 2)), 0.9, 1),
    "retry-after": Host(
        "5 a second, Retry-After: 1", Hidden(Bucket(5, 2), b"429 Too Many Requests\r\nRetry-After: 1"), 0.9, 1
    ),
    "slow": Host("1 in 5 s, 429 alone, from 60 s on", Hidden(Bucket(0.2, 1)), 0.75, 8, since=60),
    "window": Host("window, 20 in 10 s, 429 alone", Hidden(Window(20, 10)), 0.7, 2),
    "draft": telling("RateLimit", b'RateLimit-Policy: "default";q=10;w=2\r\nRateLimit: "default";r=%d;t=%d'),
    "draft-07": telling("RateLimit of draft 7", b"RateLimit: limit=10, remaining=%d, reset=%d"),
    "draft-06": telling(
        "RateLimit-Remaining", b"RateLimit-Limit: 10\r\nRateLimit-Remaining: %d\r\nRateLimit-Reset: %d"
    ),
    "x": telling(
        "X-RateLimit-Remaining",
        b"X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: %d\r\nX-RateLimit-Reset: %d",
    ),
    "nginx": Host(
        "nginx, 2 a second, 503 alone", Hidden(Bucket(2, 2)), 0.8, 3, real=("nginx", limiting_nginx)
    ),
    "haproxy": Host(
        "HAProxy, 20 in 10 s, 429 alone", Hidden(Sliding(20, 10)), 0.75, 3, real=("haproxy", limiting_haproxy)
    ),
    AT_ONCE: Host(
        "2 at once, 503 alone", Hidden(AtOnce(2, 0.1), b"503 Service Unavailable", response=0.1), 0.75, 3
    ),
    "halved": Host("2.5 a second, 30 s after it was 5", Hidden(Halved(5, 2)), 0.7, 5, since=75, until=90),
    "doubled": Host("5 a second, 30 s after it was 2.5", Hidden(Halved(5, 2)), 0.7, 5, since=120),
    "none": Host("none, of 50 a second", Hidden(Bucket(1 / DELAY, 10**9)), 0.5, 0),
}
PLOTTED: Final = ("bucket", "window", "halved")
QUICK: Final = (*PLOTTED, "nginx", "none")


async def by_gate(hosts: Mapping[str, str], *, adaptive: bool) -> None:
    """`gate.fetch`."""
    places = HostOverride(concurrency_per_host=PLACES)
    at_once = {hosts[AT_ONCE].split("/")[2].partition(":")[0]: places} if AT_ONCE in hosts else {}
    async with (
        ours.open_session() as session,
        RobotGate(
            ours.AGENT,
            contact=ours.CONTACT,
            session=session,
            delay=DELAY,
            adaptive=adaptive,
            max_block=math.inf,
            allow_private_addresses=True,
            overrides=at_once,
        ) as gate,
    ):
        await everywhere(gate.fetch, hosts)


async def by_hand(hosts: Mapping[str, str]) -> None:
    """aiohttp-retry, which tries three times, and a limiter for each host."""
    limiters = ours.limiters(DELAY)
    options = ExponentialRetry(statuses={429, 503})
    async with ours.open_session() as session, RetryClient(session, retry_options=options) as client:

        async def fetch(url: str) -> None:
            async with limiters[ours.origin_of(url)], client.get(url) as response:
                await response.read()

        await everywhere(fetch, hosts)


async def everywhere(fetch: ours.Fetch, hosts: Mapping[str, str]) -> None:
    """One page after another of each host, at several places."""

    async def work(host: str, pages: count[int]) -> None:
        for page in pages:
            await fetch(f"{host}/page/{page}")

    numbered = [(host, count()) for host in hosts.values()]
    await asyncio.gather(*(work(*each) for each in PLACES * numbered))


def by_scrapy(hosts: Mapping[str, str]) -> None:
    """With AutoThrottle, and all hosts at once."""
    settings = {
        "AUTOTHROTTLE_ENABLED": True,
        "DOWNLOAD_DELAY": DELAY,
        "CONCURRENT_REQUESTS": PLACES * len(hosts),
    }
    importlib.import_module("benchmarks._scrapy").crawl_hosts([*hosts.values()], PLACES, settings)


def by_crawlee(hosts: Mapping[str, str]) -> None:
    """As it is by default, but for its speed."""
    crawl = importlib.import_module("benchmarks._crawlee").crawl_hosts
    in_loop("asyncio", partial(crawl, [*hosts.values()], 1 / DELAY))


def in_asyncio(crawl: Client, hosts: Mapping[str, str]) -> None:
    """Run a client of asyncio, without what the gate logs of hosts that refuse."""
    logging.disable(logging.WARNING)
    in_loop("asyncio", partial(crawl, hosts))


CLIENTS: Final[dict[str, tuple[str, str, Callable[[Mapping[str, str]], None]]]] = {
    GATE: ("`gate.fetch`", "robotgate", partial(in_asyncio, partial(by_gate, adaptive=True))),
    FIXED: ("`adaptive=False`", "robotgate", partial(in_asyncio, partial(by_gate, adaptive=False))),
    "scrapy": ("Scrapy, AutoThrottle", "scrapy", by_scrapy),
    "crawlee": ("Crawlee", "crawlee", by_crawlee),
    "by_hand": ("by hand, aiohttp-retry", "aiohttp_retry", partial(in_asyncio, by_hand)),
}
"""What they are called, what has to be installed, and what crawls hosts until its process is ended."""


class Seen(NamedTuple):
    """What a server saw of one client."""

    answers: Sequence[tuple[float, bool]]
    """When each page was asked for, in seconds from the first on, and whether it was given."""
    until: float
    """When the client was stopped."""


def crawled(clients: Sequence[str], names: Sequence[str], seconds: float) -> dict[tuple[str, str], Seen]:
    """What was seen of each client at each host.

    Raises:
        RuntimeError: a client ended by itself.
    """
    keys = {
        f"127.2.{number}.{place}": (client, name)
        for number, client in enumerate(clients)
        for place, name in enumerate(names, 1)
    }
    hidden = {at: deepcopy(HOSTS[name].hidden) for at, (_, name) in keys.items() if not HOSTS[name].real}
    answers: dict[tuple[str, str], list[tuple[float, int]]] = {key: [] for key in keys.values()}
    urls: dict[str, dict[str, str]] = {client: {} for client in clients}
    servers: dict[tuple[str, str], Daemon] = {}
    with ExitStack() as opened:
        site = opened.enter_context(serving(addresses=[*hidden], hidden=hidden))
        for address, (client, name) in keys.items():
            urls[client][name] = f"http://{address}:{site.port}"
            if real := HOSTS[name].real:
                folder = Path(opened.enter_context(TemporaryDirectory()))
                servers[client, name] = opened.enter_context(real[1](folder, address))
                urls[client][name] = servers[client, name].url
        spawn = multiprocessing.get_context("spawn")
        works = [
            spawn.Process(target=CLIENTS[client][2], args=(urls[client],), daemon=True) for client in clients
        ]
        for work in works:
            work.start()
            opened.callback(work.kill)
        visits: list[Visit] = []
        while len({keys[visit.host][0] for visit in visits}) < len(clients) and all(
            work.is_alive() for work in works
        ):
            time.sleep(0.1)
            visits += site.visits()
        for left in range(round(seconds), 0, -SAID):
            say(f"{left} s more, of {', '.join(clients)} at {len(names)} hosts each")
            time.sleep(min(left, SAID))
        stopped_at, epoch = time.monotonic(), time.time() - time.monotonic()
        if not all(work.is_alive() for work in works):
            raise RuntimeError("a client ended by itself")
        visits += site.visits()
        for visit in sorted(visits, key=lambda visit: visit.came_at):
            if visit.path != ROBOTS_PATH:
                answers[keys[visit.host]].append((visit.came_at, visit.status))
        for key, server in servers.items():
            answers[key] = [(each.ended_at - epoch, each.status) for each in server.served()]
    return {
        key: Seen([(at - each[0][0], status == 200) for at, status in each], stopped_at - each[0][0])
        for key, each in answers.items()
        if each
    }


def counted(host: Host, seen: Seen, scale: float) -> tuple[float, float]:
    """The share of what was allowed that was given, and how many of a hundred answers were refusals."""
    since, until = host.since * scale, min(host.until * scale, seen.until)
    given = [is_given for at, is_given in seen.answers if since <= at < until]
    share = sum(given) / host.hidden.limit.allowed(since, until)
    return share, 100 * (1 - statistics.fmean(given)) if given else 0.0


def spaced(name: str, seen: Seen, at: float) -> dict[str, Figure]:
    """A point of the plot: seconds from one page to the next, how many were refused, and what the limit asks for."""
    starts = [start for start, _ in seen.answers]
    first, last = bisect(starts, at), bisect(starts, at + STEP)
    gaps = [late - early for early, late in pairwise(starts[max(first - 1, 0) : max(last, first + 1)])]
    return {
        name: [statistics.median(gaps) if gaps else STEP],
        f"{name}-refused": [sum(not is_given for _, is_given in seen.answers[first:last])],
        f"{name}-limit": [STEP / HOSTS[name].hidden.limit.allowed(at, at + STEP)],
    }


def is_there(host: Host) -> bool:
    """Whether its program is; if not, it is printed that its row is missing."""
    if host.real is None or program(host.real[0]):
        return True
    say(f"not installed, and not measured: {host.real[0]}")
    return False


def measure(effort: Effort) -> Findings:
    """All clients at all hosts."""
    findings = Findings()
    clients = [client for client, (_, module, _) in CLIENTS.items() if found(module)]
    names = [name for name in effort.pick(QUICK, tuple(HOSTS)) if is_there(HOSTS[name])]
    seconds = effort.pick(3, 180)
    seen: dict[tuple[str, str], Seen] = {}
    for together in effort.pick([clients], [clients[:2], clients[2:]]):
        seen |= crawled(together, names, seconds)
    shares: Rows = {HOSTS[name].title: {} for name in names}
    refused: Rows = {HOSTS[name].title: {} for name in names}
    for (client, name), each in seen.items():
        host = HOSTS[name]
        share, percent = counted(host, each, seconds / 180)
        shares[host.title][client], refused[host.title][client] = [share], [percent]
        if client == GATE:
            findings.goal(f"{host.title}: share of what is allowed", [share], at_least=host.at_least)
            findings.goal(f"{host.title}: refusals, of a hundred answers", [percent], at_most=host.at_most)
    unlimited = shares[HOSTS["none"].title]
    text = "no limit: pages/s, of those with adaptive=False"
    findings.goal(text, ratio(unlimited[GATE], unlimited[FIXED]), at_least=0.99)
    for key, title, rows, decimals in (
        ("share", "Share of what a hidden limit allows", shares, 2),
        ("refused", "Refusals, of a hundred answers", refused, 1),
    ):
        columns = [Column(client, CLIENTS[client][0], decimals) for client in clients]
        findings.table(key, title, columns, rows)
    times = range(0, seconds, STEP)
    points: Rows = {f"{at} s": {} for at in times}
    for name in PLOTTED:
        for at, figures in zip(times, points.values(), strict=True):
            figures.update(spaced(name, seen[GATE, name], at))
    columns = [
        Column(name + part, title, decimals)
        for name in PLOTTED
        for part, title, decimals in (
            ("", f"{HOSTS[name].title}: seconds between pages", 3),
            ("-refused", "refused", 0),
            ("-limit", "the limit", 3),
        )
    ]
    findings.table("spacing", "The gate's pace at three hosts", columns, points, sizes=times)
    return findings
