"""Answers that no honest server sends, at every door: what is raised is documented, and no turn stays open."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
import pytest
from tests.client.hostile_answers import HOSTILE, answer, serving
from tests.conftest import AGENT, CONTACT

from robotgate import HostUnavailableError, RobotGate, RobotGateError, TooSoonError

REDIRECTS = {
    f"Location: {name}": answer(b"Location: " + location, status=b"302 Found")
    for name, location in {
        "credentials": b"http://u:p@127.0.0.1:1/",
        "credentials of this host": b"http://u:p@localhost:1/",
        "no port": b"http://127.0.0.1:port/",
        "port out of range": b"http://127.0.0.1:99999/",
        "open bracket": b"http://[::1/",
        "no host": b"http:///page",
        "no name": b"http://a..b/",
        "label of 100 letters": b"http://" + b"a" * 100 + b".example/",
        "bytes": b"http://127.0.0.1:1/\xff\xfe",
        "host of bytes": b"http://\xff\xfe/",
        "another scheme": b"ftp://127.0.0.1/",
        "script": b"javascript:alert(1)",
        "file": b"file:///etc/passwd",
        "empty": b"",
        "a blank": b" ",
        "itself": b"/",
        "backslashes": b"\\\\127.0.0.1\\page",
        "64 KB": b"/" + b"a" * 65_536,
        "percent sign": b"http://%/",
        "userinfo only": b"http://@/",
        "surrogates": "http://127.0.0.1:1/\ud800".encode("utf-8", "surrogatepass"),
        "number for a host": b"http://1/",
    }.items()
}
ANSWERS = HOSTILE | REDIRECTS
RAISED = (aiohttp.ClientError, TimeoutError, RobotGateError)
"""All that any answer may raise."""
TIMEOUT = aiohttp.ClientTimeout(total=0.5)
AUTHORIZATION = {"Authorization": "Basic dTpw"}


@pytest.mark.parametrize(
    "door",
    ["fetch", *(pytest.param(door, marks=pytest.mark.slow) for door in ("middleware", "stream", "turn"))],
)
async def test_an_answer_raises_only_what_is_documented(door: str, subtests: pytest.Subtests) -> None:
    """Aiohttp's errors, a timeout or our own; and afterwards no turn of the host is open."""
    for name, raw in ANSWERS.items():
        with subtests.test(name):
            await read_by(door, raw)


async def read_by(door: str, raw: bytes) -> None:
    """Read a page that is answered so.

    Raises:
        Exception: one that is not documented.
    """
    async with (
        serving(raw) as port,
        RobotGate(AGENT, contact=CONTACT, delay=0, give_up_after=0, allow_private_addresses=True) as gate,
        aiohttp.ClientSession(
            headers=AUTHORIZATION,
            middlewares=[gate.middleware] if door == "middleware" else [],
            timeout=TIMEOUT,
        ) as session,
    ):
        url = f"http://127.0.0.1:{port}/"
        for other in (url, "http://127.0.0.1:1/", "http://localhost:1/"):
            gate.learn(other, b"")
        try:
            if door == "fetch":
                await gate.fetch(url, headers=AUTHORIZATION, timeout=TIMEOUT, max_bytes=100_000)
            elif door == "stream":
                async with gate.fetch(url, headers=AUTHORIZATION, timeout=TIMEOUT) as response:
                    await response.read()
            elif door == "middleware":
                async with session.get(url) as response:
                    await response.read()
            else:
                async with gate.turn(url) as turn, session.get(url, allow_redirects=False) as response:
                    turn.report(response.status, response.headers)
                    await response.read()
        except RAISED:
            pass
        except Exception as error:
            if door == "fetch" or type(error).__module__.startswith("robotgate"):
                raise
            # Read by the caller from aiohttp's own response: what plain aiohttp raises for these bytes.
            async with aiohttp.ClientSession(headers=AUTHORIZATION, timeout=TIMEOUT) as plain:
                with pytest.raises(type(error)):
                    async with plain.get(url, allow_redirects=door != "turn") as response:
                        await response.read()
        # With a turn of this task left open, this raises NestedTurnError.
        async with asyncio.timeout(60):
            with suppress(HostUnavailableError, TooSoonError):
                async with gate.turn(url, max_wait=0):
                    pass
