"""Overrides: which pattern names which host, what then holds for it, and what is refused, by name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.errors import OptionError
from robotgate.options import DEFAULTS, HostBlocks, HostOptions, HostOverride, Overrides, Rate, StatusPolicy
from robotgate.urls import HostPattern, Origin, keys

if TYPE_CHECKING:
    from collections.abc import Callable

GATE: Final = DEFAULTS

# ── patterns


def specificity(pattern: HostPattern) -> tuple[bool, int]:
    """Of the patterns that name one host, the most specific is the host itself, then the longest domain."""
    return not str(pattern).startswith("*"), len(pattern.key)


def test_pattern_is_read_as_hosts_of_urls_are(subtests: pytest.Subtests) -> None:
    """However it is spelt, it is the pattern of the hosts that origins have."""
    for text, spelt in [
        ("example.org", "example.org"),
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("localhost", "localhost"),
        ("under_score.example", "under_score.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("[2001:DB8:0:0::1]", "2001:db8::1"),
        ("*.example.org", "*.example.org"),
        ("*.Example.ORG.", "*.example.org"),
        ("*.bücher.example", "*.xn--bcher-kva.example"),
        ("*.org", "*.org"),
        ("*", "*"),
    ]:
        with subtests.test(text=text, spelt=spelt):
            pattern = HostPattern.parse(text)
            assert str(pattern) == spelt
            assert HostPattern.parse(spelt) == pattern


def test_pattern_that_names_no_host_is_refused(subtests: pytest.Subtests) -> None:
    """With the text that was given and what to write instead."""
    no_hosts = [
        "", " ", "http://example.org", "https://example.org:8080/path", "example.org:8080", "*.example.org:8080",
        "[::1]:80", "example.org/", "example.org/path", "example.*", "www.*.org", "*example.org", "**", "*.*.org",
        "*.", "*.*", "example.org?", "user@example.org", "example.org\n", "example\x00.org", "example org",
        "ex%61mple.org", "example.org\\", "\ud800.org", "[fe80::1%25eth0]", "[example.org]", "[::1",
        "192.0.2.1%::1%@org", "[192.0.2.1%25::1@org]",
    ]  # fmt: skip
    for hint, texts in [
        ("give a host", no_hosts),
        ("host", [".example.org", "example..org", "a" * 64 + ".example"]),
        ("253", [".".join(["a" * 63] * 5)]),
        ("IPv4", ["192.0.2", "0x7f.1"]),
        ("below an address", ["*.192.0.2.1", "*.[::1]"]),
    ]:
        for text in texts:
            with subtests.test(text=text, hint=hint):
                with pytest.raises(OptionError, match=hint) as caught:
                    HostPattern.parse(text)
                assert str(caught.value).startswith(f"pattern={text!r}: ")


@pytest.mark.parametrize("text", [None, 1, b"example.org", ["example.org"]])
def test_pattern_that_is_no_text_is_refused(text: object) -> None:
    """Also where no type checker looked."""
    parse: Callable[..., HostPattern] = HostPattern.parse
    with pytest.raises(OptionError, match=r"^pattern="):
        parse(text)


@pytest.mark.parametrize(
    ("text", "named", "others"),
    [
        ("example.org", ["example.org"], ["www.example.org", "org", "example.orga", "anexample.org"]),
        (
            "*.example.org",
            ["www.example.org", "a.b.example.org"],
            ["example.org", "anexample.org", "org", "example.org.net"],
        ),
        ("*", ["example.org", "localhost", "192.0.2.1", "::1"], []),
        ("::1", ["::1"], ["::2"]),
        ("192.0.2.1", ["192.0.2.1"], ["2.1", "9.192.0.2.1"]),
    ],
)
def test_pattern_names_its_hosts_alone(text: str, named: list[str], others: list[str]) -> None:
    """A domain's pattern names what is below it, not the domain itself, and no name that merely ends alike."""
    pattern = HostPattern.parse(text)
    assert [host for host in named + others if pattern.matches(host)] == named


# ── what is given

