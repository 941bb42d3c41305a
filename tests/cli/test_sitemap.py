"""``robotgate sitemap``, and its way into ``robotgate fetch``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import FETCH, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import LocalSite, Program

SITEMAP: Final = ("sitemap", *FETCH[1:])


@pytest.fixture(autouse=True)
def sitemaps(site: LocalSite) -> None:
    """An index that robots.txt names, with a sitemap, and a missing one."""
    site.robots = f"User-agent: *\nDisallow: /private/\nSitemap: {site.base}/index\n"
    places = "".join(f"<sitemap><loc>{site.base}/{name}</loc></sitemap>" for name in ("list", "gone"))
    site.pages["/index"] = f"<sitemapindex>{places}</sitemapindex>"
    dates = {"old": "<lastmod>2020-01-01</lastmod>", "new": "<lastmod>2026-05-01</lastmod>", "some": ""}
    urls = "".join(f"<url><loc>{site.base}/{name}</loc>{date}</url>" for name, date in dates.items())
    site.pages["/list"] = f"<urlset>{urls}<url><loc>nonsense</loc></url></urlset>"


def test_urls_of_a_site_are_printed(site: LocalSite) -> None:
    """One a line; what is wrong is told on standard error, with status 1. A sitemap may be named itself."""
    urls = [f"{site.base}/{name}" for name in ("old", "new", "some")]

    of_site, of_sitemap = run(*SITEMAP, site.base), run(*SITEMAP, "--json", f"{site.base}/list")

    assert (of_site.status, of_site.out.splitlines()) == (1, urls)
    assert of_site.err == (
        f"{site.base}/list: entries without a usable URL: 1, the first 'nonsense'\n"
        f"{site.base}/gone: HTTP status 410\n"
    )
    assert [(row["url"], row["lastmod"]) for row in of_sitemap.rows] == [
        (urls[0], "2020-01-01T00:00:00+00:00"),
        (urls[1], "2026-05-01T00:00:00+00:00"),
        (urls[2], None),
    ]
    assert site.asked["/list"] == 2


def test_since_leaves_out_what_has_not_changed(site: LocalSite) -> None:
    """What does not say when it changed is printed; what is no date is wrong usage."""
    ended = run(*SITEMAP, "--since", "2026-01-01", f"{site.base}/list")
    assert ended.out.splitlines() == [f"{site.base}/new", f"{site.base}/some"]
    assert run(*SITEMAP, "--since", "yesterday", site.base).status == 2


def test_a_site_without_sitemaps_is_told_of(site: LocalSite) -> None:
    """As is one that cannot be reached, and a URL that is none; the others are printed."""
    site.robots = f"User-agent: *\nSitemap: {site.base}/private/list\nDisallow: /private/\n"
    site.pages["/list"] = f"{site.base}/a?\x1b[2J\u202e\n{site.base}/b\u202e\n"
    other = site.base.replace("127.0.0.1", "localhost")

    ended = run(*SITEMAP, "http://127.0.0.1:1/", "nonsense", other, f"{site.base}/list")
    site.robots = ""
    nothing = run(*SITEMAP, site.base)

    assert (ended.status, ended.out) == (1, f"{site.base}/b%E2%80%AE\n")
    reasons = (
        "127.0.0.1:1/robots.txt: ",
        "nonsense: not an absolute",
        "/private/list: ",
        "/list: entries without",
    )
    assert all(reason in line for reason, line in zip(reasons, ended.err.splitlines(), strict=True)), (
        ended.err
    )
    assert (nothing.status, nothing.err) == (1, f"{site.base}/robots.txt: it names no sitemap\n")


async def test_a_reader_may_take_its_time(program: Program, site: LocalSite, tmp_path: Path) -> None:
    """`sitemap | fetch`: while nobody reads the URLs, the host is free for the command that will."""
    store = ("--store", str(tmp_path / "cache.db"))
    polite = [option for option in FETCH[1:] if option != "--no-store"]
    site.pages["/list"] = "".join(f"{site.base}/{number:0100}\n" for number in range(5000))
    process = await program.start("sitemap", *polite, *store, f"{site.base}/list")
    assert process.stdout is not None
    first = (await process.stdout.readline()).decode().strip()

    # A process that does not share its hosts loses them after 20 seconds.
    async with asyncio.timeout(15):
        ended = await program("fetch", *polite, *store, "-i", "-", stdin=first.encode())

    assert [row["outcome"] for row in ended.rows] == ["fetched"]
    out, _ = await process.communicate()
    assert (process.returncode, out.count(b"\n")) == (0, 4999)


async def test_urls_are_printed_as_lists_are_read(
    program: Program, site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In UTF-8, whatever the locale."""
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    site.pages["/list"] = f"{site.base}/caf\u00e9\n"
    ended = await program(*SITEMAP, f"{site.base}/list")
    assert (ended.status, ended.out) == (0, f"{site.base}/caf\u00e9\n")
