"""Servers and proxies as Debian has them, each run on loopback until the end of a block, and what they log."""

from __future__ import annotations

import getpass
import os
import random
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOOPBACK: Final = "127.0.0.1"
START_TIMEOUT: Final = 60.0
PATH: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
MODULES: Final = Path("/usr/lib/nginx/modules")


def program(name: str) -> str | None:
    """Where a program or a module of nginx is; None where it is missing."""
    if name.endswith(".so"):
        return str(MODULES / name) if (MODULES / name).exists() else None
    # Ubuntu's is another.
    return shutil.which(name, path=PATH) or shutil.which(f"{name}-browser", path=PATH)


def free_port(address: str = LOOPBACK) -> int:
    """A port that nothing listens at, and that no connection of this machine is given as its own."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as trial:
            try:
                trial.bind((address, port))
            except OSError:
                continue
        return port


def user_or(other: str) -> str:
    """The user that a server runs as: another than root, whose rights many give up."""
    return getpass.getuser() if os.geteuid() != 0 else other


@dataclass(frozen=True, slots=True)
class Served:
    """A request, as the log of its server has it."""

    ended_at: float
    """Seconds since the epoch."""
    took: float
    """Seconds."""
    status: int
    method: str
    url: str
    """Without its scheme where the server does not know it."""
    more: str
    """What else was logged."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A program that runs."""

    address: str
    port: int
    log: Path

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"http://{self.address}:{self.port}"

    def served(self) -> list[Served]:
        """All requests, in the order in which their answers ended.

        Each line is: when it ended, seconds, status, method, URL, more.
        """
        lines = [line.split(maxsplit=5) for line in self.log.read_text(encoding="utf-8").splitlines()]
        return [
            Served(float(at), float(took), int(status), method, url, "".join(more))
            for at, took, status, method, url, *more in lines
            # What looked whether it listens.
            if url != "<BADREQ>"
        ]

    async def all_served(self, count: int) -> list[Served]:
        """Wait until so many requests are in the log: servers write it when the client has its answer."""
        await until(lambda: len(self.served()) >= count)
        return self.served()


def gaps(served: Sequence[Served]) -> list[float]:
    """Seconds from the end of each answer to the beginning of the next."""
    return [later.ended_at - later.took - earlier.ended_at for earlier, later in pairwise(served)]


@contextmanager
def running(
    name: str, *options: str | Path, port: int, output: Path, address: str = LOOPBACK
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block; it listens when the block begins.

    Args:
        output: what it writes to its standard output and error.
    """
    command = [program(name) or name, *options]
    with output.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            give_up_at = time.monotonic() + START_TIMEOUT
            while not _listens(address, port):
                if process.poll() is not None or time.monotonic() > give_up_at:
                    raise RuntimeError(f"{name} does not listen: {output.read_text(errors='replace')}")
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


def _listens(address: str, port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex((address, port)) == 0


NGINX: Final = """\
daemon off;
master_process off;
pid FOLDER/nginx.pid;
error_log FOLDER/error.log;
events {}
http {
    log_format served
        '$msec $request_time $status $request_method $scheme://$http_host$request_uri '
        '$connection $sent_http_content_encoding';
    access_log FOLDER/served.log served;
    client_body_temp_path FOLDER;
    proxy_temp_path FOLDER;
    fastcgi_temp_path FOLDER;
    uwsgi_temp_path FOLDER;
    scgi_temp_path FOLDER;
    SERVERS
}
"""
HAPROXY: Final = """\
global
    log stdout format raw local0
defaults
    mode http
    log global
    log-format "%Ts.%ms 0 %ST %HM %HU %B"
    timeout connect 10s
    timeout client 60s
    timeout server 60s
"""


@contextmanager
def nginx(folder: Path, servers: str, *, address: str = LOOPBACK, modules: str = "") -> Iterator[Daemon]:
    """Nginx.

    Args:
        servers: directives of its ``http``, in which ``PORT`` is a free port, and ``FOLDER`` the folder. Requests are
            logged with their connection and the coding of their answer.
        modules: directives that load them.
    """
    port, log, conf = free_port(address), folder / "served.log", folder / "nginx.conf"
    log.touch()
    text = f"{modules}\n{NGINX}".replace("SERVERS", servers)
    conf.write_text(text.replace("FOLDER", str(folder)).replace("PORT", str(port)), encoding="ascii")
    options, output = ("-e", folder / "error.log", "-c", conf), folder / "nginx.output"
    with running("nginx", *options, port=port, output=output, address=address):
        yield Daemon(address, port, log)


@contextmanager
def haproxy(folder: Path, proxies: str, *, address: str = LOOPBACK) -> Iterator[Daemon]:
    """HAProxy.

    Args:
        proxies: its frontends and backends, in which ``PORT`` is a free port. Each request is logged, with its bytes.
    """
    port, log, conf = free_port(address), folder / "served.log", folder / "haproxy.cfg"
    conf.write_text(HAPROXY + proxies.replace("PORT", str(port)), encoding="ascii")
    with running("haproxy", "-db", "-f", conf, port=port, output=log, address=address):
        yield Daemon(address, port, log)
