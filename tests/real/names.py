"""Claims about names and addresses, each held in a network of its own, with a real resolver and real public addresses.

    unshare --map-root-user --net --mount python -m tests.real.names rebinding

dnsmasq answers for the names. A server listens at port 80 of every address that there is, public or not.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Unpack

import aiohttp
from aiohttp import web
from tests.daemons import program, running
from tests.waiting import until

from robotgate import GateOptions, HostUnavailableError, NonPublicAddressError, PublicConnector, RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

PUBLIC: Final = "93.184.215.14"
CLOSED: Final = "93.184.215.15"
"""Packets to this address come back."""
SILENT: Final = "2606:2800:21f::15"
"""Packets to this address are lost."""
INSIDE: Final = "10.0.0.7"
SITE: Final = "http://site.example"
ADDRESSES: Final = f"""\
link set lo up
address add {PUBLIC}/32 dev lo
address add {INSIDE}/32 dev lo
route add unreachable {CLOSED}/32
link add lost type veth peer name end
link set lost up
link set end up
address add 2606:2800:21f::1/64 dev lost nodad
neighbour add {SILENT} lladdr 02:00:00:00:00:01 dev lost
"""
RESOLVER: Final = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
OPTIONS: Final = (
    "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--listen-address=127.0.0.1",
    "--bind-interfaces", "--user=root", "--pid-file=", "--local=/example/", "--cname=alias.example,inside.example",
)  # fmt: skip
DELAY: Final = 0.05


class Names:
    """The names that there are, and what was asked of the servers that they lead to."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[tuple[str, str]] = []
        """The address and the URL of each request."""
        self.asked_at: list[float] = []
        self._hosts = folder / "hosts"
        self._hosts.touch()
        self._given: dict[str, tuple[str, ...]] = {}
        self._resolver = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Answer for them from now on."""
        options = (*OPTIONS, f"--addn-hosts={self._hosts}")
        output = self._hosts.with_name("dnsmasq.output")
        self._process = self._resolver.enter_context(running("dnsmasq", *options, port=53, output=output))

    def close(self) -> None:
        """Answer no more."""
        self._resolver.close()

    async def give(self, name: str, *addresses: str) -> None:
        """Have a name mean these addresses from now on."""
        self._given[name] = addresses
        lines = [f"{address} {each}\n" for each, found in self._given.items() for address in found]
        self._hosts.write_text("".join(lines), encoding="ascii")
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)
        await until(lambda: _addresses(name) == set(addresses))

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Be every site."""
        assert request.transport is not None
        self.asked.append((request.transport.get_extra_info("sockname")[0], str(request.url)))
        self.asked_at.append(time.monotonic())
        return web.Response(text="a page", status=404 if request.path == "/robots.txt" else 200)


def _addresses(name: str) -> set[str]:
    try:
        return {str(info[4][0]) for info in socket.getaddrinfo(name, 80)}
    except OSError:
        return set()


def _set_up(folder: Path) -> None:
    for line in ADDRESSES.splitlines():
        subprocess.run([program("ip") or "ip", *line.split()], check=True)
    resolver = folder / "resolv.conf"
    resolver.write_text(RESOLVER, encoding="ascii")
    subprocess.run(["mount", "--bind", resolver, "/etc/resolv.conf"], check=True)


@asynccontextmanager
async def network() -> AsyncIterator[Names]:
    """Make this process's network, and its resolver."""
    with TemporaryDirectory() as folder:
        _set_up(Path(folder))
        names = Names(Path(folder))
        names.open()
        runner = web.ServerRunner(web.Server(names.answer))
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", 80).start()
        try:
            yield names
        finally:
            await runner.cleanup()
            names.close()


def gate(**options: Unpack[GateOptions]) -> RobotGate:
    """A gate that learns no delay."""
    chosen = GateOptions(delay=0.0, adaptive=False)
    chosen.update(options)
    return RobotGate("ExampleBot/1.0", contact="bot@example.org", **chosen)


async def refused(fetch: Awaitable[object], kind: type[Exception]) -> str:
    """Wait for a refusal, and return what it says."""
    try:
        await fetch
    except kind as error:
        return str(error)
    raise AssertionError("it was fetched")


async def rebinding(names: Names) -> None:
    """A name that is public when robots.txt is read, and private when the page is wanted, leads nowhere."""
    await names.give("site.example", PUBLIC)
    connector = PublicConnector(use_dns_cache=False, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session, gate(session=session) as crawl:
        assert (await crawl.fetch(f"{SITE}/one")).status == 200
        for address in ("127.0.0.1", INSIDE):
            await names.give("site.example", address)
            assert address in await refused(crawl.fetch(f"{SITE}/two"), NonPublicAddressError)
        await names.give("site.example", PUBLIC)
        assert (await crawl.fetch(f"{SITE}/three")).status == 200
    assert names.asked == [(PUBLIC, f"{SITE}/{path}") for path in ("robots.txt", "one", "three")]


async def private_addresses(names: Names) -> None:
    """No alias leads there, nor a public address beside them that is down, unless the operator permits it."""
    await names.give("inside.example", INSIDE)
    await names.give("site.example", PUBLIC, INSIDE, "127.0.0.1")
    await names.give("closed.example", CLOSED, INSIDE, "127.0.0.1")
    async with gate() as crawl:
        for name in ("inside", "alias"):
            assert INSIDE in await refused(crawl.fetch(f"http://{name}.example/"), NonPublicAddressError)
        await refused(crawl.fetch("http://closed.example/"), HostUnavailableError)
        for number in range(6):
            await crawl.fetch(f"{SITE}/{number}")
    assert [address for address, _ in names.asked] == [PUBLIC] * 7
    async with gate(allow_private_addresses=True) as crawl:
        await crawl.fetch("http://alias.example/")
    assert names.asked[-1] == (INSIDE, "http://alias.example/")


async def dead_address(names: Names) -> None:
    """A site whose IPv6 address is dead is read at its IPv4 address, robots.txt and pages."""
    await names.give("site.example", SILENT, PUBLIC)
    async with gate() as crawl:
        for number in range(3):
            assert (await crawl.fetch(f"{SITE}/{number}")).status == 200
    assert [address for address, _ in names.asked] == [PUBLIC] * 4


async def one_address(names: Names) -> None:
    """Sites that share an address share its delay, robots.txt included."""
    sites = [f"site{number}.example" for number in range(6)]
    for site in sites:
        await names.give(site, PUBLIC)
    async with gate(address_delay=DELAY) as crawl:
        await asyncio.gather(*[crawl.fetch(f"http://{site}/") for site in sites])
    assert len(names.asked) == 2 * len(sites)
    assert min(later - earlier for earlier, later in pairwise(names.asked_at)) >= DELAY


async def resolver_that_is_down(names: Names) -> None:
    """Sites are closed meanwhile, and are read when it is back."""
    await names.give("site.example", PUBLIC)
    names.close()
    async with gate() as crawl:
        await refused(crawl.fetch(f"{SITE}/one"), HostUnavailableError)
        names.open()
        await crawl.refresh(SITE)
        assert (await crawl.fetch(f"{SITE}/one")).status == 200
    assert names.asked == [(PUBLIC, f"{SITE}/{path}") for path in ("robots.txt", "one")]


CLAIMS: Final[dict[str, Callable[[Names], Awaitable[None]]]] = {
    claim.__name__: claim
    for claim in (rebinding, private_addresses, dead_address, one_address, resolver_that_is_down)
}


async def main(claim: str) -> None:
    """Hold a claim."""
    async with network() as names:
        await CLAIMS[claim](names)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
