"""The public names: a change here is a change of the API, and belongs in the changelog."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import robotgate
import robotgate.lint as lint_package
import robotgate.sitemaps
import robotgate.stores
import robotgate.testing

if TYPE_CHECKING:
    from types import ModuleType

PUBLIC: Final = [
    "AccessResult",
    "Answer",
    "BlockCause",
    "CleanParam",
    "Clock",
    "Decision",
    "Dialect",
    "DisallowedError",
    "Event",
    "EventLoopError",
    "Failure",
    "Fetcher",
    "Finding",
    "FindingCode",
    "GateClosedError",
    "GateOptions",
    "GateStats",
    "Group",
    "Hop",
    "HostAccess",
    "HostBlocked",
    "HostOverride",
    "HostRecovered",
    "HostState",
    "HostUnavailableError",
    "HostView",
    "InvalidURLError",
    "MemoryStore",
    "NestedTurnError",
    "NonPublicAddressError",
    "OptionError",
    "Origin",
    "OriginView",
    "Outcome",
    "PaceKey",
    "PaceKeyPolicy",
    "PreferenceError",
    "ProxyUnavailableError",
    "PublicConnector",
    "Rate",
    "ReadyTurns",
    "Reason",
    "Recheck",
    "Record",
    "RequestRate",
    "Response",
    "ResponseTooLargeError",
    "RobotGate",
    "RobotGateError",
    "RobotsFetched",
    "RobotsRecord",
    "RobotsTxt",
    "Rule",
    "RuleKind",
    "Rules",
    "SQLiteStore",
    "Severity",
    "Signer",
    "StatusPolicy",
    "Store",
    "StoreError",
    "StoreLost",
    "StoreRecovered",
    "SystemClock",
    "TooSoonError",
    "Turn",
    "TurnBegan",
    "TurnEnded",
    "TurnRefused",
    "Verdict",
    "VerdictRefused",
    "VisitTime",
    "WhenLost",
    "__version__",
    "lint",
    "owner",
]
VALUES: Final = {"__version__", "News", "PaceKeyPolicy"}
"""Neither classes nor functions, which alone know where they were defined."""
STORES: Final = [
    "Catalogue",
    "Grant",
    "Lease",
    "Lost",
    "News",
    "OperatorBlock",
    "Pruned",
    "Recovered",
    "Session",
    "SharedStore",
    "Wanted",
]
DEFINED: Final = [
    (home, name)
    for home, names in ((robotgate, PUBLIC), (robotgate.stores, STORES))
    for name in names
    if name not in VALUES
]
SITEMAPS: Final = ["SitemapEntry", "SitemapFault"]
TESTING: Final = ["MockedResponse", "ScriptedFetcher", "VirtualClock", "VirtualTimeLoop", "check_store"]


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


def test_exports_are_these() -> None:
    """Nothing becomes public, or stops being so, by accident."""
    assert robotgate.__all__ == PUBLIC


def test_exports_are_what_their_homes_define() -> None:
    """A public class or function is the one that its own module holds under the same name."""
    elsewhere = []
    for module, name in DEFINED:
        thing = getattr(module, name)
        home = importlib.import_module(thing.__module__)
        if not home.__name__.startswith("robotgate.") or getattr(home, name) is not thing:
            elsewhere.append(name)
    assert elsewhere == []


def test_lint_is_a_function_and_a_package() -> None:
    """`robotgate.lint` is called, and ``import robotgate.lint as lint`` has the names of the package."""
    package = importlib.import_module("robotgate.lint")
    assert lint_package.lint(b"") == robotgate.lint(b"") == ()
    for name in package.__all__:
        assert getattr(lint_package, name) is getattr(package, name)


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


def test_stores_exports_are_these() -> None:
    """What a store of one's own is made of."""
    assert robotgate.stores.__all__ == STORES


def test_testing_exports_are_these() -> None:
    """What test-suites may rely on is public too."""
    assert robotgate.testing.__all__ == TESTING


def test_sitemaps_exports_are_these() -> None:
    """What a walk over sitemaps gives out can be named."""
    assert robotgate.sitemaps.__all__ == SITEMAPS


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
