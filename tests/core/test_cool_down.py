"""Rules let go of what they are matched with, and no answer shows it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from robotgate._compile import compile_rules
from robotgate._rules import DENY_ALL, Rules

FILE = b"User-agent: *\nAllow: /a/open\nDisallow: /a\nDisallow: /*.json$\nDisallow: /b?\n"
TARGETS = st.text("/abopen?.jsn", max_size=12).map("/".__add__)


@given(st.lists(st.tuples(TARGETS, st.booleans()), max_size=20))
def test_answers_are_those_of_rules_that_are_never_cold(questions: list[tuple[str, bool]]) -> None:
    """Whenever they are let go of, answers and verdicts are the same."""
    cold, kept = compile_rules(FILE, "bot"), compile_rules(FILE, "bot")
    for target, is_cooled in questions:
        if is_cooled:
            cold.cool_down()
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


def test_what_stands_in_no_file_stays() -> None:
    """The rules that all closed sites share are everybody's: no gate is told of them, and none lets go of them."""
    told: list[Rules] = []
    DENY_ALL.tell_when_built(told.append)
    assert not DENY_ALL.allows("/a")
    assert not DENY_ALL.cool_down()
    assert not DENY_ALL.cool_down()
    assert not told
