"""A sitemap as bytes: whatever they are, entries come out of them or one kind of error, at a bounded price."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_linear import steps

from robotgate.sitemaps.parse import (
    MAX_BYTES,
    MAX_LOC,
    PIECE_BYTES,
    BrokenSitemapError,
    SitemapEntry,
    SitemapFile,
)

if TYPE_CHECKING:
    from collections.abc import Callable

URL: Final = "https://example.org/sitemap.xml"
HEAD: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
)
PAGE: Final = "https://example.org/page"
LAST: Final = "https://example.org/last"


def urlset(*entries: str) -> bytes:
    """A sitemap of these entries."""
    return f"{HEAD}{''.join(f'<url>{entry}</url>' for entry in entries)}</urlset>".encode()


def urlset_text(entry: str) -> str:
    """A sitemap of one entry and a good one behind it."""
    return f"{HEAD}<url>{entry}</url><url><loc>{LAST}</loc></url></urlset>"


def read(body: bytes, *, chunk: int = PIECE_BYTES) -> tuple[list[SitemapEntry], str | None, SitemapFile]:
    """The entries of a file, what is wrong with it, and the file."""
    file, fault = SitemapFile(URL), None
    try:
        for start in range(0, len(body), chunk):
            for _ in file.feed(body[start : start + chunk]):
                pass
        file.end()
    except BrokenSitemapError as error:
        fault = str(error)
        file.break_off()
    return file.entries, fault, file


def locs(body: bytes) -> list[str]:
    """The URLs of a file without a fault."""
    entries, fault, file = read(body)
    assert (fault, file.skipped) == (None, 0)
    return [entry.loc for entry in entries]


def test_entry_has_all_that_the_file_says() -> None:
    """When the page changed may be missing; what is a guess of the site's is not read."""
    body = urlset(
        f"<loc> {PAGE}?a=1&amp;b=2 </loc><lastmod>2024-05-17T10:00:00+02:00</lastmod>"
        "<changefreq>Daily</changefreq><priority>0.8</priority>",
        "<loc><![CDATA[https://example.org/b?x&y]]></loc>",
    )
    entries, fault, _ = read(body)
    assert fault is None
    assert entries == [
        SitemapEntry(
            loc=f"{PAGE}?a=1&b=2",
            sitemap=URL,
            lastmod=datetime(2024, 5, 17, 10, tzinfo=timezone(timedelta(hours=2))),
        ),
        SitemapEntry(loc="https://example.org/b?x&y", sitemap=URL),
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2024", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-05", datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024-05-17", datetime(2024, 5, 17, tzinfo=UTC)),
        ("2024-05-17T10:30Z", datetime(2024, 5, 17, 10, 30, tzinfo=UTC)),
        ("2024-05-17T10:30:15.5Z", datetime(2024, 5, 17, 10, 30, 15, 500000, tzinfo=UTC)),
        ("2024-05-17 10:30:15", datetime(2024, 5, 17, 10, 30, 15, tzinfo=UTC)),
        ("Fri, 17 May 2024 10:30:15 GMT", datetime(2024, 5, 17, 10, 30, 15, tzinfo=UTC)),
        ("2024-13-01", None),
        ("yesterday", None),
        ("", None),
        ("9" * 2000, None),
        ("Fri, 17 May 2024 10:30:15 +99999999999999999", None),
    ],
)
def test_dates_are_instants_or_nothing(written: str, meant: datetime | None) -> None:
    """W3C Datetime and the dates of RSS; a time zone is always known."""
    ((entry,), _, _) = read(urlset(f"<loc>{PAGE}</loc><lastmod>{written}</lastmod>"))
    assert entry.lastmod == meant
    assert entry.lastmod is None or entry.lastmod.tzinfo is not None


def test_index_lists_sitemaps() -> None:
    """Their dates too."""
    body = f"<sitemapindex><sitemap><loc>{URL}?1</loc><lastmod>2024-05-17</lastmod></sitemap></sitemapindex>"
    (entry,), fault, file = read(body.encode())
    assert (fault, file.is_index) == (None, True)
    assert (entry.loc, entry.lastmod) == (f"{URL}?1", datetime(2024, 5, 17, tzinfo=UTC))


