"""Files with very many rules, and files made to cost time or memory; and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class HardFile:
    """A file, and paths."""

    key: str
    title: str
    body: bytes
    paths: tuple[str, ...]


def plain(count: int) -> bytes:
    """So many rules of one form, without wildcards."""
    return "\n".join(
        ["User-agent: *", *(f"Disallow: /section-{number}/page" for number in range(count))]
    ).encode()


def mixed(count: int) -> bytes:
    """So many rules, two fifths of them with wildcards."""
    forms = (
        "Disallow: /dir{0}/page",
        "Disallow: /section-{0}/",
        "Allow: /dir{0}/page/open",
        "Disallow: /dir{0}/*/print",
        "Disallow: /*?id{0}=",
    )
    return "\n".join(
        ["User-agent: *", *(forms[number % 5].format(number) for number in range(count))]
    ).encode()


def large_files() -> list[HardFile]:
    """Files that are honest, and large."""
    bombs = (f"Disallow: /{'*a' * (8 + number % 24)}*b{number}" for number in range(1_000))
    return [
        HardFile(
            key="plain-10000",
            title="10,000 plain rules",
            body=plain(10_000),
            paths=("/section-77/page/x", "/section-9999/page", "/section-a/page.html", "/about/us.html"),
        ),
        HardFile(
            key="mixed-10000",
            title="10,000 mixed rules, two fifths with wildcards",
            body=mixed(10_000),
            paths=(
                "/dir1234/page/open/x",
                "/dir5/page",
                "/about/us.html",
                "/section-77/page?id9=1",
                "/dir8/x/print",
            ),
        ),
        HardFile(
            key="bombs-1000",
            title="1,000 wildcard bombs, a URL of 2,000 bytes",
            body="\n".join(["User-agent: *", *bombs]).encode(),
            paths=(f"/{'a' * 1_999}",),
        ),
    ]


def hostile_files() -> list[HardFile]:
    """Files made to cost a parser much."""
    agents = b"".join(b"User-agent: a%d\n" % number for number in range(6_000))
    rules = b"".join(b"Disallow: /%d\n" % number for number in range(6_000))
    more_agents = b"".join(b"User-agent: a%d\n" % number for number in range(17_000))
    floating = b"".join(b"Disallow: *%x*z\n" % number for number in range(30_000))
    return [
        HardFile(
            key="agents-x-rules",
            title="6,000 agents above 6,000 rules, 200 KB",
            body=agents + b"User-agent: *\n" + rules,
            paths=("/5999/x", "/a"),
        ),
        HardFile(
            key="agents-17000",
            title="17,000 agents",
            body=more_agents + b"User-agent: *\nDisallow: /a\n",
            paths=("/a", "/b"),
        ),
        HardFile(
            key="one-line",
            title="500 KB in one line",
            body=b"User-agent: *\nDisallow: /" + b"a" * 500_000 + b"\nDisallow: /b\n",
            paths=("/a", "/b"),
        ),
        HardFile(
            key="duplicate-groups",
            title="8,000 times the same group",
            body=b"User-agent: *\nDisallow: /a\n" * 8_000,
            paths=("/a", "/b"),
        ),
        HardFile(key="line-ends", title="500 KB of line ends", body=b"\n" * 500_000, paths=("/a",)),
        HardFile(
            key="many-needles",
            title="26,000 wildcards, each with a text of its own, a URL of 64 KB",
            body="\n".join(
                ["User-agent: *", *(f"Disallow: /*a*{number}" for number in range(26_000))]
            ).encode(),
            paths=("/%25?" + "/" * 64_000,),
        ),
        HardFile(
            key="floating-wildcards",
            title="30,000 wildcards *…*z, a URL of 8 KB",
            body=b"User-agent: *\n" + floating,
            paths=("/" + "0123456789abcdef" * 500, "/a/b.html"),
        ),
        HardFile(
            key="escaped-slashes",
            title="31 rules of 4,050 wildcards and escaped slashes, a URL of 64 KB",
            body=b"User-agent: *\n" + (b"Disallow: /" + b"*%2F" * 4_050 + b"\n") * 31,
            paths=("/%25?" + "/" * 65_000,),
        ),
        HardFile(
            key="one-letter",
            title="4,600 wildcards of 97 letters and a number, a URL of 29,800 letters",
            body=b"User-agent: *\n"
            + b"".join(b"Disallow: /*%bbaa*%d\n" % (b"a" * 94, number) for number in range(4_600)),
            paths=("/" + "a" * 29_800,),
        ),
    ]


def _filled(line: str) -> Callable[[int], HardFile]:
    """A file of one kind of line, each with a number in it, of any size."""

    def made(size: int) -> HardFile:
        count = size // (len(line) + 5)
        body = "".join(line.replace("{}", str(number)) for number in range(count))
        return HardFile(
            key="", title="", body=f"User-agent: *\n{body}Disallow: /x\n".encode(), paths=("/a/b.html",)
        )

    return made


SHAPES: Final = {
    "agents": _filled("User-agent: a{}\n"),
    "agents and delays": _filled("User-agent: a{}\nCrawl-delay: 1\n"),
    "our agent and delays": _filled("User-agent: *\nCrawl-delay: {}\n"),
    "our agent, delays and rules": _filled("User-agent: *\nCrawl-delay: 1\nAllow: /{}\n"),
    "groups": _filled("User-agent: *\nDisallow: /{}\n"),
    "rules": _filled("Disallow: /{}\n"),
    "rules of both kinds": _filled("Disallow: /{}\nAllow: /{}/a\n"),
    "wildcards": _filled("Disallow: /*{}\n"),
    "wildcards that share a text": _filled("Disallow: /*text*{}a\n"),
    "escapes": _filled("Disallow: /%D0%B0{}\n"),
    "comments": _filled("# {}\n"),
    "blank lines": _filled("\n"),
}
"""By what they are full of, files that can be had twice as large."""

FULL_OF: Final = {
    "CR": b"\r",
    "comments that end with CR": b"#\r",
    "CR and CRLF by turns": b"\r\r\n",
    "line feeds": b"\n",
    "NUL": b"\0",
    "byte order marks": b"#\n\xef\xbb\xbf",
    "records without a value": b"a:\n",
    "unknown records": b"\xe4\xe4:\xe4\n",
    "agents": b"useragent:a\n",
    "our agent": b"useragent:*\n",
    "groups": b"useragent:*\nallow:\n",
    "delays": b"crawl-delay:1\n",
    "hours": b"visit-time:\n",
    "our agent and delays": b"useragent:*\ncrawl-delay:1\n",
    "rules": b"allow:/\n",
    "wildcards": b"allow:*a*\n",
    "escapes": b"allow:/%E4\n",
}
"""Short lines, of which a file made to take memory may be full."""


def full_of(line: bytes, size: int = 512_000) -> bytes:
    """A file of so many bytes, the most that is read, with a rule for us at its begin."""
    begin = b"User-agent: *\nDisallow: /x\n"
    return (begin + line * (size // len(line)))[:size]
