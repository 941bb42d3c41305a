"""`Rules`: normal forms, decisions, and that no pattern makes it slow."""

import itertools
import re
import time
from collections.abc import Callable

import pytest
from tests.spelling import normalise_pattern, normalise_target

from robotgate.rules.grammar import RuleKind
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.rules import Decision, Rules
from robotgate.rules.verdict import Reason, Rule


def allow(pattern: str, line: int = 1) -> Rule:
    """An Allow line."""
    return Rule(RuleKind.ALLOW, pattern, line)


def disallow(pattern: str, line: int = 1) -> Rule:
    """A Disallow line."""
    return Rule(RuleKind.DISALLOW, pattern, line)


def test_a_decision_names_the_rule_and_the_one_it_beat() -> None:
    """The winner is the longest; the loser, the longest of the other kind."""
    rules = Rules([disallow("/a", 1), disallow("/", 2), allow("/a/b", 3), allow("/a", 4)], agents=["*"])
    assert rules.decide("/a/b/c") == Decision(
        allowed=True, reason=Reason.ALLOWED_BY_RULE, rule=allow("/a/b", 3), opposing=disallow("/a", 1)
    )
    assert rules.decide("/x") == Decision(
        allowed=False, reason=Reason.DISALLOWED_BY_RULE, rule=disallow("/", 2)
    )
    assert rules.decide("/a").rule == allow("/a", 4)


@pytest.mark.parametrize(
    ("patterns", "path"),
    [
        *((spellings, "/~a") for spellings in (["/~a", "/%7Ea"], ["/%7Ea", "/~a"])),
        (["/*c", "/ab", "/a*"], "/abc"),
        *((pair, "/abc") for pair in (["/ab", "/*c"], ["/a*", "/ab"], ["/ab", "/a*"])),
    ],
)
def test_of_rules_of_one_length_the_first_is_named(patterns: list[str], path: str) -> None:
    """However each is spelt, and whether or not they are the same."""
    rules = [disallow(pattern, line) for line, pattern in enumerate(patterns)]
    assert Rules(rules).decide(path).rule == rules[0]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([disallow("/")], True),
        ([disallow("*")], True),
        ([disallow("/*"), disallow("/a")], True),
        ([disallow("/$")], False),
        ([disallow("/"), allow("/a")], False),
        ([allow("/")], False),
        ([], False),
    ],
)
def test_what_refuses_everything(rules: list[Rule], *, expected: bool) -> None:
    """A rule for all that none opposes; not one for the front page only."""
    assert Rules(rules).disallows_everything is expected


BOMBS = {
    "one letter": ("/" + "*a" * 4_000 + "b", "/" + "a" * 8_000),
    "two letters": ("/" + "*ab" * 2_500 + "$", "/" + "ab" * 4_000 + "a"),
    "long pieces": ("/*" + ("a" * 800 + "*") * 10 + "b", "/" + "a" * 8_000),
    "nothing between": ("/" + "*" * 4_000 + "b", "/" + "a" * 8_000),
    "spelling": ("/" + "*%2F" * 80 + "b", "/?" + "%2F" * 500),
}


@pytest.mark.parametrize(("pattern", "target"), BOMBS.values(), ids=BOMBS.keys())
def test_wildcards_do_not_look_back(pattern: str, target: str) -> None:
    """Patterns for which a backtracking matcher needs hours take a few seconds of processor time at most."""
    rules = Rules([disallow(pattern)])
    started = time.process_time()
    assert rules.allows(target)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("blanks", [" ", "\t", "\t "], ids=repr)
def test_blanks_within_patterns_do_not_make_a_file_slow(blanks: str) -> None:
    """A file full of them takes tenths of a second of processor time, where it took ten seconds."""
    line = f"Disallow: /a{blanks * (16_000 // len(blanks))}b\n"
    started = time.process_time()
    assert RobotsTxt.parse(f"User-agent: *\n{line * 31}".encode()).allowed("/", "foobot")
    assert time.process_time() - started < 3


