"""Values that are no URL, as a link without ``href`` gives them: one error at every door that takes a URL."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
import yarl
from tests.gate.doors import DOORS, outcome

from robotgate import InvalidURLError, OptionError, RobotGate, RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gate.servers import Web

    from robotgate.errors import RobotGateError


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

SENT_AS_THEY_ARE: Final = (
    "http://site.example:65536/",
    "http://site.example/open/../private",
    "http://site.example/open/%2e%2E/private?q",
    "http://site.example/.",
    "http://site.example/open private",
    "http://site.example/open\x7fprivate",
    "http://site.example/\ud800private",
    "http://site.example/?\udcf0",
)
"""What `yarl.URL` leaves unchanged with ``encoded=True``. Servers would read another path than the rules."""


async def test_parsed_url_that_is_none_is_refused_as_such(gate: RobotGate) -> None:
    """Whether the rules of its site are known or not; nothing is requested."""
    relative = yarl.URL.build(scheme="http", host="site.example", path="private", encoded=True)
    for url in (relative, *map(partial(yarl.URL, encoded=True), SENT_AS_THEY_ARE)):
        for door in DOORS.values():
            with pytest.raises(InvalidURLError):
                await outcome(door, gate, url)
        gate.learn(URL, b"")
    assert gate.stats().visits == 0


async def test_redirect_to_one_is_not_followed(web: Web, gate: RobotGate) -> None:
    """A session may be told to follow redirects as they are written."""
    async with aiohttp.ClientSession(
        connector=web.connector(), middlewares=[gate.middleware], requote_redirect_url=False
    ) as literal:
        web.redirect(URL, "http://site.example/open/../private")
        with pytest.raises(InvalidURLError):
            await literal.get(URL)
    assert web.urls == ["http://site.example/robots.txt", URL]


async def test_what_is_no_url_is_refused_as_such(gate: RobotGate) -> None:
    """The error is that of a wrong URL, and names the value; nothing is requested."""
    for door, value in product(DOORS.values(), NO_URLS):
        with pytest.raises(InvalidURLError) as caught:
            await outcome(door, gate, value)
        assert isinstance(caught.value.url, str)
        assert value in (None, "", " ") or type(value).__name__ in str(caught.value)
    assert gate.stats().visits == 0


async def test_ready_refuses_it_and_goes_on(gate: RobotGate) -> None:
    """Of a list, the others come."""
    refused: list[RobotGateError] = []
    none = *NO_URLS, *map(partial(yarl.URL, encoded=True), SENT_AS_THEY_ARE)
    urls: list[str] = [*none, URL]  # type: ignore[list-item]  # What type checkers refuse.
    gate.learn(URL, b"")
    turns = gate.ready(urls, on_refusal=lambda _, error: refused.append(error))
    assert [turn.url async for turn in turns] == [URL]
    assert [type(error) for error in refused] == [InvalidURLError] * len(none)


async def test_what_is_no_pattern_is_refused_as_such(gate: RobotGate) -> None:
    """Patterns are no URLs; their error is that of an option."""
    calls: list[Callable[..., object]] = [gate.block, gate.unblock, lambda each: gate.override(each, None)]
    for call, value in product(calls, (None, b"site.example", 7, Path("a"), object())):
        with pytest.raises(OptionError, match="pattern="):
            call(value)


def test_a_parsed_file_refuses_it() -> None:
    """Its own URL as well, which may be missing."""
    robots = RobotsTxt.parse(b"")
    calls: list[Callable[..., object]] = [
        lambda value: RobotsTxt.parse(b"", value),
        lambda value: robots.allowed(value, "ExampleBot"),
        lambda value: robots.verdict(value, "ExampleBot"),
    ]
    for call, value in product(calls, NO_URLS[1:]):
        with pytest.raises(InvalidURLError):
            call(value)
