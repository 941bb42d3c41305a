"""``robotgate judge``: its options, and how it shows a crawl while it runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Unpack

import click
from rich.progress import Progress

from robotgate.cli import common, output
from robotgate.cli.card import as_html, as_json, as_junit, ending, print_card
from robotgate.judge.run import Options, conduct
from robotgate.judge.servers import UNKNOWN, public_keys
from robotgate.rules.grammar import product_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO, TextIO

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from robotgate.judge.judge import Card
    from robotgate.judge.servers import Visit
    from robotgate.judge.sites import Plan

_REPORT: Final = click.File("w", encoding="utf-8", lazy=False)
seed_option: Final = common.setting("--seed", default=1, help="Of the random sites and pages.")
pages_option: Final = common.setting(
    "--pages", default=500, type=click.IntRange(1, 100_000), help="About how many URLs."
)
json_option: Final = click.option(
    *("--json", "json_file"),
    type=_REPORT,
    help="Also write the report as JSON, with every request that the server saw.",
)


def _keys(_: click.Context, __: click.Parameter, file: BinaryIO | None) -> list[Ed25519PublicKey]:
    try:
        if file is None:
            return []
        with common.os_errors(f"read {file.name}"):
            return public_keys(file.read())
    except ValueError as error:
        raise click.BadParameter("there is no JWK of Ed25519 in it") from error


@click.command(
    cls=common.Command,
    short_help="Judge any crawler by sites on this machine.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, metavar="COMMAND...")
@click.option(
    "--agent",
    default="",
    metavar="TOKEN",
    callback=lambda _, __, value: product_token(value),
    help="The crawler's name in robots.txt. Without it, the one in the User-Agent of its first request to a site.",
)
@common.flag("--direct", help="Have the sites at addresses 127.0.x.y, for a crawler that uses no proxy.")
@click.option("--only", multiple=True, metavar="TEXT", help="Only kinds of sites with this in their names.")
@common.setting(
    *("--time", "limit"),
    default=60.0,
    type=click.FloatRange(1, 3600),
    help="Seconds after which it is ended.",
)
@click.option(
    *("--declare", "declared"),
    type=click.Choice(["ai-train"]),
    multiple=True,
    help="What the crawler says of itself, so that it is judged by it, too.",
)
@click.option(
    *("--public-key", "keys"),
    metavar="FILE",
    type=click.File("rb"),
    callback=_keys,
    help="The JWK or the directory of its keys, so that its signatures are judged, too.",
)
@seed_option
@pages_option
@json_option
@click.option("--html", "html_file", type=_REPORT, help="Also write the report as a page.")
@click.option("--junit", "junit_file", type=_REPORT, help="Also write the report as the XML of JUnit.")
@common.flag("-v", "--verbose", help="Print what the command prints, on standard error.")
async def judge(
    *,
    command: Sequence[str],
    json_file: TextIO | None,
    html_file: TextIO | None,
    junit_file: TextIO | None,
    **options: Unpack[Options],
) -> int:
    """Run a crawler, in any language, against sites on this machine, and judge what their server saw.

    COMMAND is started with a proxy in its environment (http_proxy, https_proxy) that leads to the sites, and to nothing
    else. In its arguments, {urls} is a file with the URLs, {start} a page with links to all, {sitemap} a sitemap of
    all, {proxy} the proxy, {ca} a file with the certificate that it has to trust for https. ROBOTGATE_JUDGE_URLS,
    _START, _SITEMAP, _PROXY and _CA are the same in its environment.

    Each kind of site stands for a claim of a standard (MUST, SHOULD) or a convention. What breaks it is shown with the
    requests that prove it. Open pages that were not requested are counted, but are no fault.

    Exit status: 0 when all MUST and SHOULD hold, 1 when one is broken, 2 when nothing could be judged.
    """
    with shown() as told:
        card = await conduct([command], told, **options)
    if not card.score:
        raise common.CommandError(
            f"{command[0]} has made {len(card.visits)} requests, too few to judge it, and ended"
            f" {ending(card.statuses[0])}: -v shows what it prints"
        )
    if card.terms.agent == UNKNOWN:
        raise common.CommandError(
            "its first User-Agent has no name of a crawler to write rules for: see --agent"
        )
    return conclude(card, output.Screen(), (json_file, as_json), (html_file, as_html), (junit_file, as_junit))


def conclude(card: Card, screen: output.Screen, *reports: tuple[TextIO | None, Callable[[Card], str]]) -> int:
    """Print and write the reports of a crawl, and return the exit status."""
    print_card(screen, card)
    for file, report in reports:
        if file is not None:
            file.write(report(card))
    return 0 if card.is_whole else 1


@contextmanager
def shown() -> Iterator[Callable[[Plan, Visit | None], object]]:
    """Show a crawl while it runs: on a terminal, how many of the pages that may be fetched have been requested."""
    screen = output.Screen(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=None)
        left = set[tuple[str, str]]()

        def told(plan: Plan, visit: Visit | None) -> None:
            if visit is None:
                left.update(
                    (site.name, page.path)
                    for site in plan.sites
                    for page in site.pages
                    if page.is_asked and page.access == "open"
                )
                bar.update(task, total=len(left))
                screen.paragraph(f"{len(plan.urls):,} URLs of {len(plan.sites)} sites on this machine")
            elif (visit.site, visit.path) in left:
                left.remove((visit.site, visit.path))
                bar.advance(task)

        yield told
