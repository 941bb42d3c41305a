"""The settings that docs/moving-from-scrapy.md names exist, and become what the page says."""

from __future__ import annotations

import re
from typing import Final

import pytest
from scrapy.settings import Settings, default_settings
from tests.integration.test_scrapy_settings import WHO, configured
from tests.test_readme import ROOT

from robotgate import HostOverride, OptionError

PAGE: Final = (ROOT / "docs" / "moving-from-scrapy.md").read_text(encoding="utf-8")
ROW: Final = re.compile(r"^\| `(?P<setting>[A-Z_]+)` \| (?P<becomes>.*) \|$", re.MULTILINE)
ROWS: Final = {found["setting"]: found["becomes"] for found in ROW.finditer(PAGE)}
OPTION: Final = re.compile(r'"(?P<name>[a-z_]+)"(?=[:`])')
VALUES: Final[dict[str, object]] = {
    "delay": 5,
    "max_delay": 60,
    "concurrency_per_host": 2,
    "latency_factor": 5,
    "overrides": {"example.org": HostOverride(delay=10)},
    "store": "cache.db",
}


def test_settings_are_scrapys() -> None:
    """Each setting of the table is one of Scrapy, which in 2.14 has no default of DOWNLOAD_SLOTS."""
    assert len(ROWS) == 20
    assert {name for name in ROWS if not hasattr(default_settings, name)} <= {"DOWNLOAD_SLOTS"}


def test_options_are_the_gates() -> None:
    """The options that the table names can be given."""
    named = {name for becomes in ROWS.values() for name in OPTION.findall(becomes)}
    assert named == set(VALUES)
    configured(**WHO, ROBOTGATE_OPTIONS=VALUES)


def test_settings_that_stay_stay() -> None:
    """The add-on changes no setting whose row says so."""
    before, (_, after) = Settings(), configured(**WHO)
    same = [name for name, becomes in ROWS.items() if becomes.startswith(("unchanged", "leave it out"))]
    assert len(same) == 11
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


def test_settings_that_change() -> None:
    """The add-on changes settings to what their rows say."""
    _, settings = configured(**WHO)
    assert settings["CONCURRENT_REQUESTS"] == 256
    assert settings["CONCURRENT_REQUESTS_PER_DOMAIN"] == 1
    assert settings["USER_AGENT"] == WHO["ROBOTGATE_AGENT"]
    with pytest.raises(OptionError, match="robotgate obeys; for hosts of your own give"):
        configured(**WHO, ROBOTSTXT_OBEY=False)
