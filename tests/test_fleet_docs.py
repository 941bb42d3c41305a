"""docs/fleet.md keeps its word: its programs run, against a real server, and its tables are the code's."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from redis.asyncio import Redis
from tests.stores.redis_workers import Worker
from tests.test_readme import ROOT, blocks

import robotgate
from robotgate import Origin, PaceKey, owner
from robotgate.stores.redis import RedisStore, _blocks, _settings, _signals
from robotgate.stores.redis._client import COMMANDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from tests.redis_server import RedisServer

    Crawl: TypeAlias = "Callable[..., Coroutine[object, object, None]]"

PAGE: Final = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
BY_OWNER, BY_STORE, BY_SENTINEL = blocks(PAGE, "python")
(ACL,) = (" ".join(block.split()) for block in blocks(PAGE, "text"))
LUA: Final = Path(robotgate.__file__).parent / "stores" / "redis" / "lua"
"""Of what is installed, which need not be what lies beside the tests."""
CALLED: Final = re.compile(r"redis\.p?call\('(?P<command>\w+)'|\bread\('(?P<read>\w+)'")
SENT_BY_CLIENT: Final = {"ping", "scan", "subscribe", "unsubscribe"}
"""What Python sends besides the link: of connections that were idle, of listings, of who waits for a lease."""
OPTION: Final = re.compile(r"^\| `(?P<name>\w+)` \| (?P<default>\S+) \| ", re.MULTILINE)
DELAY: Final = 0.1


def lua(name: str) -> str:
    """A script, as it stands."""
    return (LUA / f"{name}.lua").read_text(encoding="utf-8")


def names_of(program: str) -> dict[str, object]:
    """What a program defines."""
    names: dict[str, object] = {"__name__": "fleet"}
    exec(compile(program, "<docs/fleet.md>", "exec"), names)
    return names


class Site:
    """A site that notes what it is asked, and when."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.spans: list[tuple[float, float]] = []

    async def answer(self, request: web.Request) -> web.Response:
        """A page, or somewhere else."""
        came_at = time.monotonic()
        self.asked.append(request.path)
        response = web.Response(text="" if request.path == "/robots.txt" else "hello")
        if "to" in request.query:
            response = web.Response(status=301, headers={"Location": request.query["to"]})
        await asyncio.sleep(0.01)
        self.spans.append((came_at, time.monotonic()))
        return response


@asynccontextmanager
async def sites(count: int) -> AsyncIterator[dict[str, Site]]:
    """So many sites, by their origins."""
    open_sites = {}
    servers = []
    try:
        for _ in range(count):
            site, app = Site(), web.Application()
            app.router.add_get("/{path:.*}", site.answer)
            servers.append(TestServer(app))
            await servers[-1].start_server()
            open_sites[str(servers[-1].make_url("")).rstrip("/")] = site
        yield open_sites
    finally:
        for server in servers:
            await server.close()


async def test_each_host_is_visited_by_its_owner(capsys: pytest.CaptureFixture[str]) -> None:
    """Both are given all URLs; each page is asked for once, by one of them, and a redirect is handed on."""
    names = names_of(BY_OWNER)
    # The sites of this test are one machine's ports.
    names["PACE_KEY"] = PaceKey.ORIGIN
    crawl = cast("Crawl", names["crawl"])
    members = ["one", "two"]
    async with sites(8) as found:
        urls = [f"{origin}/{page}" for origin in found for page in (1, 2)]
        moved = f"{urls[0]}?to={urls[-1]}"
        options: Mapping[str, object] = {"delay": 0.01, "allow_private_addresses": True}
        await asyncio.gather(*(crawl(me, members, [*urls, moved], **options) for me in members))
        for site in found.values():
            assert site.asked.count("/robots.txt") == 1
            assert site.asked.count("/2") == 1
    lines = set(capsys.readouterr().out.splitlines())
    owners = {url: owner(url, members, pace_key=PaceKey.ORIGIN) for url in [*urls, moved]}
    assert set(owners.values()) == set(members)
    assert lines == {
        *(f"{owners[url]} {url} 200" for url in urls),
        f"{owners[moved]} {moved} 301",
        f"{owners[moved]} {moved} -> {urls[-1]} of {owners[urls[-1]]}",
    }


