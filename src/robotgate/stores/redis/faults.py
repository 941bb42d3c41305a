"""Faults of a server: each has a cause, a remedy, and a kind, which says which calls fail."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from redis import exceptions

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
    code: str
    error: StoreError


_MAX_QUOTED: Final = 300
"""Characters of the server's message that an error repeats."""
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

_TABLE: Final = {
    "CONNECTION": (Kind.AWAY, "it cannot be reached", "check that it runs, and its address"),
    "TLS": (Kind.AWAY, "TLS with it fails", "check that it accepts TLS at that port"),
    "TIMEOUT": (Kind.AWAY, "it does not answer", "check the load of the server and of the network"),
    "LOADING": (Kind.AWAY, "it is still loading its data", "wait until this is done"),
    "BUSY": (Kind.AWAY, "a script keeps it busy", "end that script (SCRIPT KILL)"),
    "KILLED": (Kind.AWAY, "a script of ours was killed there", "check why it took long"),
    "READONLY": (Kind.AWAY, "it is a replica, which cannot be written", _MASTER),
    "OOM": (Kind.AWAY, "its memory is full", _MEMORY),
    "MISCONF": (Kind.AWAY, "it cannot save its data and refuses writes", "check its disk and its log"),
    "NOREPLICAS": (Kind.AWAY, "it has lost its replicas and refuses writes", "check its replicas"),
    "MASTERDOWN": (Kind.AWAY, "it is a replica that has lost its primary", _MASTER),
    "CLUSTERDOWN": (Kind.AWAY, "its cluster is down", "check the cluster"),
    "TRYAGAIN": (Kind.AWAY, "its cluster is moving keys", "wait until this is done"),
    "NOAUTH": (Kind.REFUSED, "it refuses the login", _LOGIN),
    "NOPERM": (Kind.REFUSED, "it forbids a command or a key that is needed", _ALLOW),
    "CERTIFICATE": (Kind.REFUSED, "its certificate cannot be verified", _AUTHORITY),
    "DENIED": (Kind.REFUSED, "it accepts no other machine (protected mode)", _PROTECTED),
    "PROTOCOL": (Kind.REFUSED, "it does not use the protocol of Redis", _ADDRESS),
    "MOVED": (Kind.REFUSED, "it is a node of a cluster", _CLUSTER),
    "NOCLUSTER": (Kind.AWAY, "no node of the cluster can be reached, or it is none", _NODES),
    "DATABASE": (Kind.REFUSED, "it has no database of that number", "give another number, such as 0"),
    "REFUSED": (Kind.REFUSED, "it refuses", "check that it is Redis 6.2, Valkey 7.2 or later"),
    "WRONGTYPE": (Kind.CALL, "a key of ours holds something else", _PREFIX),
    "SCRIPT": (Kind.CALL, "a script of ours failed", _REPORT),
}

_CLASSES: Final = (
    # The first that matches: some are subclasses of later ones.
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.AuthenticationError, "NOAUTH"),
    (exceptions.AuthenticationWrongNumberOfArgsError, "NOAUTH"),
    (exceptions.AuthorizationError, "NOAUTH"),
    (exceptions.ConnectionError, "CONNECTION"),
    (exceptions.TimeoutError, "TIMEOUT"),
    (TimeoutError, "TIMEOUT"),
    (OSError, "CONNECTION"),
    (exceptions.InvalidResponse, "PROTOCOL"),
    (exceptions.MasterDownError, "MASTERDOWN"),
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.SlotNotCoveredError, "CLUSTERDOWN"),
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.AskError, "MOVED"),
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.RedisClusterException, "NOCLUSTER"),
)
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
    code = _code_of(error)
    kind, cause, remedy = _TABLE[code]
    # The message of a failed script may contain text of a site.
    line = "".join(char if char.isprintable() else "�" for char in str(error))
    told = f" ({line if len(line) <= _MAX_QUOTED else f'{line[:_MAX_QUOTED]}…'})" if line else ""
    return Fault(kind, code, StoreError(f"{server}: {cause}{told}; {remedy}"))


def _code_of(error: Exception) -> str:
    for reason in _reasons(error):
        if isinstance(reason, ssl.SSLError):
            return "CERTIFICATE" if isinstance(reason, ssl.SSLCertVerificationError) else "TLS"
        # If no node can be used, redis-py's cluster client raises a general error; its cause is the real one.
        if isinstance(reason, exceptions.AuthenticationError):
            return "NOAUTH"
    text = str(error)
    for pattern, code in _TEXTS:
        if pattern.search(text):
            return code
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    found = _CODE.search(text)
    if found is not None and found["code"] in _TABLE:
        return found["code"]
    return "SCRIPT" if _IN_SCRIPT.search(text) else "REFUSED"


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes and its contexts."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
