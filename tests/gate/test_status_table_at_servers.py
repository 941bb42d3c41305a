"""The status table as real servers bring it about: what each answer for robots.txt does to a site."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.gate.servers import PAGE, ROBOTS, RULES, silent

from robotgate import AccessResult as Access
from robotgate import DisallowedError, HostUnavailableError, Origin, Reason, StatusPolicy
from robotgate.sites import HostAccess
from robotgate.stores.memory import MemoryStore

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate


OPEN = (404, 410, 400, 402, 405, 406, 409, 418, 431, 451, 499, 300, 304, 305, 306)
UNREACHABLE = (408, 421, 425, 429, 500, 501, 502, 503, 504, 520, 599)


@pytest.mark.parametrize(
    ("statuses", "body", "access", "reason", "host_access"),
    [
        (
            (200, 201, 203, 206, 299),
            RULES,
            Access.SUCCESSFUL,
            Reason.DISALLOWED_BY_RULE,
            HostAccess.CONTROLLED,
        ),
        ((200, 204), "", Access.SUCCESSFUL, Reason.NO_GROUP, HostAccess.OPEN),
        (OPEN, RULES, Access.UNAVAILABLE, Reason.ROBOTS_TXT_UNAVAILABLE, HostAccess.OPEN),
        ((401, 403), RULES, Access.UNAVAILABLE, Reason.ROBOTS_TXT_FORBIDDEN, HostAccess.EXCLUDED),
        (UNREACHABLE, RULES, Access.UNREACHABLE, Reason.ROBOTS_TXT_UNREACHABLE, HostAccess.UNREACHABLE),
    ],
    ids=["rules", "no rules", "unavailable", "forbidden", "unreachable"],
)
async def test_status_decides(  # noqa: PLR0917  # Columns of the table.
    web: Web,
    gate: RobotGate,
    statuses: tuple[int, ...],
    body: str,
    access: Access,
    reason: Reason,
    host_access: HostAccess,
) -> None:
    """Any 2xx is parsed; RFC 9309 §2.3.1.3 and §2.3.1.4; who may not read the rules may not read the pages."""
    for status in statuses:
        site = f"http://s{status}.example"
        web.serve(f"{site}/robots.txt", "" if status == 304 else body, status=status)
        verdict = await gate.check(f"{site}/private")
        assert (verdict.access, verdict.status, verdict.reason) == (access, status, reason)
        assert gate.host(site).access is host_access
        assert verdict.allowed == (host_access is HostAccess.OPEN)
        if verdict.allowed:
            assert (await gate.fetch(f"{site}/private")).text == "a page"
            continue
        with pytest.raises((HostUnavailableError, DisallowedError)) as caught:
            await gate.fetch(f"{site}/private")
        assert isinstance(caught.value, HostUnavailableError) == (access is Access.UNREACHABLE)
        if isinstance(caught.value, HostUnavailableError):
            assert 0 < caught.value.retry_after <= 75
        assert web.count(f"{site}/private") == 0


@pytest.mark.parametrize(
    ("policy", "open_statuses"),
    [
        (StatusPolicy.DEFAULT, {404, 410, 418}),
        (StatusPolicy.RFC9309, {401, 403, 404, 410, 418}),
        (StatusPolicy.GOOGLE, {401, 403, 404, 410, 418}),
        (StatusPolicy.CLASSIC, {404, 410}),
        (StatusPolicy.ARCHIVE, {401, 403, 404, 410, 418, 429, 500}),
    ],
)
async def test_named_policies(
    web: Web, open_gate: OpenGate, policy: StatusPolicy, open_statuses: set[int]
) -> None:
    """Which statuses open a site is the policy's decision alone."""
    gate = await open_gate(status_policy=policy)
    statuses = (401, 403, 404, 410, 418, 429, 500)
    for status in statuses:
        web.serve(f"http://s{status}.example/robots.txt", status=status)
    opened = {status for status in statuses if await gate.allowed(f"http://s{status}.example/page")}
    assert opened == open_statuses


async def test_request_that_closing_breaks_off_is_not_recorded(web: Web, open_gate: OpenGate) -> None:
    """It is no failure of the site's: the next run asks for its robots.txt."""
    store = MemoryStore()
    gate = await open_gate(store=store)
    web.handle(ROBOTS, silent())
    waiting = asyncio.create_task(gate.allowed(PAGE))
    await web.arrivals(1)
    waiting.cancel()
    await gate.aclose()
    assert await store.load_record(Origin.of(PAGE)) is None
