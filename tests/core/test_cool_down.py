"""Rules let go of what they are matched with, and no answer shows it."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate._compile import compile_rules
from robotgate._rules import DENY_ALL, Rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

FILE = b"User-agent: *\nAllow: /a/open\nDisallow: /a\nDisallow: /*.json$\nDisallow: /b?\n"
TARGETS = st.text("/abopen?.jsn", max_size=12).map("/".__add__)


class Meddler:
    """Lets go of what rules are matched with before one step of theirs, as the loop may while a thread asks."""

    def __init__(self, rules: Rules, *, at: int) -> None:
        self._rules = rules
        self._at = at
        self.steps = 0

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Meddler | None:
        """What `sys.settrace` calls."""
        if frame.f_globals["__name__"] != Rules.__module__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.steps += 1
            if self.steps == self._at:
                tracing = sys.gettrace()
                sys.settrace(None)
                self._rules.cool_down()
                self._rules.cool_down()
                sys.settrace(tracing)
        return self


def meddled(rules: Rules, question: Callable[[], object], *, at: int) -> tuple[object, bool]:
    """The answer, and whether it took so many steps that somebody meddled."""
    meddler, tracing = Meddler(rules, at=at), sys.gettrace()
    sys.settrace(meddler)
    try:
        answer = question()
    finally:
        sys.settrace(tracing)
    return answer, meddler.steps >= at


@given(st.lists(st.tuples(TARGETS, st.booleans()), max_size=20))
def test_answers_are_those_of_rules_that_are_never_cold(questions: list[tuple[str, bool]]) -> None:
    """Whenever they are let go of, answers and verdicts are the same."""
    cold, kept = compile_rules(FILE, "bot"), compile_rules(FILE, "bot")
    for target, is_cooled in questions:
        if is_cooled:
            # The first says that there was a question.
            cold.cool_down()
            assert cold.cool_down()
        assert cold.allows(target) == kept.allows(target)
        assert cold.decide(target) == kept.decide(target)


def test_a_question_puts_it_off() -> None:
    """Rules that were asked since the last look stay ready once more; what is built is told each time."""
    rules = compile_rules(FILE, "bot")
    built: list[Rules] = []
    rules.tell_when_built(built.append)
    rules.allows("/a")
    assert not rules.cool_down()
    assert rules.cool_down()
    rules.allows("/a")
    rules.allows("/b")
    assert built == [rules, rules]


def test_an_explanation_is_a_question() -> None:
    """Who only ever asks why has rules that stay ready, as he has who asks whether."""
    rules = compile_rules(FILE, "bot")
    rules.decide("/a")
    assert not rules.cool_down()
    assert rules.cool_down()


@pytest.mark.parametrize("target", ["/a/open", "/a", "/c", "/c.json"])
@pytest.mark.parametrize("question", [Rules.allows, Rules.decide])
def test_rules_may_be_let_go_of_between_any_two_steps(
    question: Callable[[Rules, str], object], target: str
) -> None:
    """`allowed_nowait` answers other threads, too, while the loop lets go of rules whenever it likes."""
    rules = compile_rules(FILE, "bot")
    expected = question(rules, target)
    step, is_meddled = 0, True
    while is_meddled:
        step += 1
        question(rules, target)
        answer, is_meddled = meddled(rules, partial(question, rules, target), at=step)
        assert answer == expected
    assert step > 10


def test_what_stands_in_no_file_stays() -> None:
    """The rules that all closed sites share are everybody's: no gate is told of them, and none lets go of them."""
    told: list[Rules] = []
    DENY_ALL.tell_when_built(told.append)
    assert not DENY_ALL.allows("/a")
    assert not DENY_ALL.cool_down()
    assert not DENY_ALL.cool_down()
    assert not told
