"""A Redis server that is lost, each time the real thing: calls wait and go on, or fail in time; all told arrives."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ResponseError
from tests.redis_proxy import Proxy
from tests.redis_server import RedisServer
from tests.stores.linked import (
    APPEND,
    ECHO,
    ENDLESS,
    KEY,
    OTHER_KEY,
    Heard,
    admin,
    linked,
    linked_by,
    listed,
    run,
)
from tests.waiting import until

from robotgate import StoreError
from robotgate.stores.redis import _link
from robotgate.stores.redis._client import COMMANDS, client_of
from robotgate.stores.redis._script import Script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

WRITE = Script(b"redis.call('set', KEYS[1], ARGV[1]) return {''}", keys_per_call=1)


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost server is tried again soon, and nobody stays long where it is left."""
    monkeypatch.setattr(_link, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(_link, "LAST_PAUSE", 0.02)
    monkeypatch.setattr(_link, "CLOSING", 0.2)


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[Proxy]:
    """The way to the server."""
    async with Proxy(server.port) as proxy:
        yield proxy


def by(proxy: Proxy) -> str:
    """Where a client finds the server behind a proxy."""
    return f"redis://127.0.0.1:{proxy.port}/0"


async def fails(reply: asyncio.Future[bytes], saying: str) -> StoreError:
    """Why a call failed."""
    with pytest.raises(StoreError, match=saying) as caught:
        await reply
    return caught.value


async def test_an_idle_connection_that_was_cut_is_nothing_to_tell(proxy: Proxy, server: RedisServer) -> None:
    """The server is well: the call takes another one."""
    async with linked(by(proxy)) as link:
        heard = Heard(link)
        for number in range(3):
            assert await link.ask(APPEND, (KEY,), b"%d" % number) == b"%d" % number
            proxy.cut()
            await until(lambda: proxy.open == 0)
        assert heard.news == []
    assert await listed(server) == [b"0", b"1", b"2"]


async def test_a_batch_that_is_cut_is_sent_again(proxy: Proxy, server: RedisServer) -> None:
    """Behind the server's back, as it has run it: in order, every call once more."""
    async with linked(by(proxy)) as link:
        await link.ask(ECHO, (KEY,), b"")
        proxy.cut_at = b"EVALSHA"
        numbers = [b"%d" % number for number in range(50)]
        assert await asyncio.gather(*(link.ask(APPEND, (KEY,), number) for number in numbers)) == numbers
    found = await listed(server)
    assert found[-50:] == numbers
    assert set(found) == set(numbers)


@pytest.mark.parametrize("inside", [1, 7, 60, 333])
async def test_a_reply_that_is_cut_is_no_reply(proxy: Proxy, inside: int) -> None:
    """Wherever: half a reply answers nobody."""
    async with linked(by(proxy)) as link:
        await link.ask(ECHO, (KEY,), b"")
        proxy.cut_inside = inside
        numbers = [b"%d" % number for number in range(100)]
        assert await asyncio.gather(*(link.ask(ECHO, (KEY,), number) for number in numbers)) == numbers


async def test_a_restart_is_waited_for(server: RedisServer) -> None:
    """Empty, without scripts: calls that were waiting are served, and it is told once each way."""
    async with linked(server.url) as link:
        heard = Heard(link)
        await link.ask(APPEND, (KEY,), b"0")
        server.kill()
        waiting = [link.ask(APPEND, (KEY,), b"%d" % number) for number in range(1, 5)]
        await until(lambda: link.lost is not None)
        waiting += [link.ask(APPEND, (KEY,), b"%d" % number) for number in range(5, 9)]
        assert "it cannot be reached" in str(link.lost)
        server.start()
        assert await asyncio.gather(*waiting) == [b"%d" % number for number in range(1, 9)]
        assert link.lost is None
        assert heard.kinds == ["lost", "back"]
    assert await listed(server) == [b"%d" % number for number in range(1, 9)]


async def test_killed_in_the_middle_again_and_again(server: RedisServer) -> None:
    """Under load: every call ends with its own reply, and what has been told arrives in order behind the last loss."""
    async with linked(server.url, patience=20) as link:
        heard = Heard(link)
        numbers = iter(range(1_000_000))
        is_over = False

        async def work() -> int:
            done = 0
            while not is_over:
                number = b"%d" % next(numbers)
                assert await link.ask(ECHO, (KEY,), number) == number
                done += 1
            return done

        workers = [asyncio.create_task(work()) for _ in range(50)]
        for times in range(1, 4):
            server.kill()
            await until(lambda wanted=times: heard.kinds.count("lost") == wanted)  # type: ignore[misc]
            server.start()
            await until(lambda wanted=times: heard.kinds.count("back") == wanted)  # type: ignore[misc]
        is_over = True
        assert sum(await asyncio.gather(*workers)) > 0
        assert heard.kinds == ["lost", "back"] * 3


async def test_patience_ends(server: RedisServer) -> None:
    """Then those who wait fail together; who comes later fails at once, until the server is back by itself."""
    server.kill()
    async with linked(server.url, patience=0.2) as link:
        heard = Heard(link)
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting = [link.ask(APPEND, (KEY,), b"%d" % number) for number in range(3)]
        errors = [await fails(reply, f"^redis 127.0.0.1:{server.port}/0: it cannot be") for reply in waiting]
        assert 0.2 <= loop.time() - began < 2
        assert len(set(map(id, errors))) == 3
        late = link.ask(APPEND, (KEY,), b"late")
        assert late.done()
        await fails(late, "see that it runs")
        server.start()
        # Nobody asks for anything.
        await until(lambda: link.lost is None)
        assert heard.kinds == ["lost", "back"]
        assert await link.ask(APPEND, (KEY,), b"again") == b"again"
        async with admin(server) as client:
            assert await client.keys() == [KEY]
    assert await listed(server) == [b"again"]


async def test_nobody_waits_without_patience() -> None:
    """The first attempt counts."""
    async with linked("redis://127.0.0.1:1", patience=0) as link:
        await fails(link.ask(ECHO, (KEY,), b""), "cannot be reached")


@pytest.mark.parametrize("way", ["paused", "stalled"])
async def test_no_answer_is_waited_for_in_vain(server: RedisServer, proxy: Proxy, way: str) -> None:
    """Though the operator's client has no time limit of its own, and tries again and again."""
    client = Redis(port=proxy.port, socket_timeout=None, retry=Retry(ConstantBackoff(5), 5))
    async with linked_by(client, patience=0.1, timeout=0.1) as link:
        heard = Heard(link)
        await link.ask(ECHO, (KEY,), b"")
        if way == "paused":
            server.pause()
        else:
            proxy.stall()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await fails(link.ask(ECHO, (KEY,), b""), "it does not answer; see what keeps it")
        assert loop.time() - began < 2
        if way == "paused":
            server.resume()
        else:
            proxy.flow()
        await until(lambda: link.lost is None)
        assert await link.ask(ECHO, (KEY,), b"back") == b"back"
        assert heard.kinds == ["lost", "back"]


async def test_a_short_pause_is_sat_out(server: RedisServer) -> None:
    """Late replies answer nobody else's call."""
    async with linked(server.url, timeout=0.1) as link:
        await link.ask(ECHO, (KEY,), b"")
        server.pause()
        waiting = [link.ask(ECHO, (KEY,), b"%d" % number) for number in range(10)]
        await until(lambda: link.lost is not None)
        server.resume()
        more = [link.ask(ECHO, (KEY,), b"%d" % number) for number in range(10, 20)]
        assert await asyncio.gather(*waiting, *more) == [b"%d" % number for number in range(20)]


async def test_a_slow_way_is_no_loss(proxy: Proxy) -> None:
    """As long as replies come in time."""
    async with linked(by(proxy), timeout=5) as link:
        heard = Heard(link)
        proxy.delay = 0.05
        assert await asyncio.gather(*(link.ask(ECHO, (KEY,), b"") for _ in range(10))) == [b""] * 10
        assert heard.news == []


async def test_closing_while_lost_ends_soon(server: RedisServer) -> None:
    """Who still waits is told."""
    async with linked(server.url, patience=60) as link:
        server.kill()
        reply = link.ask(ECHO, (KEY,), b"")
        await until(lambda: link.lost is not None)
        await link.aclose()
        assert reply.done()
        await fails(reply, "the store was closed")


async def test_closing_while_nothing_waits_does_not_wait(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is tried again in the background is nobody's."""
    monkeypatch.setattr(_link, "CLOSING", 60)
    async with linked(server.url, patience=0) as link:
        await link.ask(ECHO, (KEY,), b"")
        server.pause()
        link._timeout = 0.05
        await fails(link.ask(ECHO, (KEY,), b""), "does not answer")
        link._timeout = 60
        await asyncio.wait_for(link.aclose(), 5)


async def test_full_memory_is_waited_for(server: RedisServer) -> None:
    """Until the operator gives it more."""
    async with linked(server.url) as link, admin(server) as client:
        heard = Heard(link)
        await link.ask(WRITE, (KEY,), b"first")
        await client.config_set("maxmemory", 500_000)
        reply = link.ask(WRITE, (KEY,), b"second")
        await until(lambda: link.lost is not None)
        assert "its memory is full" in str(link.lost)
        assert "maxmemory" in str(link.lost)
        await client.config_set("maxmemory", 0)
        await reply
        assert await client.get(KEY) == b"second"
        assert heard.kinds == ["lost", "back"]


async def test_full_memory_is_not_taken_for_recovery(server: RedisServer) -> None:
    """A server that answers, but takes nothing, is still lost: who asks fails at once."""
    async with linked(server.url, patience=0.05) as link, admin(server) as client:
        heard = Heard(link)
        await client.config_set("maxmemory", 500_000)
        await fails(link.ask(WRITE, (KEY,), b""), "memory is full")
        seen = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
        async with asyncio.timeout(10):
            while (await client.info("commandstats"))["cmdstat_evalsha"]["calls"] < seen + 5:
                pass
        assert heard.kinds == ["lost"]
        await client.config_set("maxmemory", 0)
        await until(lambda: link.lost is None)
        assert await client.keys() == []


async def test_a_demoted_primary_is_left(server: RedisServer, tmp_path: Path) -> None:
    """The connection is dropped, so that the next one finds the new primary; here the operator promotes it again."""
    (tmp_path / "other").mkdir()
    with RedisServer(tmp_path / "other") as other:
        async with linked(server.url) as link, admin(server) as client:
            await link.ask(APPEND, (KEY,), b"0")
            numbers = {entry["id"] for entry in await client.client_list()}
            await client.replicaof("127.0.0.1", str(other.port))
            reply = link.ask(APPEND, (KEY,), b"1")
            await until(lambda: link.lost is not None)
            assert "it is a replica" in str(link.lost)
            await client.replicaof("NO", "ONE")
            assert await reply == b"1"
            later = {entry["id"] for entry in await client.client_list() if entry["cmd"] == "evalsha"}
            assert later
            assert not later & numbers


async def test_an_endless_script_keeps_it_busy(server: RedisServer) -> None:
    """Others wait until somebody ends it. What was ended so is tried again while there is time."""
    async with (
        linked(server.url, timeout=0.5) as link,
        linked(server.url, patience=0.2, timeout=60) as endless,
        admin(server) as client,
    ):
        await client.config_set("lua-time-limit", 5)
        await link.ask(ECHO, (KEY,), b"")
        killed = endless.ask(ENDLESS, (KEY,), b"")
        await until(lambda: bool(endless._under_way.groups))
        await _busy(client)
        waiting = link.ask(ECHO, (KEY,), b"patient")
        await until(lambda: link.lost is not None)
        assert "a script keeps it busy" in str(link.lost)
        loop = asyncio.get_running_loop()
        end = loop.time() + 10
        while not killed.done():
            assert loop.time() < end
            await _kill_script(server)
        await fails(killed, "our script was ended there|keeps it busy|not answer")
        assert await waiting == b"patient"


async def _busy(client: Redis) -> None:
    """Wait until the server says that it is."""

    async def ask_on() -> None:
        while True:
            await client.get("anything")

    with pytest.raises(ResponseError, match="BUSY"):
        await asyncio.wait_for(ask_on(), 10)


async def _kill_script(server: RedisServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"SCRIPT KILL\r\n")
    await reader.readline()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("user", "cause"),
    [
        ("nobody:wrong", "does not let us in .*give the user name and the password"),
        ("", "does not let us in"),
        ("unscripted:s3cret", "does not let us do what is needed .*ACL"),
    ],
)
async def test_refusals_are_told_at_once(server: RedisServer, user: str, cause: str) -> None:
    """Whatever the patience; without the password; and it is found out when the operator has changed his mind."""
    async with admin(server) as client:
        await run(client, "ACL", "SETUSER", "unscripted", "on", ">s3cret", "~*", "+get")
        await run(client, "ACL", "SETUSER", "default", "off")
        async with linked(f"redis://{user}@127.0.0.1:{server.port}/0", patience=60) as link:
            heard = Heard(link)
            error = await fails(link.ask(ECHO, (KEY,), b""), cause)
            assert "s3cret" not in str(error)
            assert "wrong" not in str(error)
            assert link.ask(ECHO, (KEY,), b"").done()
            for name, password in (("nobody", "wrong"), ("unscripted", "s3cret")):
                await run(client, "ACL", "SETUSER", name, "on", f">{password}", "~*", "+@all")
            await run(client, "ACL", "SETUSER", "default", "on", "nopass", "~*", "+@all")
            await until(lambda: link.lost is None)
            assert await link.ask(ECHO, (KEY,), b"in") == b"in"
            assert heard.kinds == ["lost", "back"]


async def test_what_a_script_may_not_do_is_its_callers(server: RedisServer) -> None:
    """Others go on: a command, or a key outside of the prefix."""
    async with admin(server) as client:
        await run(
            client, "ACL", "SETUSER", "poor", "on", ">s3cret", "~robotgate:*", "+evalsha", "+script|load"
        )
        async with linked(f"redis://poor:s3cret@127.0.0.1:{server.port}/0") as link:
            await fails(link.ask(APPEND, (KEY,), b""), "does not let our script .*documentation lists")
            assert await link.ask(ECHO, (KEY,), b"well") == b"well"
            assert link.lost is None


async def test_the_listed_commands_are_enough(server: RedisServer) -> None:
    """For the link itself, in another database than the first, over either protocol."""
    async with admin(server) as client:
        allowed = [f"+{command}" for command in COMMANDS if command != "client|setinfo"]
        await run(client, "ACL", "SETUSER", "just", "on", ">s3cret", "~robotgate:*", *allowed)
    for protocol in (2, 3):
        url = f"redis://just:s3cret@127.0.0.1:{server.port}/3?protocol={protocol}"
        async with linked_by(client_of(url, option="store")) as link:
            assert await link.ask(ECHO, (KEY,), b"just") == b"just"
            assert link.lost is None


async def test_tls(server: RedisServer, key_file: Path) -> None:
    """With the authority named; without, it is refused at once, and says so."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(key_file)
    async with Proxy(server.port, tls=context) as proxy:
        url = f"rediss://127.0.0.1:{proxy.port}/0"
        trusting = f"{url}?ssl_ca_certs={key_file}&ssl_check_hostname=false"
        async with linked_by(client_of(trusting, option="store"), patience=60) as link:
            assert await link.ask(ECHO, (KEY,), b"secret") == b"secret"
            proxy.cut()
            assert await link.ask(ECHO, (KEY,), b"secret") == b"secret"
        async with linked_by(client_of(url, option="store"), patience=60) as link:
            await fails(link.ask(ECHO, (KEY,), b""), "certificate cannot be verified .*ssl_ca_certs")


async def test_what_is_no_redis_is_told_at_once() -> None:
    """A web server, for one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    web = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = web.sockets[0].getsockname()[1]
    async with linked_by(client_of(f"redis://127.0.0.1:{port}", option="store"), patience=60) as link:
        await fails(link.ask(ECHO, (KEY,), b""), "does not speak as Redis does")
    web.close()


async def test_a_database_that_is_not_there_is_told_at_once(server: RedisServer) -> None:
    """Not taken for another one."""
    url = server.url.removesuffix("/0") + "/99"
    async with linked(url, patience=60) as link:
        await fails(link.ask(ECHO, (KEY,), b""), r"/99: it has no database of that number")


async def test_a_loss_in_one_place_is_not_told_twice(server: RedisServer, proxy: Proxy) -> None:
    """However its cause changes; the last one is told to who asks."""
    async with linked(by(proxy), patience=0.05, timeout=0.1) as link:
        heard = Heard(link)
        await link.ask(ECHO, (KEY,), b"")
        proxy.stall()
        await fails(link.ask(ECHO, (OTHER_KEY,), b""), "does not answer")
        proxy.is_refusing = True
        proxy.cut()
        proxy.flow()
        await until(lambda: "cannot be reached" in str(link.lost))
        await fails(link.ask(ECHO, (KEY,), b""), "cannot be reached")
        assert heard.kinds == ["lost"]
        proxy.is_refusing = False
        await until(lambda: link.lost is None)
        assert heard.kinds == ["lost", "back"]
    del server