async def test_a_fleet_is_one_crawler(server: RedisServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Two that know nothing of each other ask one robots.txt, and leave the delay between all their requests."""
    crawl = cast("Crawl", names_of(BY_STORE)["crawl"])
    async with sites(1) as found:
        ((origin, site),) = found.items()
        options: Mapping[str, object] = {"delay": DELAY, "allow_private_addresses": True}
        pages = [f"{origin}/{page}" for page in range(8)]
        await asyncio.gather(
            crawl(server.url, pages[::2], **options), crawl(server.url, pages[1::2], **options)
        )
    assert sorted(site.asked) == [*(f"/{page}" for page in range(8)), "/robots.txt"]
    spans = sorted(site.spans)
    assert all(start - end >= DELAY for (_, end), (start, _) in pairwise(spans))
    assert set(capsys.readouterr().out.splitlines()) == {f"200 {page}" for page in pages}


async def test_the_user_of_the_acl_can_crawl(server: RedisServer) -> None:
    """Two workers, records, leases, listings, blocks: the server refuses nothing, and notes no refusal."""
    crawl = cast("Crawl", names_of(BY_STORE)["crawl"])
    async with Redis(port=server.port) as admin, sites(1) as found:
        await admin.execute_command(*ACL.split())  # type: ignore[no-untyped-call]
        (origin,) = found
        user = f"redis://examplebot:PASSWORD@127.0.0.1:{server.port}/1"
        options: Mapping[str, object] = {"delay": 0.01, "allow_private_addresses": True}
        await asyncio.gather(*(crawl(user, [f"{origin}/{page}"], **options) for page in range(4)))
        store = RedisStore(user, prefix="examplebot:")
        try:
            assert [key async for key, _ in store.hosts()] == ["127.0.0.1"]
            assert [str(record.origin) async for record in store.records()] == [origin]
            store.publish_block("example.org", time.time() + 60)
        finally:
            await store.aclose()
        # redis-py names itself; nobody minds if it may not. Before Redis 7 the log names no subcommands.
        refused = [
            entry for entry in await admin.acl_log() if entry["object"] not in {"client", "client|setinfo"}
        ]
        assert refused == []
        assert await admin.keys("*") == []  # all of it is in database 1


def test_the_acl_allows_what_is_called_and_nothing_else() -> None:
    """What the scripts call, the link sends, and Python asks besides; INFO alone of it may be refused."""
    called = {
        (found["command"] or found["read"]).lower()
        for script in LUA.glob("*.lua")
        for found in CALLED.finditer(lua(script.stem))
    }
    allowed = {word.removeprefix("+") for word in ACL.split() if word.startswith("+")}
    assert allowed == (called | set(COMMANDS) | SENT_BY_CLIENT) - {"client|setinfo"}


def test_options_are_those_of_the_store() -> None:
    """All of them, with their defaults."""
    options = inspect.signature(RedisStore).parameters
    written = {found["name"]: found["default"] for found in OPTION.finditer(PAGE)}
    assert list(written) == [name for name in options if name != "client_or_url"]
    for name, default in written.items():
        value: object = options[name].default
        if isinstance(value, int | float):
            assert float(default.replace(",", "")) == value, name
        else:
            assert default == ("none" if value is None else f"`{str(value)!r}`"), name


async def test_a_client_of_sentinels_is_taken() -> None:
    """Nothing is asked of it yet."""
    make = cast("Callable[[], RedisStore]", names_of(BY_SENTINEL)["store_of_fleet"])
    await make().aclose()


async def test_connections_of_a_worker(server: RedisServer) -> None:
    """One; and one more where it waits for a robots.txt that another asks for."""
    origin = Origin.of("https://shop.example")
    one, two = RedisStore(server.url), RedisStore(server.url)
    async with Redis(port=server.port, client_name="admin") as admin:

        async def connections() -> int:
            return sum(client["name"] != "admin" for client in await admin.client_list())

        await asyncio.gather(one.open(), two.open())
        await asyncio.gather(*(one.load_host(f"{number}.example") for number in range(100)))
        assert await connections() == 2
        async with one.lease(origin):
            waiting = asyncio.create_task(two.lease(origin).__aenter__())
            async with asyncio.timeout(5):
                while await connections() < 3:  # noqa: ASYNC110  # It is the server that knows.
                    await asyncio.sleep(0.01)
        await waiting
        assert await connections() == 3
    await asyncio.gather(one.aclose(), two.aclose())


@pytest.mark.parametrize(("share", "is_taken"), [(0.45, False), (1.4, True)])
async def test_an_event_loop_that_stands_still(server: RedisServer, share: float, *, is_taken: bool) -> None:
    """For less than half of the lease it loses nothing; for longer than all of it, its turn counts as ended."""
    lease, delay = 1.0, 0.05
    one = Worker(RedisStore(server.url, lease=lease))
    await one.get(delay=delay)
    one.begin(delay=delay)
    # Whatever is left of the lease by then: it was renewed once at the least.
    await asyncio.sleep(lease / 2)

    async def wait_for_the_host() -> bool:
        other = Worker(RedisStore(server.url, lease=lease))
        try:
            async with asyncio.timeout(share * lease):
                await other.get(delay=delay)
        except TimeoutError:
            return False
        else:
            return True
        finally:
            await other.store.aclose()

    with ThreadPoolExecutor(1) as elsewhere:
        # Nothing else happens in this loop until that one has ended.
        was_taken = elsewhere.submit(asyncio.run, wait_for_the_host()).result()
    assert was_taken is is_taken
    await one.store.aclose()


def test_the_figures_are_those_of_the_code() -> None:
    """Seconds and octets of the text that stand in the code as well."""
    turns = lua("turns")
    assert "local GRACE = 0.25 " in turns
    assert "a quarter of a second at the most" in PAGE
    assert "local AGREEMENT = 2 " in turns
    assert "it gives them two\nseconds" in PAGE
    assert _blocks.PAUSE == 1.0
    assert "`gate.block` | yes, within two seconds" in PAGE
    assert _signals.LINGER == 10.0
    assert "for ten seconds after that" in PAGE
    assert min(_settings.LEASE, _settings.ROBOTS_LEASE) == 30.0
    assert "30 seconds at the most" in PAGE


def test_the_named_windows_have_a_remedy_each() -> None:
    """A row without one would be a complaint."""
    table = PAGE.partition("| window |")[2].partition("\n\n")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    assert len(rows) == 7
    assert all(len(row) == 3 and all(cell.strip() for cell in row) for row in rows)
