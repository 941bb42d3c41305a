"""What is judged is what is sent: our short cuts agree with the URL type that aiohttp sends by."""

from __future__ import annotations

import string

from hypothesis import example, given
from hypothesis import strategies as st
from tests.spelling import normalise_target
from yarl import URL

from robotgate.rules.normal import as_written, is_plain
from robotgate.urls import CONTROL_OR_EDGE_BLANK, DOUBTFUL_AUTHORITY, PLAIN_URL

ORIGIN = "http://a.example"
TARGETS = st.text(string.ascii_letters + string.digits + string.punctuation + " é\t", max_size=30).map(
    "/".__add__
)
AUTHORITIES = st.text("aZ09.-_:@[]\\ %\té", max_size=12)


def is_taken_as_written(url: str, target: str) -> bool:
    """Whether the short ways take a URL as it stands, as all of them ask it."""
    return as_written(url) is not None and "/." not in target


def is_sent_as_written(url: str, target_at: int) -> bool:
    """The same in the words of the law: yarl resolves dot segments and drops an empty query, and no more."""
    return is_plain(url, target_at) is not None and "/." not in url and not url.endswith("?")


@given(TARGETS)
def test_a_target_taken_as_written_is_sent_as_written(target: str) -> None:
    """Where the fast path takes a target as it stands, yarl does, too, and it is in the normal form already."""
    if is_taken_as_written(ORIGIN + target, target):
        assert URL(ORIGIN + target).raw_path_qs == target
        assert normalise_target(target) == target


@given(st.text(string.ascii_letters + "0123456789-_~!&'()+,;=:@/", max_size=30).map("/".__add__))
def test_ordinary_targets_take_the_fast_path(target: str) -> None:
    """Targets of plain characters without dots and empty queries are taken as written: the law above is no void."""
    assert is_taken_as_written(ORIGIN + target, target)


@given(TARGETS)
def test_cutting_and_looking_at_once_says_the_same(target: str) -> None:
    """The expression of the shortest way takes just what is sent as written, dot segments apart, and cuts it right."""
    url = ORIGIN + target
    written = as_written(url)
    assert is_taken_as_written(url, target) == is_sent_as_written(url, len(ORIGIN))
    if written is not None:
        assert written.groups() == (ORIGIN, target)


@example("http", "a.example", "", "/a ")
@example("http", "a.example", "", "/a\tb")
@example("http", "a.example", "", "/a\x7f")
@example("http", "a.example\\", "", "/a")
@example("http", "a[.example", "", "/a")
@given(
    st.sampled_from(["http", "https", "HTTP", "ftp"]), AUTHORITIES, st.sampled_from(["", "?", "#"]), TARGETS
)
def test_nothing_is_wrong_with_what_is_not_looked_at_closely(
    scheme: str, authority: str, mark: str, target: str
) -> None:
    """A URL that is taken to be plain has nothing of what is looked for in others."""
    url = f"{scheme}://{authority}{mark}{target}"
    if PLAIN_URL.fullmatch(url):
        assert not CONTROL_OR_EDGE_BLANK.search(url)
        assert not DOUBTFUL_AUTHORITY.match(url)


@given(
    st.sampled_from([ORIGIN, "https://A_b-c.example:8080", "http://127.0.0.1"]), st.text(string.ascii_letters)
)
def test_ordinary_urls_are_not_looked_at_closely(origin: str, name: str) -> None:
    """The law above is no void."""
    assert PLAIN_URL.fullmatch(f"{origin}/{name}")
