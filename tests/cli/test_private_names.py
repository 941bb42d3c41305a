"""A name that resolves to a private address, on the command line: what is wrong, and which option permits it."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Final

import pytest

from robotgate import HostUnavailableError
from robotgate.cli._rows import refused

if TYPE_CHECKING:
    from tests.cli.conftest import Program

CONTACT: Final = "bot@example.org"


@pytest.fixture
def own_name() -> str:
    """This machine's, which most hosts files give a private address."""
    name = socket.gethostname().lower()
    try:
        infos = socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)
    except OSError:
        pytest.skip("this machine has no address by its own name")
    if name == "localhost" or any(ipaddress.ip_address(info[4][0]).is_global for info in infos):
        pytest.skip("this machine's own name is no private one")
    return name


@pytest.mark.parametrize("command", ["check", "lint", "fetch"])
async def test_a_private_name_is_named_as_such(program: Program, own_name: str, command: str) -> None:
    """The host, its address, and the option by the name that it has here."""
    ended = await program(command, "--contact", CONTACT, f"http://{own_name}/")

    assert ended.status != 0
    assert f"{own_name} resolves to " in ended.out
    assert "--allow-private-addresses permits it" in ended.out
    assert "allow_private_addresses" not in ended.out


def test_a_private_name_behind_a_redirect() -> None:
    """The site's robots.txt cannot be read for it."""
    error = HostUnavailableError(
        "site.example", 60.0, "it resolves so (allow_private_addresses=True permits it)"
    )

    _, row = refused("http://site.example/", error)

    assert row["message"] == "it resolves so (--allow-private-addresses permits it)"