NO_NUMBERS: Final[tuple[object, ...]] = (-1, -0.001, math.nan, -math.inf, "1", True, [], 1j)
NO_TIMES: Final[tuple[object, ...]] = tuple((1, seconds) for seconds in (0, -1, math.inf, math.nan, True))
NO_FLAGS: Final[tuple[object, ...]] = (0, 1, "yes", [])
NO_VALUES: Final[dict[str, tuple[object, ...]]] = {
    "delay": (math.inf, 10**400, *NO_NUMBERS),
    "latency_factor": (math.inf, 10**400, *NO_NUMBERS),
    "max_delay": NO_NUMBERS,
    "max_block": NO_NUMBERS,
    "concurrency_per_host": (0, -1, 1.0, "1", True, math.nan),
    "rate": (600, "12", {}, (600,), (1, 2, 3), (0, 1), (1.5, 1), (True, 1), ("1", 1), *NO_TIMES),
    "obey_crawl_delay": NO_FLAGS,
    "obey_visit_time": NO_FLAGS,
    "ignore_robots": NO_FLAGS,
    "status_policy": ("default", 1, StatusPolicy),
}


def test_value_that_makes_no_sense_is_refused(subtests: pytest.Subtests) -> None:
    """When the override is made, by the name of the field, with the value that was given."""
    for field, value in [(field, value) for field, values in NO_VALUES.items() for value in values]:
        with subtests.test(field=field, value=value):
            make: Callable[..., HostOverride] = HostOverride
            with pytest.raises(OptionError, match=f"^{field}="):
                make(**{field: value})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"http://example.org": HostOverride()}, "overrides: pattern='http://example.org': give a host"),
        ({"example.*": HostOverride()}, "overrides: pattern='example.*': give a host"),
        ({3: HostOverride()}, "overrides: pattern=3: give a str"),
        ({"example.org": {"delay": 3}}, "overrides['example.org']={'delay': 3}: give HostOverride"),
        ({"example.org": None}, "overrides['example.org']=None: give HostOverride"),
        ({"example.org": HostOverride}, "overrides['example.org']=<class"),
        ([("example.org", HostOverride())], "overrides=[('example.org', HostOverride("),
        (None, "overrides=None: give Mapping"),
        (
            {"example.org": HostOverride(), "Example.org.": HostOverride()},
            "overrides['Example.org.']: 'example.org' is given twice",
        ),
    ],
)
def test_overrides_that_make_no_sense_are_refused(given: object, message: str) -> None:
    """By the name of the option, and of the pattern where there is one."""
    make: Callable[..., Overrides] = Overrides
    with pytest.raises(OptionError) as caught:
        make(GATE, given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"*.example.org": HostOverride(delay=90)},
            "overrides['*.example.org']: delay=90 is over max_delay=60.0",
        ),
        (
            {"*.example.org": HostOverride(delay=90, max_delay=80)},
            "overrides['*.example.org']: delay=90 is over max_delay=80",
        ),
        (
            {"a.example": HostOverride(max_delay=0.5)},
            "overrides['a.example']: delay=1.0 is over max_delay=0.5",
        ),
        (
            {
                "*": HostOverride(max_delay=math.inf),
                "*.b": HostOverride(delay=90),
                "a.b": HostOverride(max_delay=80),
            },
            "overrides['a.b']: delay=90 is over max_delay=80",
        ),
        (
            {"*.b": HostOverride(max_delay=10), "a.b": HostOverride(delay=30)},
            "overrides['a.b']: delay=30 is over max_delay=10",
        ),
    ],
)
def test_delay_over_the_max_delay_that_would_hold_is_refused(
    given: dict[str, HostOverride], message: str
) -> None:
    """By the pattern for whose hosts both would hold: every request to them would be refused."""
    with pytest.raises(OptionError) as caught:
        Overrides(GATE, given)
    assert str(caught.value) == f"{message}: every request would be refused"


# ── what holds


