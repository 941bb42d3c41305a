"""What servers of several versions say of the same fault, and what it is taken for."""

from __future__ import annotations

import ssl

import pytest
from redis import exceptions
from redis.asyncio.connection import DefaultParser

from robotgate.stores.redis.faults import _KNOWN, Kind, explained

SERVER = "redis db.example:6379/0"
IN = "ERR Error running script (call to f_0): @user_script:1: "
IN_6 = f"{IN}@user_script: 1: "
IN_7 = " script: 0, on @user_script:1."
"""Around the same error in a script: Redis 6 in front of it, Redis 7 behind it."""


def is_of(error: Exception, code: str) -> bool:
    """Whether an error has the cause, the remedy and the kind of a code."""
    found = explained(SERVER, error)
    kind, cause, remedy = _KNOWN[code]
    said = str(found.error)
    return found.kind is kind and said.startswith(f"{SERVER}: {cause}") and said.endswith(f"; {remedy}")


def test_what_servers_say(subtests: pytest.Subtests) -> None:
    """As redis-py hands it over: by its class, without its code, or as it came."""
    for said, code in [
        ("LOADING Redis is loading the dataset in memory", "LOADING"),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "BUSY"),
        ("BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "BUSY"),
        ("READONLY You can't write against a read only replica.", "READONLY"),
        (f"{IN_6}-READONLY You can't write against a read only replica.", "READONLY"),
        (f"READONLY You can't write against a read only replica.{IN_7}", "READONLY"),
        ("OOM command not allowed when used memory > 'maxmemory'.", "OOM"),
        (f"{IN_6}-OOM command not allowed when used memory > 'maxmemory'.", "OOM"),
        (f"OOM command not allowed when used memory > 'maxmemory'.{IN_7}", "OOM"),
        ("MISCONF Redis is configured to save RDB snapshots, but it's unable to persist on disk.", "MISCONF"),
        (f"{IN_6}-MISCONF Errors writing to the AOF file: No space left on device", "MISCONF"),
        ("NOREPLICAS Not enough good replicas to write.", "NOREPLICAS"),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "MASTERDOWN"),
        ("CLUSTERDOWN The cluster is down", "CLUSTERDOWN"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN"),
        ("MOVED 3999 127.0.0.1:6381", "MOVED"),
        ("ASK 3999 127.0.0.1:6381", "MOVED"),
        (f"{IN}Script killed by user with SCRIPT KILL...", "KILLED"),
        (f"{IN}ERR Script killed by user with SCRIPT KILL.{IN_7}", "KILLED"),
        ("NOAUTH Authentication required.", "NOAUTH"),
        ("WRONGPASS invalid username-password pair or user is disabled.", "NOAUTH"),
        ("ERR invalid password", "NOAUTH"),
        ("ERR max number of clients reached", "CONNECTION"),
        ("DENIED Redis is running in protected mode because protected mode is enabled", "DENIED"),
        ("NOPERM this user has no permissions to run the 'evalsha' command or its subcommand", "NOPERM"),
        ("NOPERM User poor has no permissions to run the 'script|load' command", "NOPERM"),
        ("NOPERM this user has no permissions to access one of the keys used as arguments", "NOPERM"),
        (f"{IN_6}The user executing the script can't run this command or subcommand", "NOPERM"),
        (
            f"NOPERM ACL failure in script: User poor has no permissions to run the 'rpush' command{IN_7}",
            "NOPERM",
        ),
        (f"ERR ACL failure in script: No permissions to access a key{IN_7}", "NOPERM"),
        (f"{IN}WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGTYPE"),
        (f"WRONGTYPE Operation against a key holding the wrong kind of value{IN_7}", "WRONGTYPE"),
        (f"{IN}user_script:1: bad", "SCRIPT"),
        (f"ERR user_script:1: attempt to concatenate a nil value{IN_7}", "SCRIPT"),
        ("ERR Error compiling script (new function): user_script:1: unexpected symbol", "SCRIPT"),
        ("ERR DB index is out of range", "DATABASE"),
        ("ERR unknown command 'EVALSHA', with args beginning with:", "REFUSED"),
        ("SOMETHING nobody has heard of", "REFUSED"),
    ]:
        with subtests.test(said=said, code=code):
            error: Exception = DefaultParser.parse_error(said)  # type: ignore[no-untyped-call]
            assert is_of(error, code)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (exceptions.ConnectionError("Connection closed by server."), "CONNECTION"),
        (exceptions.TimeoutError("Timeout reading from db.example:6379"), "TIMEOUT"),
        (TimeoutError(), "TIMEOUT"),
        (ConnectionRefusedError(111, "refused"), "CONNECTION"),
        (ssl.SSLCertVerificationError("self-signed"), "CERTIFICATE"),
        (ssl.SSLError("WRONG_VERSION_NUMBER"), "TLS"),
        (exceptions.InvalidResponse("Protocol error"), "PROTOCOL"),
        (exceptions.AuthenticationError("invalid password"), "NOAUTH"),
        (exceptions.RedisClusterException("Redis Cluster cannot be connected."), "NOCLUSTER"),
        (exceptions.DataError("nonsense"), "REFUSED"),
    ],
)
def test_what_the_client_says(error: Exception, code: str) -> None:
    """Whatever it derives its classes from: a wrong password is no lost connection."""
    assert is_of(error, code)


def test_what_is_said_is_bounded_and_steers_nothing() -> None:
    """A failing script may repeat what a site has said."""
    found = explained(SERVER, exceptions.ResponseError("user_script:1: \x1b[2J\n" + "x" * 10_000))
    assert str(found.error).isprintable()
    assert len(str(found.error)) < 500
    assert found.kind is Kind.CALL
