"""The crawling programs of docs go on when a site fails: each bad site costs a line, and no other page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.examples.conftest import ROOT
from tests.examples.test_bad_sites import BAD, GOOD, HANGS_UP, HTML, NO_NAME, sites
from tests.gate.servers import endless, hang_up
from tests.test_readme import blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.examples.conftest import Program
    from tests.gate.servers import Web

__all__ = ["sites"]

pytestmark = pytest.mark.slow

URLS: Final = (*BAD, GOOD)
QUOTED: Final = ", ".join(f'"{url}"' for url in URLS)
PROXY: Final = 'proxy="http://127.0.0.1:8009"'


def program_of(page: str, part: str) -> str:
    """The program of a page that has this in it."""
    found = blocks((ROOT / "docs" / page).read_text(encoding="utf-8"), "python")
    (code,) = (code for code in found if '__name__ == "__main__"' in code and part in code)
    return code.replace(PROXY, "")


@pytest.mark.parametrize(
    ("page", "part", "replaced"),
    [
        ("sending.md", "ClientTimeout(total=30)", None),
        ("sending.md", "gate.middleware", None),
        ("spider.md", "gate.ready", None),
        ("private-addresses.md", "PublicConnector", '"https://example.org/"'),
        ("tutorial.md", "URLS =", '"http://example.com/"'),
    ],
)
async def test_bad_sites_among_the_urls(
    page: str, part: str, replaced: str | None, *, run: Program, sites: Web, tmp_path: Path
) -> None:
    """A server that hangs up, a name that does not resolve and a page without an end come before the good page."""
    code = program_of(page, part)
    program = tmp_path / "program.py"
    program.write_text(code if replaced is None else code.replace(replaced, QUOTED))
    ran = await run(f"python {program} {'' if replaced else ' '.join(URLS)}")
    assert ran.status == 0, ran.err
    assert "Traceback" not in ran.err
    assert sites.count(GOOD) == 1


@pytest.mark.usefixtures("sites")
async def test_httpx(run: Program, internet: Web, tmp_path: Path) -> None:
    """The program of docs/httpx.md. The page says that `client.get` of httpx reads a body of any length."""
    program = tmp_path / "program.py"
    program.write_text(program_of("httpx.md", "gated_client"))
    ran = await run(f"python {program} {HANGS_UP} {NO_NAME} {GOOD}")
    assert ran.status == 0, ran.err
    assert "Traceback" not in ran.err
    assert internet.count(GOOD) == 1


async def test_bad_pages_behind_links(run: Program, internet: Web, tmp_path: Path) -> None:
    """The spider of docs/moving-from-scrapy.md."""
    pages = [f"https://example.org/{name}" for name in ("hangs-up", "too-long", "next")]
    internet.serve("https://example.org/", "".join(f"<a href='{url}'>" for url in pages), headers=HTML)
    internet.handle(pages[0], hang_up())
    internet.handle(pages[1], endless(b"#" * 65536, headers=HTML))
    program = tmp_path / "program.py"
    program.write_text(program_of("moving-from-scrapy.md", "Selector"))
    ran = await run(f"python {program}")
    assert ran.status == 0, ran.err
    assert "Traceback" not in ran.err
    assert internet.count(pages[2]) == 1
