"""Debian's nginx and HAProxy on loopback, which limit requests by themselves."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.daemons import LOOPBACK, haproxy, nginx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.daemons import Daemon

NGINX: Final = """
    limit_req_zone $binary_remote_addr zone=pages:1m rate=2r/s;
    server {
        listen ADDRESS:PORT;
        location = /robots.txt { access_log off; return 404; }
        location / { limit_req zone=pages burst=1 nodelay; root FOLDER; try_files /page.html =404; }
    }
"""
HAPROXY: Final = """
frontend pages
    bind ADDRESS:PORT
    stick-table type ip size 100 expire 10s store http_req_rate(10s)
    http-request set-log-level silent if { path /robots.txt }
    http-request return status 404 if { path /robots.txt }
    http-request track-sc0 src
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 20 }
    http-request return status 200 content-type text/html string "A page"
"""


@contextmanager
def limiting_nginx(folder: Path, address: str = LOOPBACK) -> Iterator[Daemon]:
    """Nginx with ``limit_req`` of 2 requests a second; it refuses with 503. It logs pages only."""
    (folder / "page.html").write_text("A page", encoding="ascii")
    with nginx(folder, NGINX.replace("ADDRESS", address), address=address) as server:
        yield server


@contextmanager
def limiting_haproxy(folder: Path, address: str = LOOPBACK) -> Iterator[Daemon]:
    """HAProxy with a stick table of 20 requests in 10 seconds; it refuses with 429. It logs pages only."""
    with haproxy(folder, HAPROXY.replace("ADDRESS", address), address=address) as server:
        yield server
