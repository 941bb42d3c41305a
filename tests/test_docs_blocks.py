"""Every block of code in README.md and docs is run: by a test that is named here, or by this file as it stands.

What nobody has claimed is run here:

- a program (it ends in ``if __name__ == "__main__":``) in a process of its own, by the command of the block of console
  that follows it, which also shows what it prints; ``…`` stands for what differs from run to run. A block of text
  right behind is what its sites have seen of it: nothing else, and nothing sooner;
- other Python in the page's own namespace, one block after the other, and it asserts what it says;
- a command ``robotgate …`` in a process, in the same web as the programs: see `tests.offline`;
- of a benchmark or an example, which have tests of their own, no more than that it is there.

A block that is none of these, and that nobody has claimed, fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from tests.offline_web import offline_web
from tests.test_readme import ROOT

from robotgate.cli._commands import robotgate
from robotgate.cli._demo_plan import draw_plan
from robotgate.cli._demo_serve import DEFAULT_PORT, greeting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


FENCE: Final = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?P<info>.*)\n(?P<text>(?:.*\n)*?)(?P=fence)$", re.MULTILINE
)
ANY_FENCE: Final = re.compile(r"^ *(?:`{3,}|~{3,})", re.MULTILINE)
SERVE: Final = ["robotgate", "demo", "--serve"]
"""Has an end by Ctrl-C only: what it says first is compared, and its sites are there in any case."""
WHOLE: Final = 'if __name__ == "__main__":'


@dataclass(frozen=True, slots=True)
class Claim:
    """So many blocks of a language are run by a test that is not here."""

    language: str
    count: int
    by: str


CLAIMED: Final[dict[str, tuple[Claim, ...]]] = {
    "README.md": (
        Claim("python", 7, "tests/test_readme.py"),
        Claim("console", 3, "tests/test_docs_blocks.py"),
        Claim("text", 1, "tests/cli/test_demo.py"),
    ),
    "docs/cache.md": (
        Claim("python", 1, "tests/test_cache_docs.py"),
        Claim("console", 1, "tests/test_cache_docs.py"),
    ),
    "docs/doors.md": (Claim("python", 5, "tests/test_doors_docs.py"),),
    "docs/fleet.md": (
        Claim("python", 3, "tests/test_fleet_docs.py"),
        Claim("text", 1, "tests/test_fleet_docs.py"),
    ),
    "docs/httpx.md": (Claim("python", 3, "tests/integration/test_httpx_docs.py"),),
    "docs/pace.md": (Claim("python", 11, "tests/test_pace_docs.py"),),
    "docs/private-addresses.md": (
        Claim("python", 1, "tests/test_address_docs.py"),
        Claim("text", 1, "tests/test_address_docs.py"),
    ),
    "docs/scaling.md": (Claim("python", 1, "tests/test_scaling_docs.py"),),
    "docs/scrapy.md": (Claim("python", 3, "tests/integration/test_scrapy_docs.py"),),
    "docs/store.md": (Claim("python", 1, "tests/test_store_docs.py"),),
    "docs/testing-your-spider.md": (Claim("python", 3, "tests/test_readme.py"),),
}
"""What other tests run, by page. Where only some blocks of a language are claimed, it is the first ones."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page."""

    language: str
    text: str
    line: int

    @property
    def is_program(self) -> bool:
        """Whether it stands for itself."""
        return self.language == "python" and WHOLE in self.text

    @property
    def is_played(self) -> bool:
        """Whether commands are to be typed that can be run here."""
        return self.language == "console" and any(is_ours(command) for command, _ in self.commands)

    @property
    def commands(self) -> Iterator[tuple[list[str], str]]:
        """What is typed, and what is shown to come of it."""
        for typed in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, shown = typed.partition("\n")
            yield shlex.split(command, comments=True), shown


def is_ours(command: list[str]) -> bool:
    """The command line, or a program of the page; not of the repository."""
    return command[0] == "robotgate" or (
        command[0] == "python" and "/" not in command[1] and command[1] != "-m"
    )


def is_there(command: list[str]) -> bool:
    """Whether a command that is not run here can be typed."""
    match command:
        case ["python", "-m", module, *_]:
            return importlib.util.find_spec(module) is not None
        case ["python", file, *_]:
            return (ROOT / file).is_file()
        case _:
            return command[:2] == ["pip", "install"]


def name_of(path: Path) -> str:
    """As the page is called in the table."""
    return path.relative_to(ROOT).as_posix()


