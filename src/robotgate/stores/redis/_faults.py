"""What can go wrong with a server, each said once: whether it is worth trying again, the cause, and the remedy."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from redis import exceptions

from robotgate._errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(Enum):
    """Whom a fault concerns, and for how long."""

    AWAY = "away"
    """Everybody, until it is over: tried again."""
    REFUSED = "refused"
    """Everybody, until an operator does something about it: nobody need wait for that."""
    CALL = "call"
    """One call. The server is well."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and the error that tells of it."""

    kind: Kind
    code: str
    error: StoreError


_LONGEST: Final = 300
"""Characters of what the server said that an error repeats."""
_MEMORY: Final = "give it more memory (maxmemory), or delete what nobody needs"
_MASTER: Final = "name the primary, or let a Sentinel find it"
_LOGIN: Final = "give the user name and the password that it wants"
_CLUSTER: Final = "name a server that is no node of a cluster"
_ALLOW: Final = "allow its user (ACL) the commands and keys that robotgate's documentation lists"
_REPORT: Final = "report this to robotgate, with the version of the server"

_TABLE: Final = {
    "CONNECTION": (Kind.AWAY, "it cannot be reached", "see that it runs, and that its address is right"),
    "TIMEOUT": (Kind.AWAY, "it does not answer", "see what keeps it, or the network, busy"),
    "LOADING": (Kind.AWAY, "it is still loading its data", "wait until it has"),
    "BUSY": (Kind.AWAY, "a script keeps it busy", "end that script (SCRIPT KILL)"),
    "KILLED": (Kind.AWAY, "our script was ended there", "see who did, and why it took long"),
    "READONLY": (Kind.AWAY, "it is a replica, which cannot be written", _MASTER),
    "OOM": (Kind.AWAY, "its memory is full", _MEMORY),
    "MISCONF": (Kind.AWAY, "it cannot save its data and takes no more", "look at its disk and its log"),
    "NOREPLICAS": (Kind.AWAY, "it has lost its replicas and takes no more", "look at its replicas"),
    "MASTERDOWN": (Kind.AWAY, "it is a replica that has lost its primary", _MASTER),
    "CLUSTERDOWN": (Kind.AWAY, "its cluster is down", "look at the cluster"),
    "TRYAGAIN": (Kind.AWAY, "its cluster is moving keys", "wait until it has"),
    "NOSCRIPT": (
        Kind.AWAY,
        "it forgets our scripts at once",
        "see that no proxy spreads our calls over servers",
    ),
    "NOAUTH": (Kind.REFUSED, "it does not let us in", _LOGIN),
    "NOPERM": (Kind.REFUSED, "it does not let us do what is needed", _ALLOW),
    "CERTIFICATE": (
        Kind.REFUSED,
        "its certificate cannot be verified",
        "name the authority that signed it (ssl_ca_certs), and the host as the certificate does",
    ),
    "PROTOCOL": (Kind.REFUSED, "it does not speak as Redis does", "see that its address and port are right"),
    "MOVED": (Kind.REFUSED, "it is a node of a cluster", _CLUSTER),
    "ASK": (Kind.REFUSED, "it is a node of a cluster", _CLUSTER),
    "CROSSSLOT": (Kind.REFUSED, "it is a node of a cluster", _CLUSTER),
    "DATABASE": (Kind.REFUSED, "it has no database of that number", "give one that it has, such as 0"),
    "REFUSED": (Kind.REFUSED, "it refuses", "see that it is Redis 6.2, Valkey 7.2 or later"),
    "FORBIDDEN": (Kind.CALL, "it does not let our script do what is needed", _ALLOW),
    "WRONGTYPE": (
        Kind.CALL,
        "a key of ours holds something else",
        "give a prefix that nothing else uses, or delete that key",
    ),
    "SCRIPT": (Kind.CALL, "our script failed", _REPORT),
    "ANSWER": (Kind.CALL, "our script answered what makes no sense", _REPORT),
}

_CLASSES: Final = (
    # The first that fits: several are kinds of others.
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
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.AskError, "ASK"),
    (exceptions.ClusterCrossSlotError, "CROSSSLOT"),
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.NoScriptError, "NOSCRIPT"),
)
_TEXTS: Final = (
    # What has no code of its own, or one that stands for too much.
    (re.compile("Script killed by user"), "KILLED"),
    (re.compile("user executing the script can't|ACL failure in script"), "FORBIDDEN"),
    (re.compile("DB index is out of range"), "DATABASE"),
)
_CODE: Final = re.compile(r"(?:^|@user_script: ?\d+: -?)(?P<code>[A-Z]+) ")
"""Where the server puts its code: in front; before Redis 7, if a script met it, behind the script's line."""
_IN_SCRIPT: Final = re.compile("user_script|compiling script")


def explained(server: str, error: Exception) -> Fault:
    """What an exception of the client means.

    Args:
        server: its name, as for `fault`.
    """
    return fault(server, _code_of(error), said=str(error))


def fault(server: str, code: str, *, said: str = "") -> Fault:
    """A fault of the table.

    Args:
        server: its name without credentials.
        said: what the server or the client said of it.
    """
    kind, cause, remedy = _TABLE[code]
    told = f" ({_harmless(said)})" if said else ""
    return Fault(kind, code, StoreError(f"{server}: {cause}{told}; {remedy}"))


def _code_of(error: Exception) -> str:
    if any(isinstance(reason, ssl.SSLCertVerificationError) for reason in _reasons(error)):
        return "CERTIFICATE"
    text = str(error)
    for pattern, code in _TEXTS:
        if pattern.search(text):
            return code
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    if isinstance(error, exceptions.NoPermissionError):
        return "FORBIDDEN" if _IN_SCRIPT.search(text) else "NOPERM"
    found = _CODE.search(text)
    if found is not None and found["code"] in _TABLE:
        return found["code"]
    return "SCRIPT" if _IN_SCRIPT.search(text) else "REFUSED"


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that it was raised for or while handling."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _harmless(text: str) -> str:
    """On one line, of a bounded length: a script's failure may repeat what a site has said."""
    line = "".join(char if char.isprintable() else "�" for char in text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
