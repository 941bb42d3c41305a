"""Origins and targets: every odd URL is an `InvalidURLError`, or has the right origin."""

from __future__ import annotations

from enum import StrEnum

import pytest
from yarl import URL

from robotgate import InvalidURLError, NonPublicAddressError, Origin
from robotgate.urls import split_url


def test_right_origin_and_target(subtests: pytest.Subtests) -> None:
    """Mixed case, default ports, credentials, fragments, scripts: one origin, one way to say it."""
    for url, origin, target in [
        ("http://site.example", "http://site.example", "/"),
        ("http://site.example/", "http://site.example", "/"),
        ("https://site.example/", "https://site.example", "/"),
        ("HTTP://Site.EXAMPLE/Path", "http://site.example", "/Path"),
        ("hTTpS://SITE.example", "https://site.example", "/"),
        ("http://site.example:80/a", "http://site.example", "/a"),
        ("https://site.example:443/a", "https://site.example", "/a"),
        ("http://site.example:443/a", "http://site.example:443", "/a"),
        ("https://site.example:80/a", "https://site.example:80", "/a"),
        ("http://site.example:8080/a", "http://site.example:8080", "/a"),
        ("http://site.example:/a", "http://site.example", "/a"),
        ("http://site.example:0080/a", "http://site.example", "/a"),
        ("http://site.example:65535/", "http://site.example:65535", "/"),
        ("http://user:password@site.example/a", "http://site.example", "/a"),
        ("http://user@site.example:8080/a", "http://site.example:8080", "/a"),
        ("http://:@site.example/", "http://site.example", "/"),
        ("http://trusted.example@site.example/", "http://site.example", "/"),
        ("http://site.example?a=b", "http://site.example", "/?a=b"),
        ("http://site.example#top", "http://site.example", "/"),
        ("http://site.example/a#b", "http://site.example", "/a"),
        ("http://site.example/a?b#c", "http://site.example", "/a?b"),
        ("http://site.example/a?", "http://site.example", "/a"),
        ("http://site.example/a b", "http://site.example", "/a%20b"),
        ("http://site.example/a%20b", "http://site.example", "/a%20b"),
        ("http://site.example/%7Ea", "http://site.example", "/~a"),
        ("http://site.example/ü", "http://site.example", "/%C3%BC"),
        ("http://site.example/a/../b", "http://site.example", "/b"),
        ("http://site.example/a/./b", "http://site.example", "/a/b"),
        ("http://site.example/..", "http://site.example", "/"),
        ("http://site.example//a", "http://site.example", "//a"),
        ("http://site.example/a\\b", "http://site.example", "/a%5Cb"),
        ("http://site.example/?a=\\", "http://site.example", "/?a=%5C"),
        ("http://site.example/?a[]=[::1]x", "http://site.example", "/?a%5B%5D=%5B::1%5Dx"),
        ("http://site.example./", "http://site.example", "/"),
        ("http://bücher.example/", "http://xn--bcher-kva.example", "/"),
        ("http://BÜCHER.example/", "http://xn--bcher-kva.example", "/"),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example", "/"),
        ("http://例え.テスト/", "http://xn--r8jz45g.xn--zckzah", "/"),
        ("http://faß.example/", "http://xn--fa-hia.example", "/"),
        ("http://under_score.example/", "http://under_score.example", "/"),
        ("http://-a-.example/", "http://-a-.example", "/"),
        ("http://single/", "http://single", "/"),
        (f"http://{'a' * 63}.example/", f"http://{'a' * 63}.example", "/"),
        ("http://192.0.2.1/", "http://192.0.2.1", "/"),
        ("http://192.0.2.1:8080/", "http://192.0.2.1:8080", "/"),
        ("http://192.0.2.1./", "http://192.0.2.1", "/"),
        ("http://[2001:DB8::1]/", "http://[2001:db8::1]", "/"),
        ("http://[2001:db8:0:0:0:0:0:1]:8080/a", "http://[2001:db8::1]:8080", "/a"),
        ("http://[::ffff:192.0.2.1]/", "http://[::ffff:192.0.2.1]", "/"),
    ]:
        with subtests.test(url=url, origin=origin, target=target):
            found, sent = split_url(url)
            if "::ffff:" in url:
                # The text of a mapped address differs between versions of Python; the origin does not.
                assert found == Origin.of(origin)
            else:
                assert str(found) == origin
                assert found.authority == origin.partition("://")[2]
            assert sent == target
            assert Origin.of(URL(url)) == found
            assert found.robots_url == f"{found}/robots.txt"
            assert Origin.of(found.robots_url) == found


