"""The documents, as the tests see them: pages, and the blocks of code in them."""

from __future__ import annotations

import importlib.util
import io
import re
import runpy
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.test_readme import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCS: Final = ROOT / "docs"
PAGES: Final = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE: Final = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?P<info>.*)\n(?P<text>(?:.*\n)*?)(?P=fence)$", re.MULTILINE
)
ANY_FENCE: Final = re.compile(r"^ *(?:`{3,}|~{3,})", re.MULTILINE)
TABLE: Final = re.compile(r"^\|(?P<head>.*)\|\n\| --- .*\n(?P<rows>(?:\|.*\|\n)+)", re.MULTILINE)
WHOLE: Final = 'if __name__ == "__main__":'


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page."""

    language: str
    text: str
    line: int

    @property
    def kind(self) -> str:
        """Its language, but that a program that stands for itself is one."""
        return "program" if self.is_program else self.language

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
    """All of a page, in order, but for what the site's generator is told."""
    page = path.read_text(encoding="utf-8")
    return [
        Block(found["info"].strip(), found["text"], page.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(page)
        if not found["info"].startswith("{")
    ]


def tables(page: str) -> list[list[dict[str, str]]]:
    """The rows of each table of a text, by the heads of the columns."""
    return [
        [dict(zip(_cells(table["head"]), _cells(row), strict=True)) for row in table["rows"].splitlines()]
        for table in TABLE.finditer(page)
    ]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def defined_by(program: str, page: str) -> dict[str, object]:
    """The names that a program of a page defines, which is not run as the main one."""
    names: dict[str, object] = {"__name__": "a page"}
    exec(compile(program, page, "exec"), names)
    return names


def printed_by(name: str) -> str:
    """What a program of docs prints."""
    with redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(DOCS / name), run_name="__main__")
    return printed.getvalue()
