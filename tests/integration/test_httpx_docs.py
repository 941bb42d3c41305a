"""The programs of docs/httpx.md run, and what the page says of httpx and of httpx2 is true."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pytest
from tests.documents import defined_by
from tests.gate.network import Proxy
from tests.test_readme import ROOT, blocks

from robotgate import DisallowedError, RobotGate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import httpx
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    Crawl: TypeAlias = Callable[..., Coroutine[object, object, None]]
    Status: TypeAlias = Callable[[RobotGate, str], Coroutine[object, object, tuple[int, object]]]
    Through: TypeAlias = Callable[..., Coroutine[object, object, httpx.Response]]

PROGRAM: Final = "\n".join(blocks((ROOT / "docs" / "httpx.md").read_text(encoding="utf-8"), "python"))
ALIASED: Final = """\
import sys
import httpx2
httpx2.alias_httpx()
import httpx
assert httpx is httpx2
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.fixture
def site(web: Web) -> str:
    """A site with a rule, a redirect and a page."""
    site = f"http://127.0.0.1:{web.port}"
    web.serve(f"{site}/robots.txt", "User-agent: *\nDisallow: /private\n")
    web.redirect(f"{site}/moved", "/page", status=301)
    return site


@pytest.fixture
async def gate(open_gate: OpenGate) -> RobotGate:
    """A gate without delay that allows loopback."""
    return await open_gate(allow_private_addresses=True)


async def test_crawler_crawls(site: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first program visits what it may, follows a redirect, and prints each failure with its kind."""
    crawl = cast("Crawl", defined_by(PROGRAM, "docs/httpx.md")["crawl"])
    urls = [f"{site}/page", f"{site}/moved", f"{site}/private/1", "nonsense"]
    await crawl(urls, delay=0.01, allow_private_addresses=True)
    printed = capsys.readouterr().out.splitlines()
    assert printed.count(f"200 {site}/page 6") == 2
    assert any(line.startswith("no: ") and "Disallow: /private" in line for line in printed)
    assert any(line.startswith("failed: nonsense ") for line in printed)
    assert len(printed) == 4


async def test_refusals_are_responses_on_request(site: str, gate: RobotGate) -> None:
    """The second program of the page gets refusals as responses."""
    status = cast("Status", defined_by(PROGRAM, "docs/httpx.md")["status"])
    assert await status(gate, f"{site}/page") == (200, None)
    code, refusal = await status(gate, f"{site}/private")
    assert code == 403
    assert isinstance(refusal, DisallowedError)


async def test_proxy_serves_robots_txt_too(web: Web, site: str) -> None:
    """The third program of the page sends robots.txt and the page through its proxy, and nothing else."""
    through = cast("Through", defined_by(PROGRAM, "docs/httpx.md")["through"])
    proxy = Proxy(web)
    await proxy.open()
    response = await through(proxy.url, f"{site}/page", delay=0.01, allow_private_addresses=True)
    await proxy.close()
    assert response.text == "a page"
    assert proxy.asked == web.urls == [f"{site}/robots.txt", f"{site}/page"]


@pytest.mark.slow
def test_successor_of_httpx_takes_its_place() -> None:
    """Tests of the transport and the client pass with httpx2 in place of httpx, by `httpx2.alias_httpx()`."""
    chosen = "identity or large_stream or refused_connection or cannot_be_reached or disallowed or bounded or proxied"
    command = [sys.executable, "-c", ALIASED, "-q", "-n0", "-p", "no:cacheprovider", "-k", chosen]
    ignoring = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    paths = [
        f"tests/integration/{name}.py" for name in ("test_httpx", "test_httpx_client", "test_httpx_robots")
    ]
    done = subprocess.run(
        [*command, *ignoring, *paths], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
