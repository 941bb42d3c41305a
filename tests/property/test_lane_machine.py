"""Whatever comes, goes, fails and changes, in whatever order: the gate keeps the law of the pace.

Hypothesis makes up what happens, step by step, at the public doors; an observer that knows nothing of lanes, timers and
queues says what may happen and when. The schedules of `test_lane_schedules` are held against an exact oracle; these are
told as they go, and know blocks of the host's and of the operator's, outages, priorities, patience, the rules of
several origins, and options that change.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, TypeVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.outage_law import GRAIN
from tests.pace_law import PaceLaw, Visitor

from robotgate import Answer, HostOverride, RobotGate
from robotgate.testing import ScriptedFetcher, VirtualClock, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
MOMENT: Final = 0.00007
"""Seconds between what happens and what happened before: nobody's turn comes due in the very instant of another's
arrival or departure, for who goes first then is nobody's promise."""
PATIENCE_OFFSET: Final = 0.0173
"""Seconds; likewise, nobody loses patience in the instant at which a turn comes due."""
MAX_BLOCK: Final = 300.0
LONG: Final = 100.0
"""Seconds."""
FOR_EVER: Final = 10.0**9
HOSTS: Final = ("a.example", "b.example")
SCHEMES: Final = ("http", "https")


def quarters(most: int) -> st.SearchStrategy[float]:
    """Quarters of a second."""
    return st.integers(0, most).map(lambda count: count / 4)


hosts = st.sampled_from(HOSTS)
schemes = st.sampled_from(SCHEMES)
answers = st.sampled_from(
    [(200, None)] * 6
    + [(404, None), (500, None), (None, None), (429, "0"), (429, "3"), (503, "20"), (429, None), (503, "400")]
)
outages = st.sampled_from([False, False, False, True])


