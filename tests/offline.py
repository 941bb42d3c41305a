"""Runs a program as it stands, in a web that is this machine: ``python -m tests.offline PROGRAM [ARGUMENT...]``.

Every name has an address, and whoever connects to it comes to the servers of the test, by ports 80 and 443; so does
whoever wants the proxy that ``robotgate demo --serve`` would be. Nothing of robotgate is replaced: the resolver and
the sockets of the process are, as another network would have them. `tests.offline_web` is the other side.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
from collections.abc import Callable
from typing import Final, TypeAlias, cast

Connect: TypeAlias = Callable[[socket.socket, tuple[str, int]], int | None]

DOORS: Final = "ROBOTGATE_TEST_DOORS"
"""A variable of the environment: which port of loopback a port leads to."""
LOOPBACK: Final = "127.0.0.1"
SOMEWHERE: Final = "93.184.215.14"
"""A public address, to which nothing is sent."""


def look_up(host: object, port: object, *_: object, **__: object) -> list[tuple[object, ...]]:
    """What `socket.getaddrinfo` says in this web."""
    address = LOOPBACK if host in {LOOPBACK, "localhost", None} else SOMEWHERE
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(str(port))))]


def led(connect: Connect, doors: dict[str, int]) -> Connect:
    """A way of connecting that never leaves this machine."""

    def connect_here(sock: socket.socket, address: tuple[str, int]) -> int | None:
        if sock.family != socket.AF_INET:
            return connect(sock, address)
        host, port = address
        door = doors.get(str(port))
        if door is None and host != LOOPBACK:
            raise ConnectionRefusedError(f"{host}:{port} is not on this machine")
        return connect(sock, (LOOPBACK, port if door is None else door))

    return connect_here


def main() -> None:
    """Lead this process to the test's servers, and run the program."""
    doors: dict[str, int] = json.loads(os.environ[DOORS])
    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, led(cast("Connect", getattr(socket.socket, name)), doors))
    vars(socket)["getaddrinfo"] = look_up
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
