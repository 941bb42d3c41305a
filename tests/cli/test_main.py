"""The entry point."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from robotgate.cli._commands import robotgate

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
    """``python -m robotgate.cli`` is the same program."""
    ended = await program("--version")

    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("robotgate, version ")


@pytest.mark.parametrize(
    "command",
    [
        *("fetch", "check", "lint", "demo"),
        *(
            "cache ls",
            "cache show",
            "cache refresh",
            "cache forget",
            "cache prune",
            "cache export",
            "cache import",
        ),
    ],
)
def test_every_command_tells_its_exit_status(command: str) -> None:
    """A script that calls it needs to know."""
    ended = CliRunner().invoke(robotgate, [*command.split(), "--help"])

    assert ended.exit_code == 0
    assert "Exit status: 0" in ended.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("fetch", "--contact", "bot@example.org"), "Give URLs"),
        (("fetch", "http://a.example/"), "--contact"),
        (("fetch", "--contact", "nobody", "http://a.example/"), "contact='nobody'"),
        (("fetch", "--contact", "bot@example.org", "--delay", "-1", "http://a.example/"), "delay=-1.0"),
        (("fetch", "--contact", "bot@example.org", "-i", "/no/such/file"), "does not exist"),
        (("check", "http://a.example/"), "--contact"),
        (("check", "--robots", "/no/such/file", "/"), "No such file"),
        (("check", "--contact", "bot@example.org", "--agent", "Mozilla/5.0", "http://a.example/"), "Mozilla"),
        (("demo", "--pages", "0"), "pages"),
    ],
)
def test_wrong_usage_is_told_in_words(arguments: tuple[str, ...], complaint: str) -> None:
    """Status 2 and the option's name."""
    ended = CliRunner(env={"ROBOTGATE_CONTACT": None}).invoke(robotgate, arguments)

    assert ended.exit_code == 2
    assert complaint in ended.output
