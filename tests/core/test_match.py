"""`Rules`: normal forms, decisions, and that no pattern makes it slow."""

import itertools
import re
import time
from collections.abc import Callable, Iterable

import pytest
from tests.spelling import normalise_pattern, normalise_target

from robotgate.rules.grammar import RequestRate, RuleKind, VisitTime
from robotgate.rules.rules import ALLOW_ALL, DENY_ALL, Decision, Rules
from robotgate.rules.verdict import Reason, Rule


def allow(pattern: str, line: int = 1) -> Rule:
    """An Allow line."""
    return Rule(RuleKind.ALLOW, pattern, line)


def disallow(pattern: str, line: int = 1) -> Rule:
    """A Disallow line."""
    return Rule(RuleKind.DISALLOW, pattern, line)


def disallows(patterns: Iterable[str], target: str) -> bool:
    """Whether any of some Disallow lines matches."""
    return not Rules(map(disallow, patterns)).allows(target)


def test_normal_form_of_a_target(subtests: pytest.Subtests) -> None:
    """Pure ASCII, with every escape that is needed and no other."""
    for target, normal in [
        ("", "/"),
        ("/", "/"),
        ("?x", "/?x"),
        ("#x", "/"),
        ("/a#b?c", "/a"),
        ("/a?", "/a?"),
        ("/%7e%41", "/~A"),
        ("/%2f%3f%23%25%26%3d%2b", "/%2F%3F%23%25%26%3D%2B"),
        ("/a%2F?b=%2f%3f%26", "/a%2F?b=%2F%3F%26"),
        ("/*$", "/%2A%24"),
        ("/%2a%24", "/%2A%24"),
        ("/é ツ", "/%C3%A9%20%E3%83%84"),
        ("/%c3%a9", "/%C3%A9"),
        ('/"<>[\\]^`{|}', "/%22%3C%3E%5B%5C%5D%5E%60%7B%7C%7D"),
        ("/%21%27%28%29%2c%3a%3b%40", "/!'(),:;@"),
        ("/%zz%4", "/%25zz%254"),
        ("/\x00\x7f\n", "/%00%7F%0A"),
        ("/\ud800", "/%ED%A0%80"),
        ("relative", "/relative"),
    ]:
        with subtests.test(target=target, normal=normal):
            assert normalise_target(target) == normal
            assert normalise_target(normal) == normal


@pytest.mark.parametrize(
    ("pattern", "normal"),
    [
        ("/a", "/a"),
        ("/*a$", "/*a$"),
        ("/a$b", "/a%24b"),
        ("/a$$", "/a%24$"),
        ("/a%", "/a%"),
        ("/a%*%2%%*", "/a%*%252%25%*"),
        ("/a%$", "/a%25$"),
        ("/%2a%24", "/%2A%24"),
        ("/é*", "/%C3%A9*"),
        ("/*%2f?%2f", "/*%2F?/"),
        ("*", "*"),
    ],
)
def test_normal_form_of_a_pattern(pattern: str, normal: str) -> None:
    """As a target's, but for the wildcard and the end mark."""
    assert normalise_pattern(pattern) == normal
    assert normalise_pattern(normal) == normal


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


def test_an_allow_that_nothing_opposes_is_named() -> None:
    """It decides, though nothing would have forbidden."""
    decision = Rules([allow("/a")], agents=["*"]).decide("/a")
    assert (decision.reason, decision.rule, decision.opposing) == (Reason.ALLOWED_BY_RULE, allow("/a"), None)


@pytest.mark.parametrize(
    ("agents", "reason"),
    [(("*",), Reason.NO_RULE_MATCHES), ((), Reason.NO_GROUP)],
    ids=["a group", "no group"],
)
def test_a_decision_without_a_rule(agents: tuple[str, ...], reason: Reason) -> None:
    """The reason tells an open path from an open site."""
    assert Rules((), agents=agents).decide("/a") == Decision(allowed=True, reason=reason)


def test_of_equal_rules_the_first_is_named() -> None:
    """However each is spelt."""
    rules = Rules([disallow("/~a", 1), disallow("/%7Ea", 2), disallow("/~a", 3)])
    assert rules.decide("/~a").rule == disallow("/~a", 1)


def test_of_equally_long_rules_the_first_is_named() -> None:
    """Where several of one kind match."""
    rules = Rules([disallow("/*c", 1), disallow("/ab", 2), disallow("/a*", 3)])
    assert rules.decide("/abc").rule == disallow("/*c", 1)
    assert Rules([disallow("/ab", 2), disallow("/*c", 3)]).decide("/abc").rule == disallow("/ab", 2)
    assert Rules([disallow("/a*", 2), disallow("/ab", 3)]).decide("/abc").rule == disallow("/a*", 2)
    assert Rules([disallow("/ab", 2), disallow("/a*", 3)]).decide("/abc").rule == disallow("/ab", 2)


def test_the_constants() -> None:
    """One forbids nothing, the other everything but robots.txt."""
    assert ALLOW_ALL.allows("/a")
    assert not DENY_ALL.allows("/a")
    assert DENY_ALL.allows("/robots.txt")
    assert DENY_ALL.decide("/robots.txt").reason is Reason.ROBOTS_TXT


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


def test_rules_tell_what_they_were_made_of() -> None:
    """Agents and what is asked about the speed."""
    rate, visits = RequestRate(1, 5), VisitTime(0, 60)
    rules = Rules(
        [disallow("/a")], agents=["a", "b"], crawl_delay=2.0, request_rates=[rate], visit_times=[visits]
    )
    assert (rules.agents, rules.crawl_delay) == (("a", "b"), 2.0)
    assert (rules.request_rates, rules.request_rate, rules.visit_times) == ((rate,), rate, (visits,))
    assert repr(rules) == "<Rules for a, b: 1 rules>"
    assert ALLOW_ALL.request_rate is None


@pytest.mark.parametrize("length", range(1, 9))
def test_prefixes_of_every_length(length: int) -> None:
    """Short rules and long ones are found alike."""
    path = "/abcdefgh"
    assert disallows([path[:length]], path)
    assert disallows([path[:length]], path[:length])
    assert length == 1 or not disallows([path[:length]], path[: length - 1])
    assert disallows([path[:length] + "*h$"], path)
    assert not disallows([path[:length] + "$"], path)


def test_the_longest_of_many_rules_decides() -> None:
    """Rules that share their first characters, and rules that do not."""
    rules = [disallow(f"/shared/{number}", number) for number in range(500)]
    rules += [allow(f"/shared/{number}/open", 500 + number) for number in range(500)]
    compiled = Rules(rules)
    assert compiled.decide("/shared/123").rule == disallow("/shared/123", 123)
    assert compiled.decide("/shared/7/open").rule == allow("/shared/7/open", 507)
    assert compiled.decide("/shared/x").rule is None


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


def test_a_file_full_of_wildcards() -> None:
    """As many rules as a file can hold, each of which must be tried."""
    rules = Rules(disallow(f"*{number:x}*z") for number in range(50_000))
    started = time.process_time()
    assert rules.allows("/" + "0123456789abcdef" * 20)
    assert time.process_time() - started < 10


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


def test_thousands_of_equal_rules_are_one() -> None:
    """What is compiled is counted, not what is written."""
    rules = Rules(disallow("/a", line) for line in range(8_000))
    assert repr(rules) == "<Rules for nobody: 1 rules>"


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


@pytest.mark.parametrize("kind", RuleKind)
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
