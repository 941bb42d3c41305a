"""Hostile input: whatever a site writes, the answer is unknown and a problem is told; nothing raises or takes long."""

from __future__ import annotations

import json
import time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate import RobotsTxt
from robotgate.lint import lint
from robotgate.preferences import Preference, Preferences, TdmRep, parse_preferences

SITE: Final = "https://a.example"
NAMES: Final = (
    "Content-Usage", "Content-Signal", "Link", "tdm-reservation", "tdm-policy", "X-Robots-Tag", "Robots-Tag",
)  # fmt: skip
PURPOSES: Final = ("search", "ai_input", "ai_train", "tdm", "index", "follow", "archive", "snippet")
PIECES: Final = st.sampled_from(
    [
        "train-ai", "search", "=y", "=n", ",", ";", " ", "\t", '"', "(", ")", "?1", ":", "*", "<", ">",
        "rel=license", "unavailable_after:", "max-snippet:", "noindex", "MyBot", "=yes", "=no", "use=full",
        "\udcff", "\0", "é", "2010-06-25", "Fri, 25 Jun 2010", "99999999999999999999", "@1", ":aGk=:", '%"',
        "-", "0", "1",
    ]
)  # fmt: skip
TEXTS: Final = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))


def readable(preferences: Preferences) -> Preferences:
    """An answer that is whole: every purpose answered, every statement printable."""
    for purpose in PURPOSES:
        assert isinstance(preferences.preference(purpose), Preference)
    for statement in preferences.statements:
        str(statement).encode()
    return preferences


@given(st.sampled_from(NAMES), TEXTS)
def test_any_header(name: str, value: str) -> None:
    """Any text as the value of any field."""
    readable(parse_preferences([(name, value), (name, value)], agent="MyBot"))


@given(st.binary(max_size=400) | TEXTS.map(lambda text: text.encode("utf-8", "replace")), TEXTS)
def test_any_page(page: bytes, content: str) -> None:
    """Any bytes as a page, and any content of an element."""
    readable(parse_preferences(html=page))
    readable(parse_preferences(html=f'<meta name="robots" content="{content}"><{content}'))


@given(TEXTS)
def test_any_robots_txt(value: str) -> None:
    """Any value of any line, in and above groups."""
    lines = "\n".join(f"{name}: {value}" for name in ("Content-Usage", "Content-Signal", "License"))
    body = f"{lines}\nUser-agent: *\n{lines}\nContent-Usage: /a {value}".encode("utf-8", "replace")
    readable(RobotsTxt.parse(body, SITE).preferences("/a", "MyBot"))


@given(st.binary(max_size=300))
def test_any_tdmrep_file(body: bytes) -> None:
    """Any bytes as tdmrep.json."""
    readable(parse_preferences(tdmrep=body, url=f"{SITE}/a"))


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 500_000, b'{"location": "/"}', b"[1, null, [], {}]", b'[{"location": 1}]',
        b"[" + b"9" * 5_000 + b"]", b"\xff\xfe[]", b" " * 1_000_001 + b"[]",
        b'[{"location": "x", "tdm-reservation": 1}]',
    ],
)  # fmt: skip
def test_files_that_are_none(body: bytes) -> None:
    """A file that is not what the standard says reserves nothing, and says why."""
    preferences = parse_preferences(tdmrep=body, url=f"{SITE}/a")
    assert preferences.tdm is Preference.UNKNOWN
    assert preferences.problems


CONTROLS: Final = "https://p.example/\x1b[2J\x9b\r\nERROR robotgate: another\u2028line\x7f"


def test_what_a_site_writes_cannot_forge_a_line_of_a_log() -> None:
    """Control characters of headers, pages and files are escaped wherever a statement is shown."""
    file = json.dumps([{"location": f"/*/{CONTROLS[:20]}*", "tdm-reservation": 1, "tdm-policy": CONTROLS}])
    rsl = f'<rsl xmlns="https://rslstandard.org/rsl"><terms>{CONTROLS[17:]}</terms></rsl>'.replace("\x1b", "")
    html = f"""<meta name=robots content="{CONTROLS}"><meta name=tdm-policy content="{CONTROLS}">
    <link rel=license href="{CONTROLS}"><script type="application/rsl+xml">{rsl}</script>"""
    headers = [(name, CONTROLS) for name in NAMES] + [
        ("Link", f"<{CONTROLS}>; rel=license"),
        ("tdm-reservation", "1"),
    ]
    for preferences in (
        parse_preferences(headers, html, agent="MyBot"),
        parse_preferences(tdmrep=file.encode(), url=f"{SITE}/a/https://p.example/%1B%5B2J"),
    ):
        texts = [*map(str, preferences.statements), *preferences.licenses, *preferences.policies]
        assert "ERROR" in "".join(texts)
        assert all(letter.isprintable() for text in texts for letter in text), texts


LONG: Final = 65_000


@pytest.mark.parametrize(
    "value",
    [
        *("a" * LONG, "," * LONG, ", " * 30_000, "a:" * 30_000, "<" * LONG, '"' * LONG, "=" * LONG),
        *(
            "train-ai=y," * 6_000 + "train-ai=n",
            "a;" * 30_000,
            "(" * LONG,
            '<a>;"' * 13_000,
            "<a>;x=" * 10_000,
        ),
        *(
            "unavailable_after:" * 3_600,
            "<a>" + ";rel=license" * 5_000,
            "\\" * LONG,
            "<a>;" + '="\\' * 15_000,
        ),
    ],
)
def test_long_values_take_linear_time(value: str) -> None:
    """The processor time for one header is bounded, whatever its 64 KiB are."""
    for name in NAMES:
        begin = time.process_time()
        readable(parse_preferences([(name, value)], agent="MyBot"))
        assert time.process_time() - begin < 2.0, name


