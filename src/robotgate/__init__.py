"""robotgate stands between a crawler and the web: robots.txt to the letter, and every host in its turn.

The floors, lowest first. A module imports only modules that stand before it; a test holds them to it::

    0 words: _errors _urls _verdict _host _response
    1 core: _decode _normal _lines _pace _parse _wildcards _match _rules _classic _compile _robotstxt
    1 core: _redirect _status _access _site _pacing _options _identity
    1 lint: _lint_table _lint_lines _lint_findings _lint_fields _lint_values _lint_rules _lint
    2 seams: _ports
    3 adapters: _clock _resolver _fetch stores.memory stores
    4 engine: _bound _lane _lanes _flight _attempts _robots _turns _middleware _page _fetching _engine _gate
    5 edges: _virtual _check_store testing cli

Read `_lines`, `_compile`, `_match`, `_robotstxt`, `_status` and `_pacing` for what is decided, `_lane`, `_robots`,
`_turns` and `_fetching` for what is done.
"""

from importlib.metadata import version

from robotgate._access import Answer, Failure, RobotsRecord
from robotgate._classic import Dialect
from robotgate._clock import SystemClock
from robotgate._errors import (
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
    OptionError,
    ResponseTooLargeError,
    RobotGateError,
    StoreError,
    TooSoonError,
)
from robotgate._gate import RobotGate
from robotgate._host import HostAccess, HostView
from robotgate._identity import TokenWarning
from robotgate._lint import lint
from robotgate._lint_findings import Finding
from robotgate._lint_table import FindingCode, Severity
from robotgate._pace import RequestRate, VisitTime
from robotgate._pacing import HostState
from robotgate._parse import Group, Record
from robotgate._ports import Clock, Fetcher, Store
from robotgate._response import Hop, Response
from robotgate._robotstxt import CleanParam, RobotsTxt
from robotgate._rules import Decision, Rules
from robotgate._status import Outcome, StatusPolicy
from robotgate._turns import Turn
from robotgate._urls import Origin
from robotgate._verdict import AccessResult, Reason, Rule, RuleKind, Verdict
from robotgate.stores.memory import MemoryStore

__version__ = version("robotgate")

__all__ = [
    "AccessResult",
    "Answer",
    "CleanParam",
    "Clock",
    "Decision",
    "Dialect",
    "DisallowedError",
    "Failure",
    "Fetcher",
    "Finding",
    "FindingCode",
    "GateClosedError",
    "Group",
    "Hop",
    "HostAccess",
    "HostState",
    "HostUnavailableError",
    "HostView",
    "InvalidURLError",
    "MemoryStore",
    "NestedTurnError",
    "NonPublicAddressError",
    "OptionError",
    "Origin",
    "Outcome",
    "Reason",
    "Record",
    "RequestRate",
    "Response",
    "ResponseTooLargeError",
    "RobotGate",
    "RobotGateError",
    "RobotsRecord",
    "RobotsTxt",
    "Rule",
    "RuleKind",
    "Rules",
    "Severity",
    "StatusPolicy",
    "Store",
    "StoreError",
    "SystemClock",
    "TokenWarning",
    "TooSoonError",
    "Turn",
    "Verdict",
    "VisitTime",
    "__version__",
    "lint",
]
