"""Values that are no URL, as a link without ``href`` gives them: one error at every door that takes a URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from robotgate import InvalidURLError, OptionError, RobotGate, RobotsTxt
from robotgate.signing import Ed25519Signer, SigningKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from robotgate.errors import RobotGateError

    Door = Callable[[RobotGate, str], object]

URL: Final = "http://site.example/"


class Odd:
    """Something whose text is a URL."""

    def __str__(self) -> str:
        return URL


NO_URLS: Final = (
    None,
    "",
    " ",
    b"http://site.example/",
    bytearray(b"x"),
    7,
    1.5,
    True,
    Path("/a"),
    Odd(),
    object(),
    [URL],
)


async def entered(gate: RobotGate, url: str) -> None:
    """A streaming fetch."""
    async with gate.fetch(url):
        pass


async def walked(gate: RobotGate, url: str) -> None:
    """A walk over sitemaps."""
    async for _ in gate.sitemap_urls(url):
        pass


DOORS: Final[dict[str, Door]] = {
    "fetch": lambda gate, url: gate.fetch(url),
    "fetch with options": lambda gate, url: gate.fetch(url, params={"a": "b"}, retries=2),
    "fetch, entered": entered,
    "allowed": lambda gate, url: gate.allowed(url),
    "allowed_nowait": lambda gate, url: gate.allowed_nowait(url),
    "check": lambda gate, url: gate.check(url),
    "robots": lambda gate, url: gate.robots(url),
    "refresh": lambda gate, url: gate.refresh(url),
    "sitemaps": lambda gate, url: gate.sitemaps(url),
    "sitemap_urls": walked,
    "turn": lambda gate, url: gate.turn(url),
    "wait_time": lambda gate, url: gate.wait_time(url),
    "learn": lambda gate, url: gate.learn(url, b""),
    "host": lambda gate, url: gate.host(url),
    "sign": lambda gate, url: gate._sign("GET", url),
}


async def outcome(door: Door, gate: RobotGate, url: object) -> object:
    """What a door makes of a value."""
    answer = door(gate, url)  # type: ignore[arg-type]  # What type checkers refuse.
    return await answer if hasattr(answer, "__await__") else answer


@pytest.fixture
async def signing_gate() -> AsyncIterator[RobotGate]:
    """A gate that signs what it sends; it sends nothing here."""
    signer = Ed25519Signer(SigningKey.generate(), agent_url=None)
    async with RobotGate("ExampleBot/1.0", contact="bot@example.org", signer=signer) as gate:
        yield gate


@pytest.mark.parametrize("name", DOORS)
async def test_what_is_no_url_is_refused_as_such(signing_gate: RobotGate, name: str) -> None:
    """The error is that of a wrong URL, and names the value; nothing is requested."""
    for value in NO_URLS:
        with pytest.raises(InvalidURLError) as caught:
            await outcome(DOORS[name], signing_gate, value)
        assert isinstance(caught.value.url, str)
        assert value in (None, "", " ") or type(value).__name__ in str(caught.value)
    assert signing_gate.stats().visits == 0


@pytest.mark.parametrize("value", NO_URLS)
async def test_ready_refuses_it_and_goes_on(signing_gate: RobotGate, value: object) -> None:
    """Of a list, the others come."""
    refused: list[RobotGateError] = []
    urls: list[str] = [value, value]  # type: ignore[list-item]  # As above.
    turns = signing_gate.ready(urls, on_refusal=lambda _, error: refused.append(error))
    assert [turn async for turn in turns] == []
    assert [type(error) for error in refused] == [InvalidURLError] * 2


@pytest.mark.parametrize("value", [None, b"site.example", 7, Path("a"), object()])
async def test_what_is_no_pattern_is_refused_as_such(signing_gate: RobotGate, value: str) -> None:
    """Patterns are no URLs; their error is that of an option."""
    for call in (signing_gate.block, signing_gate.unblock, lambda each: signing_gate.override(each, None)):
        with pytest.raises(OptionError, match="pattern="):
            call(value)


@pytest.mark.parametrize("value", [value for value in NO_URLS if value is not None])
def test_a_parsed_file_refuses_it(value: str) -> None:
    """Its own URL as well, which may be missing."""
    robots = RobotsTxt.parse(b"")
    for call in (
        lambda: RobotsTxt.parse(b"", value),
        lambda: robots.allowed(value, "ExampleBot"),
        lambda: robots.verdict(value, "ExampleBot"),
    ):
        with pytest.raises(InvalidURLError):
            call()
