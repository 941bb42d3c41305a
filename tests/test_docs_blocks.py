"""Every block of code in README.md and docs is run: by the test that `CLAIMED` names, or by this file.

This file runs:

- a program (it ends in ``if __name__ == "__main__":``) in a process of its own, by the command in the console block
  that follows it, which also shows what it prints; ``…`` stands for what differs from run to run. A text block right
  behind is what its sites have seen of it: nothing else, and nothing sooner;
- other Python in the page's own namespace, one block after the other;
- a command ``robotgate …`` in a process, in the same web as the programs: see `tests.offline`. Behind a bar stands what
  reads what it prints.

Of commands for a benchmark or an example, which have tests of their own, it checks that they exist. Any other block
fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import pytest
from tests.documents import ANY_FENCE, FENCE, PAGES, Block, blocks_of, is_ours, is_there, name_of
from tests.offline_web import offline_web

from robotgate.cli.demo import DEFAULT_PORT, greeting
from robotgate.judge.sites import draw_plan

if TYPE_CHECKING:
    from pathlib import Path


AT_ONCE: Final = 6
"""More, and they would be late for one another's sake."""
NO_CODE: Final = {"dockerfile", "ini", "yaml"}
"""Configuration of other programs: not run."""
SERVE: Final = ["robotgate", "demo", "--serve"]
"""Has an end by Ctrl-C only: what it says first is compared, and its sites are there in any case."""


CLAIMED: Final[dict[str, dict[str, int]]] = {
    # By tests/test_docs_calls.py and .ci/run.
    "README.md": {"console": 4},
    # By tests/cli/test_config.py.
    "docs/command-line.md": {"toml": 1},
    # By tests/integration/test_playwright_docs.py.
    "docs/browsers.md": {"program": 2},
    # By tests/test_docs_site.py.
    "docs/api/errors.md": {"text": 1},
    # By tests/test_prose_docs.py.
    "docs/design.md": {"text": 3},
    # By tests/integration/test_engines.py and test_urlfrontier.py.
    "docs/engines.md": {"program": 6, "python": 6},
    # By tests/test_fleet_docs.py.
    "docs/fleet.md": {"program": 1, "text": 1},
    # By tests/integration/test_httpx_docs.py.
    "docs/httpx.md": {"program": 1, "python": 2},
    # By tests/judge/test_docs.py.
    "docs/judge.md": {"console": 1},
    # By tests/test_docs_programs.py.
    "docs/private-addresses.md": {"program": 1, "text": 1},
    # By tests/integration/test_scrapy_docs.py.
    "docs/scrapy.md": {"program": 1},
    # By tests/test_docs_programs.py, and tests/cli/test_cache_docs.py.
    "docs/store.md": {"program": 1, "console": 1},
    # By tests/test_readme.py.
    "docs/testing-your-spider.md": {"python": 4},
}
"""How many blocks of a kind other tests run, by page: of a language, or programs that stand for themselves. Where only
some blocks of a kind are claimed, it is the last ones."""


def unclaimed(path: Path) -> list[Block]:
    """Those that are run here."""
    left = dict(CLAIMED.get(name_of(path), {}))
    rest = []
    for block in reversed(blocks_of(path)):
        if left.get(block.kind, 0):
            left[block.kind] -= 1
        else:
            rest.append(block)
    return rest[::-1]


def page_of(path: Path) -> object:
    """A parameter that is called as the page."""
    return pytest.param(path, id=name_of(path))


EVERY_PAGE: Final = [page_of(path) for path in PAGES]
WITH_COMMANDS: Final = [page_of(path) for path in PAGES if any(block.is_played for block in unclaimed(path))]
WITH_SNIPPETS: Final = [
    page_of(path)
    for path in PAGES
    if any(block.language == "python" and not block.is_program for block in unclaimed(path))
]


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_every_block_has_somebody_who_runs_it(path: Path) -> None:
    """A new block is either of a kind that is run here, or its page says who runs it: then so many, and no more."""
    found = blocks_of(path)
    page = path.read_text(encoding="utf-8")
    assert len(ANY_FENCE.findall(page)) == 2 * len(FENCE.findall(page)), (
        "a fence that is not closed, or set in"
    )
    for kind in CLAIMED.get(name_of(path), {}):
        assert any(block.kind == kind for block in found), kind
    rest = unclaimed(path)
    for before, block, following in zip([None, *rest], rest, [*rest[1:], None], strict=False):
        where = f"{name_of(path)}:{block.line}: nobody runs this block"
        is_seen = block.language == "text" and before is not None and before.is_played
        assert block.language in {"python", "console", *NO_CODE} or is_seen, where
        commands = list(block.commands)
        assert commands or block.language != "console", where
        for command, _ in commands if block.language == "console" else ():
            assert is_ours(command) or is_there(command), where
        if block.is_program:
            assert following is not None, where
            assert following.is_played, where