def test_fields_are_settled_one_by_one() -> None:
    """The host's own, then the longest domain's, then that of ``*``, then the gate's."""
    overrides = Overrides(
        GATE,
        {
            "*": HostOverride(delay=2, max_block=math.inf, concurrency_per_host=2, rate=(600, 3600)),
            "*.org": HostOverride(delay=3, concurrency_per_host=3, latency_factor=10),
            "*.example.org": HostOverride(delay=4, obey_crawl_delay=False),
            "www.example.org": HostOverride(delay=5, status_policy=StatusPolicy.GOOGLE),
        },
    )
    every = GATE | HostOptions(delay=2, max_block=math.inf, concurrency_per_host=2, rate=Rate(600, 3600.0))
    org = every | HostOptions(delay=3, concurrency_per_host=3, latency_factor=10)
    below = org | HostOptions(delay=4, obey_crawl_delay=False)
    assert overrides.options("localhost") == every
    assert overrides.options("2001:db8::1") == every
    assert overrides.options("example.org") == org
    assert overrides.options("a.b.example.org") == below
    assert overrides.options("www.example.org") == below | HostOptions(
        delay=5, status_policy=StatusPolicy.GOOGLE
    )


def test_every_field_is_taken_over() -> None:
    """An override that gives all of them leaves nothing of the gate's."""
    override = HostOverride(
        delay=0.5,
        rate=(2, 3),
        concurrency_per_host=4,
        max_delay=math.inf,
        max_block=6.0,
        give_up_after=8.0,
        latency_factor=7.0,
        obey_crawl_delay=False,
        obey_visit_time=True,
        obey_rate_limit_fields=False,
        adaptive=False,
        status_policy=StatusPolicy.ARCHIVE,
        ignore_robots=True,
    )
    settled = Overrides(GATE, {"*.org": override}).options("example.org")
    assert settled == override.given
    assert settled.keys() == GATE.keys()
    assert not settled.items() & GATE.items()


def test_falsy_values_count_as_given() -> None:
    """0 and False are no None."""
    gate = GATE | HostOptions(latency_factor=5.0, obey_visit_time=True)
    override = HostOverride(
        delay=0, latency_factor=0, obey_crawl_delay=False, obey_visit_time=False, max_block=0
    )
    assert Overrides(gate, {"a": override}).options("a") == gate | HostOptions(
        delay=0, latency_factor=0, obey_crawl_delay=False, obey_visit_time=False, max_block=0
    )


def test_own_host_has_neither_rules_nor_delay_nor_rate() -> None:
    """Whatever the gate has; how many at once, and what the server asks by 503, still count."""
    gate = GATE | HostOptions(
        delay=5.0, rate=Rate(1, 60.0), latency_factor=2.0, obey_visit_time=True, concurrency_per_host=3
    )
    assert Overrides(gate, {"*.mine.example": HostOverride.own()}).options(
        "www.mine.example"
    ) == gate | HostOptions(delay=0.0, rate=Rate.UNLIMITED, latency_factor=0.0, ignore_robots=True)


@pytest.mark.parametrize("override", [HostOverride(ignore_robots=True), HostOverride.own()])
def test_not_every_host_is_ones_own(override: HostOverride) -> None:
    """A gate without any rules is none; False may be said of all."""
    with pytest.raises(OptionError, match=r"overrides\['\*'\].ignore_robots=True: name the hosts"):
        Overrides(GATE, {"*": override})
    overrides = Overrides(GATE, {"*": HostOverride(ignore_robots=False)})
    with pytest.raises(OptionError, match=r"overrides\['\*'\].ignore_robots=True: name the hosts"):
        overrides.set("*", override)
    assert overrides.options("a") == GATE


def test_rate_can_be_lifted() -> None:
    """None leaves the gate's."""
    gate = GATE | HostOptions(rate=Rate(1, 60.0))
    overrides = Overrides(gate, {"a": HostOverride(rate=Rate.UNLIMITED), "b": HostOverride()})
    assert overrides.options("a")["rate"] is Rate.UNLIMITED
    assert overrides.options("b")["rate"] == Rate(1, 60.0)


