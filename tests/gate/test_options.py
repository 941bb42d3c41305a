"""The options of a gate: wrong names and wrong values are refused by name, when the gate is made."""

from __future__ import annotations

import gc
import math
import warnings
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from robotgate import (
    GateClosedError,
    HostOverride,
    OptionError,
    PaceKey,
    RobotGate,
    RobotGateError,
    StatusPolicy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gate.servers import Web

AGENT: Final = "ExampleBot/1.0"
CONTACT: Final = "bot@example.org"
PAGE: Final = "http://site.example/page"

SECONDS = ("delay", "max_wait")
PATIENCE = ("max_delay", "max_block")
COUNTS = ("concurrency_per_host", "concurrency", "robots_concurrency", "max_bytes", "max_hosts")
NO_SECONDS: Final[tuple[object, ...]] = (-1, -0.001, math.nan, math.inf, "1", True, [], b"1", 1j)
NO_PATIENCE: Final = tuple(value for value in NO_SECONDS if value != math.inf)
NO_COUNTS = (0, -1, 1.0, "1", True, None, math.nan)


@pytest.fixture
def make() -> Callable[..., object]:
    """The constructor, for arguments that the type checker would not let pass."""
    return RobotGate


def test_contact_is_required(make: Callable[..., object]) -> None:
    """As LWP::RobotUA requires it."""
    with pytest.raises(TypeError, match="contact"):
        make(AGENT)


def test_agent_is_required(make: Callable[..., object]) -> None:
    """A crawler has a name."""
    with pytest.raises(TypeError, match="agent"):
        make(contact=CONTACT)


def test_all_but_the_agent_is_given_by_name(make: Callable[..., object]) -> None:
    """A second positional argument is refused."""
    with pytest.raises(TypeError, match="positional"):
        make(AGENT, CONTACT)


@pytest.mark.parametrize("name", ["delays", "user_agent", "timeout", "max_pages"])
def test_unknown_option_is_refused_by_name(make: Callable[..., object], name: str) -> None:
    """A typing error must not pass for a default."""
    with pytest.raises(TypeError, match=name):
        make(AGENT, contact=CONTACT, **{name: 1})


def test_what_is_no_duration_is_refused(make: Callable[..., object], subtests: pytest.Subtests) -> None:
    """By the name of the option, with the value that was given."""
    for value in NO_SECONDS:
        for name in SECONDS:
            with subtests.test(value=value, name=name), pytest.raises(OptionError, match=f"^{name}="):
                make(AGENT, contact=CONTACT, **{name: value})


def test_what_is_no_bound_of_a_wait_is_refused(
    make: Callable[..., object], subtests: pytest.Subtests
) -> None:
    """By the name of the option; the message says how to wait however long."""
    for value in NO_PATIENCE:
        for name in PATIENCE:
            with (
                subtests.test(value=value, name=name),
                pytest.raises(OptionError, match=rf"^{name}=.*math\.inf"),
            ):
                make(AGENT, contact=CONTACT, **{name: value})


@pytest.mark.parametrize("name", PATIENCE)
def test_wait_may_be_without_bound(make: Callable[..., object], name: str) -> None:
    """Who says so waits for whatever a site asks."""
    make(AGENT, contact=CONTACT, delay=3600, **({"max_delay": 3600} | {name: math.inf}))


@pytest.mark.parametrize("value", NO_SECONDS)
def test_what_is_no_factor_is_refused(make: Callable[..., object], value: object) -> None:
    """By the name of the option, with the value that was given."""
    with pytest.raises(OptionError, match=r"^latency_factor="):
        make(AGENT, contact=CONTACT, latency_factor=value)


def test_what_is_no_rate_is_refused(make: Callable[..., object], subtests: pytest.Subtests) -> None:
    """By the name of the option: a whole number of requests, in a finite time."""
    for value in [
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
        (1, math.nan),
    ]:
        for name in ["rate", "total_rate"]:
            with subtests.test(value=value, name=name), pytest.raises(OptionError, match=f"^{name}="):
                make(AGENT, contact=CONTACT, **{name: value})


@pytest.mark.parametrize("name", ["delay", "max_delay", "max_block"])
def test_none_is_no_duration(make: Callable[..., object], name: str) -> None:
    """Only `max_wait` may be left open."""
    with pytest.raises(OptionError, match=f"^{name}=None"):
        make(AGENT, contact=CONTACT, **{name: None})
    make(AGENT, contact=CONTACT, max_wait=None)


def test_what_is_no_count_is_refused(make: Callable[..., object], subtests: pytest.Subtests) -> None:
    """By the name of the option, with the value that was given."""
    for value in NO_COUNTS:
        for name in COUNTS:
            with subtests.test(value=value, name=name), pytest.raises(OptionError, match=f"^{name}="):
                make(AGENT, contact=CONTACT, **{name: value})


def test_what_makes_no_sense_is_refused(make: Callable[..., object], subtests: pytest.Subtests) -> None:
    """By the name of the option."""
    for name, value in [
        ("allow_private_addresses", "yes"),
        ("allow_private_addresses", 1),
        ("allow_private_addresses", None),
        ("status_policy", "default"),
        ("status_policy", None),
        ("obey_crawl_delay", 1),
        ("obey_crawl_delay", None),
        ("obey_visit_time", "no"),
        ("pace_key", "host"),
        ("pace_key", None),
        ("pace_key", PaceKey),
        ("overrides", None),
        ("overrides", ["example.org"]),
        ("overrides", {"example.org": {"delay": 5}}),
        ("session", "http://site.example"),
        ("session", 1),
        ("store", ""),
        ("store", "redis://localhost:port"),
        ("store", b"cache.db"),
        ("store", 1),
        ("clock", 1.0),
        ("clock", "now"),
        ("fetcher", "aiohttp"),
        ("agent", None),
        ("agent", 1),
        ("agent", b"ExampleBot/1.0"),
        ("contact", None),
        ("contact", 1),
        ("token", 1),
        ("token", b"ExampleBot"),
    ]:
        with subtests.test(name=name, value=value), pytest.raises(OptionError, match=name):
            make(**({"agent": AGENT, "contact": CONTACT} | {name: value}))


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
def test_delay_over_max_delay_is_refused(
    make: Callable[..., object], options: dict[str, object], match: str
) -> None:
    """Every site would be refused."""
    with pytest.raises(OptionError, match=match):
        make(AGENT, contact=CONTACT, **options)


@pytest.mark.parametrize(
    "contact", ["", "me", "@", "a@", "@b", "bot@example.org\r\nX: y", "ftp://x/", "http://", "a b@c"]
)
def test_contact_that_reaches_nobody_is_refused(contact: str) -> None:
    """An e-mail address or a URL; nothing that could break out of a header."""
    with pytest.raises(OptionError, match="contact"):
        RobotGate(AGENT, contact=contact)


@pytest.mark.parametrize(
    "agent",
    ["", " ", "Mozilla/5.0", "mozilla", "Bot!/1.0", "Ex.Bot", "Büchersammler/1", "A\r\nB", "/1.0", "*"],
)
def test_agent_without_a_product_token_is_refused(agent: str) -> None:
    """RFC 9309 §2.2.1: letters, underscores, hyphens; and not ``*``."""
    with pytest.raises(OptionError, match=r"agent|token"):
        RobotGate(agent, contact=CONTACT)


@pytest.mark.parametrize("token", ["", "Mozilla", "Other", "Example Bot", "*"])
def test_token_that_is_no_name_of_the_agent_is_refused(token: str) -> None:
    """Site owners could not find in their logs whom they addressed."""
    with pytest.raises(OptionError, match="token"):
        RobotGate(AGENT, contact=CONTACT, token=token)


def test_token_lets_an_agent_be_called_anything() -> None:
    """What names a browser first may name itself later."""
    gate = RobotGate("Mozilla/5.0 (compatible; ExampleBot/1.0)", contact=CONTACT, token="ExampleBot")
    assert "ExampleBot" in repr(gate)


def test_ordinary_options_do_not_warn() -> None:
    """A gate made as the documents show it is silent."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RobotGate(
            AGENT,
            contact="https://example.org/bot",
            delay=0,
            max_delay=0,
            max_wait=0,
            max_block=math.inf,
            concurrency=1,
            rate=(600, 3600),
            total_rate=(50, 1),
            latency_factor=5,
            obey_crawl_delay=False,
            obey_visit_time=True,
            pace_key=PaceKey.REGISTRABLE_DOMAIN,
            overrides={"*.example.org": HostOverride(delay=5, max_delay=math.inf)},
            status_policy=StatusPolicy.RFC9309,
            allow_private_addresses=True,
        )
    assert caught == []


def test_option_errors_are_value_errors_and_ours() -> None:
    """Both handlers see them."""
    assert issubclass(OptionError, ValueError)
    assert issubclass(OptionError, RobotGateError)
    assert not issubclass(OptionError, aiohttp.ClientError)


def test_making_a_gate_needs_no_event_loop() -> None:
    """It can be made at import time; it does nothing before it is opened."""
    gate = RobotGate(AGENT, contact=CONTACT)
    assert repr(gate) == "<RobotGate 'ExampleBot' not open>"
    with pytest.raises(GateClosedError, match="async with"):
        gate.allowed_nowait("http://site.example/")


async def test_closed_session_is_refused() -> None:
    """On opening, by name; nothing is left behind."""
    session = aiohttp.ClientSession()
    await session.close()
    gate = RobotGate(AGENT, contact=CONTACT, session=session)
    with pytest.raises(OptionError, match="session"):
        await gate.__aenter__()


# ── the options of a call


@pytest.mark.parametrize("name", ["tiemout", "max_redirect", "body", "follow_redirects", "user_agent"])
async def test_unknown_option_of_a_fetch_is_refused_by_name(web: Web, gate: RobotGate, name: str) -> None:
    """At the call, before anything is fetched; nothing is left behind that was never awaited."""
    fetch: Callable[..., object] = gate.fetch
    with pytest.raises(TypeError, match=f"{name!r}.*timeout"):
        fetch(PAGE, **{name: 3})
    gc.collect()
    assert web.visits == []


@pytest.mark.parametrize("priority", ["high", "1", 1.0, None, True])
@pytest.mark.parametrize("door", ["fetch", "turn"])
async def test_priority_that_makes_no_sense_is_refused(
    web: Web, gate: RobotGate, door: str, priority: object
) -> None:
    """At the call, by name."""
    with pytest.raises(OptionError, match=r"^priority="):
        getattr(gate, door)(PAGE, priority=priority)
    assert web.visits == []


@pytest.mark.parametrize("most", [-1, 1.0, "1", None, True])
async def test_max_redirects_that_makes_no_sense_is_refused(web: Web, gate: RobotGate, most: object) -> None:
    """At the call, by name."""
    fetch: Callable[..., object] = gate.fetch
    with pytest.raises(OptionError, match=r"^max_redirects="):
        fetch(PAGE, max_redirects=most)
    assert web.visits == []


@pytest.mark.parametrize("body", ["User-agent: *", 1, bytearray(b""), ["User-agent: *"]])
async def test_body_that_is_not_octets_is_refused(gate: RobotGate, body: object) -> None:
    """By name; nothing is learnt."""
    learn: Callable[..., object] = gate.learn
    with pytest.raises(OptionError, match=r"^body="):
        learn(PAGE, body)
    assert gate.allowed_nowait(PAGE) is None


@pytest.mark.parametrize("instant", ["tomorrow", -1, math.nan, math.inf, True])
async def test_instant_that_is_none_is_refused(gate: RobotGate, instant: object) -> None:
    """By name; nothing is learnt."""
    learn: Callable[..., object] = gate.learn
    with pytest.raises(OptionError, match=r"^fresh_until="):
        learn(PAGE, b"", fresh_until=instant)
    assert gate.allowed_nowait(PAGE) is None
