"""Faults of a server: each has a cause, a remedy, and a kind, which says which calls fail."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from redis import exceptions as ex

from robotgate.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(Enum):
    """Which calls fail by a fault, and for how long."""

    AWAY = "away"
    """All calls, for a while: they are tried again."""
    REFUSED = "refused"
    """All calls, until an operator acts: they fail at once."""
    CALL = "call"
    """One call: others work."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and the error to raise for it."""

    kind: Kind
    error: StoreError


_MAX_QUOTED: Final = 300
"""Characters of the server's message that an error repeats."""
_RUNS: Final = "check that it runs, and its address"
_LOAD: Final = "check the load of the server and of the network"
_WAIT: Final = "wait until this is done"
_CHECK: Final = "check the cluster"
_MEMORY: Final = "give it more memory (maxmemory), or delete what is not needed"
_MASTER: Final = "name the primary, or let a Sentinel find it"
_LOGIN: Final = "give the right user name and password"
_CLUSTER: Final = "give redis+cluster:// and the address of any node"
_ALLOW: Final = "allow its user (ACL) the commands and keys that robotgate's documentation lists"
_AUTHORITY: Final = "name the authority that signed it (ssl_ca_certs), and the host as the certificate does"
_PROTECTED: Final = "set a password, or the addresses on which it listens"
_ADDRESS: Final = "check its address and port, and give rediss:// where it requires TLS"
_NODES: Final = "check that they run, and give redis:// for a single server"
_PREFIX: Final = "give a prefix that nothing else uses, or delete that key"
_REPORT: Final = "report this to robotgate, with the version of the server"
_LOGIN_ERRORS: Final = (
    *(ex.AuthenticationError, ex.AuthenticationWrongNumberOfArgsError, ex.AuthorizationError),
)

_TABLE: Final = (
    # The kind, the cause, the remedy, the server's code or one of ours, and the exceptions of redis-py.
    (Kind.AWAY, "it cannot be reached", _RUNS, "CONNECTION", ex.ConnectionError, OSError),
    (Kind.AWAY, "TLS with it fails", "check that it accepts TLS at that port", "TLS", ssl.SSLError),
    (Kind.AWAY, "it does not answer", _LOAD, "TIMEOUT", ex.TimeoutError, TimeoutError),
    (Kind.AWAY, "it is still loading its data", _WAIT, "LOADING", ex.BusyLoadingError),
    (Kind.AWAY, "a script keeps it busy", "end that script (SCRIPT KILL)", "BUSY"),
    (Kind.AWAY, "a script of ours was killed there", "check why it took long", "KILLED"),
    (Kind.AWAY, "it is a replica, which cannot be written", _MASTER, "READONLY", ex.ReadOnlyError),
    (Kind.AWAY, "its memory is full", _MEMORY, "OOM", ex.OutOfMemoryError),
    (Kind.AWAY, "it cannot save its data and refuses writes", "check its disk and its log", "MISCONF"),
    (Kind.AWAY, "it has lost its replicas and refuses writes", "check its replicas", "NOREPLICAS"),
    (Kind.AWAY, "it is a replica that has lost its primary", _MASTER, "MASTERDOWN", ex.MasterDownError),
    (Kind.AWAY, "its cluster is down", _CHECK, "CLUSTERDOWN", ex.ClusterDownError, ex.SlotNotCoveredError),
    (Kind.AWAY, "its cluster is moving keys", _WAIT, "TRYAGAIN", ex.TryAgainError),
    (Kind.AWAY, "no node can be reached, or it is no cluster", _NODES, "NOCLUSTER", ex.RedisClusterException),
    (Kind.REFUSED, "it refuses the login", _LOGIN, "NOAUTH", *_LOGIN_ERRORS),
    (Kind.REFUSED, "it forbids a command or a key that is needed", _ALLOW, "NOPERM", ex.NoPermissionError),
    (Kind.REFUSED, "its certificate is not valid", _AUTHORITY, "CERTIFICATE", ssl.SSLCertVerificationError),
    (Kind.REFUSED, "it accepts no other machine (protected mode)", _PROTECTED, "DENIED"),
    (Kind.REFUSED, "it does not use the protocol of Redis", _ADDRESS, "PROTOCOL", ex.InvalidResponse),
    (Kind.REFUSED, "it is a node of a cluster", _CLUSTER, "MOVED", ex.AskError),
    (Kind.REFUSED, "it has no database of that number", "give another number, such as 0", "DATABASE"),
    (Kind.REFUSED, "it refuses", "check that it is Redis 6.2, Valkey 7.2 or later", "REFUSED"),
    (Kind.CALL, "a key of ours holds something else", _PREFIX, "WRONGTYPE"),
    (Kind.CALL, "a script of ours failed", _REPORT, "SCRIPT"),
)
_KNOWN: Final = {name: (kind, cause, remedy) for kind, cause, remedy, *names in _TABLE for name in names}
_TEXTS: Final = (
    # Messages without a code of their own, or with one that has several causes.
    (re.compile("Script killed by user"), "KILLED"),
    (re.compile("user executing the script can't|ACL failure in script"), "NOPERM"),
    (re.compile("DB index is out of range"), "DATABASE"),
)
_CODE: Final = re.compile(r"(?:^|@user_script: ?\d+: -?|script: -?)(?P<code>[A-Z]+) ")
"""The server's code is at the beginning; before Redis 7, for an error in a script, behind the script's line."""
_IN_SCRIPT: Final = re.compile("user_script|compiling script")


def explained(server: str, error: Exception) -> Fault:
    """Return the fault for an exception of redis-py.

    Args:
        server: its name, without credentials.
    """
    kind, cause, remedy = _KNOWN[_name_of(error)]
    # The message of a failed script may contain text of a site.
    line = "".join(char if char.isprintable() else "�" for char in str(error))
    told = f" ({line if len(line) <= _MAX_QUOTED else f'{line[:_MAX_QUOTED]}…'})" if line else ""
    return Fault(kind, StoreError(f"{server}: {cause}{told}; {remedy}"))


def _name_of(error: Exception) -> str | type:
    for reason in _reasons(error):
        # If no node can be used, redis-py's cluster client raises a general error; its cause is the real one.
        if isinstance(reason, ssl.SSLError | ex.AuthenticationError):
            return _class_of(reason) or "TLS"
    text = str(error)
    for pattern, code in _TEXTS:
        if pattern.search(text):
            return code
    found = _CODE.search(text)
    name = _class_of(error) or (found and found["code"])
    if name is not None and name in _KNOWN:
        return name
    return "SCRIPT" if _IN_SCRIPT.search(text) else "REFUSED"


def _class_of(error: BaseException) -> type | None:
    return next((kind for kind in type(error).__mro__ if kind in _KNOWN), None)


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes and its contexts."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
