"""The entry point, and what is the same for all commands."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import CONTACT, run

if TYPE_CHECKING:
    from tests.cli.conftest import Program


@pytest.mark.parametrize("missing", ["click", "platformdirs", "rich"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    """One clear line and status 2, no traceback."""
    code = f"import sys; sys.modules[{missing!r}] = None; from robotgate.cli import main; main()"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        f"robotgate: the command line needs {missing}: pip install 'robotgate[cli]'"
    ]


async def test_it_runs_as_a_module(program: Program) -> None:
    """``python -m robotgate`` is the same program."""
    ended = await program("--version")

    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("robotgate, version ")


def test_every_command_tells_its_exit_status() -> None:
    """Scripts need to know; and no line of help is wider than 80 columns."""
    in_cache = ("ls", "show", "refresh", "forget", "prune", "export", "import")
    commands = [
        ("fetch",),
        ("check",),
        ("lint",),
        ("keygen",),
        ("directory",),
        ("demo",),
        *(("cache", name) for name in in_cache),
    ]

    for command in commands:
        ended = run(*command, "--help")
        assert ended.status == 0
        assert "Exit status: 0" in ended.out
        assert all(len(line) <= 80 for line in ended.out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("fetch", "--contact", CONTACT), "Give URLs"),
        (("fetch", "http://a.example/"), "--contact"),
        (("fetch", "--contact", "nobody", "http://a.example/"), "contact='nobody'"),
        (("fetch", "--contact", CONTACT, "--delay", "-1", "http://a.example/"), "delay=-1.0"),
        (("fetch", "--contact", CONTACT, "-i", "/no/such/file"), "does not exist"),
        (("check", "http://a.example/"), "--contact"),
        (("check", "--robots", "/no/such/file", "/"), "No such file"),
        (("check", "--contact", CONTACT, "--agent", "Mozilla/5.0", "http://a.example/"), "Mozilla"),
        (("lint", "http://a.example/"), "--contact"),
        (("demo", "--pages", "0"), "pages"),
    ],
)
def test_wrong_usage_is_explained(arguments: tuple[str, ...], complaint: str) -> None:
    """Status 2, the usage of the command, and the option by its name."""
    ended = run(*arguments)

    assert ended.status == 2
    assert ended.err.startswith(f"Usage: robotgate {arguments[0]} ")
    assert complaint in ended.err


@pytest.mark.parametrize("command", [("check",), ("lint",), ("fetch", "-q"), ("cache", "refresh")])
def test_a_private_address_is_refused_by_the_options_name(command: tuple[str, ...]) -> None:
    """The option that permits it is named as the command line has it, not as the library."""
    ended = run(*command, "--contact", CONTACT, "http://127.0.0.1/")

    assert ended.status != 0
    assert "--allow-private-addresses" in ended.out
    assert "allow_private_addresses" not in ended.out
