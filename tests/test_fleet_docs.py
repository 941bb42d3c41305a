"""docs/fleet.md: its program runs against a real server, and its tables are the code's."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pytest
from redis.asyncio import Redis
from tests.documents import defined_by
from tests.redis_server import RedisServer
from tests.stores.redis_parts import COMMANDS
from tests.test_readme import ROOT, blocks

from robotgate import Origin
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from tests.gate.servers import Web

    Crawl: TypeAlias = "Callable[..., Coroutine[object, object, None]]"

PAGE: Final = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
_, BY_STORE = blocks(PAGE, "python")
(ACL,) = (" ".join(block.split()) for block in blocks(PAGE, "text"))
crawl = cast("Crawl", defined_by(BY_STORE, "docs/fleet.md")["crawl"])
OPTION: Final = re.compile(r"^\| `(?P<name>\w+)` \| (?P<default>\S+) \| ", re.MULTILINE)
DELAY: Final = 0.1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One for all tests: a fresh server grants nothing for as long as a lease."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.mark.slow
async def test_a_fleet_is_one_crawler(
    server: RedisServer, web: Web, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two that know nothing of each other ask one robots.txt, and leave the delay between all their requests."""
    url, origin = server.url.replace("/0", "/2"), f"http://127.0.0.1:{web.port}"
    options: Mapping[str, object] = {"delay": DELAY, "allow_private_addresses": True}
    pages = [f"{origin}/{page}" for page in range(8)]
    await asyncio.gather(crawl(url, pages[::2], **options), crawl(url, pages[1::2], **options))
    assert web.counts() == dict.fromkeys([*pages, f"{origin}/robots.txt"], 1)
    assert min(web.gaps("127.0.0.1")) >= DELAY
    assert set(capsys.readouterr().out.splitlines()) == {f"200 {page}" for page in pages}


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


@pytest.mark.slow
async def test_the_user_of_the_acl_can_crawl(server: RedisServer, web: Web) -> None:
    """Two workers, records, grants, listings, blocks: the server refuses nothing, and notes no refusal."""
    async with Redis(port=server.port) as admin:
        await admin.execute_command(*ACL.split())  # type: ignore[no-untyped-call]
        origin = f"http://127.0.0.1:{web.port}"
        user = f"redis://examplebot:PASSWORD@127.0.0.1:{server.port}/1"
        options: Mapping[str, object] = {"delay": 0.01, "allow_private_addresses": True}
        await asyncio.gather(*(crawl(user, [f"{origin}/{page}"], **options) for page in range(4)))
        store = RedisStore(user, prefix="examplebot:")
        try:
            assert [key async for key, _ in store.hosts()] == ["127.0.0.1"]
            assert [str(record.origin) async for record in store.records()] == [origin]
            session = await store.session()
            session.publish_block("example.org", time.time() + 60)
            await session.aclose()
        finally:
            await store.aclose()
        # redis-py names itself; that may be refused. Before Redis 7 the log names no subcommands.
        refused = [
            entry for entry in await admin.acl_log() if entry["object"] not in {"client", "client|setinfo"}
        ]
        assert refused == []
        # All of it is in database 1.
        assert await admin.keys("examplebot:*") == []


def test_the_acl_lists_the_commands_of_the_code() -> None:
    """All that a store needs, and nothing else."""
    allowed = {word.removeprefix("+") for word in ACL.split() if word.startswith("+")}
    assert allowed == set(COMMANDS) - {"client|setinfo"}


async def test_connections_of_a_worker(server: RedisServer) -> None:
    """One or two, whatever it does at once."""
    async with Redis(port=server.port, client_name="admin") as admin, RedisStore(server.url) as store:
        records = (store.load_record(Origin("https", f"{number}.example", 443)) for number in range(100))
        hosts = (store.load_host(f"{number}.example") for number in range(100))
        await asyncio.gather(*records, *hosts)
        names = [client["name"] for client in await admin.client_list()]
    assert len(names) - names.count("admin") <= 2
