"""Faults of a server: each has a cause, a remedy, and a kind, which says which calls fail."""

from __future__ import annotations

import re
import ssl
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from redis import exceptions as ex

from robotgate.errors import StoreError
from robotgate.events import printable

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


class ClientError(ex.RedisError):
    """The client raised an error that is neither redis-py's nor the system's."""


@contextmanager
def client_errors() -> Iterator[None]:
    """Within it, whatever a call of the client raises is a `RedisError` or an `OSError`. It holds no code of ours."""
    try:
        yield
    except (ex.RedisError, OSError):
        raise
    # redis-py has no common class for errors of its own code, and lets them out: a connection that is closed while a
    # cluster fails over raises AttributeError.
    except Exception as error:
        raise ClientError(f"{type(error).__name__}: {error}") from error


_MAX_QUOTED: Final = 300
"""Characters of the server's message that an error repeats."""
_MASTER: Final = "name the primary, or let a Sentinel find it"
_NODES: Final = "check that they run, and give redis:// for a single server"
_LOGIN: Final = (ex.AuthenticationError, ex.AuthenticationWrongNumberOfArgsError, ex.AuthorizationError)
_ALLOW: Final = "allow its user (ACL) the commands and keys that robotgate's documentation lists"
_AUTHORITY: Final = "name the authority that signed it (ssl_ca_certs), and the host as the certificate does"
_ADDRESS: Final = "check its address and port, and give rediss:// where it requires TLS"
_CLUSTER: Final = "give redis+cluster:// and the address of any node"

# Each has a cause, a remedy, the server's code or one of ours, and the exceptions of redis-py.
_AWAY: Final = (
    ("it cannot be reached", "check that it runs and its address", "CONNECTION", ex.ConnectionError, OSError),
    ("TLS with it fails", "check that it accepts TLS at that port", "TLS", ssl.SSLError),
    ("it does not answer", "check its load and the network's", "TIMEOUT", ex.TimeoutError, TimeoutError),
    ("it is still loading its data", "wait until this is done", "LOADING", ex.BusyLoadingError),
    ("a script keeps it busy", "end that script (SCRIPT KILL)", "BUSY"),
    ("a script of ours was killed there", "check why it took long", "KILLED"),
    ("it is a replica, which cannot be written", _MASTER, "READONLY", ex.ReadOnlyError),
    ("its memory is full", "raise maxmemory, or delete what is not needed", "OOM", ex.OutOfMemoryError),
    ("it cannot save its data and refuses writes", "check its disk and its log", "MISCONF"),
    ("it has lost its replicas and refuses writes", "check its replicas", "NOREPLICAS"),
    ("it is a replica that has lost its primary", _MASTER, "MASTERDOWN", ex.MasterDownError),
    ("its cluster is down", "check the cluster", "CLUSTERDOWN", ex.ClusterDownError, ex.SlotNotCoveredError),
    ("its cluster is moving keys", "wait until this is done", "TRYAGAIN", ex.TryAgainError),
    ("its client redis-py fails", "update redis-py if this goes on", "CLIENT", ClientError),
    ("no node can be reached, or it is no cluster", _NODES, "NOCLUSTER", ex.RedisClusterException),
)
_REFUSED: Final = (
    ("it refuses the login", "give the right user name and password", "NOAUTH", *_LOGIN),
    ("it forbids a command or a key that is needed", _ALLOW, "NOPERM", ex.NoPermissionError),
    ("its certificate is not valid", _AUTHORITY, "CERTIFICATE", ssl.SSLCertVerificationError),
    ("it accepts no other machine (protected mode)", "set a password, or its addresses (bind)", "DENIED"),
    ("it does not use the protocol of Redis", _ADDRESS, "PROTOCOL", ex.InvalidResponse),
    ("it is a node of a cluster", _CLUSTER, "MOVED", "ASK", ex.AskError),
    ("it has no database of that number", "give another number, such as 0", "DATABASE"),
    ("it refuses", "check that it is Redis 6.2, Valkey 7.2 or later", "REFUSED"),
)
_CALL: Final = (
    ("a key of ours holds something else", "give another prefix, or delete that key", "WRONGTYPE"),
    ("a script of ours failed", "report this to robotgate, with the version of the server", "SCRIPT"),
)
_KNOWN: Final = {
    name: (kind, cause, remedy)
    for kind, faults in ((Kind.AWAY, _AWAY), (Kind.REFUSED, _REFUSED), (Kind.CALL, _CALL))
    for cause, remedy, *names in faults
    for name in names
}
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
    line = printable(str(error))
    told = f" ({line if len(line) <= _MAX_QUOTED else f'{line[:_MAX_QUOTED]}…'})" if line else ""
    return Fault(kind, StoreError(f"{server}: {cause}{told}; {remedy}"))


def _name_of(error: Exception) -> str | type:
    # If no node can be used, redis-py's cluster client raises a general error; its cause is the real one.
    reason: BaseException | None = error
    while reason is not None:
        if isinstance(reason, ssl.SSLError | ex.AuthenticationError):
            return _class_of(reason) or "TLS"
        reason = reason.__cause__ or reason.__context__
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