RSS: Final = f"""<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><link>https://example.org/</link>
<atom:link href="{URL}" rel="self"/><item><title>t</title><atom:link href="https://example.org/x"/>
<link>{PAGE}</link><pubDate>Fri, 17 May 2024 00:00:00 GMT</pubDate></item></channel></rss>"""
ATOM: Final = f"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://example.org/"/><updated>2020-01-01T00:00Z
</updated><entry><link rel="edit" href="https://example.org/edit"/><link href="{PAGE}"/>
<updated>2024-05-17T00:00:00Z</updated></entry></feed>"""


@pytest.mark.parametrize("body", [RSS, ATOM])
def test_feeds_are_sitemaps(body: str) -> None:
    """RSS 2.0 and Atom: the links of items, not those of the feed."""
    ((entry,), fault, _) = read(body.encode())
    assert (fault, entry.loc, entry.lastmod) == (None, PAGE, datetime(2024, 5, 17, tzinfo=UTC))


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_text_has_a_url_a_line(ending: str, mark: str) -> None:
    """Whatever ends a line, and with or without a byte order mark."""
    text = f"{mark}{PAGE}/1{ending}{ending} {PAGE}/2{ending}{PAGE}/3"
    assert locs(text.encode()) == [f"{PAGE}/{number}" for number in (1, 2, 3)]


def test_extensions_are_not_mistaken_for_the_page() -> None:
    """Images and other languages have addresses of their own."""
    inner = (
        "<image:image><image:loc>https://example.org/i.png</image:loc></image:image>"
        f'<xhtml:link rel="alternate" href="https://example.org/de"/><link href="{URL}"/><loc>{PAGE}</loc>'
    )
    assert locs(urlset(inner)) == [PAGE]


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16"),
        ("utf-16-be", "utf-16"),
        ("iso-8859-1", "ISO-8859-1"),
        ("windows-1252", "windows-1252"),
        ("shift_jis", "Shift_JIS"),
        # What is declared does not matter.
        ("utf-8", "utf-16"),
        ("utf-8", "unicode_escape"),
        ("utf-8", "rot13"),
        ("utf-8", "undefined"),
        ("utf-8", "iso-8859-12"),
        ("utf-8", "no-such-thing"),
    ],
)
def test_encodings_are_seen(encoding: str, declared: str) -> None:
    """UTF-8 and UTF-16, and others where URLs are in ASCII, as they should be."""
    body = f'<?xml version="1.0" encoding="{declared}"?><urlset><url><loc>{PAGE}</loc></url></urlset>'
    assert locs(body.encode(encoding)) == [PAGE]


def test_wrong_bytes_cost_only_their_entry() -> None:
    """Latin-1 in a file of UTF-8: no URL is guessed."""
    body = urlset("<loc>https://example.org/XX</loc>", f"<loc>{PAGE}</loc><t>XX</t>").replace(
        b"XX", b"\xe9t\xe9"
    )
    entries, fault, file = read(body)
    assert (fault, file.skipped) == (None, 1)
    assert [entry.loc for entry in entries] == [PAGE]


@pytest.mark.parametrize(
    "loc",
    [
        "", "/page", "ftp://example.org/", "javascript:alert(1)", "https://", "https://a b/", "https://[/",
        PAGE + "x" * MAX_LOC,
    ],
)  # fmt: skip
def test_what_is_no_url_is_skipped(loc: str) -> None:
    """And counted, in XML as in text."""
    entries, fault, file = read(urlset(f"<loc>{loc}</loc>", f"<loc>{PAGE}</loc>"))
    assert (fault, file.skipped, [entry.loc for entry in entries]) == (None, 1, [PAGE])
    assert file.first_skipped == loc[:MAX_LOC]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("chunk", [1, 7, PIECE_BYTES])
def test_gzip_is_seen(layers: int, chunk: int) -> None:
    """Whatever its name is; of a file that was compressed once more on its way, too."""
    body = urlset(*(f"<loc>{PAGE}/{number}</loc>" for number in range(100)))
    for _ in range(layers):
        body = gzip.compress(body[: len(body) // 2]) + gzip.compress(body[len(body) // 2 :]) + b"\0" * 9
    entries, fault, _ = read(body, chunk=chunk)
    assert (fault, len(entries)) == (None, 100)


@pytest.mark.parametrize("chunk", [1, 100, PIECE_BYTES])
def test_broken_file_gives_what_stands_before(chunk: int) -> None:
    """Each way to break off, with the whole entries that had come."""
    entry = f"<loc>{PAGE}</loc>"
    packed = gzip.compress(urlset(*[entry] * 5))
    cases = {
        urlset(entry, entry)[:-5]: 2,
        f"{HEAD}<url>{entry}</url><url><loc>https://example.org/p".encode(): 1,
        packed[:-8]: 5,
        packed + b"garbage": 5,
    }
    for body, count in cases.items():
        entries, fault, _ = read(body, chunk=chunk)
        assert fault is not None
        assert [each.loc for each in entries] == [PAGE] * count


DAMAGED: Final[dict[str, str]] = {
    "a bare ampersand": urlset_text(f"<loc>{PAGE}?a=1&b=2</loc>"),
    "a bare ampersand elsewhere": urlset_text(f"<loc>{PAGE}</loc><title>Tom & Jerry</title>"),
    "a bare less-than sign": urlset_text(f"<loc>{PAGE}?a<3</loc>"),
    "what looks like a tag": urlset_text(f"<loc>{PAGE}?a<b</loc>"),
    "an unknown entity": urlset_text(f"<loc>{PAGE}?a&nbsp;b</loc>"),
    "a control character": urlset_text(f"<loc>{PAGE}\x0b</loc>"),
    "a zero byte": urlset_text(f"<loc>{PAGE}\0</loc>"),
    "a tag without end": urlset_text("<loc>"),
    "an end without tag": urlset_text("</loc>"),
    "an entry without end": f"<urlset><url><loc>{PAGE}</loc>" + f"<url><loc>{LAST}</loc></url></urlset>",
    "a value without end": f"<urlset><url><loc>{PAGE}" + f"<url><loc>{LAST}</loc></url></urlset>",
    "an attribute without quotes": urlset_text(f"<loc a=b>{PAGE}</loc>"),
    "a comment without end": urlset_text("<!-- "),
    "two roots": f"<urlset></urlset><urlset><url><loc>{LAST}</loc></url></urlset>",
    "a comment before the root": f"<!-- a -- b --><urlset><url><loc>{LAST}</loc></url></urlset>",
    "a late declaration": f"<!-- --><?xml version='1.0'?><s:urlset><s:url><s:loc>{LAST}</s:loc></s:url></s:urlset>",
    "a prefix": f"<s:urlset><s:url>&</s:url><s:url><s:loc>{LAST}</s:loc></s:url></s:urlset>",
    "a feed": f"<rss><channel><item>&</item><item><link>{LAST}</link></item></channel></rss>",
    "Atom": f"<feed><entry>&</entry><entry><link href='{LAST}'/></entry></feed>",
    "an index": f"<sitemapindex><sitemap>&</sitemap><sitemap><loc>{LAST}</loc></sitemap></sitemapindex>",
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_costs_one_entry(kind: str) -> None:
    """What follows is read; the damaged entry is counted, with what is wrong, and its URL is not guessed."""
    for chunk in (1, 7, PIECE_BYTES):
        entries, fault, file = read(DAMAGED[kind].encode(), chunk=chunk)
        assert [entry.loc for entry in entries] == [LAST], chunk
        assert (fault, file.damaged, file.first_damage != "") == (None, 1, True), chunk


def test_many_damaged_entries_end_a_file() -> None:
    """No file has the parser begin anew without end."""
    _, fault, file = read(urlset(*["<loc>&</loc>"] * 3000))
    assert (fault, file.damaged) == ("more than 1,000 entries are damaged or have no usable URL", 1001)


def test_url_that_is_cut_off_is_no_url() -> None:
    """The last line of a list that breaks off may be the half of one."""
    entries, fault, _ = read(gzip.compress(f"{PAGE}/1\n{PAGE}/2".encode())[:-8])
    assert (fault, [entry.loc for entry in entries]) == ("the gzip file breaks off", [f"{PAGE}/1"])


@pytest.mark.parametrize(
    "declaration",
    [
        '<!DOCTYPE urlset [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>',
        '<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE urlset [<!ENTITY % p SYSTEM "https://example.org/x.dtd"> %p;]>',
        '<!DOCTYPE urlset SYSTEM "https://example.org/x.dtd" [<!ENTITY x "y">]>',
        '<!DOCTYPE urlset SYSTEM "https://example.org/x.dtd">',
    ],
)
def test_entities_are_refused(declaration: str) -> None:
    """A file that declares any is not read, nor one that uses some of another file."""
    body = f"{declaration}<urlset><url><loc>https://example.org/&x;</loc></url></urlset>"
    assert read(body.encode())[:2] == ([], "it has entities of its own")


def test_page_of_html_is_no_sitemap() -> None:
    """What many sites send where there is none."""
    assert read(b"<!DOCTYPE html><html><body>Not found")[:2] == ([], "no sitemap: its root is <html>")


@pytest.mark.parametrize(
    "body", [b"", b" \n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0), b"\x1f", b"\x1f\x8b"]
)
def test_empty_file_is_a_fault(body: bytes) -> None:
    """And no entry."""
    entries, fault, _ = read(body)
    assert entries == []
    assert fault is not None


def member(times: int, text: bytes = b" " * 1_000_000) -> bytes:
    """Gzip of a text that is repeated, made without holding that."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([packer.compress(text) for _ in range(times)] + [packer.flush()])


