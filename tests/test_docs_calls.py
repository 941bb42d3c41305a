"""What README.md and other pages show without its output is run as well: commands, a spider, single functions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from click.testing import CliRunner
from tests.documents import blocks_of
from tests.offline_web import offline_web
from tests.test_readme import ROOT

from robotgate.cli._commands import robotgate

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that fetch, in the web of the programs, and before the others. The demonstration has tests of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "robots.txt").write_text("User-agent: *\nDisallow: /private\n", encoding="utf-8")
    (tmp_path / "urls.txt").write_text("https://example.com/\n", encoding="utf-8")
    _, _, shown = (block for block in blocks_of(ROOT / "README.md") if block.language == "console")
    (export, _), *typed = shown.commands
    monkeypatch.setenv(*export[1].split("=", 1))
    assert {command[0] for command, _ in typed} == {"robotgate"}
    check, fetch, check_file, lint, cache, demo = (arguments for (_, *arguments), _ in typed)

    async def ask_the_web() -> list[tuple[int | None, str]]:
        async with offline_web(tmp_path) as web, asyncio.timeout(120):
            return await asyncio.gather(
                *(web.run("-m", "robotgate.cli", *arguments, cwd=tmp_path) for arguments in (check, fetch))
            )

    (status, printed), fetched = asyncio.run(ask_the_web())
    assert (status, "Disallow: /private/" in printed) == (1, True), printed
    assert fetched[0] == 0, fetched
    assert '"url": "https://example.com/"' in (tmp_path / "rows.jsonl").read_text(encoding="utf-8")
    ended = [CliRunner().invoke(robotgate, arguments) for arguments in (check_file, lint, cache)]
    assert [end.exit_code for end in ended] == [1, 0, 0]
    assert "Disallow: /private" in ended[0].output
    assert "example.com" in ended[2].output
    assert demo[0] == "demo"


async def test_spider_of_the_readme_crawls(tmp_path: Path) -> None:
    """As it stands: it fetches what it may, and says which line forbids the rest."""
    (program,) = (block for block in blocks_of(ROOT / "README.md") if block.is_program)
    (tmp_path / "spider.py").write_text(program.text, encoding="utf-8")
    async with offline_web(tmp_path) as web, asyncio.timeout(120):
        status, printed = await web.run("spider.py", cwd=tmp_path)
    refused, *fetched = printed.splitlines()
    assert status == 0, printed
    assert "https://example.org/private/1 is disallowed by line 2 of its robots.txt" in refused
    assert [line.rpartition(" ")[0] for line in fetched] == [
        "200 https://example.org/",
        "200 https://example.com/",
    ]


CALLS: Final = (
    ("README.md", "aiohttp.ClientSession(middlewares", "crawl('https://example.org/tea')"),
    ("README.md", 'store="cache.db"', "crawl('https://example.org/tea')"),
    ("README.md", "gate.ready(urls)", "crawl(['https://example.org/tea'])"),
    ("docs/events.md", "gate.subscribe(hear", "crawl()"),
    ("docs/moving-from-lwp-robotua.md", "async def get(url)", "get('https://example.org/tea')"),
)
"""Functions that a page defines and does not call: by a word of their block, and how they are called."""
LOG: Final = "example.com is left alone until further notice: the operator wants it left alone\n"
"""What README.md's block on the pace has the gate say."""
CALLER: Final = """\
import asyncio

async def main():
    await asyncio.gather(*calls)

calls = []
for code, call in {calls!r}:
    names = {{"__name__": "a page"}}
    exec(code.replace("delay=60, ", ""), names)
    calls.append(eval(call, names))
asyncio.run(main())
"""


async def test_functions_that_are_only_shown_can_be_called(tmp_path: Path) -> None:
    """All at once, in one process, as each waits for a pace; but for a minute of delay, as they stand."""
    calls = []
    for page, word, call in CALLS:
        (block,) = (
            block for block in blocks_of(ROOT / page) if block.kind == "python" and word in block.text
        )
        calls.append((block.text, call))
    (tmp_path / "calls.py").write_text(CALLER.format(calls=calls), encoding="utf-8")
    async with offline_web(tmp_path) as web, asyncio.timeout(120):
        status, printed = await web.run("calls.py", cwd=tmp_path)
    assert (status, printed) == (0, LOG)
    # The turns of `ready` are taken, and their request is left to the reader.
    assert sum("GET https://example.org/tea " in line for line in web.told) == len(CALLS) - 2
