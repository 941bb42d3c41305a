"""The programs of docs/httpx.md run, and what the page says of httpx and of httpx2 is true."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import httpx
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from tests.test_readme import ROOT, blocks

from robotgate import DisallowedError, RobotGate
from robotgate.integrations.httpx import GateTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    Crawl: TypeAlias = Callable[..., Coroutine[object, object, None]]
    Status: TypeAlias = Callable[[RobotGate, str], Coroutine[object, object, tuple[int, object]]]
    Through: TypeAlias = Callable[..., Coroutine[object, object, httpx.Response]]

PROGRAM, *CONTINUED = blocks((ROOT / "docs" / "httpx.md").read_text(encoding="utf-8"), "python")
ALIASED: Final = """\
import sys
import httpx2
httpx2.alias_httpx()
import httpx
assert httpx is httpx2
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def names() -> dict[str, object]:
    """The names that the programs of the page define."""
    defined: dict[str, object] = {"__name__": "httpx_page"}
    for program in (PROGRAM, *CONTINUED):
        exec(compile(program, "<docs/httpx.md>", "exec"), defined)
    return defined


async def answer(request: web.Request) -> web.Response:
    """A site with a rule, a redirect and a page."""
    if request.path == "/robots.txt":
        return web.Response(text="User-agent: *\nDisallow: /private\n")
    if request.path == "/moved":
        raise web.HTTPMovedPermanently("/page")
    return web.Response(text="hello")


async def forward(request: web.BaseRequest) -> web.Response:
    """Answer as a proxy, which gets a whole URL as the target."""
    async with ClientSession() as session, session.get(request.raw_path, allow_redirects=False) as answered:
        return web.Response(status=answered.status, body=await answered.read(), headers={"Via": "1.1 test"})


@pytest.fixture
async def site() -> AsyncIterator[TestServer]:
    """The site."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    site = TestServer(app)
    async with site:
        yield site


@pytest.fixture
async def gate() -> AsyncIterator[RobotGate]:
    """A gate without delay that allows loopback."""
    async with RobotGate(
        "ExampleBot/1.0", contact="bot@example.org", delay=0, allow_private_addresses=True
    ) as gate:
        yield gate


async def test_crawler_crawls(site: TestServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The first program visits what it may, follows a redirect, and prints each failure with its kind."""
    crawl = cast("Crawl", names()["crawl"])
    page, moved, private = (str(site.make_url(path)) for path in ("/page", "/moved", "/private/1"))
    await crawl([page, moved, private, "nonsense"], delay=0.01, allow_private_addresses=True)
    printed = capsys.readouterr().out.splitlines()
    assert printed.count(f"200 {page} 5") == 2
    assert any(line.startswith("no: ") and "Disallow: /private" in line for line in printed)
    assert any(line.startswith("failed: nonsense ") for line in printed)
    assert len(printed) == 4


async def test_refusals_are_responses_on_request(site: TestServer, gate: RobotGate) -> None:
    """The second program of the page gets refusals as responses."""
    status = cast("Status", names()["status"])
    assert await status(gate, str(site.make_url("/page"))) == (200, None)
    code, refusal = await status(gate, str(site.make_url("/private")))
    assert code == 403
    assert isinstance(refusal, DisallowedError)


async def test_proxy_serves_robots_txt_too(site: TestServer) -> None:
    """The third program of the page sends robots.txt and the page through its proxy, and nothing else."""
    through = cast("Through", names()["through"])
    asked: list[str] = []

    async def note(request: web.BaseRequest) -> web.Response:
        asked.append(request.raw_path)
        return await forward(request)

    page = str(site.make_url("/page"))
    server = web.ServerRunner(web.Server(note))
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0).start()
    try:
        proxy = f"http://127.0.0.1:{server.addresses[0][1]}"
        response = await through(proxy, page, delay=0.01, allow_private_addresses=True)
    finally:
        await server.cleanup()
    assert (response.text, response.headers["Via"]) == ("hello", "1.1 test")
    assert asked == [str(site.make_url("/robots.txt")), page]


@pytest.mark.parametrize("way", ["proxy", "mounts"])
async def test_what_the_page_warns_of_goes_past_the_gate(site: TestServer, gate: RobotGate, way: str) -> None:
    """An httpx client sends past the gate by `proxy=` and `mounts=`, as the page warns."""
    private = str(site.make_url("/private"))
    transport = GateTransport(gate)
    proxy = httpx.Proxy(f"http://{site.host}:{site.port}")
    client = (
        httpx.AsyncClient(transport=transport, proxy=proxy)
        if way == "proxy"
        else httpx.AsyncClient(transport=transport, mounts={"http://": httpx.AsyncHTTPTransport()})
    )
    async with client:
        assert (await client.get(private)).status_code in {200, 404}
    assert gate.host(private).visits == 0


@pytest.mark.slow
def test_successor_of_httpx_takes_its_place() -> None:
    """Tests of the transport and the client pass with httpx2 in place of httpx, by `httpx2.alias_httpx()`."""
    chosen = "identity or large_stream or refused_connection or disallowed or bounded or proxied"
    command = [sys.executable, "-c", ALIASED, "-q", "-n0", "-p", "no:cacheprovider", "-k", chosen]
    ignoring = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    paths = [
        f"tests/integration/{name}.py" for name in ("test_httpx", "test_httpx_client", "test_httpx_robots")
    ]
    done = subprocess.run(
        [*command, *ignoring, *paths], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