def flat(*, times: int = 1, stored: int = 0) -> bytes:
    """Gzip that holds nothing: empty blocks (RFC 1951 §3.2.4)."""
    body = gzip.compress(b"", mtime=0)
    return (body[:10] + b"\0\0\0\xff\xff" * stored + body[10:]) * times


HOSTILE: Final[dict[str, Callable[[], bytes]]] = {
    "a bomb of blanks": lambda: member(60),
    "a bomb in a bomb": lambda: gzip.compress(member(60)),
    "a bomb of a text": lambda: gzip.compress(HEAD.encode())[:-8] + member(60, b"x" * 1_000_000),
    "empty members": lambda: flat(times=100_000),
    "empty blocks": lambda: flat(stored=12_000_000),
    "empty blocks, compressed": lambda: gzip.compress(flat(stored=12_000_000), 1),
    "a loc without end": lambda: f"{HEAD}<url><loc>https://e.org/".encode() + b"x" * MAX_BYTES,
    "a tag without end": lambda: f"{HEAD}<url ".encode() + b"x" * MAX_BYTES,
    "a comment without end": lambda: f"{HEAD}<!--".encode() + b"x" * MAX_BYTES,
    "attributes": lambda: f"{HEAD}<url ".encode() + b"".join(b"a%d='' " % n for n in range(2_000_000)),
    "names": lambda: HEAD.encode() + b"".join(b"<a%d/>" % n for n in range(2_000_000)),
    "depth": lambda: HEAD.encode() + b"<a>" * 3_000_000,
    "a line without end": lambda: b"https://e.org/" + b"x" * MAX_BYTES,
    "lines of nothing": lambda: b"x\n" * 10_000_000,
}


