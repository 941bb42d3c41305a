"""The public names: a change here is a change of the API, and belongs in the changelog."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import subprocess
import sys
from typing import Final

import pytest

import robotgate
import robotgate.stores
import robotgate.testing

PUBLIC: Final = [
    "NO_RATE",
    "AccessResult",
    "Answer",
    "BlockCause",
    "Catalogue",
    "CleanParam",
    "Clock",
    "Decision",
    "Dialect",
    "DisallowedError",
    "Event",
    "Failure",
    "Fetcher",
    "Finding",
    "FindingCode",
    "GateClosedError",
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
    "Outcome",
    "PaceKey",
    "PaceKeyPolicy",
    "Postponed",
    "Pruned",
    "PublicConnector",
    "ReadyTurns",
    "Reason",
    "Recheck",
    "Record",
    "ReportingStore",
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
    "SharedBlocks",
    "SharedStore",
    "StatusPolicy",
    "Store",
    "StoreError",
    "StoreLost",
    "StoreRecovered",
    "SystemClock",
    "TokenWarning",
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
VALUES: Final = {"__version__", "Event", "NO_RATE", "PaceKeyPolicy"}
"""Neither classes nor functions, which alone know where they were defined."""
DEFINED: Final = [name for name in PUBLIC if name not in VALUES]
TESTING: Final = ["MockedResponse", "ScriptedFetcher", "VirtualClock", "VirtualTimeLoop", "check_store"]


def imports_in(block: list[ast.stmt]) -> dict[str, str]:
    """What is imported there, and the module it is from."""
    froms = [statement for statement in block if isinstance(statement, ast.ImportFrom)]
    return {alias.name: statement.module or "" for statement in froms for alias in statement.names}


def documented(name: str) -> list[str]:
    """The name itself and, for a class, its own public methods and properties."""
    thing = getattr(robotgate, name)
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


@pytest.mark.parametrize("name", DEFINED)
def test_export_is_what_its_home_defines(name: str) -> None:
    """A public class or function is the one its own module holds under the same name."""
    thing = getattr(robotgate, name)
    home = importlib.import_module(thing.__module__)
    assert home.__name__.startswith("robotgate.")
    assert getattr(home, name) is thing


@pytest.mark.parametrize("path", [path for name in DEFINED for path in documented(name)])
def test_public_thing_has_a_docstring(path: str) -> None:
    """Every public class says what it means, and so does every public method and property of it."""
    thing: object = robotgate
    for part in path.split("."):
        thing = inspect.getattr_static(thing, part)
    assert inspect.getdoc(thing)


def test_names_that_come_later_are_those_type_checkers_see() -> None:
    """They are told of imports that nobody makes before they are asked for."""
    for package in (robotgate, robotgate.stores):
        (choice,) = [
            block for block in ast.parse(inspect.getsource(package)).body if isinstance(block, ast.If)
        ]
        seen = imports_in(choice.body)
        assert "SQLiteStore" in seen
        for name, home in seen.items():
            assert getattr(package, name) is getattr(importlib.import_module(home), name)
        assert seen.keys() <= set(dir(package))
        assert seen.keys() <= set(package.__all__)
        with pytest.raises(AttributeError, match="no attribute 'sqlite_store'"):
            package.sqlite_store  # noqa: B018


def test_a_gate_in_memory_needs_no_database() -> None:
    """What few use takes no memory of the others."""
    program = "import robotgate, sys; robotgate.RobotGate('A/1', contact='a@b.example'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "robotgate.stores.memory" in loaded
    assert {
        "sqlite3",
        "robotgate.stores.sqlite",
        "robotgate._lint",
        "redis",
        "scrapy",
        "click",
    } & loaded == set()


def test_testing_exports_are_these() -> None:
    """What test-suites may rely on is public too."""
    assert robotgate.testing.__all__ == TESTING


def test_version_is_that_of_the_installed_package() -> None:
    """The version is written down once, in the package's metadata."""
    assert robotgate.__version__ == importlib.metadata.version("robotgate")


def test_turn_shows_its_user_what_is_his() -> None:
    """What the gate's own doors ask of a turn besides is no promise to anybody."""
    assert [name for name in dir(robotgate.Turn) if not name.startswith("_")] == [
        "again",
        "end",
        "report",
        "report_unreachable",
        "url",
        "verdict",
        "waited",
    ]