def test_overrides_change_while_running() -> None:
    """Setting replaces, None takes away; each says which hosts it touched."""
    overrides = Overrides(
        GATE, {"*.org": HostOverride(delay=2), "a.org": HostOverride(concurrency_per_host=5)}
    )
    assert overrides.set("*.ORG", HostOverride(delay=3)).matches("b.org")
    assert overrides.options("b.org")["delay"] == 3
    assert overrides.options("a.org") == GATE | HostOptions(delay=3, concurrency_per_host=5)
    assert str(overrides.set("A.org", None)) == "a.org"
    assert overrides.options("a.org") == GATE | HostOptions(delay=3)
    overrides.set("*.org", None)
    assert overrides.options("a.org") is GATE
    assert str(overrides.set("*.org", None)) == "*.org"


def test_what_was_given_is_not_kept() -> None:
    """Changing the mapping afterwards changes nothing, and `set` leaves it as it was."""
    given = {"a": HostOverride(delay=2)}
    overrides = Overrides(GATE, given)
    overrides.set("b", HostOverride(delay=3))
    assert list(given) == ["a"]
    given["a"] = HostOverride(delay=4)
    assert overrides.options("a")["delay"] == 2


@pytest.mark.parametrize(
    ("pattern", "override", "message"),
    [
        ("b.org", HostOverride(delay=170), "overrides['b.org']: delay=170 is over max_delay=100"),
        ("*.org", HostOverride(max_delay=70), "overrides['a.org']: delay=90 is over max_delay=70"),
        ("*.org", None, "overrides['a.org']: delay=90 is over max_delay=60.0"),
        ("*.org", HostOverride(), "overrides['a.org']: delay=90 is over max_delay=60.0"),
        ("http://a.org", HostOverride(), "overrides: pattern='http://a.org': give a host"),
        ("http://a.org", None, "pattern='http://a.org': give a host"),
    ],
)
def test_refused_change_changes_nothing(pattern: str, override: HostOverride | None, message: str) -> None:
    """Also where it is a more specific pattern's delay that would come to be over the bound."""
    overrides = Overrides(GATE, {"*.org": HostOverride(max_delay=100), "a.org": HostOverride(delay=90)})
    with pytest.raises(OptionError) as caught:
        overrides.set(pattern, override)
    assert str(caught.value).startswith(message)
    assert overrides.options("a.org") == GATE | HostOptions(delay=90, max_delay=100)
    assert overrides.options("b.org") == GATE | HostOptions(max_delay=100)
    overrides.set("c.org", HostOverride(delay=100))
    assert overrides.options("c.org")["delay"] == 100


# ── against a slow oracle: every pattern is tried, and every field settled by itself

labels = st.sampled_from(["a", "b", "org"])
hosts = st.lists(labels, min_size=1, max_size=4).map(".".join)
patterns = st.just("*") | hosts | hosts.map(lambda host: f"*.{host}")
delays = st.none() | st.integers(0, 3)
overrides_given = st.builds(
    HostOverride,
    delay=delays,
    rate=st.none() | st.tuples(st.integers(1, 3), st.integers(1, 3)),
    concurrency_per_host=st.none() | st.integers(1, 3),
    max_delay=delays | st.just(math.inf),
    obey_crawl_delay=st.none() | st.booleans(),
    status_policy=st.none() | st.sampled_from(StatusPolicy),
)


def slow_options(host: str, given: dict[str, HostOverride]) -> dict[str, object]:
    """The settled fields of a host, from all patterns that name it."""

    def names(pattern: str) -> bool:
        wanted, asked = pattern.split(".")[::-1], host.split(".")[::-1]
        if "*" not in pattern:
            return wanted == asked
        return len(asked) >= len(wanted) and asked[: len(wanted) - 1] == wanted[:-1]

    named = sorted((pattern for pattern in given if names(pattern)), key=lambda pattern: pattern.count("."))
    named.sort(key=lambda pattern: "*" not in pattern)
    settled: dict[str, object] = dict(GATE)
    for pattern in named:
        settled |= given[pattern].given
    return settled


def is_contradictory(given: dict[str, HostOverride]) -> bool:
    """Whether the delay of some host that could exist is over its bound."""
    for pattern in given:
        settled = slow_options(pattern.replace("*", "unheard-of"), given)
        delay, max_delay = settled["delay"], settled["max_delay"]
        assert isinstance(delay, int | float)
        assert isinstance(max_delay, int | float)
        if delay > max_delay:
            return True
    return False


