"""``robotgate sitemap``: the URLs that sitemaps list, one a line, as ``robotgate fetch -i -`` reads them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from robotgate import HostUnavailableError, InvalidURLError
from robotgate.cli import check, common, output
from robotgate.cli.lists import check_url, read_urls, shown
from robotgate.clock import parse_date
from robotgate.urls import parse_url, split_url

if TYPE_CHECKING:
    from datetime import datetime

    from robotgate.sitemaps import SitemapEntry

_OF_SITE: Final = ("/", "/robots.txt")
"""The paths of URLs that stand for their site."""


def _date(text: str) -> datetime:
    found = parse_date(text)
    if found is None:
        raise click.BadParameter("give a date, such as 2026-05-31")
    return found


@click.command(cls=common.Command, short_help="Print the URLs that sitemaps list.")
@common.url_options
@common.json_option
@click.option(
    "--since", metavar="DATE", type=_date, help="Leave out what has not changed since, by its lastmod."
)
@common.gate_options()
@common.gate_setting("--delay", help="Seconds between requests to a host, at least.")
@common.store_options
async def sitemap(
    *, urls: tuple[str, ...], source: str | None, as_json: bool, since: datetime | None, **_: object
) -> int:
    """Print the URLs that sitemaps list, one a line.

    A URL without a path, such as https://example.org/, is a site: its robots.txt names the sitemaps. Any other URL is a
    sitemap itself, or an index of sitemaps. Each sitemap is fetched once, in its host's turn.

    What is wrong with a sitemap is told on standard error, and the rest of it is printed. --since keeps URLs whose
    sitemap does not say when they changed.

    Exit status: 0, 1 when any sitemap cannot be read to its end or a site names none, 2 for wrong usage, 141 when the
    URLs are read no more.
    """
    check.check_given(urls, source, has_preferences=False)
    faults = 0

    def tell(fault: object) -> None:
        nonlocal faults
        faults += 1
        output.to_stderr(output.in_plain_words(str(fault)))

    async with common.opened_gate(common.store_of_options()) as gate:
        async for url in read_urls(urls, source):
            faults_before, is_empty = faults, True
            try:
                check_url(url)
                is_sitemap = split_url(url)[1] not in _OF_SITE
                async for entry in gate.sitemap_urls(url, is_sitemap=is_sitemap, on_fault=tell):
                    is_empty = False
                    if since is None or entry.lastmod is None or entry.lastmod >= since:
                        # In a thread: whoever reads them may take hours, and may want the host from the store.
                        await asyncio.to_thread(_print, entry, as_json=as_json)
            except (InvalidURLError, HostUnavailableError) as error:
                tell(f"{shown(url)}: {output.problem_of(error)}")
            if is_empty and faults == faults_before:
                tell(f"{url}: its sitemaps are empty")
    return 1 if faults else 0


def _print(entry: SitemapEntry, *, as_json: bool) -> None:
    # As it is written, unless a terminal could not show it.
    url = entry.loc if entry.loc.isprintable() else str(parse_url(entry.loc))
    if as_json:
        lastmod = None if entry.lastmod is None else entry.lastmod.isoformat()
        output.row({"url": url, "lastmod": lastmod, "sitemap": entry.sitemap})
    else:
        # Whatever the terminal's encoding: lists of URLs are read in this one.
        click.echo(url.encode())
