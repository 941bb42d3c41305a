"""Fetches URLs, and prints the log as JSON: one object for each event, its values in fields of their own.

python examples/json_log.py --contact you@example.org https://example.org/ https://example.com/page
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys

from robotgate import RobotGate


class JsonFormatter(logging.Formatter):
    """Writes a record with the fields that robotgate gives it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        fields = {name: value for name, value in vars(record).items() if name.startswith("robotgate_")}
        return json.dumps({"level": record.levelname, "text": record.getMessage(), **fields})


async def main(options: argparse.Namespace) -> None:
    """Fetch all URLs; what goes wrong is in the log."""
    async with RobotGate("ExampleLog/1.0", contact=options.contact) as gate:
        await asyncio.gather(*map(gate.fetch, options.urls), return_exceptions=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", help="what to fetch")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    asyncio.run(main(parser.parse_args()))