class PaceMachine(RuleBasedStateMachine):
    """A gate on virtual time, two hosts of two origins each, and what happens to them."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = VirtualTimeLoop()
        self._fetcher = ScriptedFetcher({}, otherwise=Answer(status=404))
        self._gate: RobotGate | None = None
        self._delay = 0.0
        self._laws: dict[str, PaceLaw] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._come = 0

    @property
    def gate(self) -> RobotGate:
        """The open gate."""
        assert self._gate is not None
        return self._gate

    @initialize(slots=st.integers(1, 3), delay=st.sampled_from([0.0, 0.1, 1.0, 3.3]))
    def open(self, slots: int, delay: float) -> None:
        """Open the gate; the rules of every origin are known and ask for nothing."""
        gate = RobotGate(
            "ExampleBot",
            contact="bot@example.org",
            clock=VirtualClock(),
            fetcher=self._fetcher,
            delay=delay,
            concurrency_per_host=slots,
            max_block=MAX_BLOCK,
        )
        self._gate = self._run(gate.__aenter__())
        self._delay = delay
        self._laws = {host: PaceLaw(floor=delay, slots=slots, max_block=MAX_BLOCK) for host in HOSTS}
        self._run(self._learn_all())

    @rule(
        host=hosts,
        scheme=schemes,
        count=st.sampled_from([1, 1, 2, 5]),
        priority=st.integers(-1, 1),
        patience=st.none() | st.none() | st.just(0.0) | quarters(40).map(lambda at: at + PATIENCE_OFFSET),
        takes=quarters(12),
        answer=answers,
        finds_nobody=outages,
    )
    def arrive(
        self,
        *,
        host: str,
        scheme: str,
        count: int,
        priority: int,
        patience: float | None,
        takes: float,
        answer: tuple[int | None, str | None],
        finds_nobody: bool,
    ) -> None:
        """Some who want the same come, one shortly after the other."""
        for _ in range(count):
            self._arrive(
                host,
                f"{scheme}://{host}",
                priority=priority,
                patience=patience,
                takes=takes,
                answer=answer,
                finds_nobody=finds_nobody,
            )

    @rule(host=hosts, scheme=schemes, crawl_delay=st.sampled_from([0.0, 0.7, 2.0, 5.5, 20.0]))
    def learn(self, host: str, scheme: str, crawl_delay: float) -> None:
        """Other rules of one origin become known."""
        self._pass(MOMENT)
        self._run(self._learn(host, scheme, crawl_delay))
        self._pass(MOMENT)

    @rule(host=hosts, delay=st.sampled_from([None, 0.0, 0.4, 2.5, 12.0]))
    def override(self, host: str, delay: float | None) -> None:
        """The operator changes his mind about one host's delay."""
        self._pass(MOMENT)
        self._run(self._override(host, delay))
        self._pass(MOMENT)

    @rule(host=hosts, stretch=st.sampled_from([0.5, 7.3, 60.0, 299.0, 400.0, math.inf]))
    def block(self, host: str, stretch: float) -> None:
        """He wants it left alone, for longer or for shorter than before."""
        self._pass(MOMENT)
        self._run(self._block(host, stretch))
        self._pass(MOMENT)

    @rule(host=hosts)
    def unblock(self, host: str) -> None:
        """And no longer."""
        self._pass(MOMENT)
        self._run(self._unblock(host))
        self._pass(MOMENT)

    @precondition(lambda self: self._tasks)
    @rule(chosen=st.integers(0, 2**12 - 1))
    def cancel(self, chosen: int) -> None:
        """Any of those who wait or have a turn are cancelled, at one instant."""
        self._pass(MOMENT)
        self._cancel(chosen)
        self._pass(MOMENT)

    @precondition(lambda self: self._tasks)
    @rule(host=hosts, chosen=st.integers(0, 2**12 - 1))
    def cancel_when_due(self, host: str, chosen: int) -> None:
        """They are cancelled in the very instant at which a turn comes due."""
        self._pass(MOMENT)
        due_in = self._laws[host].due_at - self._loop.time()
        if 0.0 < due_in < LONG:
            self._loop.call_later(due_in, self._cancel, chosen)
            self._pass(due_in + MOMENT)

    @precondition(lambda self: self._down)
    @rule(
        chosen=st.integers(0, 3),
        count=st.integers(1, 4),
        takes=quarters(12),
        answer=answers,
        finds_nobody=st.booleans(),
    )
    def try_again(
        self,
        *,
        chosen: int,
        count: int,
        takes: float,
        answer: tuple[int | None, str | None],
        finds_nobody: bool,
    ) -> None:
        """Some come when an origin that could not be reached may be tried again."""
        down = self._down
        host, origin = down[chosen % len(down)]
        self._pass(max(0.0, self._laws[host].outages.retry_at(origin) - self._loop.time()) + MOMENT)
        for _ in range(count):
            self._arrive(host, origin, takes=takes, answer=answer, finds_nobody=finds_nobody)

    @rule(passing=quarters(60) | st.sampled_from([60.0, 301.0, 2000.0]))
    def pass_time(self, passing: float) -> None:
        """Time goes by."""
        self._pass(passing)

    @invariant()
    def law_is_kept(self) -> None:
        """Nothing happened before its time, or failed to happen at it; and the gate's own accounts agree."""
        for host, law in self._laws.items():
            law.pass_to(self._loop.time())
            assert not law.violations, law.violations
            self._run(self._check_view(host, law))

    def teardown(self) -> None:
        """Let everybody have a turn, then look that nobody and nothing is left."""
        if self._gate is None:
            self._loop.close()
            return
        try:
            self._pass(100_000.0)
            self.law_is_kept()
            assert self._tasks == []
            assert "lanes=0" in repr(self.gate)
            assert self._fetcher.requests == []
            assert asyncio.all_tasks(self._loop) == set()
        finally:
            self._run(self.gate.aclose())
            self._loop.close()

    @property
    def _down(self) -> list[tuple[str, str]]:
        """The hosts and origins that could not be reached, and have not been since."""
        return [(host, origin) for host, law in self._laws.items() for origin in law.outages.known]

    def _arrive(
        self,
        host: str,
        origin: str,
        *,
        priority: int = 0,
        patience: float | None = None,
        takes: float,
        answer: tuple[int | None, str | None],
        finds_nobody: bool,
    ) -> None:
        self._pass(MOMENT)
        visitor = Visitor(
            who=self._come,
            url=f"{origin}/{self._come}",
            priority=priority,
            max_wait=patience,
            takes=takes,
            status=answer[0],
            retry_after=answer[1],
            finds_nobody=finds_nobody,
        )
        self._come += 1
        self._tasks.append(self._loop.create_task(visitor.visit(self.gate, self._laws[host])))
        self._pass(MOMENT)

    def _cancel(self, chosen: int) -> None:
        for number, task in enumerate(self._tasks):
            if chosen >> (number % 12) & 1:
                task.cancel()

    def _run(self, doing: Coroutine[object, object, T]) -> T:
        return self._loop.run_until_complete(doing)

    def _pass(self, seconds: float) -> None:
        self._run(asyncio.sleep(seconds))
        ended, self._tasks = (
            [task for task in self._tasks if task.done()],
            [task for task in self._tasks if not task.done()],
        )
        for task in ended:
            if not task.cancelled():
                task.result()

    async def _learn_all(self) -> None:
        for host in HOSTS:
            for scheme in SCHEMES:
                await self._learn(host, scheme, 0.0)

    async def _learn(self, host: str, scheme: str, crawl_delay: float) -> None:
        self._laws[host].asks(self._loop.time(), scheme, crawl_delay)
        text = f"User-agent: *\nCrawl-delay: {crawl_delay}\n" if crawl_delay else ""
        self.gate.learn(f"{scheme}://{host}/", text.encode(), fresh_until=FOR_EVER)

    async def _override(self, host: str, delay: float | None) -> None:
        self._laws[host].grants(self._loop.time(), self._delay if delay is None else delay)
        self.gate.override(host, None if delay is None else HostOverride(delay=delay))

    async def _block(self, host: str, stretch: float) -> None:
        until_at = self._loop.time() + stretch
        self._laws[host].is_left_alone(self._loop.time(), until_at)
        self.gate.block(host, until_at)

    async def _unblock(self, host: str) -> None:
        self._laws[host].is_left_alone(self._loop.time(), 0.0)
        self.gate.unblock(host)

    async def _check_view(self, host: str, law: PaceLaw) -> None:
        view = self.gate.host(f"http://{host}/")
        assert (view.visits, view.waiting, view.open_turns) == (law.visits, len(law.waiting), len(law.open))
        if not law.open:
            for scheme in SCHEMES:
                origin = f"{scheme}://{host}"
                due_in = max(0.0, law.due_at_of(origin) - law.now)
                assert self.gate.wait_time(f"{origin}/") == pytest.approx(due_in, abs=GRAIN)


PaceMachine.TestCase.settings = settings(
    max_examples=400,
    stateful_step_count=30,
    deadline=None,
    # To shrink a schedule of these takes minutes; what the law objects to says more.
    phases=[Phase.reuse, Phase.generate],
)
TestPaceMachine = PaceMachine.TestCase
