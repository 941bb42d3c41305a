"""examples/json_log.py, run as a user runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.examples.conftest import usage

if TYPE_CHECKING:
    from tests.examples.conftest import Program
    from tests.gate.servers import Web


@pytest.mark.slow
async def test_log_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Each line is an object; a refusal has the line of its rule, a turn its status and its wait."""
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /page")
    ran = await run(usage("json_log.py"))
    assert (ran.status, ran.err) == (0, "")
    records = [json.loads(line) for line in ran.lines]
    found = {(each.get("robotgate_event"), each.get("robotgate_url")): each for each in records}
    refused = found["VerdictRefused", "https://example.com/page"]
    assert (refused["level"], refused["robotgate_rule_line"]) == ("INFO", 2)
    assert found["TurnBegan", "https://example.org/"]["robotgate_waited"] > 0
    assert found["TurnEnded", "https://example.org/"]["robotgate_status"] == 200
