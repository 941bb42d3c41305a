"""robotgate stands between a crawler and the web: robots.txt to the letter, and every host in its turn.

The floors, lowest first. A module imports only modules that stand before it; a test holds them to it::

    0 words: _later _errors _urls _speed _verdict _host _response
    1 core: _decode _normal _lines _pace _parse _wildcards _match _rules _classic _compile _robotstxt
    1 core: _redirect _status _freshness _access _follow _checks _recheck _quota _hours _spacing _pacing _circuit
    1 core: _host_pattern _overrides _pace_key _owner _site _options _identity _events
    1 core: _jsonl_fields _jsonl
    1 lint: _lint_table _lint_lines _lint_findings _lint_fields _lint_values _lint_rules _lint
    2 seams: _ports
    3 adapters: _clock _alarm _reminders _resolver _names _public _sockets _outage _robots_proxy _fetch _listeners
    3 adapters: stores._lease stores._managed stores.memory stores._path stores._faults stores._files stores._schema
    3 adapters: stores._database stores._rows stores._tables stores._booking stores._file_clock stores._processes
    3 adapters: stores._prune stores._hosts stores._together stores._write_behind stores._upkeep stores._ledger
    3 adapters: stores._sharing stores._shared_lease stores._pulse stores.sqlite
    3 adapters: stores.redis._wire stores.redis._keys stores.redis._script stores.redis._faults stores.redis._client
    3 adapters: stores.redis._subscribers stores.redis._ending
    3 adapters: stores.redis._line stores.redis._calls stores.redis._carrier stores.redis._link
    3 adapters: stores.redis._records stores.redis._signals stores.redis._lease stores.redis._listing
    3 adapters: stores.redis._server_clock stores.redis._open_turns stores.redis._news stores.redis._bodies
    3 adapters: stores.redis._turn_calls stores.redis._reports stores.redis._block_words stores.redis._blocks
    3 adapters: stores.redis._publishing stores.redis._heartbeat stores.redis._alone stores.redis._wishes
    3 adapters: stores.redis._turns stores.redis._contents stores.redis._settings stores.redis._store stores.redis
    3 adapters: stores
    3 adapters: _store_option
    4 engine: _losses _eviction _cooling _bound _waiters _member _unshared _pacer _queue _admission _health _lane _lanes
    4 engine: _flight _attempts _robots_reader _robots _turn _judged _turns _ready _credentials _page _holds
    4 engine: _middleware _open_page _fetching _operator _engine _gate
    5 edges: _virtual _check_tools _check_catalogue _check_shared _check_fleet _check_store testing integrations cli

Read `_lines`, `_compile`, `_match`, `_robotstxt`, `_status`, `_spacing` and `_pacing` for what is decided, `_lane`,
`_robots`, `_turns` and `_fetching` for what is done.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

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
from robotgate._events import (
    BlockCause,
    Event,
    HostBlocked,
    HostRecovered,
    RobotsFetched,
    StoreLost,
    StoreRecovered,
    TurnBegan,
    TurnEnded,
    TurnRefused,
    VerdictRefused,
)
from robotgate._gate import RobotGate
from robotgate._host import HostAccess, HostView
from robotgate._identity import TokenWarning
from robotgate._later import imported_later
from robotgate._overrides import NO_RATE, HostOverride
from robotgate._owner import owner
from robotgate._pace_key import PaceKey, PaceKeyPolicy
from robotgate._pacing import HostState
from robotgate._parse import Group, Record
from robotgate._ports import (
    Catalogue,
    Clock,
    Fetcher,
    Postponed,
    Pruned,
    ReportingStore,
    SharedBlocks,
    SharedStore,
    Store,
)
from robotgate._public import PublicConnector
from robotgate._ready import ReadyTurns
from robotgate._recheck import Recheck
from robotgate._response import Hop, Response
from robotgate._robotstxt import CleanParam, RobotsTxt
from robotgate._rules import Decision, Rules
from robotgate._speed import RequestRate, VisitTime
from robotgate._status import Outcome, StatusPolicy
from robotgate._turn import Turn
from robotgate._urls import Origin
from robotgate._verdict import AccessResult, Reason, Rule, RuleKind, Verdict
from robotgate.stores.memory import MemoryStore

if TYPE_CHECKING:
    from robotgate._lint import lint
    from robotgate._lint_findings import Finding
    from robotgate._lint_table import FindingCode, Severity
    from robotgate.stores._faults import WhenLost
    from robotgate.stores.sqlite import SQLiteStore
else:
    # What a gate that remembers in memory has no use for: SQLite, and what authors of a robots.txt are told.
    __getattr__, __dir__ = imported_later(
        __name__,
        {
            "Finding": "robotgate._lint_findings",
            "FindingCode": "robotgate._lint_table",
            "SQLiteStore": "robotgate.stores.sqlite",
            "Severity": "robotgate._lint_table",
            "WhenLost": "robotgate.stores._faults",
            "lint": "robotgate._lint",
        },
    )

__version__ = version("robotgate")

__all__ = [
    "NO_RATE",
    "AccessResult",
    "Answer",
    "BlockCause",
    "Catalogue",
    "CleanParam",
    "Clock",
    "Decision",
    "Dialect",
    "DisallowedError",
    "Event",
    "Failure",
    "Fetcher",
    "Finding",
    "FindingCode",
    "GateClosedError",
    "Group",
    "Hop",
    "HostAccess",
    "HostBlocked",
    "HostOverride",
    "HostRecovered",
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
    "PaceKey",
    "PaceKeyPolicy",
    "Postponed",
    "Pruned",
    "PublicConnector",
    "ReadyTurns",
    "Reason",
    "Recheck",
    "Record",
    "ReportingStore",
    "RequestRate",
    "Response",
    "ResponseTooLargeError",
    "RobotGate",
    "RobotGateError",
    "RobotsFetched",
    "RobotsRecord",
    "RobotsTxt",
    "Rule",
    "RuleKind",
    "Rules",
    "SQLiteStore",
    "Severity",
    "SharedBlocks",
    "SharedStore",
    "StatusPolicy",
    "Store",
    "StoreError",
    "StoreLost",
    "StoreRecovered",
    "SystemClock",
    "TokenWarning",
    "TooSoonError",
    "Turn",
    "TurnBegan",
    "TurnEnded",
    "TurnRefused",
    "Verdict",
    "VerdictRefused",
    "VisitTime",
    "WhenLost",
    "__version__",
    "lint",
    "owner",
]
