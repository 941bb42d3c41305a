"""The gate's answers: what one costs when the rules are known.

Asked are distinct URLs, one after another. Beside the gate, awaiting a coroutine that does nothing, which is the floor;
looking the URL itself up in a dict; and Protego's ``can_fetch`` on one parsed copy of the same file, which has no host
to look up. All numbers of hosts are measured in the same rounds.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from protego import Protego

from benchmarks._bench import TICK, alone_in_loop, clock, each_ns, figures_of, quantile
from benchmarks._known import AGENT, known_gate
from benchmarks._report import Column, Effort, Findings, ratio
from benchmarks._site import SMALL, urls_over

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from benchmarks._report import Figure
    from robotgate import RobotGate

    Warm = dict[int, dict[str, dict[str, Figure]]]

PACKAGES: Final = ("robotgate", "aiohttp", "protego", "yarl")
OURS: Final = "await gate.allowed"
OURS_NOWAIT: Final = "gate.allowed_nowait"
PROTEGO: Final = "Protego.can_fetch"
FLAT: Final = 1.5
"""What an answer among a hundred thousand hosts may take of one among a single host. The work is the same; but the
rules of one host stay in the processor's caches, and those of a hundred thousand, some 100 MB, are fetched from memory,
each time a few things that lie apart."""
WARM_COLUMNS: Final = (
    Column("mean", "mean, ns", shows_spread=True),
    Column("p99", "p99, ns"),
    Column("ratio", "mean, of Protego's", 2, shows_spread=True),
)


def measure(effort: Effort) -> Findings:
    """Warm answers, in a process of their own."""
    findings = Findings()
    warm = alone_in_loop("asyncio", _warm_rounds, effort)
    for hosts, ways in warm.items():
        name = f"{hosts:,} host{'s' if hosts > 1 else ''}"
        for own in ways.values():
            own["ratio"] = ratio(own["mean"], ways[PROTEGO]["mean"])
        findings.table(
            f"warm-{hosts}",
            f"A warm answer, {name}",
            WARM_COLUMNS,
            ways,
            ours=(OURS, OURS_NOWAIT),
            sizes=[hosts] * len(ways),
            note="Protego has one parsed file and is not asked which host it is; the gate finds the host's.",
        )
        text = f"{OURS}, warm, {name}: of the time of {PROTEGO}"
        findings.goal(text, ways[OURS]["ratio"], at_most=0.35)
    few, *_, many = warm
    flat = ratio(warm[many][OURS]["mean"], warm[few][OURS]["mean"])
    findings.goal(f"{OURS}, warm: time at {many:,} hosts, of that at {few:,}", flat, at_most=FLAT)
    return findings


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
