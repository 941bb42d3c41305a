"""Draws docs/plots/first-light.svg and -dark.svg: ``python docs/_crawl_picture.py``.

A real gate, on virtual time, is given all pages of four sites at once. The pictures show what the sites saw.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from robotgate import DisallowedError, RobotGate
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher, VirtualClock, VirtualTimeLoop

PAGES: Final = 6
LATENCY: Final = 0.4
"""Seconds that each answer takes."""
PAUSE: Final = 5
"""Seconds, of a Retry-After."""
SECONDS: Final = 17
"""Drawn of the crawl."""
SITES: Final = {
    "tea.example": ("Allow: /", "one second after each answer, by default"),
    "books.example": ("Crawl-delay: 2.5", "Crawl-delay: 2.5 in its robots.txt"),
    "maps.example": (
        "Allow: /",
        f"a 429 with Retry-After: {PAUSE}, and slower afterwards",
    ),
    "diary.example": ("Disallow: /page/4", "Disallow: /page/4 in its robots.txt"),
}
"""What stands in robots.txt, and what the picture says."""
BUSY: Final = "http://maps.example/page/3"
THEMES: Final = {
    "light": {
        "paper": "#ffffff",
        "text": "#1f2328",
        "dim": "#8c959f",
        "ours": "#0072b2",
        "no": "#b85000",
    },
    "dark": {
        "paper": "#0d1117",
        "text": "#e6edf3",
        "dim": "#6e7681",
        "ours": "#56b4e9",
        "no": "#e69f00",
    },
}
STYLE: Final = """
text{fill:var(--text);font:13px 'DejaVu Sans',Verdana,sans-serif}
.name{font-weight:bold}
.note{font-size:12px}
.end{text-anchor:middle}
.paper{fill:var(--paper)}
.line{stroke:var(--dim);stroke-opacity:.5}
.page{fill:var(--ours)}
.told,.pause{fill:var(--no)}
.pause{fill-opacity:.25}
.robots{fill:var(--paper);stroke:var(--ours);stroke-width:2.5}
.refused{stroke:var(--no);stroke-width:2.5;fill:none}
"""
LEFT: Final = 140
"""Pixels, of the names of the sites."""
SCALE: Final = 35
"""Pixels of a second."""
TOP: Final = 96
ROW: Final = 58


@dataclass(frozen=True, slots=True)
class Seen:
    """A request, or a page that was not requested."""

    site: str
    at: float
    what: str
    """``robots``, ``page``, ``told`` of a 429, or ``refused``."""


async def crawl() -> list[Seen]:
    """Ask for all pages at once."""
    files = {
        f"http://{site}/robots.txt": Answer(
            status=200, body=f"User-agent: *\n{line}\n".encode()
        )
        for site, (line, _) in SITES.items()
    }
    fetcher = ScriptedFetcher(files, otherwise=Answer(status=404), latency=LATENCY)
    now = asyncio.get_running_loop().time
    seen: list[Seen] = []

    async def visit(site: str, number: int) -> None:
        url = f"http://{site}/page/{number}"
        try:
            async with gate.turn(url) as turn:
                is_told_off = url == BUSY and now() < PAUSE
                seen.append(Seen(site, now(), "told" if is_told_off else "page"))
                await asyncio.sleep(LATENCY)
                if is_told_off:
                    turn.report(429, {"Retry-After": str(PAUSE)})
                else:
                    turn.report(200)
        except DisallowedError:
            seen.append(Seen(site, now(), "refused"))

    async with RobotGate(
        "ExampleBot/1.0", contact="bot@example.org", clock=VirtualClock(), fetcher=fetcher
    ) as gate:
        await asyncio.gather(
            *(visit(site, number) for site in SITES for number in range(1, PAGES + 1))
        )
    robots = (Seen(url.split("/")[2], at, "robots") for at, url in fetcher.requests)
    return sorted([*robots, *seen], key=lambda one: one.at)


def mark(what: str, x: float, y: float) -> str:
    """A request of the picture."""
    match what:
        case "robots":
            return f'<rect class="robots" x="{x - 6:.1f}" y="{y - 6}" width="12" height="12" rx="2"/>'
        case "refused":
            return f'<path class="refused" d="M{x - 6:.1f} {y - 6}l12 12m0 -12l-12 12"/>'
        case _:
            return f'<circle class="{what}" cx="{x:.1f}" cy="{y}" r="6.5"/>'


def drawn(seen: list[Seen], theme: dict[str, str]) -> str:
    """The picture."""
    width, bottom = LEFT + SCALE * SECONDS + 30, TOP + ROW * len(SITES)
    height = bottom + 44
    colours = ";".join(f"--{name}:{colour}" for name, colour in theme.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" style="{colours}">',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
    ]
    title = f"{PAGES * len(SITES)} pages of {len(SITES)} sites, asked for at once. What the sites see:"
    parts.append(f'<text class="name" x="16" y="28">{title}</text>')
    place = 24
    for what, words in (
        ("robots", "robots.txt"),
        ("page", "a page"),
        ("told", "a page, answered by 429"),
        ("refused", "a page that is not requested"),
    ):
        parts += [mark(what, place, 56), f'<text x="{place + 13}" y="61">{words}</text>']
        place += 40 + round(7.6 * len(words))
    for row, (site, (_, note)) in enumerate(SITES.items()):
        y = TOP + ROW * row + 12
        parts += [
            f'<text class="name" x="16" y="{y + 5}">{site}</text>',
            f'<text class="note" x="{LEFT - 7}" y="{y + 27}">{note}</text>',
            f'<line class="line" x1="{LEFT}" x2="{width - 30}" y1="{y}" y2="{y}"/>',
        ]
        marks = [one for one in seen if one.site == site and one.at <= SECONDS]
        for one, after in zip(marks, [*marks[1:], None], strict=True):
            x = LEFT + SCALE * one.at
            if one.what == "told" and after is not None:
                wide = SCALE * (after.at - one.at)
                parts.append(
                    f'<rect class="pause" x="{x:.1f}" y="{y - 6}" width="{wide:.1f}" height="12"/>'
                )
        parts += [mark(one.what, LEFT + SCALE * one.at, y) for one in marks]
    parts += [
        f'<text class="note end" x="{LEFT + SCALE * second}" y="{bottom + 24}">{second} s</text>'
        for second in range(0, SECONDS + 1, 2)
    ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Draw both."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        seen = runner.run(crawl())
    for name, theme in THEMES.items():
        path = Path(__file__).parent / "plots" / f"first-{name}.svg"
        path.write_text(drawn(seen, theme), encoding="utf-8")


if __name__ == "__main__":
    main()