@pytest.mark.parametrize(
    "piece",
    [
        "<", "<!--", "<!", "<![", "<?", "</", "<a ", "<a b", '<a b="', "<meta name=robots content=noindex>",
        "&#", "&a", "<script>", "<script type=application/rsl+xml>",
        "<script type=application/rsl+xml></script>",
        '<script type=application/rsl+xml><rsl xmlns="https://rslstandard.org/rsl"><terms>', "<title>",
        "<![CDATA[", "<!DOCTYPE [", "<meta ", "<a/", "<a b=c ", "<style></", "<plaintext>",
    ],
)  # fmt: skip
def test_hostile_pages_take_bounded_time(piece: str) -> None:
    """The processor time for one page is bounded, whatever its first 64 KiB are."""
    begin = time.process_time()
    readable(parse_preferences(html=piece * (2_000_000 // len(piece))))
    assert time.process_time() - begin < 5.0


@pytest.mark.parametrize("headers", [{b"Content-Usage": [b"train-ai=n"]}, [("Content-Usage", b"train-ai=n")]])
def test_headers_of_bytes_are_refused(headers: dict[str, str]) -> None:
    """As Scrapy has them: a preference that is not seen would be lost."""
    with pytest.raises(TypeError, match="headers: give text"):
        parse_preferences(headers)


def test_headers_beyond_the_limit_are_told() -> None:
    """64 KiB of fields are read, and what is beyond is a problem, not a preference."""
    preferences = parse_preferences([("Content-Signal", "search=yes"), ("Content-Usage", "a" * 70_000)])
    assert preferences.search is Preference.ALLOWED
    assert [each.field for each in preferences.problems] == ["Content-Usage"]


def test_statements_are_bounded_and_all_count() -> None:
    """Of many statements a thousand are listed, those that decide among them."""
    body = (
        b"User-agent: *\n"
        + b"Content-Signal: search=yes\n" * 3_000
        + b"Content-Signal: search=no, use=full\n"
    )
    preferences = RobotsTxt.parse(body, SITE).preferences("/", "MyBot")
    assert preferences.search is Preference.DISALLOWED
    assert len(preferences.statements) <= 1_000
    assert [each.line for each in preferences.deciding("search")] == [3_002]
    assert preferences.deciding("archive")


def test_a_file_of_paths_takes_linear_time() -> None:
    """Content-Usage lines are matched as Allow and Disallow are."""
    lines = b"".join(b"Content-Usage: /%05d*a*b train-ai=n\n" % number for number in range(13_000))
    equal = b"".join(
        b"Content-Usage: /*%s*a train-ai=n\n" % (b"ab"[i % 2 : i % 2 + 1] * 9) for i in range(9_000)
    )
    for body in (lines, equal):
        robots = RobotsTxt.parse(b"User-agent: *\n" + body, SITE)
        begin = time.process_time()
        preferences = robots.preferences("/" + "ab" * 4_000, "MyBot")
        assert time.process_time() - begin < 5.0
        assert len(preferences.statements) <= 1_000


def test_a_large_tdmrep_file_takes_bounded_time() -> None:
    """As many rules as are read, with as many wildcards as fit."""
    rule = b'{"location": "/' + b"*a" * 450 + b'$", "tdm-reservation": 1}'
    begin = time.process_time()
    rules = TdmRep.parse(b"[" + b",".join([rule] * 1_000) + b"]")
    assert rules.problem is None
    assert not rules.of("/" + "ab" * 4_000 + "c")
    assert time.process_time() - begin < 5.0


def test_lint_of_many_statements_takes_linear_time() -> None:
    """A file of nothing but statements that cannot be read."""
    lines = b"Content-Usage: train_ai=n,b\nContent-Signal: ai_train=n,b\nLicense: x\n"
    begin = time.process_time()
    assert lint(b"User-agent: *\n" + lines * (250_000 // len(lines)))
    assert time.process_time() - begin < 5.0


@pytest.mark.parametrize(
    "piece",
    [
        "<content server='a'/>", "<terms>a</terms>", "<a>", "<a b='", "&amp;", "<!--", "]]>", "<?a ?>",
        "<![CDATA[", "<terms>", "<payment>", "<payment><amount/></payment>", "<amount>",
        "<x:a xmlns:x='b'>", " a", "\0", "é", "&#65;",
    ],
)  # fmt: skip
def test_hostile_rsl_documents_take_bounded_time(piece: str) -> None:
    """The processor time for a document of 64 KiB is bounded, whatever they are."""
    start = '<rsl xmlns="https://rslstandard.org/rsl">'
    for document in (start + piece * (65_000 // len(piece)), start[:-1] + piece * (65_000 // len(piece))):
        begin = time.process_time()
        preferences = readable(
            parse_preferences(html=f'<script type="application/rsl+xml">{document}</script>')
        )
        assert preferences.statements
        assert len(preferences.statements) <= 1_000
        assert time.process_time() - begin < 5.0
