"""Fetches URLs, and prints the spans of each: what it waited for, and what was requested.

python examples/tracing.py --contact you@example.org https://example.org/ https://example.com/page
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress

from aiohttp import ClientError
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from robotgate import RobotGate
from robotgate.observe import opentelemetry


async def main(options: argparse.Namespace) -> None:
    """Fetch the URLs one after another, each in a span of its own."""
    provider = TracerProvider()  # A real program sends its spans to a collector.
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    tracer = provider.get_tracer("example")
    gate = RobotGate("ExampleTracing/1.0", contact=options.contact)
    with opentelemetry(gate, tracer_provider=provider):
        async with gate:
            for url in options.urls:
                with tracer.start_as_current_span("page"), suppress(ClientError, TimeoutError):
                    await gate.fetch(url)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", help="what to fetch")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    asyncio.run(main(parser.parse_args()))
