"""Pace keys: what waits for one another, and which policies are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from robotgate.urls import Origin, PaceKey, pace_key_function, registrable_domain

if TYPE_CHECKING:
    from collections.abc import Callable

URLS: Final = [
    "http://site.example/a",
    "https://site.example/b",
    "http://site.example:8080/a",
    "http://www.site.example/a",
    "http://other.example/a",
]

WITHOUT_THE_PACKAGE: Final = """
import sys
sys.modules["publicsuffixlist"] = None
from robotgate.errors import OptionError
from robotgate.urls import PaceKey, pace_key_function
pace_key_function(PaceKey.HOST)
pace_key_function(PaceKey.ORIGIN)
try:
    pace_key_function(PaceKey.REGISTRABLE_DOMAIN)
except OptionError as error:
    print(error)
"""


def key(policy: PaceKey | Callable[[str], str], url: str) -> str:
    """The pace key of a URL."""
    return pace_key_function(policy)(Origin.of(url))


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        (PaceKey.HOST, ["site.example"] * 3 + ["www.site.example", "other.example"]),
        (
            PaceKey.ORIGIN,
            [
                "http://site.example",
                "https://site.example",
                "http://site.example:8080",
                "http://www.site.example",
                "http://other.example",
            ],
        ),
        (PaceKey.REGISTRABLE_DOMAIN, ["site.example"] * 4 + ["other.example"]),
        (lambda url: url.partition(":")[0], ["http", "https", "http", "http", "http"]),
        (partial(re.sub, "//.*", ""), ["http:", "https:", "http:", "http:", "http:"]),
    ],
)
def test_policy_says_what_is_paced_together(policy: PaceKey | Callable[[str], str], keys: list[str]) -> None:
    """By host, by origin, by whose the domain is, or as the caller has it."""
    assert [key(policy, url) for url in URLS] == keys


def test_registrable_domain(subtests: pytest.Subtests) -> None:
    """One label more than the public suffix; a host that is no such thing stands for itself."""
    for host, domain in [
        # Names that somebody registered.
        ("site.example", "site.example"),
        ("a.b.c.site.example", "site.example"),
        ("www.bbc.co.uk", "bbc.co.uk"),
        ("_dmarc.www.site.com", "site.com"),
        # Names that stand for themselves.
        ("com", "com"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("intranet", "intranet"),
        # A wildcard in the list, and its exceptions.
        ("a.b.c.kawasaki.jp", "b.c.kawasaki.jp"),
        ("c.kawasaki.jp", "c.kawasaki.jp"),
        ("www.city.kawasaki.jp", "city.kawasaki.jp"),
        # A top level that is in no list.
        ("db.north.corp-internal", "north.corp-internal"),
        # International names, as origins have them.
        ("www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
        ("a.xn--bcher-kva.example", "xn--bcher-kva.example"),
        # The list's private section: each customer of a hoster is a site, the hoster's own name another.
        ("alice.github.io", "alice.github.io"),
        ("www.alice.github.io", "alice.github.io"),
        ("bob.github.io", "bob.github.io"),
        ("github.io", "github.io"),
        # Addresses are no names.
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
    ]:
        with subtests.test(host=host, domain=domain):
            assert registrable_domain(host) == domain
            assert registrable_domain(domain) == domain


def test_function_is_given_the_url_of_the_origin() -> None:
    """Normalised, without a path, as text: what robots.txt binds is never paced apart."""
    seen: list[str] = []

    def remember(url: str) -> str:
        seen.append(url)
        return "all"

    assert key(remember, "HTTP://user@Bücher.Example:80/ä/../b?c=d#e") == "all"
    assert seen == ["http://xn--bcher-kva.example"]


def test_without_the_package_only_registrable_domains_are_refused() -> None:
    """At once, with what to install."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_PACKAGE], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.startswith("pace_key=PaceKey.REGISTRABLE_DOMAIN: ")
    assert "robotgate[psl]" in ran.stdout