def blocks_of(path: Path) -> list[Block]:
    """All of a page, in order."""
    page = path.read_text(encoding="utf-8")
    return [
        Block(found["info"].strip(), found["text"], page.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(page)
    ]


def unclaimed(path: Path) -> list[Block]:
    """Those that are run here."""
    left = {claim.language: claim.count for claim in CLAIMED.get(name_of(path), ())}
    rest = []
    for block in blocks_of(path):
        if left.get(block.language, 0):
            left[block.language] -= 1
        else:
            rest.append(block)
    return rest


def page_of(path: Path) -> object:
    """A parameter that is called as the page."""
    return pytest.param(path, id=name_of(path))


DOCUMENTS: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES: Final = [page_of(path) for path in DOCUMENTS]
WITH_COMMANDS: Final = [
    page_of(path) for path in DOCUMENTS if any(block.is_played for block in unclaimed(path))
]
WITH_SNIPPETS: Final = [
    page_of(path)
    for path in DOCUMENTS
    if any(block.language == "python" and not block.is_program for block in unclaimed(path))
]


@pytest.mark.parametrize("path", PAGES)
def test_every_block_has_somebody_who_runs_it(path: Path) -> None:
    """A new block is either of a kind that is run here, or its page says who runs it: then so many, and no more."""
    found = blocks_of(path)
    assert len(ANY_FENCE.findall(path.read_text(encoding="utf-8"))) == 2 * len(found)
    for claim in CLAIMED.get(name_of(path), ()):
        assert sum(block.language == claim.language for block in found) >= claim.count, claim
    rest = unclaimed(path)
    for before, block, following in zip([None, *rest], rest, [*rest[1:], None], strict=False):
        where = f"{name_of(path)}:{block.line}: nobody runs this block"
        is_seen = block.language == "text" and before is not None and before.is_played
        assert block.language in {"python", "console"} or is_seen, where
        for command, _ in block.commands if block.language == "console" else ():
            assert is_ours(command) or is_there(command), where
        if block.is_program:
            assert following is not None, where
            assert following.is_played, where


@pytest.mark.parametrize("page", CLAIMED)
def test_who_claims_a_block_knows_the_page(page: str) -> None:
    """The file that is named is there, and it reads that page."""
    for claim in CLAIMED[page]:
        text = (ROOT / claim.by).read_text(encoding="utf-8")
        assert page.rpartition("/")[2] in text or claim.by == "tests/cli/test_demo.py"


@pytest.mark.parametrize("path", WITH_SNIPPETS)
def test_snippets_run(path: Path) -> None:
    """One after the other, each with the names of those before it."""
    names: dict[str, object] = {"__name__": "a page"}
    for block in unclaimed(path):
        if block.language == "python" and not block.is_program:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * block.line + block.text, path, "exec"), names)


async def play(program: Block | None, typed: Block, seen: Block | None, folder: Path) -> str:
    """The blocks as they would look if the commands had just been typed; what is shown stands where it is right."""
    played = []
    async with offline_web(folder) as web:
        for command, shown in typed.commands:
            what, *arguments = command
            if program is not None and what == "python":
                (folder / arguments[0]).write_text(program.text, encoding="utf-8")
            if command == SERVE:
                status, printed = 0, greeting(f"http://127.0.0.1:{DEFAULT_PORT}", draw_plan(1, 500)) + "\n"
            else:
                cli = ("-m", "robotgate.cli") if what == "robotgate" else ()
                status, printed = await web.run(*cli, *arguments, cwd=folder)
            pattern = re.escape(shown.rstrip("\n")).replace("…", ".+")
            is_right = re.fullmatch(pattern, printed.rstrip("\n")) and "Traceback" not in printed
            played.append(
                f"$ {shlex.join(command)}\n{shown if is_right else f'{printed}(exit status {status})'}"
            )
    if seen is not None:
        told = "".join(f"{line}\n" for line in web.told)
        played.append(seen.text if is_as_seen(seen.text, told) else told)
    return "\n".join(played)


def is_as_seen(shown: str, told: str) -> bool:
    """Whether the sites have told this, and of nothing sooner than is shown; a machine may be slow."""
    asked, came = (sorted(map(seen_of, text.splitlines())) for text in (shown, told))
    return [what for what, _ in asked] == [what for what, _ in came] and all(
        at <= came_at for (_, at), (_, came_at) in zip(asked, came, strict=True)
    )


def seen_of(line: str) -> tuple[str, float]:
    """What was asked for, and after how many seconds."""
    at, _, what = line.partition(" s ")
    return what, float(at)


@pytest.mark.parametrize("path", WITH_COMMANDS)
async def test_commands_print_what_is_shown(path: Path, tmp_path: Path) -> None:
    """Each block of console, with the program above it; all blocks of a page at once, the commands of one in order."""
    rest = unclaimed(path)
    played, running = [], []
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for before, block, after in zip([None, *rest], rest, [*rest[1:], None], strict=False):
            if not block.is_played:
                continue
            program = before if before is not None and before.is_program else None
            seen = after if after is not None and after.language == "text" else None
            folder = tmp_path / str(block.line)
            folder.mkdir()
            played.append((block, seen))
            running.append(tasks.create_task(play(program, block, seen, folder)))
    for (block, seen), result in zip(played, running, strict=True):
        expected = [f"$ {shlex.join(command)}\n{shown}" for command, shown in block.commands]
        expected += [seen.text] if seen is not None else []
        assert result.result() == "\n".join(expected), f"{name_of(path)}:{block.line}"


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
        async with offline_web(tmp_path) as web, asyncio.timeout(60):
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
