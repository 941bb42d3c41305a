"""What pages without programs say can be held, too: names exist, decisions are told of, words are there once."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Final

import pytest
from tests.test_readme import ROOT

import robotgate
from robotgate import HostOverride, RobotGate

DOCS: Final = ROOT / "docs"
PACKAGE: Final = Path(robotgate.__file__).parent
CODE: Final = re.compile(r"`([^`\n]+)`")
OF_GATE: Final = re.compile(r"\bgate\.(\w+)")
OPTION: Final = re.compile(r"^(\w+)=")
TERM: Final = re.compile(r"^## (.+)$", re.MULTILINE)
THREAD: Final = re.compile(r"\b[\w.-]+#\d+")
PROSE: Final = ("design", "faq", "glossary", "good-citizen", "middleware", "spider", "tutorial")


def code_of(name: str) -> list[str]:
    """What stands in backticks on a page."""
    return CODE.findall((DOCS / f"{name}.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PROSE)
def test_names_are_those_of_the_code(name: str) -> None:
    """Methods of a gate, options, modules, and whatever is called as a public class is."""
    options = {*inspect.signature(RobotGate).parameters, *inspect.signature(HostOverride).parameters}
    for code in code_of(name):
        assert [word for word in OF_GATE.findall(code) if not hasattr(RobotGate, word)] == [], code
        given = OPTION.match(code)
        assert given is None or given[1] in options | {"ahead", "middlewares"}, code
        if re.fullmatch(r"_[a-z_]+", code):
            assert (PACKAGE / f"{code}.py").is_file(), code
        if re.fullmatch(r"[A-Z]\w+Error", code) and code != "TimeoutError":
            assert hasattr(robotgate, code), code


def test_every_decision_is_told_of() -> None:
    """A new one has a line on the page about the design."""
    page = (DOCS / "design.md").read_text(encoding="utf-8")
    untold = [
        path.name
        for path in sorted((DOCS / "decisions").glob("0*.md"))
        if f"decisions/{path.name}" not in page
    ]
    assert untold == []


def test_words_are_there_once_and_in_order() -> None:
    """So that each can be found, and linked to."""
    terms = [term.lower() for term in TERM.findall((DOCS / "glossary.md").read_text(encoding="utf-8"))]
    assert terms == sorted(set(terms))


@pytest.mark.parametrize(
    "word", [name for name in code_of("glossary") if name.isidentifier() and name[0].isupper()]
)
def test_words_of_the_code_are_public(word: str) -> None:
    """What the glossary calls by a name of the code can be imported, or is somebody's name."""
    assert hasattr(robotgate, word) or word == "ExampleBot"


def test_threads_are_named_in_plain_text() -> None:
    """No link, which would tell strangers' trackers of us; and questions are many."""
    page = (DOCS / "faq.md").read_text(encoding="utf-8")
    assert len(set(THREAD.findall(CODE.sub("", page)))) > 70
    assert not re.search(r"\]\([^)]*(?:github|issues)", page)
