"""The libraries that read robots.txt, each by its public interface, as its documentation says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.robotparser import RobotFileParser

from protego import Protego

from benchmarks._bench import found
from robotgate import RobotsTxt
from robotgate.rules.parser import compile_rules

SITE: Final = "https://site.example"
AGENT: Final = "examplebot"

Ask = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Library:
    """One way to use one library."""

    name: str
    parse: Callable[[bytes], Ask]
    """Of a file, what is asked about URLs; or, where `takes_path`, about paths."""
    is_ours: bool = False
    takes_path: bool = False

    def asked(self, path: str) -> str:
        """What it is given for a path of the site."""
        return path if self.takes_path else SITE + path


def _ours(body: bytes) -> Ask:
    robots = RobotsTxt.parse(body, f"{SITE}/robots.txt")
    robots.rules(AGENT)
    return lambda url: robots.allowed(url, AGENT)


def _explained(body: bytes) -> Ask:
    robots = RobotsTxt.parse(body, f"{SITE}/robots.txt")
    robots.rules(AGENT)
    return lambda url: robots.verdict(url, AGENT)


def _path_only(body: bytes) -> Ask:
    return compile_rules(body, AGENT).allows


def _protego(body: bytes) -> Ask:
    robots = Protego.parse(body.decode("utf-8", "replace"))
    return lambda url: robots.can_fetch(url, AGENT)


def _urllib(body: bytes) -> Ask:
    robots = RobotFileParser()
    robots.parse(body.decode("utf-8", "replace").splitlines())
    return lambda url: robots.can_fetch(AGENT, url)


def _robotspy(body: bytes) -> Ask:
    from robots import RobotFileParser as RobotsParser  # noqa: PLC0415  # Left out where it is not installed.

    robots = RobotsParser()
    robots.parse(body.decode("utf-8", "replace").splitlines())
    return lambda url: robots.can_fetch(AGENT, url)


OURS: Final = Library("robotgate", _ours, is_ours=True)
PATH_ONLY: Final = Library("robotgate, path only", _path_only, is_ours=True, takes_path=True)
EXPLAINED: Final = Library("robotgate, explained", _explained, is_ours=True)
PROTEGO: Final = Library("Protego", _protego)


def libraries() -> list[Library]:
    """All of them; of the peers, those that are installed."""
    always = [OURS, PATH_ONLY, EXPLAINED, PROTEGO, Library("urllib.robotparser", _urllib)]
    return always + ([Library("robotspy", _robotspy)] if found("robots") else [])
