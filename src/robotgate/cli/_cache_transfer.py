"""``robotgate cache export`` and ``import``: JSON Lines, from one machine to another or from one store to the next."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from robotgate import RobotsRecord
from robotgate._jsonl import HostEntry, LineError, host_line, read_line, record_line
from robotgate._jsonl_fields import MAX_LINE_BYTES
from robotgate._pacing import merged
from robotgate._status import MAX_SKEW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping
    from typing import IO, BinaryIO

    from robotgate import HostState, Origin
    from robotgate._jsonl import Entry
    from robotgate._ports import Catalogue

BATCH: Final = 500
"""Lines that are read at a time."""
MAX_COMPLAINTS: Final = 100
"""Refused lines that are told of one by one; the others are counted."""

_PAST: Final = {
    RobotsRecord: ("checked_at", "fetched_at", "failing_since_at"),
    HostEntry: ("last_visit_at", "blocked_at"),
}
"""The instants at which something happened."""


@dataclass(slots=True)
class Taken:
    """What an import came to."""

    records: int = 0
    known: int = 0
    """Records of which the store has one as new."""
    hosts: int = 0
    refused: int = 0
    complaints: list[str] = field(default_factory=list)
    """Why lines were refused, as far as nobody has been told."""

    def refuse(self, error: LineError) -> None:
        """Count a line, and keep the reason if it is one of the first."""
        self.refused += 1
        if self.refused <= MAX_COMPLAINTS:
            self.complaints.append(str(error))


async def exported(store: Catalogue) -> AsyncIterator[str]:
    """All that a store knows, as lines without their ends.

    What is taken to have happened, as after a crash, is told as well: elsewhere nobody would know to wait for it.
    """
    async for record in store.records():
        yield record_line(record)
    async for pace_key, state in store.hosts():
        yield host_line(HostEntry(pace_key, _both(store.recall_host(pace_key), state)))


@contextmanager
def written_whole(path: Path) -> Iterator[IO[str]]:
    """A file that takes its name once it is complete; for its owner alone, as the store is.

    Raises:
        OSError: it cannot be written; what had the name before has it still.
    """
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii", newline="\n") as file:
            yield file
        Path(name).replace(path)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def batches(file: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """The lines of a file with their numbers, some at a time; blank ones are passed over.

    Of a line that is too long for any entry, no more is kept than shows it.

    Raises:
        OSError: it cannot be read.
    """
    lines = _lines(file)
    while batch := list(islice(lines, BATCH)):
        yield batch


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES)
        if line.strip():
            yield number, line


async def take_in(store: Catalogue, batch: list[tuple[int, bytes]], taken: Taken, *, now: float) -> None:
    """Merge lines into a store: of two records the newer, of two states whatever is later. A refused line does nothing.

    Raises:
        StoreError: the store failed.
    """
    records: dict[Origin, RobotsRecord] = {}
    hosts: dict[str, HostState] = {}
    for number, line in batch:
        try:
            entry = _entry(line, number, now)
        except LineError as error:
            taken.refuse(error)
            continue
        if isinstance(entry, HostEntry):
            hosts[entry.pace_key] = _both(hosts.get(entry.pace_key), entry.state)
            continue
        if _is_news(entry, records.get(entry.origin)):
            records[entry.origin] = entry
        taken.known += 1
    await _take_records(store, records.values(), taken)
    await _take_hosts(store, hosts, taken)


def _entry(line: bytes, number: int, now: float) -> Entry:
    entry = read_line(line, number)
    told: object = entry if isinstance(entry, RobotsRecord) else entry.state
    for name in _PAST[type(entry)]:
        at: float | None = getattr(told, name)
        if at is not None and at > now + MAX_SKEW:
            raise LineError(number, "in the future: one of two clocks is wrong", name)
    return entry


async def _take_records(store: Catalogue, records: Collection[RobotsRecord], taken: Taken) -> None:
    # All at once: a store may read and write many in the time of one.
    known = await asyncio.gather(*(store.load_record(record.origin) for record in records))
    news = [record for record, other in zip(records, known, strict=True) if _is_news(record, other)]
    await asyncio.gather(*map(store.save_record, news))
    taken.records += len(news)
    taken.known -= len(news)


async def _take_hosts(store: Catalogue, hosts: Mapping[str, HostState], taken: Taken) -> None:
    # What is merely taken to have happened here stays so, and is not written of every host that comes in.
    known = await asyncio.gather(*map(store.host, hosts))
    for (pace_key, state), other in zip(hosts.items(), known, strict=True):
        store.remember_host(pace_key, _both(other, state))
    taken.hosts += len(hosts)


def _is_news(record: RobotsRecord, known: RobotsRecord | None) -> bool:
    return known is None or record.checked_at > known.checked_at


def _both(known: HostState | None, state: HostState) -> HostState:
    return state if known is None else merged(known, state)
