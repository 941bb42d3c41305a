"""The program of docs/scrapy.md runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.integration.test_scrapy import run
from tests.test_readme import ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gate.servers import Web

PAGE: Final = (ROOT / "docs" / "scrapy.md").read_text(encoding="utf-8")
(PROGRAM,) = (program for program in blocks(PAGE, "python") if "__main__" in program)
OPTIONS: Final = '"ROBOTGATE_OPTIONS": {"delay": 1, '
TO_LOOPBACK: Final = '"ROBOTGATE_OPTIONS": {"delay": 0.1, "allow_private_addresses": True, '


@pytest.mark.slow
async def test_program_crawls(web: Web, tmp_path: Path) -> None:
    """The program visits what it may of a site, and prints which line forbids the rest. Only options differ."""
    assert PROGRAM.count(OPTIONS) == 1
    program = tmp_path / "links.py"
    program.write_text(PROGRAM.replace(OPTIONS, TO_LOOPBACK), encoding="utf-8")
    site = f"http://127.0.0.1:{web.port}"
    elsewhere = f"http://localhost:{web.port}/elsewhere"
    hrefs = ("/private/1", "/page", elsewhere, "mailto:bot@example.org", "http://[", "javascript:void(0)")
    links = " ".join(f'<a href="{href}">x</a>' for href in hrefs)
    web.serve(f"{site}/robots.txt", "User-agent: *\nDisallow: /private\n")
    web.serve(f"{site}/", links, headers={"Content-Type": "text/html"})
    web.serve(f"{site}/page", b"\x00\x01", headers={"Content-Type": "application/octet-stream"})
    _, out, log = await run(str(program), f"{site}/")
    assert sorted(out.splitlines()) == [
        f"200 {site}/",
        f"200 {site}/page",
        f"refused: {site}/private/1 is disallowed by line 2 of its robots.txt: Disallow: /private",
    ], log
    assert "'robotgate/disallowed': 1" in log
    assert "Traceback" not in log
