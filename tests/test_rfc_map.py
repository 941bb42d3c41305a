"""docs/rfc9309.md names tests that exist, and every test of a section of RFC 9309."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
MAP: Final = (ROOT / "docs" / "rfc9309.md").read_text(encoding="utf-8")
CLAUSE: Final = re.compile(
    r"^\*\*(?P<number>G?[0-9]+)\.\*\* (?P<text>.*?)(?=^(?:\*\*|## )|\Z)", re.MULTILINE | re.DOTALL
)
NAMED: Final = re.compile(r"^- `(?P<test>tests/\S+\.py::test_\w+)`$", re.MULTILINE)
NAMED_FOR_A_SECTION: Final = re.compile(r"test_[0-9]")
STATEMENTS: Final = 39


def defined_in(path: Path) -> Iterator[str]:
    """The tests of a file, as pytest names them."""
    for node in ast.parse(path.read_bytes(), str(path)).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{path.relative_to(ROOT).as_posix()}::{node.name}"


CLAUSES: Final = {found["number"]: NAMED.findall(found["text"]) for found in CLAUSE.finditer(MAP)}
SPEC: Final = [
    test
    for path in sorted((ROOT / "tests" / "spec").glob("test_*.py"))
    if NAMED_FOR_A_SECTION.match(path.name)
    for test in defined_in(path)
]


def test_every_statement_has_its_clause() -> None:
    """All are there, in order, and no number twice."""
    numbers = [found["number"] for found in CLAUSE.finditer(MAP) if found["number"].isdigit()]
    assert numbers == [str(number) for number in range(1, STATEMENTS + 1)]


@pytest.mark.parametrize("number", CLAUSES)
def test_every_clause_has_a_test(number: str) -> None:
    """A clause that nothing holds is a promise."""
    assert CLAUSES[number]
    assert len(set(CLAUSES[number])) == len(CLAUSES[number])


@pytest.mark.parametrize("test", sorted({test for tests in CLAUSES.values() for test in tests}))
def test_named_test_exists(test: str) -> None:
    """Under the very name, in the very file."""
    path = ROOT / test.partition("::")[0]
    assert path.is_file()
    assert test in defined_in(path)


@pytest.mark.parametrize("test", SPEC)
def test_every_test_of_a_section_is_named(test: str) -> None:
    """What is written for the standard says for which of its clauses."""
    assert test in NAMED.findall(MAP)


def test_no_test_is_named_outside_of_a_clause() -> None:
    """The map has no line that these tests do not see."""
    assert sum(map(len, CLAUSES.values())) == len(re.findall(r"`tests/\S+::", MAP))
