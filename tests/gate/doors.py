"""Everything of a gate that takes a URL, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from robotgate import RobotGate

    Door = Callable[[RobotGate, str], object]


async def _to_the_end(items: AsyncIterator[object]) -> None:
    async for _ in items:
        pass


PROMPT_DOORS: Final[dict[str, Door]] = {
    "allowed_nowait": lambda gate, url: gate.allowed_nowait(url),
    "wait_time": lambda gate, url: gate.wait_time(url),
    "learn": lambda gate, url: gate.learn(url, b""),
    "host": lambda gate, url: gate.host(url),
}
"""Those that do not wait."""

WAITING_DOORS: Final[dict[str, Door]] = {
    "allowed": lambda gate, url: gate.allowed(url),
    "check": lambda gate, url: gate.check(url),
    "robots": lambda gate, url: gate.robots(url),
    "refresh": lambda gate, url: gate.refresh(url),
    "sitemaps": lambda gate, url: gate.sitemaps(url),
    "sitemap_urls": lambda gate, url: _to_the_end(gate.sitemap_urls(url)),
    "fetch": lambda gate, url: gate.fetch(url),
    "fetch with options": lambda gate, url: gate.fetch(url, params={"a": "b"}, retries=1),
    "stream": lambda gate, url: gate.fetch(url).__aenter__(),
    "turn": lambda gate, url: gate.turn(url).__aenter__(),
    "try_turn": lambda gate, url: gate.try_turn(url).__aenter__(),
}

DOORS: Final = PROMPT_DOORS | WAITING_DOORS


async def outcome(door: Door, gate: RobotGate, url: object) -> object:
    """What a door makes of a value, which may be none that type checkers let pass."""
    answer = door(gate, url)  # type: ignore[arg-type]
    return await answer if hasattr(answer, "__await__") else answer
