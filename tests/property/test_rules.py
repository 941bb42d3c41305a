"""Laws of parsing and matching that hold for every file and every URL."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.spelling import normalise_pattern, normalise_target

from robotgate.rules.grammar import RuleKind, canonical
from robotgate.rules.normal import target_units
from robotgate.rules.parser import Group, ParsedFile, compile_rules, parse_text
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.rules import Decision, Rules
from robotgate.rules.verdict import Rule

PIECES = (
    "/", "/", "a", "b", "ab", "A", "?", "&", "%26", ",", "%2C", "=", "%2f", "%2F", "%3F", "%3f", "%61", "%41", "%",
    "%2", "2F", "%25", "é", "%C3%A9", "%c3", " ", "%20", "*", "%2A", "%2a", "$", "%24", "#", "[", "%5b", ".",
)  # fmt: skip
PATTERNS = st.lists(st.sampled_from([*(piece for piece in PIECES if piece != "#"), *"******"]), max_size=10)
WRITTEN = st.tuples(st.sampled_from(["/", "/", "*", ""]), PATTERNS, st.sampled_from(["", "$"])).map(
    lambda parts: parts[0] + "".join(parts[1]) + parts[2]
)
ALIKE = ("ab", "ab", "ab", "ba", "/", "?", "=", "%2F", "é", "*")
"""Of which rules with long texts are made that match often."""
TARGETS = st.lists(st.sampled_from(PIECES), max_size=10).map(lambda pieces: "/" + "".join(pieces))

LINES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [
            b"User-agent: *", b"User-agent: foobot", b"User-agent: barbot/1", b"User-agent:",
            b"Crawl-delay: 3", b"Request-rate: 1/5 0100-0200", b"Visit-time: 0100-0200", b"Sitemap: /s",
            b"Disallow:", b"X: y", b"",
        ]
    ),
    WRITTEN.map(lambda pattern: f"Disallow: {pattern}".encode()),
    WRITTEN.map(lambda pattern: f"Allow: {pattern}".encode()),
)  # fmt: skip
SCRAPS = (
    b"User-agent", b"user agent", b"USERAGENT", b"Disallow", b"dissallow", b"ALLOW", b"Crawl-delay", b"sitemap", b":",
    b" ", b"\t", b"\v", b"\f", b"\n", b"\n", b"\n", b"\r", b"\r\n", b"#", b"\0", b"/a", b"/a*", b"*", b"$", b"%2F",
    b"\xe9", b"\xc3\xa9", b"foobot", b"barbot/1", b"1", b"\x1c", b"\xa0", b"\x85", b"b\xe9t", b"\xef\xbb\xbf",
    b"User-agent: foobot\n", b"User-agent: *\n", b"Disallow: /a\n", b"Crawl-delay: 2\n", b"Allow: /*b$\n",
)  # fmt: skip
FILES = st.lists(LINES, max_size=25).map(b"\n".join)


def url(target: str) -> str:
    """A path and query that is no URL without its scheme."""
    return f"/{target.lstrip('/')}"


def parse(body: bytes) -> ParsedFile:
    """A whole file."""
    return parse_text(canonical(body))


def units(text: str) -> list[str]:
    """A text octet by octet: a bare character, or the escape of one that differs from it."""
    found = []
    for unit in re.findall(r"%[0-9A-Fa-f]{2}|.", text, re.DOTALL):
        for octet in unit.encode() if len(unit) == 1 else (int(unit[1:], 16),):
            same = (octet < 0x80 and chr(octet).isalnum()) or chr(octet) in "-._~!'(),;:@"
            means_itself = len(unit) == 1 and chr(octet) in "/?&=+"
            found.append(chr(octet) if same or means_itself else f"%{octet:02X}")
    return found


def matches(pattern: str, target: str, *, is_allow: bool = False) -> bool:
    """The rule read byte by byte, keeping every place in the target that it could have come to."""
    if not pattern.startswith(("/", "*")):
        return False
    found = units(target.partition("#")[0])
    query = found.index("?") if "?" in found else len(found)
    has_end = pattern.endswith("$")
    places, is_strict = {0}, is_allow
    parts = re.split(r"(\*)", pattern[:-1] if has_end else pattern)
    for number, part in enumerate(parts):
        if part == "*":
            places = set(range(min(places, default=len(found) + 1), len(found) + 1))
            continue
        asked = units(part)
        if part.endswith("%") and not (has_end and number == len(parts) - 1):
            asked[-1] = "any escape"
        for unit in asked:
            is_strict = is_strict and unit != "?"
            places = {
                at + 1
                for at in places
                if at < len(found)
                and same(unit, found[at], in_query=at > query)
                and not (is_strict and (unit, found[at]) == ("/", "%2F"))
            }
    return len(found) in places if has_end else bool(places)


def same(unit: str, other: str, *, in_query: bool) -> bool:
    """Whether two bytes mean the same; in a query, so do a slash and its escape, a question mark and its."""
    if unit == "any escape":
        return other.startswith("%")
    pairs = ({"/", "%2F"}, {"?", "%3F"})
    return unit == other or (in_query and {unit, other} in pairs)


def allows(rules: Rules, target: str) -> bool:
    """Whether a target may be fetched, with its dot segments as they are."""
    return rules._allows_units(target_units(target))


def decide(rules: Rules, target: str) -> Decision:
    """The same, with the rules."""
    return rules._decide_units(target_units(target))


def priority(rule: Rule) -> tuple[int, bool]:
    """The longer rule first, and Allow first among equals."""
    return len(normalise_pattern(rule.path_pattern)), rule.kind is RuleKind.ALLOW


@given(WRITTEN, TARGETS)
def test_a_rule_matches_as_the_octets_say(pattern: str, target: str) -> None:
    """The fast matcher and the slow one agree."""
    rules = Rules([Rule(RuleKind.DISALLOW, pattern, 1)])
    assert (decide(rules, target).rule is not None) is matches(pattern, target)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(RuleKind),
            st.lists(st.sampled_from(ALIKE), min_size=2, max_size=6).map(
                lambda pieces: "/*" + "".join(pieces)
            ),
        ),
        max_size=12,
    ),
    st.lists(st.sampled_from(ALIKE), max_size=20).map(lambda pieces: "/" + "".join(pieces)),
    st.sampled_from(["", "z" * 9_000]),
)
def test_many_wildcards_that_do_not_match_change_no_answer(
    written: list[tuple[RuleKind, str]], target: str, end: str
) -> None:
    """Among hundreds of texts, others are looked for than among few, and in a long target in another way."""
    rules = [Rule(kind, pattern, line) for line, (kind, pattern) in enumerate(written)]
    texts = [text for number in range(600) for text in (f"{number:04}*x", f"session{number}=")]
    others = [Rule(kind, f"/*{text}", 99) for text in texts for kind in RuleKind]
    few, many = Rules(rules, agents=["a"]), Rules([*rules, *others], agents=["a"])
    assert allows(many, target + end) is allows(few, target + end)
    assert decide(many, target + end) == decide(few, target + end)


@given(st.lists(st.tuples(st.sampled_from(RuleKind), WRITTEN), max_size=12), TARGETS)
def test_the_longest_match_decides(written: list[tuple[RuleKind, str]], target: str) -> None:
    """However many rules there are and of whatever kinds."""
    rules = [Rule(kind, pattern, line) for line, (kind, pattern) in enumerate(written)]
    matching = [
        rule for rule in rules if matches(rule.path_pattern, target, is_allow=rule.kind is RuleKind.ALLOW)
    ]
    expected = max(matching, key=priority, default=None)
    compiled = Rules(rules)
    assert allows(compiled, target) is (expected is None or expected.kind is RuleKind.ALLOW)
    decision = decide(compiled, target)
    assert decision.allowed is allows(compiled, target)
    assert (decision.rule and priority(decision.rule)) == (expected and priority(expected))
    assert decision.opposing is None or decision.opposing in matching
    assert decide(compiled, target) == decision


@given(st.binary(max_size=400) | FILES)
def test_no_bytes_raise(body: bytes) -> None:
    """Parsing and asking answer whatever the file."""
    robots = RobotsTxt.parse(body, "https://example.com/robots.txt")
    for agent in ("foobot", "barbot", "*", ""):
        assert robots.allowed("/robots.txt", agent)
        assert robots.allowed("/a/b?c=%2F", agent) is robots.verdict("/a/b?c=%2F", agent).allowed
        delay = robots.crawl_delay(agent)
        assert delay is None or 0 <= delay < float("inf")


def read_whole(body: bytes, token: str) -> Rules:
    """What binds a token, by way of all groups."""
    parsed = parse(body)
    groups = [group for group in parsed.groups if group.names(token)]
    if not groups:
        token = "*"
        groups = [group for group in parsed.groups if group.names(token)]
    paces = [pace for group in groups for pace in group.paces if Group(pace.agents).names(token)]
    above = [parsed.above] if parsed.above is not None else []
    visit_times = dict.fromkeys(time for pace in paces for time in pace.visit_times)
    paces += above
    return Rules(
        (rule for group in groups for rule in group.rules),
        agents=dict.fromkeys(agent for group in groups for agent in group.agents),
        crawl_delay=max((pace.crawl_delay for pace in paces if pace.crawl_delay is not None), default=None),
        request_rates=dict.fromkeys(rate for pace in paces for rate in pace.request_rates),
        visit_times=visit_times or dict.fromkeys(time for pace in above for time in pace.visit_times),
    )


@given(
    FILES | st.lists(st.sampled_from(SCRAPS), max_size=40).map(b"".join),
    st.sampled_from(["foobot", "barbot", "*", "", "b%e9t"]),
    st.lists(TARGETS, max_size=4),
)
def test_reading_for_one_token_is_reading_all(body: bytes, token: str, targets: list[str]) -> None:
    """The short way through a file and the long one come to the same answers, rules and lines."""
    short, long = compile_rules(canonical(body), token), read_whole(body, token)
    read, whole = short._read(), long._read()
    assert (read.patterns, read.allow.patterns) == (whole.patterns, whole.allow.patterns)
    for kind in RuleKind:
        assert list(short._source.lines(kind)) == list(long._source.lines(kind))
    assert short.agents == long.agents
    assert (short.crawl_delay, short.request_rates) == (long.crawl_delay, long.request_rates)
    assert short.visit_times == long.visit_times
    assert short.disallows_nothing is long.disallows_nothing
    assert short.disallows_everything is long.disallows_everything
    for target in targets:
        assert short.allows(target) is long.allows(target)
        assert short.decide(target) == long.decide(target)


@pytest.mark.parametrize("filler", ["/*filler", "/filler"])
@given(patterns=st.lists(WRITTEN, max_size=30), targets=st.lists(TARGETS, max_size=4))
@settings(max_examples=settings().max_examples // 2)
def test_many_patterns_are_answered_for_as_each(filler: str, patterns: list[str], targets: list[str]) -> None:
    """What finds few among many finds all that match."""
    patterns = [*(f"{filler}{number}" for number in range(150)), *patterns]
    rules = Rules(Rule(RuleKind.DISALLOW, pattern, line) for line, pattern in enumerate(patterns))
    for target in targets:
        matching = [pattern for pattern in patterns if matches(pattern, target)]
        assert allows(rules, target) is not bool(matching)
        rule = decide(rules, target).rule
        assert (rule and priority(rule)[0]) == max(
            (len(normalise_pattern(pattern)) for pattern in matching), default=None
        )


@given(FILES)
def test_lines_are_known_by_their_numbers(body: bytes) -> None:
    """Every rule stands where it says."""
    lines = body.splitlines()
    for group in parse(body).groups:
        assert b"agent" in lines[group.line - 1].lower()
        assert all(b"allow" in lines[rule.line - 1].lower() for rule in group.rules)


@given(st.text(max_size=30) | TARGETS)
def test_a_normal_target_is_normal(target: str) -> None:
    """Normalising again changes nothing, and all is ASCII without blanks."""
    normal = normalise_target(target)
    assert normalise_target(normal) == normal
    assert re.fullmatch(r"/[!-~]*", normal)


@given(st.text(max_size=30) | WRITTEN)
@example("\n")
def test_a_normal_pattern_is_normal(pattern: str) -> None:
    """The same for rules."""
    normal = normalise_pattern(pattern)
    assert normalise_pattern(normal) == normal
    assert re.fullmatch(r"[!-~]*", normal)


@given(WRITTEN, TARGETS)
def test_spelling_changes_no_answer(pattern: str, target: str) -> None:
    """The normal forms are answered for as what they were made of."""
    written = Rules([Rule(RuleKind.DISALLOW, pattern, 1)])
    respelt = Rules([Rule(RuleKind.DISALLOW, normalise_pattern(pattern), 1)])
    assert allows(written, target) is allows(respelt, target)
    assert allows(written, target) is allows(written, normalise_target(target))


@given(FILES, TARGETS, st.sampled_from(["foobot", "barbot", "bazbot"]))
def test_a_file_twice_is_the_file(body: bytes, target: str, agent: str) -> None:
    """Groups that come again change nothing."""
    once, twice = RobotsTxt.parse(body), RobotsTxt.parse(body + b"\nDisallow:\nUser-agent:\n" + body)
    assert once.allowed(url(target), agent) is twice.allowed(url(target), agent)
    assert once.verdict(url(target), agent).rule == twice.verdict(url(target), agent).rule
    assert once.crawl_delay(agent) == twice.crawl_delay(agent)
    assert once.sitemaps == twice.sitemaps


@given(
    st.lists(st.tuples(st.sampled_from(RuleKind), WRITTEN), max_size=8),
    st.integers(0, 8),
    st.sampled_from([b"", b"User-agent: otherbot\nDisallow: /\n"]),
    TARGETS,
)
def test_a_group_in_parts_is_the_group(
    rules: list[tuple[RuleKind, str]], cut: int, between: bytes, target: str
) -> None:
    """Rules of one agent mean the same in one group and in two, with another agent's group between or none."""
    head = b"User-agent: foobot\nDisallow:\n"
    lines = [f"{kind.value}: {pattern}\n".encode() for kind, pattern in rules]
    whole = RobotsTxt.parse(b"".join([head, *lines]))
    parts = RobotsTxt.parse(b"".join([head, *lines[:cut], between, head, *lines[cut:]]))
    assert whole.allowed(url(target), "foobot") is parts.allowed(url(target), "foobot")


@given(FILES, st.sampled_from([b"\r", b"\r\n"]), TARGETS)
def test_line_ends_are_all_the_same(body: bytes, end: bytes, target: str) -> None:
    """CR, LF and CRLF make the same file."""
    lines = body.splitlines()
    assert parse(end.join(lines)) == parse(b"\n".join(lines))
    assert RobotsTxt.parse(end.join(lines)).allowed(url(target), "foobot") is RobotsTxt.parse(body).allowed(
        url(target), "foobot"
    )
