"""The programs of docs/browsers.md run, and do what the page says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pytest
from tests.dashboard.browser import PROGRAM, led_to
from tests.documents import defined_by
from tests.gate.servers import RULES, SITE
from tests.test_readme import ROOT, blocks

from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    import aiohttp
    from tests.gate.servers import Web

    Main: TypeAlias = Callable[..., Coroutine[object, object, None]]

pytest.importorskip("playwright", reason="no playwright: pip install playwright")
pytestmark = [pytest.mark.slow, pytest.mark.real("chromium")]
PROGRAMS: Final = blocks((ROOT / "docs" / "browsers.md").read_text(encoding="utf-8"), "python")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Crawlee writes its queue to where it is."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("program", PROGRAMS, ids=["playwright", "crawlee"])
async def test_crawler_crawls(
    web: Web,
    session: aiohttp.ClientSession,
    program: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What robots.txt refuses is not requested, by a redirect neither; each refusal is told."""
    web.serve(f"{SITE}/robots.txt", RULES)
    web.serve(f"{SITE}/page", "<title>A page</title>", headers={"Content-Type": "text/html"})
    web.redirect(f"{SITE}/moved", f"{SITE}/private/moved")
    names = defined_by(program, "docs/browsers.md")
    names["RobotGate"] = partial(RobotGate, session=session, delay=0.1)
    urls = [f"{SITE}/{path}" for path in ("page", "private/page", "moved")]
    await cast("Main", names["main"])(urls, executable_path=PROGRAM, args=["--no-sandbox", led_to(web)])
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(f"200 {SITE}/page") for line in printed) == 1
    for path in ("page", "moved"):
        assert any(line.startswith(f"no: {SITE}/private/{path} is disallowed by line 2") for line in printed)
    assert set(web.urls) - {f"{SITE}/favicon.ico"} == {
        f"{SITE}/{path}" for path in ("robots.txt", "page", "moved")
    }