def as_expression(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression, which only a test may make of one."""
    body = ".*".join(map(re.escape, pattern.removesuffix("$").split("*")))
    return re.compile(body + (r"\Z" if pattern.endswith("$") else ""), re.DOTALL)


SHORT_PATTERNS = [
    "".join((first, *middle, end))
    for first in "/*"
    for length in range(4)
    for middle in itertools.product("/a?*", repeat=length)
    for end in ("", "$")
]
SHORT_TARGETS = [
    f"/{''.join(rest)}" for length in range(5) for rest in itertools.product("/a?", repeat=length)
]


@pytest.mark.parametrize("company", [[], ["/*b", "/*b$", "*b?", "/b*b"], [f"/*b{n}" for n in range(100)]])
def test_every_short_pattern_matches_what_it_says(company: list[str]) -> None:
    """However it is looked for: by itself, beside others of all kinds, or among many."""
    targets = [(target, normalise_target(target)) for target in SHORT_TARGETS]
    wrong = []
    for pattern in SHORT_PATTERNS:
        rules, expression = (
            Rules(map(disallow, [*company, pattern])),
            as_expression(normalise_pattern(pattern)),
        )
        wrong += [
            (pattern, target)
            for target, normal in targets
            if rules.allows(target) == bool(expression.match(normal))
        ]
    assert wrong == []


@pytest.mark.parametrize("count", [499, 501, 2_000])
def test_wildcards_with_a_text_each(count: int) -> None:
    """The answer does not depend on how many different texts are looked for, nor on the length of the target."""
    rules = Rules([disallow(f"/*{number:04}x") for number in range(count)])
    for end in ("", "z" * 10_000):
        assert not rules.allows(f"/page/0007x{end}")
        assert not rules.allows(f"/page/{count - 1:04}x{end}")
        assert rules.allows(f"/page/{count:04}x{end}")


@pytest.mark.parametrize("count", [300, 2_000])
def test_texts_that_a_long_url_does_not_contain_decide_nothing(count: int) -> None:
    """Be they in the same words and with the characters of a query, which the URL does contain."""
    target = f"/a?{'a=aaaa&' * 5_714}"
    others = [f"/*session{number}=" for number in range(count)]
    assert Rules(map(disallow, others)).allows(target)
    assert Rules([disallow("/"), *(Rule(RuleKind.ALLOW, path, 1) for path in [*others, "/*aaaa&"])]).allows(
        target
    )


@pytest.mark.parametrize("count", [90, 98, 99, 100, 101, 120])
def test_an_answer_does_not_change_when_it_is_asked_for_again(count: int) -> None:
    """The prefixes are sorted after some questions, and equal ones are then one: of many there may be few left."""
    rules = Rules([disallow(f"/{number}/") for number in [*range(count), *range(5)]] + [disallow("/*?a=")])
    for _ in range(30):
        assert not rules.allows("/7/page")
        assert not rules.allows("/page?a=1")
        assert rules.allows("/page")


FILLERS = {
    "one text, then others": (lambda number: f"/*{'a' * 94}baa*{number}", "/" + "a" * 29_800),
    "texts of one letter and another": (
        lambda number: f"/*{'a' * (number % 97)}b{'a' * (number // 97 % 97)}",
        "/" + "a" * 8_000,
    ),
    "texts in the wrong order": (
        lambda number: f"/*{'a' * (number % 97)}b{'a' * (number // 97 % 97)}*c",
        "/c" + "a" * 4_000 + "b" + "a" * 4_000,
    ),
    "short texts": (lambda number: f"*{number:x}*z", "/" + "0123456789abcdef" * 4_000),
    "escaped slashes": (lambda number: f"/{'*%2F' * 4_000}{number}", "/%25?" + "/" * 65_000),
    "raw slashes of an Allow": (lambda number: f"/{'*/' * 8_000}{number}", "/?" + "%2F" * 21_000),
    "lone percent signs": (lambda number: f"*%%*{number}", "/" + "%20" * 21_000),
    "ends": (lambda number: f"/*a*{number}$", "/" + "a1" * 32_000),
    "a text of its own in each": (lambda number: f"/*a*{number}", "/%25?" + "/" * 64_000),
    "a text and an escape of its own in each": (lambda number: f"/*{number}%2F*%", "/%25?" + "/" * 64_000),
}


@pytest.mark.parametrize(
    "kind",
    [RuleKind.DISALLOW, pytest.param(RuleKind.ALLOW, marks=pytest.mark.slow)],
    ids=lambda kind: kind.name,
)
@pytest.mark.parametrize(("pattern", "target"), FILLERS.values(), ids=FILLERS.keys())
def test_no_file_and_url_make_a_question_slow(
    pattern: Callable[[int], str], target: str, kind: RuleKind
) -> None:
    """A file full of one pattern, and a URL of 64 KB made for it: tenths of a second, where it was many seconds."""
    length = len(pattern(1)) + 11
    rules = Rules([disallow("/"), *(Rule(kind, pattern(number), 1) for number in range(512_000 // length))])
    for ask in (rules.allows, rules.decide):
        ask(target)
        started = time.process_time()
        ask(target)
        assert time.process_time() - started < 5
