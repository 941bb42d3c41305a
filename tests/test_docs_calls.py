"""What README.md and other pages show without its output is run as well: commands, a spider, single functions."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from tests.documents import PAGES, blocks_of
from tests.offline_web import offline_web
from tests.test_readme import ROOT

from robotgate.cli.app import robotgate

if TYPE_CHECKING:
    from pathlib import Path

README: Final = ROOT / "README.md"


def test_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that fetch, in the web of the programs, and before the others. tests/judge has those that crawl.

    The two that a stranger types first are run by continuous integration, as tests/test_readme.py holds.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ROBOTGATE_CONTACT", "bot@example.org")
    (tmp_path / "robots.txt").write_text("User-agent: *\nDisallow: /private\n", encoding="utf-8")
    (tmp_path / "urls.txt").write_text("https://example.com/\n", encoding="utf-8")
    shown = [
        command for block in blocks_of(README) if block.language == "console" for command, _ in block.commands
    ]
    typed = [
        arguments
        for name, *arguments in shown
        if name == "robotgate" and arguments[0] not in {"demo", "judge"}
    ]
    asking = [arguments for arguments in typed if "-i" in arguments or "https://" in " ".join(arguments)]

    async def ask_the_web() -> list[tuple[int | None, str]]:
        async with offline_web(tmp_path) as web, asyncio.timeout(120):
            running = (web.run("-m", "robotgate", *arguments, cwd=tmp_path) for arguments in asking)
            return await asyncio.gather(*running)

    assert asking
    for arguments, (status, printed) in zip(asking, asyncio.run(ask_the_web()), strict=True):
        assert status == (1 if arguments[0] == "check" else 0), printed
    for arguments in typed:
        if arguments not in asking:
            ended = CliRunner().invoke(robotgate, arguments)
            assert ended.exit_code == (1 if arguments[0] == "check" else 0), ended.output


FUNCTION: Final = re.compile(r"^async def (?P<name>\w+)\((?P<argument>url|urls|)(?:: str)?\)", re.MULTILINE)
ARGUMENTS: Final = {"url": "'https://example.org/tea'", "urls": "['https://example.org/tea']", "": ""}
CALLER: Final = """\
import asyncio

async def main():
    await asyncio.gather(*calls)

calls = []
for code, call in {calls!r}:
    names = {{"__name__": "a page"}}
    exec(code, names)
    calls.append(eval(call, names))
asyncio.run(main())
"""


@pytest.mark.slow
async def test_functions_that_are_only_shown_can_be_called(tmp_path: Path) -> None:
    """All at once, in one process, as each waits for a pace; as they stand, but for a minute of delay and for Redis."""
    calls = []
    for page in PAGES:
        for block in blocks_of(page):
            found = (
                FUNCTION.findall(block.text)
                if block.kind == "python" and "with RobotGate(" in block.text
                else []
            )
            if len(found) == 1 and "redis://" not in block.text and "pytest" not in block.text:
                ((name, argument),) = found
                calls.append((block.text.replace("delay=60, ", ""), f"{name}({ARGUMENTS[argument]})"))
    assert calls
    (tmp_path / "calls.py").write_text(CALLER.format(calls=calls), encoding="utf-8")
    async with offline_web(tmp_path) as web, asyncio.timeout(120):
        status, printed = await web.run("calls.py", cwd=tmp_path)
    assert status == 0, printed
    assert web.told
