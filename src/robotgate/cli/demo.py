"""``robotgate demo``: a crawl of robotgate's own that is judged, and the same sites for other programs."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from robotgate.cli import common, output
from robotgate.cli.card import as_json
from robotgate.cli.judge import conclude, json_option, pages_option, seed_option, shown
from robotgate.judge.run import conduct
from robotgate.judge.servers import LOOPBACK, SiteServer, Visit, listening, public_keys
from robotgate.judge.sites import OURS, Plan, draw_plan, examples, filled
from robotgate.signing import SigningKey
from robotgate.signing.directory import directory_body

if TYPE_CHECKING:
    from typing import TextIO

    from aiohttp import web

DEFAULT_PORT: Final = 8009
DELAY: Final = 0.15
"""Seconds: the crawler's own, which is less than its default so that the demonstration does not take long."""
CRAWLER: Final = f"""
-m robotgate --config {{folder}}/none.toml fetch --quiet --input {{urls}} --output {{folder}}/rows-{{worker}}.jsonl
--proxy {{proxy}} --store {{folder}}/demo.db --sign {{folder}}/key.pem --agent-url https://crawler.test
--agent RobotgateDemo/1.{{worker}} --contact demo@robotgate.example --purpose ai_train
--delay {DELAY} --give-up-after 1
""".split()
"""What Python runs as each of the workers."""
_SERVED: Final = "http:"
"""How the URLs begin that --serve serves: its proxy has no certificates."""
_PORT_HELP: Final = "The port of --serve on 127.0.0.1; 0 for any free port."


@click.command(cls=common.Command, short_help="Crawl a hundred kinds of sites on this machine.")
@seed_option
@pages_option
@common.setting(
    "--workers", default=1, type=click.IntRange(1, 64), help="Crawler processes, which share the pages."
)
@json_option
@common.flag("--serve", help="Crawl nothing: serve the sites to your own program.")
@common.flag("--list", "is_list", help="Print the URLs of the sites, one a line.")
@common.setting("--port", default=DEFAULT_PORT, type=click.IntRange(0, 65_535), help=_PORT_HELP)
async def demo(
    *,
    seed: int,
    pages: int,
    workers: int,
    json_file: TextIO | None,
    serve: bool,
    is_list: bool,
    port: int,
) -> int:
    """Crawl a hundred kinds of sites on this machine, and show what their server saw. No network is needed.

    This process serves the sites, each of which behaves as a kind of site on the web does; `robotgate fetch` crawls
    them. The report compares the log of the server with the definitions of the sites. It does not use the counts of the
    crawler. `robotgate judge` does the same with any other crawler.

    With --workers N, N processes share the pages of every site, and one store. Together they must keep every rule and
    every delay.

    With --serve, a proxy on this machine serves the sites and four small sites with links, and prints each request.
    Ctrl-C ends it. --list prints the URLs of the sites, for example for `robotgate fetch -i -
    --proxy http://127.0.0.1:8009`.

    Exit status: 0 when no rule and no delay was broken, 1 when one was, 2 when nothing could be crawled or served.
    """
    if (serve or is_list) and (workers > 1 or json_file is not None):
        raise click.UsageError("--serve and --list crawl nothing: only --seed, --pages, --port go with them")
    if is_list and not serve:
        urls = [site.root + page.path for site in examples() for page in site.pages]
        drawn = (url for url in draw_plan(seed, pages).urls if url.startswith(_SERVED))
        click.echo("\n".join([*urls, *drawn]))
        return 0
    if serve:
        # Ctrl-C is how it ends.
        with suppress(asyncio.CancelledError):
            await _serve(draw_plan(seed, pages), port)
        return 0
    with TemporaryDirectory(prefix="robotgate-demo-", ignore_cleanup_errors=True) as folder, shown() as told:
        key = SigningKey.generate()
        key.write(f"{folder}/key.pem")
        # The user's own options are not for the demonstration.
        Path(folder, "none.toml").touch()  # noqa: ASYNC240 - nothing else runs yet
        commands = [
            [sys.executable, *(filled(word, {"folder": folder, "worker": f"{worker}"}) for word in CRAWLER)]
            for worker in range(1, workers + 1)
        ]
        keys = public_keys(directory_body([key]))
        card = await conduct(
            commands, told, DELAY, declared=[OURS], keys=keys, pages=pages, seed=seed, verbose=True
        )
    status = conclude(card, output.Screen(), (json_file, as_json))
    shares = Counter(visit.agent.split()[0] for visit in card.visits)
    if len(shares) > 1:
        counts = ", ".join(f"{count} of {agent}" for agent, count in sorted(shares.items()))
        output.to_stdout(f"{len(shares)} workers in {card.elapsed:.1f} s: requests {counts}")
    return status


def greeting(proxy: str, plan: Plan) -> str:
    """What --serve prints first: where the sites are."""
    width = max(len(site.root) + 1 for site in examples())
    sites = "".join(f"  {site.root + '/':{width}}  {site.kind.name}\n" for site in examples())
    count = sum(site.root.startswith(_SERVED) for site in plan.sites)
    page = next(page for page in plan.sites[0].pages if page.access == "open")
    return (
        f"{proxy} is a proxy to these sites, until Ctrl-C:\n{sites}and to {count} sites of the demonstration,"
        f" such as {plan.sites[0].root}{page.path}\nRequests:"
    )


def request_line(request: web.BaseRequest, visit: Visit, began_at: float) -> str:
    """What --serve prints of a request."""
    agent = request.headers.get("User-Agent", "-")
    line = f"{visit.started_at - began_at:7.1f} s  {visit.status}  {request.method} {request.url}  {agent}"
    # Any program may send requests, and none of them may control the terminal.
    return output.printable(line)


async def _serve(plan: Plan, port: int) -> None:
    began_at = time.monotonic()
    lines: asyncio.Queue[str] = asyncio.Queue()
    server = SiteServer(plan, lambda request, visit: lines.put_nowait(request_line(request, visit, began_at)))
    async with listening(server, port) as real_port:
        click.echo(greeting(f"http://{LOOPBACK}:{real_port}", plan))
        while True:
            # Here, where an error that standard output raises ends the program.
            click.echo(await lines.get())
