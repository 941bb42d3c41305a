"""Opens pages in a Chromium by Playwright, behind a gate, and prints their titles.

python examples/with_playwright.py --contact you@example.org https://example.org/ https://example.com/page
"""

from __future__ import annotations

import argparse
import asyncio

from playwright.async_api import Error, async_playwright

from robotgate import RobotGate, RobotGateError
from robotgate.integrations.playwright import BrowserGate


async def main(options: argparse.Namespace) -> None:
    """Open the URLs one after another, and say what else their pages may not load."""

    def refused(url: str, error: RobotGateError) -> None:
        if url not in options.urls:
            print(f"not loaded: {error}")

    async with (
        RobotGate("ExampleBrowser/1.0", contact=options.contact) as gate,
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=options.chromium) as browser,
    ):
        pages = BrowserGate(gate, on_refusal=refused)
        page = await browser.new_page(user_agent=pages.user_agent)
        for url in options.urls:
            try:
                response = await pages.goto(page, url)
            except (RobotGateError, Error) as error:
                print(f"{url}: {error}")
            else:
                status = "the same page" if response is None else response.status
                print(f"{url}: {status}, {await page.title()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", help="what to open")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    parser.add_argument("--chromium", help="the program, if not the one of `playwright install chromium`")
    asyncio.run(main(parser.parse_args()))
