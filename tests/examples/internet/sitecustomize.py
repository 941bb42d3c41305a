"""What a program finds of the internet when this folder is on its PYTHONPATH: the servers of a test.

Every name has an address, but for those below ``.invalid``, and this address leads to the test's servers. It is a
public one, of a block that belongs to nobody's site (AS112, RFC 7535), so that what is checked of addresses is checked
here too. The program itself is as it is: nothing of robotgate or aiohttp is replaced.
"""

from __future__ import annotations

import os
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

if TYPE_CHECKING:
    from robotgate.web.connector import AddressInfo

ADDRESS: Final = "192.31.196.1"
PORT: Final = int(os.environ["TEST_PORT"])
TLS_PORT: Final = int(os.environ["TEST_TLS_PORT"])

_look_up = socket.getaddrinfo
_connect = BaseSelectorEventLoop.sock_connect


def _addresses(host: str | bytes, port: int, *how: int, **named_how: int) -> list[AddressInfo]:
    host = host.decode() if isinstance(host, bytes) else host
    if host.endswith(".invalid"):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if host.replace(".", "").isdigit():
        return list(_look_up(host, port, *how, **named_how))
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (ADDRESS, port))]


async def _lead_here(loop: BaseSelectorEventLoop, sock: socket.socket, address: tuple[str, int]) -> None:
    host, port = address[:2]
    here = ("127.0.0.1", TLS_PORT if port == 443 else PORT)
    await _connect(loop, sock, here if host == ADDRESS else address)


patch.object(socket, "getaddrinfo", _addresses).start()
patch.object(BaseSelectorEventLoop, "sock_connect", _lead_here).start()
