"""Fetches URLs, and serves metrics for Prometheus meanwhile, at http://localhost:9464/metrics.

python examples/metrics.py --contact you@example.org --port 9464 https://example.org/ https://example.com/page
"""

from __future__ import annotations

import argparse
import asyncio

from prometheus_client import start_http_server

from robotgate import RobotGate
from robotgate.observe import prometheus


async def main(options: argparse.Namespace) -> None:
    """Fetch all URLs; each host gets its metrics counted, and no label of its own."""
    gate = RobotGate("ExampleMetrics/1.0", contact=options.contact)
    server, thread = start_http_server(options.port, addr="127.0.0.1")
    with server, prometheus(gate):
        async with gate:
            fetches = [gate.fetch(url) for url in options.urls]
            for url, answer in zip(
                options.urls, await asyncio.gather(*fetches, return_exceptions=True), strict=True
            ):
                print(f"{url}: {answer if isinstance(answer, BaseException) else answer.status}")
        server.shutdown()
        thread.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", help="what to fetch")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    parser.add_argument("--port", type=int, default=9464, help="where the metrics are served")
    asyncio.run(main(parser.parse_args()))
