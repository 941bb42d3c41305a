"""Rules drop their tables while nobody asks, and no answer changes."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.rules.parser import compile_rules
from robotgate.rules.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

FILE = b"User-agent: *\nAllow: /a/open\nDisallow: /a\nDisallow: /*.json$\nDisallow: /b?\n"
TARGETS = st.text("/abopen?.jsn", max_size=12).map("/".__add__)


class Meddler:
    """Cools rules down before one of their steps, as the event loop may while another thread asks."""

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
    """The answer, and whether it took enough steps to be interrupted."""
    meddler, tracing = Meddler(rules, at=at), sys.gettrace()
    sys.settrace(meddler)
    try:
        answer = question()
    finally:
        sys.settrace(tracing)
    return answer, meddler.steps >= at


@given(st.lists(st.tuples(TARGETS, st.booleans()), max_size=20))
def test_answers_are_those_of_rules_that_never_cool_down(questions: list[tuple[str, bool]]) -> None:
    """Cooling down at any time changes no answer and no decision."""
    cold, kept = compile_rules(FILE, "bot"), compile_rules(FILE, "bot")
    for target, is_cooled in questions:
        if is_cooled:
            # The first call only notes that there was a question.
            cold.cool_down()
            assert cold.cool_down()
        assert cold.allows(target) == kept.allows(target)
        assert cold.decide(target) == kept.decide(target)


def test_a_question_postpones_cooling_down() -> None:
    """Rules that were asked since the last call keep their tables once more."""
    rules = compile_rules(FILE, "bot")
    rules.allows("/a")
    assert not rules.cool_down()
    assert rules.cool_down()
    rules.allows("/a")
    assert not rules.cool_down()
    assert rules.cool_down()


def test_an_explanation_is_a_question() -> None:
    """Asking for decisions keeps the tables just as asking for answers does."""
    rules = compile_rules(FILE, "bot")
    rules.decide("/a")
    assert not rules.cool_down()
    assert rules.cool_down()


@pytest.mark.parametrize("target", ["/a/open", "/a", "/c", "/c.json"])
@pytest.mark.parametrize("question", [Rules.allows, Rules.decide])
def test_rules_may_cool_down_between_any_two_steps(
    question: Callable[[Rules, str], object], target: str
) -> None:
    """Another thread may ask while the event loop cools the rules down at any moment."""
    rules = compile_rules(FILE, "bot")
    expected = question(rules, target)
    step, is_meddled = 0, True
    while is_meddled:
        step += 1
        question(rules, target)
        answer, is_meddled = meddled(rules, partial(question, rules, target), at=step)
        assert answer == expected
    assert step > 10
