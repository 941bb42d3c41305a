"""robotgate checks a crawler's URLs against robots.txt and paces its requests to each host.

The way of one request, from the call down and back up::

    gate.fetch                 client/fetch     an attempt; its first turn begins before aiohttp is called
    Turns.make, try_begin      client/turns     from the URL to its site; the site's rules, then its host
    Turns.begin                client/turns     if it may not begin at once; `judge_and_wait` has the next four steps:
    SiteCache.known            client/cache     if no fresh rules are known: robots.txt, requested once for all tasks
    Rules._allows_units        rules/           whether the rules allow it
    Scheduler.try_begin        pace/scheduler   after a cold start: at once where the host is due and a permit is free,
    Scheduler.wait             pace/scheduler   else in its origin's queue
    GateMiddleware.__call__    client/middleware  sends it in that turn; later hops and attempts take their own
    Turns.end, Host.end        client/turns, pace/host   the body has come: the next request is due after the delay
    Persistence                client/persistence  twice a second, and at once for a block, all changes go to the store

docs/design.md has a picture of it, and the order to read the code in. Packages import only from those named before
them: the modules of the root (statements, errors, urls, options and others); rules and preferences, one level; pace;
sites; stores; client; sitemaps, threads and observe/views; gate; sessions; then lint, observe, testing,
signing, integrations, judge, dashboard and cli.
"""

from importlib.metadata import version

from robotgate.client.connector import PublicConnector
from robotgate.client.ready import ReadyTurns
from robotgate.client.response import Hop, Response
from robotgate.client.robots import Fetcher
from robotgate.client.turn import Turn
from robotgate.clock import Clock, SystemClock
from robotgate.errors import (
    BudgetExceededError,
    DisallowedError,
    EventLoopError,
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
    OptionError,
    PreferenceError,
    ProxyUnavailableError,
    ResponseTooLargeError,
    RobotGateError,
    StoreError,
    TooSoonError,
)
from robotgate.gate import RobotGate
from robotgate.gate_options import GateOptions
from robotgate.hours import OpenHours
from robotgate.identity import Signer
from robotgate.observe.views import GateStats, HostView, OriginView
from robotgate.options import Budget, Group, HostOverride, Rate, Recheck, StatusPolicy
from robotgate.rules.parser import Dialect
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.verdict import AccessResult, Reason, Rule, Verdict
from robotgate.sessions import gated_session
from robotgate.stores.memory import MemoryStore
from robotgate.stores.sqlite import SQLiteStore, WhenLost
from robotgate.urls import Origin, PaceKey, PaceKeyPolicy, owner

__version__ = version("robotgate")

__all__ = [
    "AccessResult",
    "Budget",
    "BudgetExceededError",
    "Clock",
    "Dialect",
    "DisallowedError",
    "EventLoopError",
    "Fetcher",
    "GateClosedError",
    "GateOptions",
    "GateStats",
    "Group",
    "Hop",
    "HostOverride",
    "HostUnavailableError",
    "HostView",
    "InvalidURLError",
    "MemoryStore",
    "NestedTurnError",
    "NonPublicAddressError",
    "OpenHours",
    "OptionError",
    "Origin",
    "OriginView",
    "PaceKey",
    "PaceKeyPolicy",
    "PreferenceError",
    "ProxyUnavailableError",
    "PublicConnector",
    "Rate",
    "ReadyTurns",
    "Reason",
    "Recheck",
    "Response",
    "ResponseTooLargeError",
    "RobotGate",
    "RobotGateError",
    "RobotsTxt",
    "Rule",
    "SQLiteStore",
    "Signer",
    "StatusPolicy",
    "StoreError",
    "SystemClock",
    "TooSoonError",
    "Turn",
    "Verdict",
    "WhenLost",
    "__version__",
    "gated_session",
    "owner",
]
