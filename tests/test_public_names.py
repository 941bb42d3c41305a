"""The public names: a change here is a change of the API, and belongs in the changelog."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from tests.test_readme import ROOT

import robotgate

if TYPE_CHECKING:
    from types import ModuleType

PUBLIC: Final = {
    "robotgate": """
        AccessResult Clock Dialect DisallowedError EventLoopError Fetcher GateClosedError GateOptions
        GateStats Hop HostOverride HostUnavailableError HostView InvalidURLError MemoryStore NestedTurnError
        NonPublicAddressError OptionError Origin OriginView PaceKey PaceKeyPolicy PreferenceError
        ProxyUnavailableError PublicConnector Rate ReadyTurns Reason Recheck Response ResponseTooLargeError
        RobotGate RobotGateError RobotsTxt Rule SQLiteStore Signer StatusPolicy StoreError SystemClock
        TooSoonError Turn Verdict WhenLost __version__ owner
    """,
    "robotgate.events": """
        BlockCause Event HostBlocked HostRecovered RobotsFetched StoreLost StoreRecovered TurnBegan
        TurnEnded TurnRefused VerdictRefused
    """,
    "robotgate.rules": "CleanParam Decision Group Record RequestRate RuleKind Rules VisitTime",
    "robotgate.lint": "Finding FindingCode Severity lint",
    "robotgate.sites": "Answer Failure HostAccess Outcome RobotsRecord",
    "robotgate.stores": """
        Catalogue Grant HostState Lease Lost News OperatorBlock Pruned Recovered Session SharedStore Store
        Wanted
    """,
    "robotgate.sitemaps": "SitemapEntry SitemapFault",
    "robotgate.testing": "MockedResponse ScriptedFetcher VirtualClock VirtualTimeLoop check_store",
}
"""Modules, and the names that each gives out."""
VALUES: Final = {"__version__", "News", "PaceKeyPolicy"}
"""Neither classes nor functions, which alone know where they were defined."""
DEFINED: Final = [
    (importlib.import_module(module), name)
    for module, names in PUBLIC.items()
    for name in names.split()
    if name not in VALUES
]


def documented(module: ModuleType, name: str) -> list[str]:
    """The name itself and, for a class, its own public methods and properties."""
    thing = getattr(module, name)
    if not inspect.isclass(thing):
        return [name]
    members = [
        f"{name}.{member}"
        for member, value in vars(thing).items()
        if not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
    ]
    return [name, *members]


@pytest.mark.parametrize("module", PUBLIC)
def test_exports_are_these(module: str) -> None:
    """Nothing becomes public, or stops being so, by accident."""
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module].split())


def test_the_api_page_lists_the_names_of_the_root() -> None:
    """Its table has each of them once: the ten that a crawler needs, and the rest."""
    page = (ROOT / "docs/api/index.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert sorted(re.findall(r"`(\w+)`", "".join(rows))) == sorted(PUBLIC["robotgate"].split())


def test_exports_are_what_their_homes_define() -> None:
    """A public class or function is the one that its own module holds under the same name."""
    elsewhere = []
    for module, name in DEFINED:
        thing = getattr(module, name)
        home = importlib.import_module(thing.__module__)
        if not home.__name__.startswith("robotgate.") or getattr(home, name) is not thing:
            elsewhere.append(name)
    assert elsewhere == []


def test_public_things_have_docstrings() -> None:
    """Every public class and function, and every public method and property of a class."""
    bare = []
    for module, name in DEFINED:
        for path in documented(module, name):
            thing: object = module
            for part in path.split("."):
                thing = inspect.getattr_static(thing, part)
            if not inspect.getdoc(thing):
                bare.append(path)
    assert bare == []


def test_version_is_that_of_the_installed_package() -> None:
    """The version is written down once, in the package's metadata."""
    assert robotgate.__version__ == importlib.metadata.version("robotgate")


def test_a_gate_loads_no_extra() -> None:
    """Packages that only extras need are not imported by a plain gate, though they are installed."""
    program = "import robotgate, sys; robotgate.RobotGate('A/1', contact='a@b.example'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    extras = {
        "click",
        "crawlee",
        "cryptography",
        "http_sf",
        "httpx",
        "opentelemetry",
        "platformdirs",
        "redis",
        "rich",
    }
    assert (extras | {"prometheus_client", "robotgate.preferences", "scrapy"}) & set(
        done.stdout.split()
    ) == set()


def test_turn_has_what_its_user_needs() -> None:
    """These stay; other attributes are the gate's own, and may change."""
    names = {"again", "end", "headers", "report", "report_unreachable", "url", "verdict", "waited"}
    assert names <= set(dir(robotgate.Turn))
