"""``robotgate check``: whether URLs may be fetched, and the line of robots.txt that decides."""

from __future__ import annotations

import asyncio
import time
from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Unpack

import click
from rich.text import Text

from robotgate import InvalidURLError, Reason, RobotGateError, RobotsTxt
from robotgate.cli import common, output, usage
from robotgate.rules.robotstxt import product_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from rich.console import Console

    from robotgate import RobotGate, Verdict

LINES_AROUND: Final = 2
"""Lines shown above and below the line that decides."""


_ANSWERS: Final = (("allowed", "green"), ("disallowed", "red"), ("no answer", "magenta"))
"""By exit status: the word, and its colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result for one URL."""

    url: str
    verdict: Verdict | None = None
    problem: str | None = None
    """Why there is no verdict."""
    body: bytes = b""
    """The robots.txt."""
    stored_at: float | None = None
    """When the robots.txt was fetched, if that was before this run."""

    @property
    def exit(self) -> int:
        """The exit status for this URL alone."""
        if self.verdict is None or self.verdict.reason is Reason.ROBOTS_TXT_UNREACHABLE:
            return 2
        return 0 if self.verdict.allowed else 1


@click.command(cls=common.Command)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option(
    "--robots", type=click.File("rb"), help="Check against this file, offline; - is standard input."
)
@usage.usage_option("Also show what robots.txt says about the use of pages.")
@common.gate_options(contact_note=" Not needed with --robots.")
@common.store_options
def check(
    *,
    urls: tuple[str, ...],
    robots: BinaryIO | None,
    with_usage: bool,
    store_path: str | None,
    no_store: bool,
    **options: Unpack[common.GateOptions],
) -> None:
    """Tell whether URLs may be fetched, and show the line of robots.txt that decides.

    A robots.txt is fetched once and stored until it expires: see `robotgate cache`. With --robots, a URL may also be a
    path that begins with /.

    Exit status: 0 when all are allowed, 1 when any is disallowed, 2 when there is no answer for any (an invalid URL,
    a robots.txt that cannot be read) or for wrong usage.
    """
    agent = options.get("token") or options["agent"]
    if robots is not None:
        body = robots.read(common.MAX_ROBOTS_BYTES)
        results = [_check_offline(body, url, agent) for url in urls]
    else:
        store = common.store_of(store_path, no_store=no_store)
        results = common.run_with_gate(store, lambda gate: _check_online(gate, urls), options)
    screen = output.console()
    for number, result in enumerate(results):
        if number:
            screen.print()
        _show(screen, result, product_token(agent))
        if with_usage and result.verdict is not None:
            for line in usage.lines(result.verdict.usage):
                screen.print(Text(f"  {output.printable(line)}"), soft_wrap=True)
    raise SystemExit(max(result.exit for result in results))


def _check_offline(body: bytes, url: str, agent: str) -> Checked:
    try:
        # A rule may be an absolute URL, which counts only for the site it names.
        robots = RobotsTxt.parse(body, None if url.startswith("/") else url)
        return Checked(url=url, verdict=robots.verdict(url, agent), body=body)
    except InvalidURLError as error:
        return Checked(url=url, problem=str(error))


async def _check_online(gate: RobotGate, urls: Iterable[str]) -> list[Checked]:
    began_at = time.time()

    async def checked(url: str) -> Checked:
        try:
            verdict = await gate.check(url)
            record = await gate.robots(url)
        except RobotGateError as error:
            return Checked(url=url, problem=output.problem_of(error))
        stored_at = (record.fetched_at or record.checked_at) if record.checked_at < began_at else None
        return Checked(url=verdict.url, verdict=verdict, body=record.body, stored_at=stored_at)

    return await asyncio.gather(*map(checked, urls))


def _show(screen: Console, result: Checked, token: str) -> None:
    word, colour = _ANSWERS[result.exit]
    screen.print(Text.assemble((word, f"bold {colour}"), "  ", output.printable(result.url)), soft_wrap=True)
    verdict = result.verdict
    if verdict is None:
        screen.print(Text(f"  {result.problem}"), soft_wrap=True)
        return
    # The site writes the names of its groups, and a stored cause may have been imported.
    screen.print(Text(f"  {output.printable(_reason(verdict))}"), soft_wrap=True)
    for remark in _remarks(verdict, result.stored_at):
        screen.print(Text(f"  {output.printable(remark)}", style="dim"), soft_wrap=True)
    output.print_excerpt(screen, _excerpt(result.body, verdict, token))


def _reason(verdict: Verdict) -> str:
    if verdict.rule is not None:
        return f"{verdict.reason.value}, line {verdict.rule.line}, in the group of {', '.join(verdict.group)}"
    cause = f": {output.with_cli_options(verdict.cause)}" if verdict.cause else ""
    return verdict.reason.value + cause


def _remarks(verdict: Verdict, stored_at: float | None) -> Iterator[str]:
    if verdict.robots_url is not None:
        remark = verdict.robots_url
        if verdict.status is not None:
            remark += f", status {verdict.status}"
        if stored_at is not None:
            remark += f", kept since {output.moment(stored_at)}"
        elif verdict.fetched_at is not None:
            remark += f", read {output.moment(verdict.fetched_at)}"
        yield f"{remark}, stale" if verdict.stale else remark
    yield from (f"redirected from {url}" for url in verdict.redirects)
    if verdict.opposing is not None:
        yield f"against line {verdict.opposing.line}: {verdict.opposing}"
    yield from (f"note: {warning}" for warning in verdict.warnings)
    if verdict.crawl_delay is not None:
        yield f"Crawl-delay: {verdict.crawl_delay:g} s"
    if verdict.retry_after is not None:
        yield f"next attempt in {verdict.retry_after:.0f} s at the earliest"


def _excerpt(body: bytes, verdict: Verdict, token: str) -> Iterator[Text]:
    """The line that decides with the lines around it, and the User-agent line above that makes it apply to us."""
    if verdict.rule is None:
        return
    lines = body.removeprefix(BOM_UTF8).splitlines()
    deciding = verdict.rule.line
    numbers = {_agent_line(body, lines, deciding, token.lower())}
    numbers |= set(range(max(deciding - LINES_AROUND, 1), min(deciding + LINES_AROUND, len(lines)) + 1))
    texts = {number: lines[number - 1].decode(errors="backslashreplace") for number in numbers}
    texts = {number: output.printable(text.expandtabs(4).strip()) for number, text in texts.items()}
    filled = [number for number in numbers if texts[number]]
    shown = [number for number in sorted(numbers) if min(filled) <= number <= max(filled)]
    yield Text()
    for number, before in zip(shown, [shown[0] - 1, *shown], strict=False):
        if number > before + 1:
            yield Text("        ...", style="dim")
        mark, style = (">", "bold reverse") if number == deciding else (" ", "")
        yield Text.assemble(f"  {mark} ", (f"{number:>5}", "dim"), "  ", (texts[number], style))


def _agent_line(body: bytes, lines: list[bytes], deciding: int, token: str) -> int:
    """The number of the User-agent line by which the group of the deciding rule is ours."""
    for group in RobotsTxt.parse(body).groups:
        if any(rule.line == deciding for rule in group.rules):
            name = token if group.names(token) else "*"
            for number in range(group.line, deciding):
                if any(head.names(name) for head in RobotsTxt.parse(lines[number - 1]).groups):
                    return number
            return group.line
    return deciding
