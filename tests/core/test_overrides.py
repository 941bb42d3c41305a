"""Overrides: which pattern names which host, what then holds for it, and what is refused, by name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.errors import OptionError
from robotgate.hours import OpenHours
from robotgate.options import DEFAULTS, Budget, HostBlocks, HostOptions, HostOverride, Overrides, StatusPolicy
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
    "open_hours": ("22:00-06:00", 22, OpenHours),
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


# ── what holds


def test_every_field_is_taken_over() -> None:
    """An override that gives all of them leaves nothing of the gate's."""
    override = HostOverride(
        delay=0.5,
        rate=(2, 3),
        budget=Budget(pages=5),
        bytes_per_second=1e5,
        concurrency_per_host=4,
        max_delay=math.inf,
        max_block=6.0,
        give_up_after=8.0,
        latency_factor=7.0,
        obey_crawl_delay=False,
        obey_visit_time=True,
        open_hours=OpenHours("22:00-06:00"),
        obey_rate_limit_fields=False,
        adaptive=False,
        status_policy=StatusPolicy.ARCHIVE,
        ignore_robots=True,
    )
    settled = Overrides(GATE, {"*.org": override}).options("example.org")
    assert settled == override.given
    assert settled.keys() == GATE.keys()
    assert not settled.items() & GATE.items()


@pytest.mark.parametrize("override", [HostOverride(ignore_robots=True), HostOverride.own()])
def test_not_every_host_is_ones_own(override: HostOverride) -> None:
    """A gate without any rules is none; False may be said of all."""
    with pytest.raises(OptionError, match=r"overrides\['\*'\].ignore_robots=True: name the hosts"):
        Overrides(GATE, {"*": override})
    overrides = Overrides(GATE, {"*": HostOverride(ignore_robots=False)})
    with pytest.raises(OptionError, match=r"overrides\['\*'\].ignore_robots=True: name the hosts"):
        overrides.set("*", override)
    assert overrides.options("a") == GATE


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
