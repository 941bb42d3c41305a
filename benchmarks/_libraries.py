"""The libraries that read robots.txt, each by its public interface, as its documentation says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final
from urllib.robotparser import RobotFileParser

from protego import Protego

from robotgate import RobotsTxt
from robotgate.rules.parser import compile_rules

SITE: Final = "https://site.example"
AGENT: Final = "examplebot"

Ask = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One way to use one library."""

    name: str
    parse: Callable[[bytes], Ask]
    """Of a file, what is asked about URLs; or, where `takes_path`, about paths."""
    is_ours: bool = False
    takes_path: bool = False
    is_traced: bool = True
    """Whether `tracemalloc` sees its memory."""

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


OURS: Final = Library(name="robotgate", parse=_ours, is_ours=True)
PATH_ONLY: Final = Library(name="robotgate, path only", parse=_path_only, is_ours=True, takes_path=True)
EXPLAINED: Final = Library(name="robotgate, explained", parse=_explained, is_ours=True)
PROTEGO: Final = Library(name="Protego", parse=_protego)
URLLIB: Final = Library(name="urllib.robotparser", parse=_urllib)


def libraries() -> list[Library]:
    """All of them; of the peers, those that are installed."""
    always = [
        OURS,
        PATH_ONLY,
        EXPLAINED,
        PROTEGO,
        URLLIB,
    ]
    return always + [library() for module, (_, library) in WHERE_INSTALLED.items() if find_spec(module)]


def missing() -> list[str]:
    """The peers that are not installed, by the names under which they would be."""
    return [project for module, (project, _) in WHERE_INSTALLED.items() if not find_spec(module)]


def _robotspy() -> Library:
    from robots import RobotFileParser as RobotsParser  # noqa: PLC0415  # Left out where it is not installed.

    def parse(body: bytes) -> Ask:
        robots = RobotsParser()
        robots.parse(body.decode("utf-8", "replace").splitlines())
        return lambda url: robots.can_fetch(AGENT, url)

    return Library(name="robotspy", parse=parse)


def _reppy() -> Library:
    from reppy.robots import Robots  # noqa: PLC0415  # It builds on few machines any more.

    def parse(body: bytes) -> Ask:
        robots = Robots.parse(f"{SITE}/robots.txt", body)
        return lambda url: bool(robots.allowed(url, AGENT))

    return Library(name="reppy", parse=parse, is_traced=False)


WHERE_INSTALLED: Final = {"robots": ("robotspy", _robotspy), "reppy": ("reppy", _reppy)}
"""By module, what is installed for it, and how it is used."""
