"""Values that are no URL, as a link without ``href`` gives them: one error at every door that takes a URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.gate.doors import DOORS, outcome

from robotgate import InvalidURLError, OptionError, RobotGate, RobotsTxt

if TYPE_CHECKING:
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


@pytest.mark.parametrize("name", DOORS)
async def test_what_is_no_url_is_refused_as_such(gate: RobotGate, name: str) -> None:
    """The error is that of a wrong URL, and names the value; nothing is requested."""
    for value in NO_URLS:
        with pytest.raises(InvalidURLError) as caught:
            await outcome(DOORS[name], gate, value)
        assert isinstance(caught.value.url, str)
        assert value in (None, "", " ") or type(value).__name__ in str(caught.value)
    assert gate.stats().visits == 0


async def test_ready_refuses_it_and_goes_on(gate: RobotGate) -> None:
    """Of a list, the others come."""
    refused: list[RobotGateError] = []
    urls: list[str] = [*NO_URLS, URL]  # type: ignore[list-item]  # What type checkers refuse.
    gate.learn(URL, b"")
    turns = gate.ready(urls, on_refusal=lambda _, error: refused.append(error))
    assert [turn.url async for turn in turns] == [URL]
    assert [type(error) for error in refused] == [InvalidURLError] * len(NO_URLS)


@pytest.mark.parametrize("value", [None, b"site.example", 7, Path("a"), object()])
async def test_what_is_no_pattern_is_refused_as_such(gate: RobotGate, value: str) -> None:
    """Patterns are no URLs; their error is that of an option."""
    for call in (gate.block, gate.unblock, lambda each: gate.override(each, None)):
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
