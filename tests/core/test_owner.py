"""Who visits a host: the same everywhere, evenly, and moved as little as can be."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from robotgate import InvalidURLError, OptionError, PaceKey, owner
from robotgate.urls import Origin, _weight, pace_key_function

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

MEMBERS: Final = [f"worker-{number}" for number in range(16)]
URLS: Final = [f"https://{number}.site.example/" for number in range(1_600)]
KNOWN: Final = {
    "https://example.org/": "beta",
    "https://example.com/": "gamma",
    "http://www.example.org:8080/a?b#c": "alpha",
    "https://münchen.example/": "gamma",
    "https://xn--mnchen-3ya.example/": "gamma",
    "http://192.0.2.1/": "alpha",
    "http://[2001:db8::1]/": "alpha",
}
names = st.text(min_size=1, max_size=12)
urls = st.integers(0, 500).map("https://{}.site.example/".format)


def shares(members: list[str]) -> Counter[str]:
    """How many of all hosts each member has."""
    return Counter(owner(url, members) for url in URLS)


@pytest.mark.parametrize(("url", "member"), KNOWN.items())
def test_answers_are_a_contract(url: str, member: str) -> None:
    """A fleet may run several versions at a time: if one of these answers changes, two visit one host.

    Nor do they depend on Python's own hash of a string, which differs from process to process.
    """
    assert owner(url, ["alpha", "beta", "gamma"]) == member


@pytest.mark.parametrize("count", [1, 3, 16])
def test_members_have_equal_shares(count: int) -> None:
    """By a chi-square test of 1,600 hosts, at one in a thousand: names that differ in a digit fall far apart."""
    critical = {1: 0.0, 3: 13.82, 16: 37.70}[count]
    expected = len(URLS) / count
    found = shares(MEMBERS[:count])
    assert len(found) == count
    assert sum((share - expected) ** 2 / expected for share in found.values()) <= critical


def test_who_comes_takes_a_share_from_everybody() -> None:
    """Of 16 members the last has a sixteenth; all that moved is his, and each of the others gave some."""
    before = [owner(url, MEMBERS[:-1]) for url in URLS]
    after = [owner(url, MEMBERS) for url in URLS]
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} == {MEMBERS[-1]}
    assert {old for old, _ in moved} == set(MEMBERS[:-1])
    # Five standard deviations around a sixteenth.
    assert len(moved) == pytest.approx(len(URLS) / 16, abs=49)


@given(st.lists(names, min_size=2, unique=True), urls, st.data())
def test_who_goes_moves_its_own_hosts_alone(members: list[str], url: str, data: st.DataObject) -> None:
    """However members are named: a host stays where it was while that member is there."""
    gone = data.draw(st.sampled_from(members))
    left = [member for member in members if member != gone]
    before = owner(url, members)
    assert owner(url, left) == before or before == gone


@given(st.lists(names, min_size=1), urls, st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(members: list[str], url: str, chance: random.Random) -> None:
    """Members often come from a set, a table or a service: in whatever order, and some twice."""
    shuffled = members * 2
    chance.shuffle(shuffled)
    assert owner(url, members) == owner(url, shuffled) == owner(url, frozenset(members)) in members


def test_names_do_not_run_into_keys() -> None:
    """What a member draws is its own: put behind each other, ``x`` with ``ab`` and ``xa`` with ``b`` would be one."""
    assert _weight("x", b"ab") != _weight("xa", b"b")
    assert _weight("x" * 200, b"a") != _weight("x" * 201, b"a")


@pytest.mark.parametrize(
    ("policy", "together"),
    [
        (PaceKey.HOST, ["http://www.site.example/a", "https://www.site.example:8443/b?c", "HTTPS://WWW.Site.Example."]),
        (PaceKey.ORIGIN, ["https://www.site.example/a", "https://www.site.example:443/b"]),
        (PaceKey.REGISTRABLE_DOMAIN, [f"https://{number}.site.example/" for number in range(20)]),
        (lambda url: str(len(url)), [f"https://{number}.example/" for number in range(10, 30)]),
    ],
)  # fmt: skip
def test_what_is_paced_together_has_one_owner(
    policy: PaceKey | Callable[[str], str], together: list[str]
) -> None:
    """By whatever policy; with another the same URLs may part."""
    assert len({pace_key_function(policy)(Origin.of(url)) for url in together}) == 1
    assert len({owner(url, MEMBERS, pace_key=policy) for url in together}) == 1
    assert {owner(URL(url), MEMBERS, pace_key=policy) for url in together} == {
        owner(together[0], MEMBERS, pace_key=policy)
    }


def test_origins_of_a_host_part_by_origin() -> None:
    """A policy that is not looked at would leave them together."""
    ports = [f"http://site.example:{port}/" for port in range(8000, 8050)]
    assert len({owner(url, MEMBERS) for url in ports}) == 1
    assert len({owner(url, MEMBERS, pace_key=PaceKey.ORIGIN) for url in ports}) > 1


def test_surrogates_in_names_are_names() -> None:
    """The operating system may give a host or a path that is no UTF-8, and Python hands it on so."""
    assert owner("https://example.org/", ["\udcff"]) == "\udcff"
    assert owner("https://example.org/", ["one"], pace_key=lambda _: "\udcff") == "one"


@pytest.mark.parametrize(
    "members", [[], (), set(), iter(()), [""], ["one", ""], "one,two", ["one", None], [b"one"]]
)
def test_members_that_make_no_sense_are_refused(members: list[str]) -> None:
    """``"".split(",")`` is a list of one empty name, and a string a list of its letters: misread settings, both."""
    with pytest.raises(OptionError, match="members"):
        owner("https://example.org/", members)


@pytest.mark.parametrize(
    "url", ["", "example.org", "ftp://example.org/", "https://", "https://a b/", "https://1.2.3/"]
)
def test_what_is_no_url_has_no_owner(url: str) -> None:
    """With a guess, every worker would drop it as another's."""
    with pytest.raises(InvalidURLError):
        owner(url, MEMBERS)


async def later(url: str) -> str:
    """The URL, when it is awaited."""
    return url


@pytest.mark.parametrize(
    ("policies", "match"),
    [
        (
            [None, "host", "HOST", 1, True, b"host", PaceKey, str, ["host"], {"a": "b"}, later],
            r"PaceKey\.HOST.*a function",
        ),
        (
            [lambda _, answer=answer: answer for answer in ("", None, 1, b"key", ["key"])],
            r".*lambda.* returned .* for 'https://example\.org'",
        ),
    ],
    ids=["no policy", "no name"],
)
def test_a_policy_that_makes_no_sense_is_refused(policies: list[Callable[[str], str]], match: str) -> None:
    """As the gate refuses it, by name: with what there is to choose from, or what the function returned for whom."""
    for policy in policies:
        with pytest.raises(OptionError, match=rf"^pace_key=.*{match}"):
            owner("https://example.org/", MEMBERS, pace_key=policy)