DEAR: Final = {
    *("a bomb of blanks", "attributes", "names", "empty blocks, compressed", "lines of nothing"),
    *("a line without end", "a bomb of a text", "a bomb in a bomb"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in DEAR else []) for name in HOSTILE]
)
def test_hostile_file_is_left_within_bounded_memory(name: str) -> None:
    """Each ends as a fault, and what was kept of it on the way is small."""
    body = HOSTILE[name]()
    tracemalloc.start()
    try:
        entries, fault, file = read(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert entries == []
    assert fault is not None or file.skipped == 1
    assert peak < 8_000_000


@pytest.mark.parametrize(
    "part",
    [
        f"<url><loc>{PAGE}</loc></url>", "<a/>", "x", "&amp;", "<!-- x -->", "<![CDATA[]]>", "<?x y?>", "<",
        "<url>",
    ],
)  # fmt: skip
def test_twice_the_length_costs_twice_the_steps(part: str) -> None:
    """For each thing that a file may have many of."""
    small, large = (steps(partial(read, f"{HEAD}{part * count}".encode())) for count in (400, 800))
    assert large < 2.3 * small + 1000


@given(
    st.binary(max_size=3000) | st.text(alphabet="<>/urlset:'=&; \n![-]?ENTIY\ufeff").map(str.encode),
    st.integers(1, 50),
)
def test_any_bytes_are_entries_or_the_one_error(body: bytes, chunk: int) -> None:
    """And the same ones, however they are cut into chunks; packed or not."""
    whole = read(body)[:2]
    assert read(body, chunk=chunk)[:2] == whole
    assert read(gzip.compress(body), chunk=chunk)[0] == whole[0]
