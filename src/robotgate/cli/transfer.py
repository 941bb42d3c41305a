"""``robotgate cache export`` and ``import``: the contents of a store as JSON Lines."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from robotgate import RobotsRecord
from robotgate.cli.jsonl import HostEntry, LineError, host_line, read_line, record_line
from robotgate.pace.state import merged
from robotgate.sites.status import MAX_SKEW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator
    from typing import IO

    from robotgate import HostState, Origin
    from robotgate.cli.jsonl import Entry
    from robotgate.stores.base import Catalogue

BATCH: Final = 500
"""Hosts that are loaded at a time."""
MAX_COMPLAINTS: Final = 100
"""Refused lines that are reported one by one; the others are only counted."""
_PAST: Final = {
    RobotsRecord: ("checked_at", "fetched_at", "failing_since_at"),
    HostEntry: ("last_visit_at", "blocked_at"),
}
"""The fields that say when something happened."""


async def exported(store: Catalogue) -> AsyncIterator[str]:
    """Yield everything in a store as lines without their ends.

    States include what is assumed after a crash: another store would not know to wait for it.
    """
    async for record in store.records():
        yield record_line(record)
    hosts = store.hosts()
    while batch := [host for _ in range(BATCH) if (host := await anext(hosts, None)) is not None]:
        # Together: a store reads many in the time of one.
        known = await asyncio.gather(*(store.load_host(pace_key) for pace_key, _ in batch))
        for (pace_key, state), other in zip(batch, known, strict=True):
            yield host_line(HostEntry(pace_key, _merged(other, state)))


class TargetError(Exception):
    """A file is not one that may be written; the message says why."""


def check_target(path: Path, *, force: bool, not_these: Collection[Path] = ()) -> None:
    """Check that a path is free, or that of a regular file which may be replaced.

    Args:
        force: whether an existing regular file may be replaced.
        not_these: files that are never replaced, under whatever name.

    Raises:
        TargetError: it is neither.
        OSError: that cannot be found out.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise TargetError("it is not a regular file; to write to one that is not, redirect standard output")
    if any(other.exists() and path.samefile(other) for other in not_these):
        raise TargetError("it is the store itself")
    if not force:
        raise TargetError("it exists already; --force replaces it")


@contextmanager
def replaced(path: Path, *, force: bool, not_these: Collection[Path] = ()) -> Iterator[IO[str]]:
    """Write a file under a temporary name, for its owner alone; it takes its own name once it is complete.

    Args:
        force, not_these: as for `check_target`.

    Raises:
        TargetError: as `check_target`.
        OSError: it cannot be written. A file of that name stays as it was.
    """
    check_target(path, force=force, not_these=not_these)
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name[:100]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii", newline="\n") as file:
            yield file
        # Something else may have taken the name in the meantime.
        check_target(path, force=force, not_these=not_these)
        Path(name).replace(path)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


@dataclass(slots=True)
class Import:
    """Merges lines into a store: of two records the newer is kept, of two states the later of each instant."""

    store: Catalogue
    records: int = 0
    """Records that were saved."""
    known: int = 0
    """Records that the store has already, as new or newer."""
    hosts: int = 0
    refused: int = 0
    """Lines that changed nothing, because they are wrong."""
    complaints: list[str] = field(default_factory=list)
    """Why lines of the last batch were refused."""
    _lines: int = 0

    async def add(self, lines: list[bytes], *, now: float) -> None:
        """Merge a batch of lines.

        Raises:
            StoreError: the store failed.
        """
        records: dict[Origin, RobotsRecord] = {}
        hosts: dict[str, HostState] = {}
        self.complaints.clear()
        for number, line in enumerate(lines, self._lines + 1):
            if not line.strip():
                continue
            try:
                entry = _entry(line, number, now)
            except LineError as error:
                self.refused += 1
                if self.refused <= MAX_COMPLAINTS:
                    self.complaints.append(str(error))
                continue
            if isinstance(entry, HostEntry):
                hosts[entry.pace_key] = _merged(hosts.get(entry.pace_key), entry.state)
                continue
            self.known += 1
            if _is_newer(entry, records.get(entry.origin)):
                records[entry.origin] = entry
        self._lines += len(lines)
        await self._save_records(records)
        await self._save_hosts(hosts)

    async def _save_records(self, records: dict[Origin, RobotsRecord]) -> None:
        # Together: a store reads and writes many in the time of one.
        known = await asyncio.gather(*map(self.store.load_record, records))
        newer = [
            record for record, other in zip(records.values(), known, strict=True) if _is_newer(record, other)
        ]
        await asyncio.gather(*map(self.store.save_record, newer))
        self.records += len(newer)
        self.known -= len(newer)

    async def _save_hosts(self, hosts: dict[str, HostState]) -> None:
        # Merged with what was saved, not with what is assumed after a crash: an assumption is not to be saved.
        known = await asyncio.gather(*map(self.store.host, hosts))
        states = {key: _merged(other, hosts[key]) for key, other in zip(hosts, known, strict=True)}
        if states:
            await self.store.save_hosts(states)
        self.hosts += len(states)


def _entry(line: bytes, number: int, now: float) -> Entry:
    entry = read_line(line, number)
    dated: object = entry if isinstance(entry, RobotsRecord) else entry.state
    for name in _PAST[type(entry)]:
        at: float | None = getattr(dated, name)
        if at is not None and at > now + MAX_SKEW:
            raise LineError(number, "in the future: one of two clocks is wrong", name)
    return entry


def _is_newer(record: RobotsRecord, known: RobotsRecord | None) -> bool:
    return known is None or record.checked_at > known.checked_at


def _merged(known: HostState | None, state: HostState) -> HostState:
    return state if known is None else merged(known, state)
