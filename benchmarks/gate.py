"""The gate's answers: what one costs when the rules are known, and many tasks at once on new hosts.

*Warm*: distinct URLs, one after another. Beside the gate, awaiting a coroutine that does nothing, which is the floor;
looking the URL itself up in a dict; and Protego's ``can_fetch`` on one parsed copy of the same file, which has no host
to look up. All numbers of hosts are measured in the same rounds.

*Storm*: ten thousand tasks ask at once. A real server in another process counts the requests for robots.txt; each
answer takes it 50 ms. The hosts are names, which a resolver of our own sends to the loopback interface.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from protego import Protego

from benchmarks._bench import TICK, alone_in_loop, clock, each_ns, figures_of, interleaved, quantile
from benchmarks._clients import open_gate
from benchmarks._known import AGENT, known_gate
from benchmarks._report import Column, Effort, Findings, ratio
from benchmarks._site import SMALL, serving, urls_over

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from benchmarks._report import Figure
    from benchmarks._site import Site
    from robotgate import RobotGate

    Warm = dict[int, dict[str, dict[str, Figure]]]

PACKAGES: Final = ("robotgate", "aiohttp", "protego", "yarl")
OURS: Final = "await gate.allowed"
OURS_NOWAIT: Final = "gate.allowed_nowait"
PROTEGO: Final = "Protego.can_fetch"
LATENCY: Final = 0.05
"""Seconds."""
FLAT: Final = 1.5
"""What an answer among a hundred thousand hosts may take of one among a single host. The work is the same; but the
rules of one host stay in the processor's caches, and those of a hundred thousand, some 100 MB, are fetched from memory,
each time a few things that lie apart."""
WARM_COLUMNS: Final = (
    Column("mean", "mean, ns", shows_spread=True),
    Column("p99", "p99, ns"),
    Column("ratio", "mean, of Protego's", 2, shows_spread=True),
)
STORM_COLUMNS: Final = (
    Column("requests", "robots.txt requests at the server"),
    Column("most", "most for one host"),
    Column("last", "last answer, s", 2, shows_spread=True),
)


def hosts_as(number: int, kind: str = "") -> str:
    """So many hosts, as people say it."""
    return f"{number:,} {kind}host{'s' if number > 1 else ''}"


def measure(effort: Effort) -> Findings:
    """Warm answers and storms, each in processes of their own."""
    findings = Findings()
    _warm(findings, alone_in_loop("asyncio", _warm_rounds, effort))
    tasks = effort.pick(1_000, 10_000)
    with serving(SMALL, response=LATENCY) as site:
        works = {hosts: partial(_storm, site, hosts, tasks) for hosts in effort.pick((1, 100), (1, 1_000))}
        storms = interleaved(effort.pick(1, 5), works)
    found = {hosts_as(hosts, "cold "): figures for hosts, figures in storms.items()}
    findings.table(
        "storm",
        f"{tasks:,} tasks ask at once, nothing being known",
        STORM_COLUMNS,
        found,
        ours=found,
        sizes=storms,
        note=f"The server takes {LATENCY * 1e3:.0f} ms for each robots.txt.",
    )
    for name, figures in found.items():
        # Not twice in any round.
        most = [max(figures["most"])]
        findings.goal(f"storm on {name}: robots.txt requests for a host, at most", most, at_most=1)
    return findings


def _warm(findings: Findings, warm: Warm) -> None:
    for hosts, ways in warm.items():
        for own in ways.values():
            own["ratio"] = ratio(own["mean"], ways[PROTEGO]["mean"])
        findings.table(
            f"warm-{hosts}",
            f"A warm answer, {hosts_as(hosts)}",
            WARM_COLUMNS,
            ways,
            ours=(OURS, OURS_NOWAIT),
            sizes=[hosts] * len(ways),
            note="Protego has one parsed file and is not asked which host it is; the gate finds the host's.",
        )
        text = f"{OURS}, warm, {hosts_as(hosts)}: of the time of {PROTEGO}"
        findings.goal(text, ways[OURS]["ratio"], at_most=0.35)
    few, *_, many = warm
    flat = ratio(warm[many][OURS]["mean"], warm[few][OURS]["mean"])
    findings.goal(f"{OURS}, warm: time at {many:,} hosts, of that at {few:,}", flat, at_most=FLAT)


async def _warm_rounds(effort: Effort) -> Warm:
    """What each way took, by number of hosts."""
    rounds: dict[int, list[Mapping[str, Mapping[str, float]]]] = {}
    async with AsyncExitStack() as opened:
        known = {
            hosts: (await known_gate(hosts, opened, SMALL), urls_over(hosts, effort.pick(5_000, 50_000)))
            for hosts in effort.pick((1, 1_000), (1, 1_000, 100_000))
        }
        # The first round fills caches, and does not count.
        for _ in range(1 + effort.pick(2, 5)):
            for hosts, (gate, urls) in known.items():
                rounds.setdefault(hosts, []).append(await _round(gate, urls))
    return {
        hosts: {name: figures_of([one[name] for one in each[1:]]) for name in each[0]}
        for hosts, each in rounds.items()
    }


async def _round(gate: RobotGate, urls: Sequence[str]) -> dict[str, dict[str, float]]:
    """Each way once, over all URLs."""
    can_fetch = Protego.parse(SMALL.decode()).can_fetch
    answers = dict.fromkeys(urls, True)
    return {
        OURS: await _awaits(gate.allowed, urls),
        OURS_NOWAIT: _calls(gate.allowed_nowait, urls),
        PROTEGO: _calls(lambda url: can_fetch(url, AGENT), urls),
        "bare coroutine": await _awaits(_nothing, urls),
        "bare dict look-up": _calls(answers.__getitem__, urls),
    }


async def _nothing(url: str) -> bool:
    """The least that an awaited answer can cost."""
    return bool(url)


async def _awaits(ask: Callable[[str], Awaitable[bool]], urls: Sequence[str]) -> dict[str, float]:
    """Nanoseconds: the mean, of CPU, the loop's own cost included; and the 99th of a hundred, without the clock's."""
    start = time.process_time_ns()
    for url in urls:
        await ask(url)
    mean = (time.process_time_ns() - start) / len(urls)
    each = []
    for url in urls:
        begin = clock()
        await ask(url)
        each.append(clock() - begin - TICK)
    return {"mean": mean, "p99": quantile(each, 0.99)}


def _calls(ask: Callable[[str], object], urls: Sequence[str]) -> dict[str, float]:
    """As `_awaits`."""
    start = time.process_time_ns()
    for url in urls:
        ask(url)
    mean = (time.process_time_ns() - start) / len(urls)
    return {"mean": mean, "p99": quantile(each_ns(ask, urls), 0.99)}


def _storm(site: Site, hosts: int, tasks: int) -> dict[str, float]:
    """What the server has seen of so many questions, and seconds until the last answer."""
    urls = [f"http://{number % hosts}.site.example:{site.port}/page/{number}" for number in range(tasks)]
    last = alone_in_loop("asyncio", _ask_at_once, urls)
    counts = site.robots_requests()
    return {"requests": counts.total(), "most": max(counts.values()), "last": last}


async def _ask_at_once(urls: Sequence[str]) -> float:
    async with open_gate() as gate:
        start = time.perf_counter()
        answers = await asyncio.gather(*map(gate.allowed, urls))
        elapsed = time.perf_counter() - start
    if not all(answers):
        raise RuntimeError("the server allows everything that is asked for here")
    return elapsed
