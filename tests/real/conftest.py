"""What the tests of real programs share."""

from __future__ import annotations

import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Unpack

import pytest
import trustme
from tests.gate.servers import DELAY, RULES

from robotgate import GateOptions, RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.conftest import OpenGate


@pytest.fixture
async def open_gate() -> AsyncIterator[OpenGate]:
    """Makes gates that learn no delay, on sessions of their own, which may use loopback; closes them in the end."""
    async with AsyncExitStack() as stack:

        async def open_one(**options: Unpack[GateOptions]) -> RobotGate:
            chosen = GateOptions(delay=DELAY, adaptive=False, allow_private_addresses=True)
            chosen.update(options)
            gate = RobotGate("ExampleBot/1.0", contact="bot@example.org", **chosen)
            return await stack.enter_async_context(gate)

        yield open_one


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Signs certificates, and is trusted by nobody."""
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """Trusts the authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """For a server that gives up the rights of root. `tmp_path` is closed to others by any pytest that begins."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a robots.txt and a page."""
    (tmp_path / "robots.txt").write_text(RULES, encoding="ascii")
    (tmp_path / "page.html").write_text("A page", encoding="ascii")
    return tmp_path
