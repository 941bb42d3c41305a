"""Leads a command to the sites: serves them, starts it, and ends it and all that it has started."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Required, TypedDict, Unpack

from trustme import CA

from robotgate.judge import servers
from robotgate.judge.judge import Card, Terms, judge
from robotgate.judge.sites import Plan, draw_plan, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

STDERR: Final = 2
"""The descriptor."""
KILL_DELAY: Final = 2.0
"""Seconds that a command has to end by itself once it is told to."""
_PROXY_NAMES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CA_NAMES: Final = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_EXTRA_CA_CERTS", "PERL_LWP_SSL_CA_FILE"),
)
"""By which programs take their certificate authorities: OpenSSL, Requests, curl, Node.js, LWP."""


class Options(TypedDict, total=False):
    """Of a crawl that is to be judged."""

    agent: str
    """The crawler's product token; empty, or without it: that of the first request."""
    declared: Sequence[str]
    """As `Terms.declared`."""
    direct: bool
    """Whether the sites are addresses of this machine, for a crawler that uses no proxy."""
    keys: Sequence[Ed25519PublicKey]
    """Those of its signatures."""
    limit: float
    """Seconds after which the commands are ended; without it, never."""
    only: Sequence[str]
    """Parts of the names of the kinds of sites; without them, all."""
    pages: Required[int]
    seed: Required[int]
    verbose: bool
    """Whether what the commands print goes to standard error. Otherwise it is dropped."""


async def conduct(
    commands: Sequence[Sequence[str]],
    told: Callable[[Plan, servers.Visit | None], object],
    delay: float = 0.0,
    **options: Unpack[Options],
) -> Card:
    """Serve the sites, lead some commands there, and judge what the server has seen.

    Args:
        commands: are started at once, each with a part of the URLs.
        told: called with the plan when all is ready, and then with each request.
        delay: as `Terms.delay`.

    Raises:
        JudgeError: a command does not start.
    """
    began_at = time.monotonic()
    ports, hosts, start = None, [servers.LOOPBACK], f"http://{servers.START}"
    if options.get("direct"):
        ports = {80: _free_port(), 8080: _free_port()}
        start = f"http://{servers.LOOPBACK}:{ports[80]}"
    visits: list[servers.Visit] = []
    only, keys = options.get("only", ()), options.get("keys", ())
    plan = draw_plan(options["seed"], options["pages"], only, ports)
    if not plan.groups:
        raise servers.JudgeError(
            f"no kind of site has {' or '.join(only)} in its name: a run without --only prints them"
        )

    def note(_: object, visit: servers.Visit) -> None:
        visits.append(visit)
        told(plan, visit)

    server = servers.SiteServer(plan, note, options.get("agent", ""), start, keys)
    lag = [0.0]
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="robotgate-judge-")))
        stack.callback(asyncio.create_task(servers.measure_lag(lag)).cancel)
        authority = CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        if ports is not None:
            # Another name of an address needs no listener of its own.
            hosts = sorted({*hosts, *(site.host for site in plan.sites)} - {"localhost"})
        listeners = [
            await stack.enter_async_context(servers.listening(server, port, authority, hosts))
            for port in (ports.values() if ports else [0])
        ]
        told(plan, None)
        places = {
            "proxy": "" if ports else f"http://{servers.LOOPBACK}:{listeners[0]}",
            "start": f"{start}/",
            "sitemap": f"{start}/sitemap.xml",
            "ca": str(folder / "ca.pem"),
        }
        followed = []
        for number, command in enumerate(commands):
            urls = folder / f"urls-{number}.txt"
            # So each has some of every larger site.
            share = plan.urls[number :: len(commands)]
            urls.write_text("".join(f"{url}\n" for url in share), encoding="utf-8")
            followed.append(_follow(command, options, {**places, "urls": str(urls)}))
        _obey_signals()
        statuses = await asyncio.gather(*followed)
        elapsed = time.monotonic() - began_at
    declared = frozenset([*options.get("declared", ()), *(["signatures"] if keys else [])])
    terms = Terms(agent=server.agent or servers.UNKNOWN, declared=declared, delay=delay, lag=lag[0])
    return replace(judge(plan, visits, terms, server.tunnels), elapsed=elapsed, statuses=statuses)


def _obey_signals() -> None:
    """Have SIGTERM and SIGHUP end the task that runs, as Ctrl-C does, unless they are ignored, as by nohup."""
    task = asyncio.current_task()
    if sys.platform != "win32" and task is not None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _follow(command: Sequence[str], options: Options, places: Mapping[str, str]) -> int | None:
    """Start a command, wait until it ends or has to, and end all that it has started."""
    arguments = [filled(argument, places) for argument in command]
    names = {name: value for name, value in os.environ.items() if name.casefold() not in _PROXY_NAMES}
    names |= {f"ROBOTGATE_JUDGE_{name.upper()}": value for name, value in places.items()}
    names |= {**dict.fromkeys(_CA_NAMES, places["ca"]), "NODE_USE_ENV_PROXY": "1"}
    if places["proxy"]:
        for name in _PROXY_NAMES[:2]:
            names[name] = names[name.upper()] = places["proxy"]
    stream = STDERR if options.get("verbose") else asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            env=names,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            # Ctrl-C at a terminal reaches the parent alone, which decides when the others end.
            process_group=0,
        )
    except OSError as error:
        raise servers.JudgeError(f"cannot start {arguments[0]}: {error.strerror}") from error
    status: int | None = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(options.get("limit")):
                status = await process.wait()
    finally:
        await _end(process, places["urls"])
    return status


async def _end(process: asyncio.subprocess.Process, mark: str) -> None:
    """End a command's process group, and what has left it.

    Args:
        mark: what only its processes have in their environment.
    """
    if sys.platform == "win32":
        # There are no such groups.
        process.kill()
        return
    try:
        with suppress(ProcessLookupError, PermissionError, TimeoutError):
            os.killpg(process.pid, signal.SIGTERM)
            async with asyncio.timeout(KILL_DELAY):
                await process.wait()
    finally:
        # Also if this process is told a second time to end.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        _kill_marked(mark.encode())
        await process.wait()


def _kill_marked(mark: bytes) -> None:
    """Kill the processes with this in their environment, as far as the system shows it. Browsers have own groups."""
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in environment.read_bytes():
                os.kill(int(environment.parent.name), signal.SIGKILL)


def _free_port() -> int:
    with socket.create_server((servers.LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
