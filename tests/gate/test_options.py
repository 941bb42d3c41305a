"""The options of a gate: wrong names and wrong values are refused by name, when the gate is made."""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING, Final

import pytest
from tests.conftest import AGENT, CONTACT
from tests.gate.servers import PAGE

from robotgate import (
    Budget,
    Dialect,
    GateClosedError,
    HostOverride,
    OpenHours,
    OptionError,
    PaceKey,
    RobotGate,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.gate.servers import Web

    from robotgate import Turn


NO_NUMBER: Final[tuple[object, ...]] = (-1, -0.001, math.nan, "1", True, [], b"1", 1j)
NO_RATE: Final = (
    600,
    "600/h",
    (600,),
    (1, 2, 3),
    (0, 1),
    (1.0, 1),
    (True, 1),
    (1, 0),
    (1, -1),
    (1, math.inf),
)
REFUSED: Final[dict[str, tuple[tuple[object, ...], str]]] = {
    **dict.fromkeys(("delay", "latency_factor", "address_delay"), ((*NO_NUMBER, math.inf, None), "")),
    "max_wait": ((*NO_NUMBER, math.inf), ""),
    **dict.fromkeys(("max_delay", "max_block"), ((*NO_NUMBER, None), r".*math\.inf")),
    **dict.fromkeys(
        ("concurrency_per_host", "concurrency", "robots_concurrency", "max_bytes", "max_hosts"),
        ((0, -1, 1.0, "1", True, None, math.nan), ""),
    ),
    "address_concurrency": ((0, -1, 1.0, "1", True, math.nan), ""),
    "address_exempt": (("203.0.113.0/24", None, 7, ["203.0.113.5/24"], ["example.org"], [7], [b"ffff"]), ""),
    "groups": ((None, 7, "shops", [], {"*.example": "shops"}, {"*.example": None}), ""),
    **dict.fromkeys(("rate", "total_rate"), (NO_RATE, "")),
    **dict.fromkeys(
        ("budget", "origin_budget", "total_budget"), ((100, (100, 60), {"pages": 100}, Budget), ".*Budget")
    ),
    **dict.fromkeys(("bytes_per_second", "total_bytes_per_second"), ((*NO_NUMBER, 0), r".*math\.inf")),
    **dict.fromkeys(
        ("allow_private_addresses", "obey_crawl_delay", "obey_visit_time"), (("yes", 1, None), "")
    ),
    "open_hours": (("22:00-06:00", 22, OpenHours), ""),
    "status_policy": (("default", None), ""),
    "dialect": (("1994", None, Dialect), ""),
    "pace_key": (("host", None, PaceKey), ""),
    "overrides": ((None, ["example.org"], {"example.org": {"delay": 5}}), ""),
    "session": (("http://site.example", 1), ""),
    "clock": ((1.0, "now"), ""),
    "fetcher": (("aiohttp",), ""),
    **dict.fromkeys(("agent", "contact"), ((None, 1, b"ExampleBot/1.0"), "")),
    "token": ((1, b"ExampleBot"), ""),
}
"""What is refused by the name of each option, and what the message says then."""


MAKE: Final[Callable[..., object]] = RobotGate
"""The constructor, for arguments that the type checker would not let pass."""


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((AGENT,), {}, "contact"),
        ((), {"contact": CONTACT}, "agent"),
        ((AGENT, CONTACT), {}, "positional"),
        ((AGENT,), {"contact": CONTACT, "delays": 1}, "delays"),
    ],
)
def test_constructor_wants_names(arguments: tuple[str, ...], options: dict[str, object], match: str) -> None:
    """Of the agent and whom to contact, as LWP::RobotUA wants it; a typing error must not pass for a default."""
    with pytest.raises(TypeError, match=match):
        MAKE(*arguments, **options)


def test_value_that_makes_no_sense_is_refused(subtests: pytest.Subtests) -> None:
    """By the name of the option; for a bound of a wait, the message says how to wait however long."""
    for name, (values, match) in REFUSED.items():
        for value in values:
            with subtests.test(name, value=value), pytest.raises(OptionError, match=rf"^{name}\b{match}"):
                MAKE(**({"agent": AGENT, "contact": CONTACT} | {name: value}))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"delay": 61}, "max_delay"),
        ({"delay": 1, "max_delay": 0.5}, "max_delay"),
        (
            {"overrides": {"*.example.org": HostOverride(delay=61)}},
            r"^overrides\['\*\.example\.org'\]: delay=61 is over max_delay=60",
        ),
        (
            {"overrides": {"example.org": HostOverride(max_delay=0.5)}},
            r"^overrides\['example\.org'\]: delay=1\.0 is over max_delay=0\.5",
        ),
    ],
)
def test_delay_over_max_delay_is_refused(options: dict[str, object], match: str) -> None:
    """Every site would be refused."""
    with pytest.raises(OptionError, match=match):
        MAKE(AGENT, contact=CONTACT, **options)


def test_making_a_gate_needs_no_event_loop() -> None:
    """It can be made at import time; it does nothing before it is opened."""
    gate = RobotGate(AGENT, contact=CONTACT)
    assert repr(gate) == "<RobotGate 'ExampleBot' not open>"
    with pytest.raises(GateClosedError, match="async with"):
        gate.allowed_nowait("http://site.example/")


# ── the options of a call


async def test_unknown_option_of_a_fetch_is_refused_by_name(web: Web, gate: RobotGate) -> None:
    """At the call, before anything is fetched; nothing is left behind that was never awaited."""
    fetch: Callable[..., object] = gate.fetch
    for name in ("tiemout", "follow_redirects"):
        with pytest.raises(TypeError, match=f"{name!r}.*timeout"):
            fetch(PAGE, **{name: 3})
    gc.collect()
    assert web.visits == []


async def test_option_of_a_call_that_makes_no_sense_is_refused(web: Web, gate: RobotGate) -> None:
    """By name, before anything is sent."""
    fetch: Callable[..., Awaitable[object]] = gate.fetch
    turn: Callable[..., Turn] = gate.turn
    refused: dict[str, tuple[object, ...]] = {
        "priority": ("high", 1.0, None, True),
        "max_redirects": (-1, 1.0, "1", None, True),
        "retries": (-1, 1.5, True, "2"),
        "max_bytes": (-1, 0, 1.5, "10", True),
        "max_wait": (-1, math.nan, math.inf, "1", True),
    }
    for name, value in ((name, value) for name, values in refused.items() for value in values):
        with pytest.raises(OptionError, match=f"^{name}="):
            await fetch(PAGE, **{name: value})
        if name in {"priority", "max_wait"}:
            with pytest.raises(OptionError, match=f"^{name}="):
                await turn(PAGE, **{name: value}).__aenter__()
    assert web.visits == []


async def test_what_cannot_be_learnt_is_refused(gate: RobotGate) -> None:
    """By name; nothing is learnt."""
    learn: Callable[..., object] = gate.learn
    for body in ("User-agent: *", 1, bytearray(b""), ["User-agent: *"]):
        with pytest.raises(OptionError, match=r"^body="):
            learn(PAGE, body)
    for instant in ("tomorrow", -1, math.nan, math.inf, True):
        with pytest.raises(OptionError, match=r"^fresh_until="):
            learn(PAGE, b"", fresh_until=instant)
    assert gate.allowed_nowait(PAGE) is None
