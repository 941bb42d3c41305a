"""The fixture `mocked_web`, as the tests of a user take it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CONFTEST: Final = 'pytest_plugins = ["robotgate.testing.aioresponses"]\n'
TESTS: Final = """\
import aiohttp
import pytest
from robotgate import DisallowedError, HostUnavailableError, RobotGate

SITE = "https://example.com"


@pytest.fixture
async def gate():
    async with RobotGate("ExampleBot/1.0", contact="bot@example.org", delay=0) as gate:
        yield gate


async def test_page(mocked_web, gate):
    mocked_web.get(f"{SITE}/robots.txt", status=404)
    mocked_web.get(f"{SITE}/", body="hello")
    mocked_web.post(f"{SITE}/form", payload={"id": 1}, status=201)
    assert (await gate.fetch(f"{SITE}/")).text == "hello"
    assert (await gate.fetch(f"{SITE}/form", "POST")).json() == {"id": 1}


async def test_disallowed(mocked_web, gate):
    mocked_web.get(f"{SITE}/robots.txt", body="User-agent: *\\nDisallow: /private")
    with pytest.raises(DisallowedError):
        await gate.fetch(f"{SITE}/private/1")


async def test_failure(mocked_web, gate):
    mocked_web.get(f"{SITE}/robots.txt", status=404)
    mocked_web.get(f"{SITE}/", exception=aiohttp.ClientPayloadError("cut off"))
    with pytest.raises(aiohttp.ClientPayloadError):
        await gate.fetch(f"{SITE}/")


async def test_nothing_is_left_of_the_tests_before(mocked_web, gate):
    with pytest.raises(HostUnavailableError):
        await gate.fetch(f"{SITE}/")


async def test_sitemap(mocked_web, gate):
    mocked_web.get(f"{SITE}/robots.txt", body=f"Sitemap: {SITE}/map.txt")
    mocked_web.get(f"{SITE}/map.txt", body=f"{SITE}/a")
    assert [entry.loc async for entry in gate.sitemap_urls(SITE)] == [f"{SITE}/a"]
"""
SETTINGS: Final = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


def test_tests_of_a_user_pass(tmp_path: Path) -> None:
    """With one line in their conftest.py, and with warnings as errors."""
    for name, text in (("conftest.py", CONFTEST), ("test_spider.py", TESTS), ("pytest.ini", SETTINGS)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert "5 passed" in done.stdout