@pytest.mark.parametrize("path", WITH_SNIPPETS)
def test_snippets_run(path: Path) -> None:
    """One after the other, each with the names of those before it."""
    names: dict[str, object] = {"__name__": "a page"}
    for block in unclaimed(path):
        if block.language == "python" and not block.is_program:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * block.line + block.text, path, "exec"), names)


@dataclass(frozen=True, slots=True)
class Played:
    """A block of console that was typed."""

    typed: Block
    seen: Block | None
    """What its sites should have seen, if the page says."""
    came: str
    """What has come of it."""

    @property
    def shown(self) -> str:
        """What the page shows, to be compared with it."""
        shown = [f"$ {shlex.join(command)}\n{printed}" for command, printed in self.typed.commands]
        return "\n".join([*shown, self.seen.text] if self.seen is not None else shown)


def new_folder(place: Path) -> Path:
    """Where one block is played."""
    place.mkdir(parents=True)
    return place


async def play(program: Block | None, typed: Block, seen: Block | None, folder: Path) -> Played:
    """The blocks as they would look if the commands had just been typed; what is shown stands where it is right."""
    played = []
    async with offline_web(new_folder(folder)) as web:
        for command, shown in typed.commands:
            if program is not None and command[0] == "python":
                (folder / command[1]).write_text(program.text, encoding="utf-8")
            status: int | None = 0
            printed = ""
            if command == SERVE:
                printed = greeting(f"http://127.0.0.1:{DEFAULT_PORT}", draw_plan(1, 500)) + "\n"
            else:
                for is_bar, words in groupby(command, "|".__eq__):
                    what, *arguments = words
                    cli = ("-m", "robotgate") if what == "robotgate" else ()
                    if not is_bar:
                        status, printed = await web.run(*cli, *arguments, cwd=folder, stdin=printed)
            pattern = re.escape(shown.rstrip("\n")).replace("…", ".+")
            is_right = re.fullmatch(pattern, printed.rstrip("\n")) and "Traceback" not in printed
            played.append(
                f"$ {shlex.join(command)}\n{shown if is_right else f'{printed}(exit status {status})'}"
            )
    if seen is not None:
        told = "".join(f"{line}\n" for line in web.told)
        played.append(seen.text if is_as_seen(seen.text, told) else told)
    return Played(typed, seen, "\n".join(played))


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


async def play_all(folder: Path) -> dict[Path, list[Played]]:
    """Every block of console of every page, some at a time: most of it is waiting for a pace.

    What hosts of different delays print in turn comes in another order where the machine has no time for half a second:
    what does not look right is typed once more, with less beside it.
    """
    some, few = asyncio.Semaphore(AT_ONCE), asyncio.Lock()

    async def play_one(program: Block | None, typed: Block, seen: Block | None, place: Path) -> Played:
        async with some:
            played = await play(program, typed, seen, place)
        if played.came == played.shown:
            return played
        async with few:
            return await play(program, typed, seen, place / "again")

    running: dict[Path, list[asyncio.Task[Played]]] = {}
    async with asyncio.timeout(240), asyncio.TaskGroup() as tasks:
        for path in PAGES:
            rest = unclaimed(path)
            for before, block, after in zip([None, *rest], rest, [*rest[1:], None], strict=False):
                if block.is_played:
                    program = before if before is not None and before.is_program else None
                    seen = after if after is not None and after.language == "text" else None
                    place = folder / path.stem / str(block.line)
                    playing = tasks.create_task(play_one(program, block, seen, place))
                    running.setdefault(path, []).append(playing)
    return {path: [task.result() for task in done] for path, done in running.items()}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[Played]]:
    """What has come of all blocks of console."""
    return asyncio.run(play_all(tmp_path_factory.mktemp("played")))


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_COMMANDS)
def test_commands_print_what_is_shown(path: Path, played: dict[Path, list[Played]]) -> None:
    """Each block of console, with the program above it; the commands of one in their order."""
    for block in played[path]:
        assert block.came == block.shown, f"{name_of(path)}:{block.typed.line}"
