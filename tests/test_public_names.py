"""The public names: a change here is a change of the API, and belongs in the changelog."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from typing import Final

import pytest
from tests.test_readme import ROOT

import robotgate

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
    "robotgate.prices": "Price parse_price",
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


@pytest.mark.parametrize("module", PUBLIC)
def test_exports_are_these(module: str) -> None:
    """Nothing becomes public, or stops being so, by accident."""
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module].split())


def test_the_api_page_lists_the_names_of_the_root() -> None:
    """Its table has each of them once: the ten that a crawler needs, and the rest."""
    page = (ROOT / "docs/api/index.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert sorted(re.findall(r"`(\w+)`", "".join(rows))) == sorted(PUBLIC["robotgate"].split())


def test_version_is_that_of_the_installed_package() -> None:
    """The version is written down once, in the package's metadata."""
    assert robotgate.__version__ == importlib.metadata.version("robotgate")
