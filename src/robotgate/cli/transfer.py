"""``robotgate cache export`` and ``import``: the contents of a store, one record or host in a line of JSON."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from robotgate import InvalidURLError, Origin
from robotgate.pace.state import merged
from robotgate.rules.grammar import MAX_BYTES
from robotgate.sites import RobotsRecord
from robotgate.sites.record import newer, whole_lines
from robotgate.sites.status_table import MAX_SKEW
from robotgate.stores import HostState, codec
from robotgate.stores.codec import FieldError, quoted, take, text_value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from robotgate.stores.base import OwnStore

T = TypeVar("T")
R = TypeVar("R")

VERSION: Final = 1
"""Of the format of lines; another set of fields is another version."""
BATCH: Final = 500
"""Entries of a store that are loaded at a time."""
MAX_COMPLAINTS: Final = 100
"""Refused lines that are reported one by one; the others are only counted."""
_PAST: Final = ("checked_at", "fetched_at", "failing_since_at", "last_visit_at", "blocked_at")
"""The fields that say when something happened."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    """What is kept of a host, under what it is paced by."""

    pace_key: str
    state: HostState


Entry: TypeAlias = RobotsRecord | HostEntry


def record_line(record: RobotsRecord) -> str:
    """A record as one line, without its end.

    Of a body that is longer than counts (`RobotGate.learn` takes any), what counts is written.
    """
    body = whole_lines(record.body)
    try:
        written = {"body": body.decode()}
    except UnicodeDecodeError:
        written = {"body_base64": b64encode(body).decode("ascii")}
    values = {"version": VERSION, "kind": "record", "origin": record.origin.text}
    return json.dumps({**values, **codec.record_fields(record), **written}, allow_nan=False)


def host_line(entry: HostEntry) -> str:
    """A host's state as one line, without its end."""
    values = {"version": VERSION, "kind": "host", "pace_key": entry.pace_key}
    return json.dumps({**values, **codec.host_fields(entry.state)}, allow_nan=False)


def read_line(line: bytes, *, now: float) -> Entry:
    """Read a line, with its end or without.

    Raises:
        FieldError: it is no record and no host, a field is wrong, or an instant is in the future.
    """
    values = codec.object_of(line)
    if take(values, "version", codec.count) != VERSION:
        raise FieldError(f"not {VERSION}, the only one known here", "version")
    checks = take(values, "kind", partial(codec.choice, known={"record": codec.RECORD, "host": codec.HOST}))
    for name, value in values.items():
        if name in checks and isinstance(value, int | float):
            if value < 0:
                raise FieldError(f"{quoted(value)} is less than 0", name)
            if name in _PAST and value > now + MAX_SKEW:
                raise FieldError("in the future: one of two clocks is wrong", name)
    if checks is codec.HOST:
        pace_key = take(values, "pace_key", text_value)
        if not pace_key:
            raise FieldError("a host has a name", "pace_key")
        return HostEntry(pace_key, codec.host_of(values))
    origin = take(values, "origin", _origin)
    name = "body_base64" if "body_base64" in values else "body"
    decode = partial(b64decode, validate=True) if name == "body_base64" else str.encode
    body = take(values, name, partial(_body, decode=decode))
    return codec.make_record(origin=origin, body=body, **codec.take_all(values, codec.RECORD))


def _origin(value: object) -> Origin:
    text = text_value(value)
    try:
        origin = Origin.of(text)
    except InvalidURLError as error:
        raise FieldError(error.problem) from None
    if origin.text != text:
        raise FieldError(f"{quoted(text)} is an origin, but not spelt as {quoted(origin.text)}")
    return origin


def _body(value: object, *, decode: Callable[[str], bytes]) -> bytes:
    text = text_value(value)
    try:
        body = decode(text)
    except ValueError:
        raise FieldError(f"{quoted(text)} is no text of UTF-8, or no base64") from None
    if len(body) > MAX_BYTES:
        raise FieldError(f"longer than the {MAX_BYTES} bytes that count")
    return body


async def exported(store: OwnStore) -> AsyncIterator[str]:
    """Yield everything in a store as lines without their ends.

    States include what is assumed after a crash: another store would not know to wait for it.
    """

    async def load(pace_key: str) -> HostEntry | None:
        saved, assumed = await store.host(pace_key), await store.load_host(pace_key)
        return None if saved is None else HostEntry(pace_key, merged(assumed or saved, saved))

    async for record in store.records():
        yield record_line(record)
    async for entry in in_batches(await store.pace_keys(), load):
        if entry is not None:
            yield host_line(entry)


async def in_batches(keys: Sequence[T], load: Callable[[T], Awaitable[R]]) -> AsyncIterator[R]:
    """Load many entries, some together: a store reads many in the time of one."""
    for start in range(0, len(keys), BATCH):
        for found in await asyncio.gather(*map(load, keys[start : start + BATCH])):
            yield found


@dataclass(slots=True)
class Import:
    """Merges lines into a store: of two records the newer is kept, of two states the later of each instant."""

    store: OwnStore
    records: int = 0
    """Records that were saved."""
    known: int = 0
    """Records that the store has already, as new or newer."""
    hosts: int = 0
    refused: int = 0
    """Lines that changed nothing, because they are wrong."""
    _lines: int = 0

    async def add(self, lines: list[bytes], *, now: float) -> list[str]:
        """Merge a batch of lines, and return why some of them were refused.

        Raises:
            StoreError: the store failed.
        """
        records: dict[Origin, RobotsRecord] = {}
        hosts: dict[str, HostState] = {}
        complaints = []
        for number, line in enumerate(lines, self._lines + 1):
            if not line.strip():
                continue
            try:
                entry = read_line(line, now=now)
            except FieldError as error:
                field = "" if error.field is None else f", {quoted(error.field)}"
                complaints.append(f"line {number}{field}: {error.problem}")
                continue
            if isinstance(entry, HostEntry):
                known = hosts.get(entry.pace_key, entry.state)
                hosts[entry.pace_key] = merged(known, entry.state)
            else:
                self.known += 1
                records[entry.origin] = newer(records.get(entry.origin), entry) or entry
        await self._save(records, hosts)
        told = complaints[: max(MAX_COMPLAINTS - self.refused, 0)]
        self._lines += len(lines)
        self.refused += len(complaints)
        return told

    async def _save(self, records: dict[Origin, RobotsRecord], hosts: dict[str, HostState]) -> None:
        async def save(record: RobotsRecord) -> None:
            if newer(await self.store.load_record(record.origin), record) is record:
                await self.store.save_record(record)
                self.records += 1
                self.known -= 1

        async def merge(pace_key: str, state: HostState) -> None:
            # With what was saved, not with what is assumed after a crash: an assumption is not to be saved.
            hosts[pace_key] = merged(await self.store.host(pace_key) or state, state)

        # Together: a store reads and writes many in the time of one.
        await asyncio.gather(*map(save, records.values()), *(merge(*host) for host in hosts.items()))
        if hosts:
            await self.store.save_hosts(hosts)
        self.hosts += len(hosts)
