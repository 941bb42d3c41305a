"""Debian's nginx and HAProxy on loopback, which limit requests by themselves, and what they log of each answer."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NGINX: Final = shutil.which("nginx") or "/usr/sbin/nginx"
HAPROXY: Final = shutil.which("haproxy") or "/usr/sbin/haproxy"
START_TIMEOUT: Final = 60.0
NGINX_CONF: Final = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    log_format answers '$msec $status';
    limit_req_zone $binary_remote_addr zone=pages:1m rate=2r/s;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    server {{
        listen {address}:{port};
        location = /robots.txt {{ return 404; }}
        location / {{
            limit_req zone=pages burst=1 nodelay;
            access_log {folder}/answers.log answers;
            root {folder};
            try_files /page.html =404;
        }}
    }}
}}
"""
HAPROXY_CONF: Final = """\
global
    log stdout format raw local0
defaults
    mode http
    log global
    log-format "%Ts.%ms %ST"
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend pages
    bind {address}:{port}
    stick-table type ip size 100 expire 10s store http_req_rate(10s)
    http-request set-log-level silent if {{ path /robots.txt }}
    http-request return status 404 if {{ path /robots.txt }}
    http-request track-sc0 src
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 20 }}
    http-request return status 200 content-type text/html string "A page"
"""


@dataclass(frozen=True, slots=True)
class LimitingServer:
    """A server that runs."""

    url: str
    """Without a slash at the end."""
    log: Path

    def answers(self) -> list[tuple[float, int]]:
        """When each page was asked for, in seconds since the epoch, and the status of its answer."""
        lines = [line.split() for line in self.log.read_text(encoding="ascii").splitlines()]
        return [(float(at), int(status)) for at, status in lines]


@contextmanager
def nginx(folder: Path, address: str = "127.0.0.1") -> Iterator[LimitingServer]:
    """Nginx with ``limit_req`` of 2 requests a second, until the end of the block; it refuses with 503."""
    (folder / "page.html").write_text("A page", encoding="ascii")
    log, port, conf = folder / "answers.log", _free_port(address), folder / "nginx.conf"
    log.touch()
    conf.write_text(NGINX_CONF.format(folder=folder, address=address, port=port), encoding="ascii")
    with _running(
        [NGINX, "-e", f"{folder}/error.log", "-c", str(conf)], folder / "output", address, port
    ) as url:
        yield LimitingServer(url, log)


@contextmanager
def haproxy(folder: Path, address: str = "127.0.0.1") -> Iterator[LimitingServer]:
    """HAProxy with a stick table of 20 requests in 10 seconds, until the end of the block; it refuses with 429."""
    log, port, conf = folder / "answers.log", _free_port(address), folder / "haproxy.cfg"
    conf.write_text(HAPROXY_CONF.format(address=address, port=port), encoding="ascii")
    with _running([HAPROXY, "-db", "-f", str(conf)], log, address, port) as url:
        yield LimitingServer(url, log)


def _free_port(address: str) -> int:
    with socket.socket() as once:
        once.bind((address, 0))
        return int(once.getsockname()[1])


@contextmanager
def _running(command: Sequence[str], output: Path, address: str, port: int) -> Iterator[str]:
    """Run a server until the end of the block; the URL at which it listens."""
    with (
        output.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE) as process,
    ):
        try:
            give_up_at = time.monotonic() + START_TIMEOUT
            while not _listens(address, port):
                if process.poll() is not None or time.monotonic() > give_up_at:
                    raise RuntimeError(f"{command[0]} does not listen: {process.communicate(timeout=1)[1]!r}")
                time.sleep(0.05)
            yield f"http://{address}:{port}"
        finally:
            process.terminate()
            process.communicate(timeout=START_TIMEOUT)


def _listens(address: str, port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex((address, port)) == 0
