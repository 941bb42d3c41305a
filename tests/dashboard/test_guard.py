"""Who may see the dashboard, and who may press its buttons."""

from __future__ import annotations

import json
import math
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web as aiohttp_web
from tests.dashboard.reader import TOKEN, reading, visit

from robotgate import OptionError, dashboard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

HOST: Final = "http://a.example"


async def get(url: str, **headers: str) -> int:
    """The status of a request."""
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status


async def press(
    url: str, what: str, headers: Mapping[str, str] | None = None, **more: object
) -> tuple[int, str]:
    """Send what a button sends, from the page itself unless the headers say otherwise."""
    own = {"Origin": url.rstrip("/"), "Content-Type": "application/json", **(headers or {})}
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            url + what, data=json.dumps({"host": HOST, **more}), headers={k: v for k, v in own.items() if v}
        ) as response,
    ):
        return response.status, await response.text()


async def test_the_page_is_read_only_unless_told(gate: RobotGate) -> None:
    """No button does anything, and the page shows none."""
    async with dashboard.serve(gate, port=0) as url:
        for what in ("block", "unblock", "refresh"):
            assert (await press(url, what))[0] == 403
        async with reading(url) as reader:
            assert (await reader.next())["controls"] is False
    assert gate.host(HOST).blocked_by_operator_until_at is None


async def test_buttons_do_what_they_say(gate: RobotGate, web: Web) -> None:
    """Block for a while, unblock, and request robots.txt again."""
    await visit(gate, f"{HOST}/")
    async with dashboard.serve(gate, port=0, controls=True) as url:
        assert await press(url, "refresh") == (
            200,
            "robots.txt of http://a.example was requested: HTTP status 404.",
        )
        assert web.count(f"{HOST}/robots.txt") == 2
        assert await press(url, "block", seconds=3600) == (200, "a.example is blocked.")
        until_at = gate.host(HOST).blocked_by_operator_until_at
        assert until_at is not None
        assert until_at < math.inf
        assert await press(url, "block", seconds=None) == (200, "a.example is blocked.")
        assert gate.host(HOST).blocked_by_operator_until_at == math.inf
        assert (await press(url, "refresh"))[0] == 409
        assert await press(url, "unblock") == (200, "a.example is no longer blocked.")
        assert gate.host(HOST).blocked_by_operator_until_at is None
        assert (await press(url, "refresh", host="http://elsewhere.example"))[0] == 404
        assert web.count("http://elsewhere.example/robots.txt") == 0
        gate.block("*.example")
        assert "still blocked" in (await press(url, "unblock"))[1]


async def test_a_refresh_that_waits_is_not_waited_for(open_gate: OpenGate, web: Web) -> None:
    """The answer says so, and the request is sent in the host's turn; the end of the application ends it."""
    gate = await open_gate(delay=60.0)
    gate.learn(HOST, b"")
    await visit(gate, f"{HOST}/")
    async with dashboard.serve(gate, port=0, controls=True) as url:
        assert await press(url, "refresh") == (
            200,
            "The request for robots.txt of http://a.example waits for the host's turn.",
        )
    assert web.urls == [f"{HOST}/"]


async def test_pages_of_other_sites_press_no_button(gate: RobotGate) -> None:
    """What a browser says of the page that sends a request decides; a form can send no JSON."""
    async with dashboard.serve(gate, port=0, controls=True) as url:
        for name, value, expected in (
            ("Origin", "http://evil.example", 403),
            ("Origin", "null", 403),
            ("Origin", "", 403),
            ("Sec-Fetch-Site", "cross-site", 403),
            ("Sec-Fetch-Site", "same-site", 403),
            ("Host", "evil.example", 403),
            ("Content-Type", "text/plain", 415),
            ("Content-Type", "application/x-www-form-urlencoded", 415),
        ):
            assert (await press(url, "block", {name: value}))[0] == expected, value
    assert gate.host(HOST).blocked_by_operator_until_at is None