def test_no_url_of_ours(subtests: pytest.Subtests) -> None:
    """Not a URL, no host, not http, or a host that cannot exist: one error, which tells the URL."""
    for url in [
        "", "   ", "nonsense", "not a url", "/path", "//site.example/", "?a=b", "site.example",
        "site.example/page", "site.example:80/page", "www.site.example:8080", "http", "http:", "http:/",
        "http://", "http:///path", "http:site.example", "http:/site.example/", "http://?a", "http://#a",
        "http://:80/", "http://user@/", "http://user:password@", "https://", "ftp://site.example/",
        "ftps://site.example/", "file:///etc/passwd", "javascript:alert(1)", "mailto:bot@example.org",
        "data:text/plain,hello", "ws://site.example/", "about:blank", "tel:123",
        "view-source:http://site.example/", "http://[::1", "http://::1]/", "http://[::1]x/", "http://[]/",
        "http://[:::1]/", "http://[12345::]/", "http://[::1%25lo]/", "http://[fe80::1%eth0]/",
        "http://site.example:x/", "http://site.example:-1/", "http://site.example:0/",
        "http://site.example:65536/", "http://site.example:99999/", "http://site.example:80:80/",
        "http://site example/", "http:// site.example/", "http://site.example /", "http://site\texample/",
        "http://site\nexample/", "http://site.example/\r\nX: y", "http://site.example/\x00",
        " http://site.example/", "http://site.example/ ", "\nhttp://site.example/",
        "http://site.example/\ud800", "http://\ud800.example/", "http://.example/", "http://site..example/",
        "http://./", "http://../", "http://site.example../", "http://si%00te.example/",
        "http://si%2fte.example/", "http://site.example%2eevil/", "http://si<te>.example/",
        "http://si|te.example/", "http://si^te.example/", "http://si\\te.example/",
        "http://site.example\\@other.example/", "http://*.example/", "http://a,b.example/",
        "http://a$b.example/", f"http://{'a' * 300}/", f"http://{'a' * 300}.example/",
        f"http://{'a.' * 150}example/", f"http://{'a' * 64}.example/", f"http://{'ü' * 63}.example/",
        "http://999.999.999.999/", "http://256.1.1.1/", "http://1.2.3/", "http://1.2.3.4.5/",
        "http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/", "http://0x7f000001/",
        "http://0177.0.0.1/", "http://site.example.123/", "http://site.0x1f/",
    ]:  # fmt: skip
        with subtests.test(url=url):
            with pytest.raises(InvalidURLError) as caught:
                split_url(url)
            assert isinstance(caught.value, ValueError)
            assert caught.value.problem
            assert len(str(caught.value)) < 500


def test_host_whose_end_is_doubtful(subtests: pytest.Subtests) -> None:
    """What one client takes for another host than the next: never sent, and not for a private address's sake."""
    for url in [
        "http:\\\\site.example/", "http:/\\site.example/", "http://site.example\\",
        "http://site.example\\page", "http://site.example\\.other.example/",
        "http://other.example\\@site.example/", "http://user\\@site.example/",
        "http://site.example:80\\page", "\\\\site.example/", "http://[]/", "http://[", "http://]",
        "http://[::1", "http://[::1/", "http://[::1]x/", "http://[::1]x", "http://[::1].site.example/",
        "http://x[::1]/", "http://user@[::1]x/", "http://[::1]:x/", "http://[site.example]/",
    ]:  # fmt: skip
        with subtests.test(url=url):
            with pytest.raises(InvalidURLError) as caught:
                split_url(url)
            assert not isinstance(caught.value, NonPublicAddressError)
            assert "allow_private_addresses" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.0.0.1/",
        "http://0177.0.0.1/", "http://10.1/", "http://user:secret@127.1:8080/page",
    ],
)  # fmt: skip
def test_private_address_in_another_spelling(url: str) -> None:
    """No option permits it, and the error does not promise one."""
    with pytest.raises(NonPublicAddressError) as caught:
        split_url(url)
    assert "allow_private_addresses" not in str(caught.value)
    assert "dotted decimals" in caught.value.problem
    assert "secret" not in str(caught.value)


def test_whole_url_is_kept_in_the_error() -> None:
    """The message shows its beginning, the attribute has it all."""
    url = "ftp://" + "a" * 1000
    with pytest.raises(InvalidURLError, match="'ftp'") as caught:
        split_url(url)
    assert caught.value.url == url


def test_is_public(subtests: pytest.Subtests) -> None:
    """By the IANA special-purpose registries, also for an IPv4 address within an IPv6 one."""
    public = (
        "site.example", "8.8.8.8", "localhost.example", "[2606:4700::1]", "[::ffff:8.8.8.8]", "[64:ff9b::8.8.8.8]",
        "[2a00:1450:4001:800:0:5efe:8.8.8.8]",
    )  # fmt: skip
    others = (
        "[2a00:1450:4001:800:0:5efe:10.0.0.1]", "[2a00:1450:4001:800:200:5efe:192.168.0.1]",
        "[2a00:1450:4001:800:0:5efe:127.0.0.1]", "localhost", "a.localhost", "127.0.0.1", "10.1.2.3",
        "169.254.169.254", "224.0.0.1", "[::1]", "[fe80::1]", "[ff02::1]", "[::ffff:10.0.0.1]",
        "[64:ff9b::10.0.0.1]", "[2002:a00:1::]", "[::127.0.0.1]", "[64:ff9b:1::1]",
    )  # fmt: skip
    for host in (*public, *others):
        with subtests.test(host=host):
            assert Origin.of(f"http://{host}/").is_public is (host in public)


def test_scheme_of_a_built_url_may_be_an_enum() -> None:
    """What a URL is built with yarl keeps as it was given."""

    class Scheme(StrEnum):
        SECURE = "https"

    origin = Origin.of(URL.build(scheme=Scheme.SECURE, host="site.example"))
    assert (type(origin.scheme), origin.text) == (str, "https://site.example")
