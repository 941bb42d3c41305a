"""Files with very many rules, and files made to cost time or memory; and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALL: Final = b"User-agent: *\n"
MIXED: Final = (
    "Disallow: /dir{0}/page\n",
    "Disallow: /section-{0}/\n",
    "Allow: /dir{0}/page/open\n",
    "Disallow: /dir{0}/*/print\n",
    "Disallow: /*?id{0}=\n",
)


@dataclass(frozen=True, slots=True)
class HardFile:
    """A file, and paths."""

    key: str
    title: str
    body: bytes
    paths: tuple[str, ...]


def numbered(line: str, count: int) -> bytes:
    """The line so many times, each time with its number."""
    return "".join(line.format(number) for number in range(count)).encode()


def plain(count: int) -> bytes:
    """So many rules of one form, without wildcards."""
    return ALL + numbered("Disallow: /section-{}/page\n", count)


def large_files() -> list[HardFile]:
    """Files that are honest, and large."""
    mixed = "".join(MIXED[number % 5].format(number) for number in range(10_000))
    bombs = "".join(f"Disallow: /{'*a' * (8 + number % 24)}*b{number}\n" for number in range(1_000))
    return [
        HardFile(
            "plain-10000",
            "10,000 plain rules",
            plain(10_000),
            ("/section-77/page/x", "/section-9999/page", "/section-a/page.html", "/about/us.html"),
        ),
        HardFile(
            "mixed-10000",
            "10,000 mixed rules, two fifths with wildcards",
            ALL + mixed.encode(),
            (
                "/dir1234/page/open/x",
                "/dir5/page",
                "/about/us.html",
                "/section-77/page?id9=1",
                "/dir8/x/print",
            ),
        ),
        HardFile(
            "bombs-1000",
            "1,000 wildcard bombs, a URL of 2,000 bytes",
            ALL + bombs.encode(),
            (f"/{'a' * 1_999}",),
        ),
    ]


def hostile_files() -> list[HardFile]:
    """Files made to cost a parser much."""
    agents, rules = numbered("User-agent: a{}\n", 6_000), numbered("Disallow: /{}\n", 6_000)
    escaped = b"Disallow: /" + b"*%2F" * 4_050 + b"\n"
    one_letter = numbered("Disallow: /*" + "a" * 94 + "baa*{}\n", 4_600)
    return [
        HardFile(
            "agents-x-rules",
            "6,000 agents above 6,000 rules, 200 KB",
            agents + ALL + rules,
            ("/5999/x", "/a"),
        ),
        HardFile(
            "agents-17000",
            "17,000 agents",
            numbered("User-agent: a{}\n", 17_000) + ALL + b"Disallow: /a\n",
            ("/a", "/b"),
        ),
        HardFile(
            "one-line",
            "500 KB in one line",
            ALL + b"Disallow: /" + b"a" * 500_000 + b"\nDisallow: /b\n",
            ("/a", "/b"),
        ),
        HardFile(
            "duplicate-groups", "8,000 times the same group", (ALL + b"Disallow: /a\n") * 8_000, ("/a", "/b")
        ),
        HardFile("line-ends", "500 KB of line ends", b"\n" * 500_000, ("/a",)),
        HardFile(
            "many-needles",
            "26,000 wildcards, each with a text of its own, a URL of 64 KB",
            ALL + numbered("Disallow: /*a*{}\n", 26_000),
            ("/%25?" + "/" * 64_000,),
        ),
        HardFile(
            "floating-wildcards",
            "30,000 wildcards *…*z, a URL of 8 KB",
            ALL + numbered("Disallow: *{:x}*z\n", 30_000),
            ("/" + "0123456789abcdef" * 500, "/a/b.html"),
        ),
        HardFile(
            "escaped-slashes",
            "31 rules of 4,050 wildcards and escaped slashes, a URL of 64 KB",
            ALL + escaped * 31,
            ("/%25?" + "/" * 65_000,),
        ),
        HardFile(
            "one-letter",
            "4,600 wildcards of 97 letters and a number, a URL of 29,800 letters",
            ALL + one_letter,
            ("/" + "a" * 29_800,),
        ),
    ]


SHAPES: Final = {
    "agents": "User-agent: a{}\n",
    "agents and delays": "User-agent: a{}\nCrawl-delay: 1\n",
    "our agent and delays": "User-agent: *\nCrawl-delay: {}\n",
    "our agent, delays and rules": "User-agent: *\nCrawl-delay: 1\nAllow: /{}\n",
    "groups": "User-agent: *\nDisallow: /{}\n",
    "rules": "Disallow: /{}\n",
    "rules of both kinds": "Disallow: /{0}\nAllow: /{0}/a\n",
    "wildcards": "Disallow: /*{}\n",
    "wildcards that share a text": "Disallow: /*text*{}a\n",
    "escapes": "Disallow: /%D0%B0{}\n",
    "comments": "# {}\n",
    "blank lines": "\n",
}
"""Lines, by what a file is called that is full of them."""


def filled(line: str, size: int) -> bytes:
    """A file of one kind of line, of about so many bytes."""
    return ALL + numbered(line, size // (len(line) + 5)) + b"Disallow: /x\n"
