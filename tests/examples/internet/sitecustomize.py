"""What a program finds of the internet when this folder is on its PYTHONPATH: the servers of a test.

Every name has an address, but for those below ``.invalid``, and this address leads to the test's servers. It is a
public one, of a block that belongs to nobody's site (AS112, RFC 7535), so that what is checked of addresses is checked
here too. The program itself is as it is: nothing of robotgate or aiohttp is replaced.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

if TYPE_CHECKING:
    from robotgate.client.connector import AddressInfo

ADDRESS: Final = "192.31.196.1"
PORT: Final = int(os.environ["TEST_PORT"])
TLS_PORT: Final = int(os.environ["TEST_TLS_PORT"])

_look_up = socket.getaddrinfo
_connect, _connect_ex = socket.socket.connect, socket.socket.connect_ex


def _addresses(host: str | bytes, port: int, *how: int, **named_how: int) -> list[AddressInfo]:
    host = host.decode() if isinstance(host, bytes) else host
    if host.endswith(".invalid"):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if host.replace(".", "").isdigit():
        return list(_look_up(host, port, *how, **named_how))
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (ADDRESS, port))]


def _address(host: str) -> str:
    return str(_addresses(host, 80, socket.AF_INET)[0][4][0])


def _here(address: tuple[str, int]) -> tuple[str, int]:
    return ("127.0.0.1", TLS_PORT if address[1] == 443 else PORT) if address[0] == ADDRESS else address


def _lead_here(sock: socket.socket, address: tuple[str, int]) -> None:
    _connect(sock, _here(address))


def _lead_here_without_raising(sock: socket.socket, address: tuple[str, int]) -> int:
    return _connect_ex(sock, _here(address))


patch.object(socket, "getaddrinfo", _addresses).start()
patch.object(socket, "gethostbyname", _address).start()
patch.object(socket.socket, "connect", _lead_here).start()
patch.object(socket.socket, "connect_ex", _lead_here_without_raising).start()