@given(st.dictionaries(patterns, overrides_given, max_size=8), st.lists(hosts, max_size=8))
def test_options_are_those_of_the_slow_oracle(given: dict[str, HostOverride], asked: list[str]) -> None:
    """Or the overrides are refused, exactly where the oracle finds a delay over its bound."""
    if is_contradictory(given):
        with pytest.raises(OptionError, match="every request would be refused"):
            Overrides(GATE, given)
        return
    overrides = Overrides(GATE, given)
    for host in asked:
        assert overrides.options(host) == slow_options(host, given)


@given(st.lists(st.tuples(patterns, st.none() | overrides_given), max_size=12), st.lists(hosts, max_size=5))
def test_changes_leave_what_building_anew_would(
    changes: list[tuple[str, HostOverride | None]], asked: list[str]
) -> None:
    """After every change, taken or refused."""
    overrides, given = Overrides(GATE, {}), dict[str, HostOverride]()
    for pattern, override in changes:
        changed = {key: value for key, value in given.items() if key != pattern}
        if override is not None:
            changed[pattern] = override
        if is_contradictory(changed):
            with pytest.raises(OptionError, match="every request would be refused"):
                overrides.set(pattern, override)
        else:
            overrides.set(pattern, override)
            given = changed
        for host in asked:
            assert overrides.options(host) == slow_options(host, given)


@given(hosts, patterns)
def test_keys_are_those_of_the_patterns_that_match(host: str, text: str) -> None:
    """What is found by look-ups is what matching finds, most specific first."""
    pattern = HostPattern.parse(text)
    is_named = host.endswith(pattern.key) if str(pattern).startswith("*") else host == pattern.key
    assert (pattern.key in keys(host)) == pattern.matches(host) == is_named
    found = [specificity(HostPattern(key)) for key in keys(host)]
    assert found == sorted(set(found), reverse=True)


@given(st.text(max_size=20))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    """A pattern that is read names a host that a URL can have."""
    try:
        pattern = HostPattern.parse(text)
    except OptionError:
        return
    host = str(pattern).replace("*", "a", 1)
    authority = f"[{host}]" if ":" in host else host
    assert pattern.matches(Origin.of(f"http://{authority}/").host)
    assert HostPattern.parse(str(pattern)) == pattern


# ── hosts left alone


def test_setting_a_block_again_replaces_it() -> None:
    """0 or an earlier instant lifts what was set under this pattern, and under no other."""
    blocks = HostBlocks()
    blocks[HostPattern.parse("A.org.")] = math.inf
    blocks[HostPattern.parse("*.org")] = 90.0
    blocks[HostPattern.parse("a.org")] = 10.0
    assert blocks.until_at("a.org") == 90.0
    blocks[HostPattern.parse("*.org")] = 0
    assert blocks.until_at("a.org") == 10.0
    blocks[HostPattern.parse("a.org")] = 0
    blocks[HostPattern.parse("never.set")] = 0
    assert blocks.until_at("a.org") == 0.0


def test_pruning_forgets_what_is_over() -> None:
    """And nothing else: an instant that has come is over."""
    blocks = HostBlocks()
    given = {"a": 10.0, "b": 20.0, "c": 30.0, "d": math.inf}
    for host, until_at in given.items():
        blocks[HostPattern.parse(host)] = until_at
    blocks.prune(20.0)
    assert [blocks.until_at(host) for host in given] == [0.0, 0.0, 30.0, math.inf]
    assert len(blocks) == 2


@given(st.lists(st.tuples(patterns, st.floats(0, 9) | st.just(math.inf)), max_size=9), hosts)
def test_blocks_are_those_of_the_slow_oracle(given: list[tuple[str, float]], host: str) -> None:
    """The latest instant of the patterns that match, each as it was set last."""
    blocks = HostBlocks()
    for pattern, until_at in given:
        blocks[HostPattern.parse(pattern)] = until_at
    named = [
        until_at for pattern, until_at in dict(given).items() if HostPattern.parse(pattern).matches(host)
    ]
    assert blocks.until_at(host) == max(named, default=0.0)
