"""A worker of a fleet; start as many as you like. On SIGTERM it finishes open requests and leaves the rest to others.

python examples/fleet_worker.py --contact you@example.org redis://localhost:6379/0 < urls.txt
"""

import argparse
import asyncio
import signal
import sys
import time
from contextlib import aclosing, suppress

from aiohttp import ClientError, ClientSession, ClientTimeout
from redis.asyncio import Redis

from robotgate import PublicConnector, RobotGate
from robotgate.stores.redis import RedisStore

QUEUE = "example:urls"  # each URL with the instant until which a worker has it
TAKE = """local urls = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, ARGV[2])
for _, url in ipairs(urls) do redis.call('ZADD', KEYS[1], ARGV[3], url) end
return urls"""


class Worker(asyncio.TaskGroup):
    """Takes URLs from the queue, and renews its lease of them."""

    def __init__(self, gate: RobotGate, session: ClientSession, queue: Redis, lease: float) -> None:
        super().__init__()
        self._gate, self._session, self._queue, self._lease = gate, session, queue, lease
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self.stopping = asyncio.Event()  # With Python 3.11, redis-py can swallow the cancellation of a task.

    async def work(self) -> None:
        """Work until told to stop; then give back the URLs without a turn."""
        while not self.stopping.is_set():
            until, room = time.time() + self._lease, 100 - len(self._waiting)
            if self._waiting:
                await self._queue.zadd(QUEUE, dict.fromkeys(self._waiting, until), xx=True)
            for url in await self._queue.eval(TAKE, 1, QUEUE, time.time(), room, until):
                self._waiting[url] = self.create_task(self._visit(url))
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), self._lease / 10)
        for visit in self._waiting.values():
            visit.cancel()
        if self._waiting:
            await self._queue.zadd(QUEUE, dict.fromkeys(self._waiting, 0), xx=True)

    async def _visit(self, url: str) -> None:
        try:
            async with self._gate.turn(url) as turn:
                del self._waiting[url]
                async with self._session.get(turn.url, headers=turn.headers(), allow_redirects=False) as page:
                    turn.report(page.status, page.headers)
                    print(page.status, url)  # your own processing goes here
        except (ClientError, TimeoutError) as error:
            print(type(error).__name__, url)
        self._waiting.pop(url, None)
        await self._queue.zrem(QUEUE, url)


async def main(redis: str, contact: str, lease: float) -> None:
    """Add the URLs of the input to the queue, and work."""
    queue, store = Redis.from_url(redis, decode_responses=True), RedisStore(redis, lease=lease)
    gate, timeout = RobotGate("ExampleWorker/1.0", contact=contact, store=store), ClientTimeout(lease / 2)
    session = ClientSession(connector=PublicConnector(), timeout=timeout)
    async with queue, aclosing(store), gate, session, Worker(gate, session, queue, lease) as worker:
        worker.create_task(worker.work())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stopping.set)
        for url in sys.stdin.read().split():
            await queue.zadd(QUEUE, {url: 0}, nx=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("redis", help="URL of the server that all share")
    parser.add_argument("--contact", required=True, help="where site owners reach you: an address or a URL")
    parser.add_argument("--lease", type=float, default=60.0, help="seconds without a sign of life")
    asyncio.run(main(**vars(parser.parse_args())))
