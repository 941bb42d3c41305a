"""`RobotGate(dialect=Dialect.CLASSIC)`: a crawl by the Standard for Robot Exclusion of 1994, at real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.gate.servers import ROBOTS, SITE

from robotgate import Dialect, DisallowedError, Reason, SQLiteStore, StatusPolicy

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

BODY = """\
User-agent: bot
Disallow: /tea
Disallow: /*.gif
Disallow: /caf%
Crawl-delay: 50
Allow: /tea/green

User-agent: *
Disallow: /milk
"""
BY_CLASSIC = {"/tea/green": False, "/tea": False, "/x.gif": True, "/caf%C3%A9": False, "/milk": True}
BY_RFC9309 = {"/tea/green": True, "/tea": True, "/x.gif": True, "/caf%C3%A9": True, "/milk": False}


async def test_classic_gate_keeps_to_the_standard_of_1994(web: Web, open_gate: OpenGate) -> None:
    """The record whose value is a part of our name binds, rules are prefixes, the first decides; at every door."""
    web.serve(ROBOTS, BODY)
    gate = await open_gate(dialect=Dialect.CLASSIC)
    for path, is_allowed in BY_CLASSIC.items():
        url = f"{SITE}{path}"
        assert await gate.allowed(url) is gate.allowed_nowait(url) is is_allowed
        assert (await gate.check(url)).allowed is is_allowed
        if is_allowed:
            assert (await gate.fetch(url)).status == 200
            continue
        for asked in (gate.fetch(url), gate.turn(url).__aenter__()):
            with pytest.raises(DisallowedError):
                await asked
    assert web.urls == [ROBOTS, f"{SITE}/x.gif", f"{SITE}/milk"]


async def test_both_dialects_share_a_store(web: Web, open_gate: OpenGate, tmp_path: Path) -> None:
    """It keeps the file as it was served, which each gate reads by its own dialect: it is requested once."""
    web.serve(ROBOTS, BODY)
    async with SQLiteStore(tmp_path / "cache.db") as store:
        for dialect, expected in [(Dialect.CLASSIC, BY_CLASSIC), (Dialect.RFC9309, BY_RFC9309)] * 2:
            gate = await open_gate(store=store, dialect=dialect)
            answers = {path: await gate.allowed(f"{SITE}{path}") for path in expected}
            assert answers == expected
            await gate.aclose()
    assert web.urls == [ROBOTS]


async def test_rules_that_are_read_again_are_of_the_same_dialect(web: Web, open_gate: OpenGate) -> None:
    """After a refresh, and of a file that the caller has."""
    gate = await open_gate(dialect=Dialect.CLASSIC)
    gate.learn(SITE, BODY.encode())
    assert gate.allowed_nowait(f"{SITE}/tea/green") is False
    web.serve(ROBOTS, BODY.replace("/tea", "/chai"))
    await gate.refresh(SITE)
    assert gate.allowed_nowait(f"{SITE}/tea/green") is True
    assert gate.allowed_nowait(f"{SITE}/chai/green") is False


@pytest.mark.parametrize(
    ("policy", "is_allowed"), [(StatusPolicy.DEFAULT, False), (StatusPolicy.ARCHIVE, True)]
)
async def test_status_policy_is_chosen_apart(
    web: Web, open_gate: OpenGate, policy: StatusPolicy, *, is_allowed: bool
) -> None:
    """A dialect says how a file is read, not what a missing one means."""
    web.serve(ROBOTS, status=403)
    gate = await open_gate(dialect=Dialect.CLASSIC, status_policy=policy)
    assert await gate.allowed(SITE) is is_allowed


async def test_purposes_are_obeyed_beside_it(web: Web, open_gate: OpenGate) -> None:
    """What a site says about uses is no part of the standard of 1994, and holds all the same."""
    web.serve(ROBOTS, "User-agent: *\nContent-Signal: ai-train=no\nDisallow: /tea\nAllow: /tea/green\n")
    gate = await open_gate(dialect=Dialect.CLASSIC, purposes={"ai_train"})
    verdict = await gate.check(f"{SITE}/page")
    assert verdict.reason is Reason.DISALLOWED_BY_PREFERENCE
    assert (await gate.check(f"{SITE}/tea/green")).reason is Reason.DISALLOWED_BY_RULE
