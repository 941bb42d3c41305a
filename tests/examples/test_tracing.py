"""examples/tracing.py, run as a user runs it."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from tests.examples.conftest import usage

if TYPE_CHECKING:
    from tests.examples.conftest import Program
    from tests.gate.servers import Web


@pytest.mark.slow
async def test_tracing_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Each page is one trace, with what happened on its behalf."""
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /page")
    ran = await run(usage("tracing.py"))
    assert (ran.status, ran.err) == (0, "")
    traces: dict[str, set[tuple[str, str]]] = defaultdict(set)
    *spans, rest = "\n".join([*ran.lines, ""]).split("\n}\n")
    assert rest == ""
    for text in spans:
        span = json.loads(f"{text}}}")
        traces[span["context"]["trace_id"]].add((span["name"], span["attributes"].get("url.full", "")))
    assert sorted(traces.values(), key=len) == [
        {
            ("page", ""),
            ("robotgate.robots", "https://example.com/robots.txt"),
            ("robotgate.refusal", "https://example.com/page"),
        },
        {
            ("page", ""),
            ("robotgate.robots", "https://example.org/robots.txt"),
            ("robotgate.wait", "https://example.org/"),
            ("robotgate.request", "https://example.org/"),
        },
    ]
