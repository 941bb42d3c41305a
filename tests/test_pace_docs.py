"""docs/pace.md and docs/blocks.md tell of every option of the pace."""

from __future__ import annotations

import inspect
import re
from typing import Final

from tests.test_readme import ROOT

from robotgate import RobotGate

PAGE: Final = "\n".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("pace.md", "blocks.md")
)
NOT_PACE: Final = """
    agent contact token session store signer purposes tdmrep allow_private_addresses status_policy dialect max_hosts
    recheck max_bytes clock fetcher
"""
"""Options of the gate that the pages have no need to list."""


def test_every_option_of_the_pace_is_told_of() -> None:
    """None is left out, and a new one of the gate is either told of here or no option of the pace."""
    options = inspect.signature(RobotGate).parameters.keys()
    told = set(re.findall(r"`(\w+)", PAGE)) & options
    assert told >= options - set(NOT_PACE.split())