async def test_a_name_that_leads_here_is_not_enough(gate: RobotGate) -> None:
    """A site whose name resolves to loopback (DNS rebinding) reads nothing; names of loopback do."""
    async with dashboard.serve(gate, port=0) as url:
        port = urlsplit(url).port
        for name in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "["):
            assert await get(url, Host=name) == 403, name
        for name in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "[::1]:80", "127.0.0.1"):
            assert await get(url, Host=name) == 200, name
        assert await get(f"{url}robots", Origin="http://evil.example") == 403
        assert await get(f"{url}robots", **{"Sec-Fetch-Site": "cross-site"}) == 403


async def test_a_token_is_asked_for(gate: RobotGate) -> None:
    """All that tells of the crawl needs it, the page itself does not."""
    async with dashboard.serve(gate, port=0, token=TOKEN, controls=True) as url:
        assert await get(url) == 200
        for given in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"):
            assert await get(f"{url}events", Authorization=given) == 401, given
        assert (await press(url, "block"))[0] == 401
        own = {"Authorization": f"Bearer {TOKEN}"}
        async with reading(url, headers=own) as reader:
            assert await reader.rows() == []
        assert (await press(url, "block", own))[0] == 200


async def test_other_machines_need_a_token(gate: RobotGate) -> None:
    """An address that they can reach is refused without one, and so is a further name."""
    for host in ("0.0.0.0", "::", "192.0.2.1", "status.example"):
        with pytest.raises(OptionError, match="token"):
            await dashboard.serve(gate, host, 0).__aenter__()
    with pytest.raises(OptionError, match="token"):
        dashboard.app(gate, hosts=["status.example"])
    with pytest.raises(OptionError, match="16 characters"):
        dashboard.app(gate, token="short")


async def test_a_further_name_is_answered(gate: RobotGate) -> None:
    """That of a reverse proxy."""
    async with dashboard.serve(gate, port=0, token=TOKEN, hosts=["Status.example"]) as url:
        assert await get(url, Host="status.example") == 200
        assert await get(url, Host="other.example") == 403


async def test_an_application_without_token_serves_loopback_only(gate: RobotGate) -> None:
    """However it is run: a connection to an address of the network is refused."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: this asks for the address that packets would come from.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        address = probe.getsockname()[0]
    for token, expected in ((None, 403), (TOKEN, 200)):
        runner = aiohttp_web.AppRunner(dashboard.app(gate, token=token), access_log=None)
        await runner.setup()
        await aiohttp_web.TCPSite(runner, "0.0.0.0", 0).start()
        port = runner.addresses[0][1]
        assert await get(f"http://{address}:{port}/") == expected
        assert await get(f"http://127.0.0.1:{port}/") == 200
        await runner.cleanup()


async def test_every_answer_has_a_strict_policy(gate: RobotGate) -> None:
    """Errors and events included: no script but the page's own file, no frame, no copy."""
    async with dashboard.serve(gate, port=0) as url, aiohttp.ClientSession() as session:
        for path in ("", "page.js", "page.css", "events", "robots", "nothing"):
            async with session.get(url + path) as response:
                policy = response.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert response.headers["Cache-Control"] == "no-store"


async def test_nonsense_is_refused(gate: RobotGate) -> None:
    """In what a button sends, and in the address of the events."""
    async with dashboard.serve(gate, port=0, controls=True) as url, aiohttp.ClientSession() as session:
        for body in (
            *("", "[]", "{}", '{"host": 1}', '{"host": "nonsense"}'),
            '{"host": "http://a.example", "seconds": "x"}',
            '{"host": "http://a.example", "seconds": ' + 400 * "9" + "}",
            '{"host": ' + 4000 * "[" + 4000 * "]" + "}",
        ):
            for kind in ("application/json", "application/json; charset=nonsense"):
                headers = {"Origin": url.rstrip("/"), "Content-Type": kind}
                async with session.post(f"{url}block", data=body, headers=headers) as response:
                    assert response.status == 400, body
        for query in ("order=name", "page=-1", "page=1000", "page=²"):
            assert await get(f"{url}events?{query}") == 400
