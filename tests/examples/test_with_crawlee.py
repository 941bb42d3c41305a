"""examples/with_crawlee.py, run as a user runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.examples.conftest import usage

if TYPE_CHECKING:
    from tests.examples.conftest import Program
    from tests.gate.servers import Web


@pytest.mark.slow
async def test_crawlee_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Pages are told of, a refused one too; each robots.txt is requested once."""
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /page")
    ran = await run(usage("with_crawlee.py"))
    assert ran.status == 0, ran.err
    assert ran.line("org/: ") == "https://example.org/: 200"
    assert ran.line("com/page: ") == "https://example.com/page: robots_txt"
    sites = ("https://example.org", "https://example.com")
    assert internet.counts() == {f"{site}/robots.txt": 1 for site in sites} | {f"{sites[0]}/": 1}
