"""The script and the process speak of the same octets, operations, flags and bounds."""

from __future__ import annotations

import re
from itertools import chain
from struct import calcsize
from typing import TYPE_CHECKING, Final

import pytest

from robotgate import HostState, _pacing
from robotgate.stores.redis import _alone, _wire
from robotgate.stores.redis._calls import Call, evalsha
from robotgate.stores.redis._keys import Keys, bucket_of, text
from robotgate.stores.redis._line import packed
from robotgate.stores.redis._turn_calls import COMMANDS, SCRIPT

if TYPE_CHECKING:
    from struct import Struct

LUA: Final = SCRIPT.source.decode()
LAYOUTS: Final = ("HEAD", "RESERVE", "TURN", "FINISH", "STATE", "DONE", "TOLD", "BEAT")


def lua_constant(name: str) -> str:
    """What the script says a constant is."""
    found = re.search(rf"^local {name} = (?P<value>\S+)", LUA, re.MULTILINE)
    assert found is not None, name
    return found["value"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    """A layout stands in both, and is the same."""
    layout: Struct = getattr(_wire, name)
    assert lua_constant(name) == "'" + re.sub(r"(\d+)s", r"c\1", layout.format) + "'"


def test_sizes() -> None:
    """Where a layout follows another, the script counts its octets."""
    assert f"worker = id:sub(1, {_wire.WORKER_OCTETS})" in LUA
    for name in ("HEAD", "HOST", "STATE", "HELD", "PLACE"):
        layout = re.sub(r"c(\d+)", r"\1s", lua_constant(name).strip("'"))
        assert int(lua_constant(f"{name}_SIZE")) == calcsize(layout)


def test_operations() -> None:
    """Operations are numbered in the order of the script's table."""
    found = re.search(r"^local OPERATIONS = \{(?P<names>.+)\}", LUA, re.MULTILINE)
    assert found is not None
    assert found["names"].upper().split(", ") == [operation.name for operation in _wire.Operation]


@pytest.mark.parametrize("kind", [_wire.Flag, _wire.Status])
def test_numbers(kind: type[_wire.Flag | _wire.Status]) -> None:
    """Flags and statuses have the numbers that the script gives them."""
    for names, values in re.findall(r"^local ([A-Z, ]+) = ([\d, ]+)$", LUA, re.MULTILINE):
        said = dict(zip(names.split(", "), map(int, values.split(", ")), strict=True))
        if next(iter(said)) in kind.__members__:
            assert said == {name: int(member) for name, member in kind.__members__.items() if name != "NONE"}
            return
    pytest.fail(f"the script does not number {kind.__name__}")


def test_bounds() -> None:
    """What both reckon with is the same."""
    assert float(lua_constant("NEVER")) == _wire.NEVER
    assert float(lua_constant("FORGIVEN_AFTER")) == _pacing.FORGIVEN_AFTER
    assert float(lua_constant("CLOCK_GRAIN")) == _pacing.CLOCK_GRAIN
    found = re.search(r"^local LEAST_POLL, MOST_POLL, POLLS = (?P<least>[\d.]+),", LUA, re.MULTILINE)
    assert found is not None
    assert float(found["least"]) == _alone.LEAST_POLL


def test_nothing_is_put_into_the_script() -> None:
    """Keys and arguments come as such: the script has no place into which anything is written."""
    assert not re.search(r"loadstring|dofile|%s", LUA)


def test_states_are_moved() -> None:
    """Instants are told by our clock; what never was stays so."""
    assert _wire.state_of(_wire.STATE.pack(-1, 0, 0, 0, 0, 0, 0, -1), ahead=50) == HostState()
    octets = _wire.STATE.pack(1, 2, 3, 4, 5, 6, 2**40, 0.5)
    assert _wire.state_of(octets, ahead=50) == HostState(
        last_visit_at=51,
        next_allowed_at=52,
        blocked_at=53,
        blocked_until_at=54,
        failures=5,
        visits=6,
        bytes_read=2**40,
        latency=0.5,
    )


def test_commands() -> None:
    """The script calls no command but those that an operator is told to permit."""
    assert {name.lower() for name in re.findall(r"redis\.p?call\('(\w+)'", LUA)} == set(COMMANDS)


@pytest.mark.parametrize("argument", [b"", b"octets", b"\r\n$3\r\n", bytes(511), bytes(512), bytes(100_000)])
def test_calls_in_fewer_pieces(argument: bytes) -> None:
    """A batch is the command that it is word by word, though each host's keys are made ready once."""
    keys = [(b"epoch", b"host"), (b"", b"\r\n"), (b"epoch", argument)]
    calls = [Call(SCRIPT, each, argument, None) for each in keys * 2]
    words = [b"EVALSHA", SCRIPT.sha.encode(), b"12", *chain(*keys, *keys), *[argument] * 6]
    assert evalsha(calls) == packed(words) == evalsha(calls)
    assert packed(words) == b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


@pytest.mark.parametrize("pace_key", ["shop.example", "büro.example", "a\ud800b", "", "{3}:host:x"])
def test_keys_in_less_time(pace_key: str) -> None:
    """A host's key is the same, in whichever way it is made."""
    keys = Keys("fleet:")
    assert keys.hosts_of(bucket_of(pace_key)) + text(pace_key) == keys.host(pace_key)
    assert keys.name_in(keys.host(pace_key)) == pace_key
